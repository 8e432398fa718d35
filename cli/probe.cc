#include "cli/probe.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "net/sockets.h"

namespace mroce::cli {
namespace {

constexpr int kSegment = 1000;
constexpr int kSegments = 3;
constexpr int kPatienceMs = 1000;  // loopback delivers inside the send call; this is for a machine in trouble

sockaddr_in loopback_any_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Length of the next read, 0 if nothing comes.
ssize_t next_read(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  if (::poll(&waiting, 1, kPatienceMs) != 1) return 0;
  std::array<char, 2 * kSegments * kSegment> data{};
  return std::max<ssize_t>(::recv(fd, data.data(), data.size(), 0), 0);
}

}  // namespace

ViewProbe probe_view(const DeviceView& view) {
  ViewProbe probe;
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) {
    probe.refusal = "no pipe";
    return probe;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const auto entered = enter_view(view);
    const std::string text = entered ? "" : entered.error();
    [[maybe_unused]] const ssize_t sent = ::write(pipe[1], text.data(), text.size());
    ::_exit(entered ? 0 : 1);
  }
  ::close(pipe[1]);
  std::array<char, 500> text{};
  const ssize_t length = child > 0 ? ::read(pipe[0], text.data(), text.size()) : 0;
  ::close(pipe[0]);
  int status = 1;
  if (child > 0) ::waitpid(child, &status, 0);
  probe.works = child > 0 && status == 0;
  if (!probe.works)
    probe.refusal = std::string(text.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
  return probe;
}

OffloadProbe probe_offload() {
  OffloadProbe probe;
  const net::FileDescriptor sender(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const net::FileDescriptor receiver(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback_any_port();
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!sender || !receiver || ::bind(receiver.get(), generic, length) != 0 ||
      ::getsockname(receiver.get(), generic, &length) != 0 || ::connect(sender.get(), generic, length) != 0) {
    return probe;
  }
  const bool gro_set = net::set_option(receiver.get(), IPPROTO_UDP, UDP_GRO, 1);
  const bool gso_set = net::set_option(sender.get(), IPPROTO_UDP, UDP_SEGMENT, kSegment);
  const std::array<char, kSegments * kSegment> data{};
  if (!gso_set || ::send(sender.get(), data.data(), data.size(), 0) != static_cast<ssize_t>(data.size()))
    return probe;
  const ssize_t got = next_read(receiver.get());
  probe.gso = got > 0;
  probe.gro = gro_set && got == static_cast<ssize_t>(data.size());
  return probe;
}

BufferProbe probe_receive_buffer(uint64_t wanted) {
  BufferProbe probe;
  const net::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int value = static_cast<int>(std::min<uint64_t>(wanted, INT32_MAX / 2));
  if (!net::set_option(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, value)) {
    net::set_option(socket.get(), SOL_SOCKET, SO_RCVBUF, value);
  }
  int doubled = 0;
  socklen_t length = sizeof doubled;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &doubled, &length);
  probe.granted_bytes = static_cast<uint64_t>(std::max(doubled, 0)) / 2;
  if (probe.granted_bytes < wanted) probe.hint = fmt::format("sysctl -w net.core.rmem_max={}", wanted);
  return probe;
}

}  // namespace mroce::cli
