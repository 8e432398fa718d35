// The kernel TCP half of measure.h.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "cli/measure.h"
#include "cli/process_pair.h"
#include "cli/stopwatch.h"
#include "net/sockets.h"

namespace mroce::cli {
namespace {

using net::FileDescriptor;
using nlohmann::json;

constexpr std::chrono::seconds kLimit{60};
constexpr size_t kCallBytes = 256 << 10;
constexpr double kWarmUpShare = 0.2;
constexpr char kCongestionControl[] = "cubic";

[[noreturn]] void fail_with(const char* what) {
  throw RoleFailed(fmt::format("{}: {}", what, std::strerror(errno)));
}

FileDescriptor tcp_socket() {
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) fail_with("socket");
  if (::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, kCongestionControl,
                   sizeof kCongestionControl - 1) != 0) {
    fail_with("TCP congestion control cubic");
  }
  return fd;
}

// The listening side tells its port over the channel.
FileDescriptor accept_over(Channel& other) {
  const FileDescriptor listener = tcp_socket();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (::bind(listener.get(), generic, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &length) != 0) {
    fail_with("listen");
  }
  other.send(ntohs(address.sin_port));
  FileDescriptor fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) fail_with("accept");
  return fd;
}

FileDescriptor connect_over_port(Channel& other) {
  FileDescriptor fd = tcp_socket();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(other.receive().get<uint16_t>());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail_with("connect");
  return fd;
}

// Moves bytes for `seconds` after a warm-up; `move` answers how many it moved, 0 when the connection is over.
template <class Move>
json timed(double seconds, Move&& move) {
  const auto warm_until = in_seconds(seconds * kWarmUpShare);
  while (SteadyClock::now() < warm_until) {
    if (move() == 0) throw RoleFailed("the connection ended early");
  }
  uint64_t bytes = 0;
  const double cpu_before = cpu_seconds();
  const auto start = SteadyClock::now();
  const auto end = in_seconds(seconds);
  while (SteadyClock::now() < end) {
    const size_t moved = move();
    if (moved == 0) break;
    bytes += moved;
  }
  return {{"bytes", bytes}, {"seconds", seconds_since(start)}, {"cpu_s", cpu_seconds() - cpu_before}};
}

json stream_role(Channel& other, double seconds) {
  const FileDescriptor fd = connect_over_port(other);
  const std::vector<char> data(kCallBytes);
  const auto send_some = [&] {
    const ssize_t sent = ::send(fd.get(), data.data(), data.size(), MSG_NOSIGNAL);
    return static_cast<size_t>(std::max<ssize_t>(sent, 0));
  };
  // The receiver measures the rate, over its own time: go on until it hangs up.
  json own = timed(seconds, send_some);
  while (send_some() > 0) {
  }
  return own;
}

json stream_target_role(Channel& other, double seconds) {
  const FileDescriptor fd = accept_over(other);
  std::vector<char> data(kCallBytes);
  return timed(seconds, [&] {
    return static_cast<size_t>(std::max<ssize_t>(::recv(fd.get(), data.data(), data.size(), 0), 0));
  });
}

bool exchange(int fd, std::array<char, 8>& word, bool send_first) {
  const auto send_word = [&] {
    return ::send(fd, word.data(), word.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(word.size());
  };
  const auto spin_receive = [&] {
    size_t got = 0;
    while (got < word.size()) {
      const ssize_t length = ::recv(fd, word.data() + got, word.size() - got, MSG_DONTWAIT);
      if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR)) return false;
      got += static_cast<size_t>(std::max<ssize_t>(length, 0));
    }
    return true;
  };
  return send_first ? send_word() && spin_receive() : spin_receive() && send_word();
}

void no_delay(const FileDescriptor& fd) {
  if (!net::set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1)) fail_with("TCP_NODELAY");
}

json tcp_ping_role(Channel& other, double seconds) {
  const FileDescriptor fd = connect_over_port(other);
  no_delay(fd);
  std::array<char, 8> word{};
  json result = timed(seconds, [&] { return exchange(fd.get(), word, true) ? size_t{1} : size_t{0}; });
  return result;
}

json tcp_pong_role(Channel& other) {
  const FileDescriptor fd = accept_over(other);
  no_delay(fd);
  std::array<char, 8> word{};
  while (exchange(fd.get(), word, false)) {
  }
  return json::object();
}

double cpu_per_gb(const json& side) {
  return side.at("cpu_s").get<double>() / (side.at("bytes").get<double>() / 1e9);
}

}  // namespace

Outcome<Flow> measure_tcp_stream(double seconds) {
  const auto result = run_pair([&](Channel& other) { return stream_role(other, seconds); },
                               [&](Channel& other) { return stream_target_role(other, seconds); }, kLimit);
  if (!result) return tl::unexpected(result.error());
  const double bytes = result->second.at("bytes");
  const double took = result->second.at("seconds");
  return Flow{bytes * 8 / 1e9 / took, cpu_per_gb(result->first) + cpu_per_gb(result->second)};
}

Outcome<double> measure_tcp_half_trip_us(double seconds) {
  const auto result =
      run_pair([&](Channel& other) { return tcp_ping_role(other, seconds); }, tcp_pong_role, kLimit);
  if (!result) return tl::unexpected(result.error());
  return result->first.at("seconds").get<double>() / result->first.at("bytes").get<double>() / 2 * 1e6;
}

}  // namespace mroce::cli
