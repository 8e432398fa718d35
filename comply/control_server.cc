#include "comply/control_server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "comply/control_session.h"

namespace mroce::comply {
namespace {

using nlohmann::json;

constexpr std::chrono::hours kClientPatience{1};  // a client that says nothing for so long has gone
constexpr std::chrono::seconds kSessionLimit{10};
constexpr std::chrono::seconds kLineLimit{10};  // from the first byte of a request to its end

void end_process(pid_t pid) {
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void end_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

// The process of one endpoint, and the way to it.
class SessionProcess {
 public:
  explicit SessionProcess(const Gid& address) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
    net::FileDescriptor ours(ends[0]), theirs(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      end_with_parent();
      ours.reset();
      run(address, std::move(theirs));
    }
    if (pid_ > 0) socket_ = std::make_unique<LineSocket>(std::move(ours));
  }
  ~SessionProcess() { end_process(pid_); }
  SessionProcess(const SessionProcess&) = delete;
  SessionProcess& operator=(const SessionProcess&) = delete;

  tl::expected<std::string, std::string> ask(std::string_view line) {
    if (!socket_) return tl::unexpected<std::string>("cannot make a process for the endpoint");
    const Deadline deadline = Deadline::clock::now() + kSessionLimit;
    return socket_->write_line(line, deadline).and_then([&] { return socket_->read_line(deadline); });
  }

 private:
  [[noreturn]] static void run(const Gid& address, net::FileDescriptor fd) {
    LineSocket socket(std::move(fd));
    ControlSession session(address);
    while (true) {
      const Deadline deadline = Deadline::clock::now() + kClientPatience;
      const auto line = socket.read_line(deadline);
      if (!line || !socket.write_line(session.answer(*line), deadline)) ::_exit(0);
    }
  }

  pid_t pid_ = -1;
  std::unique_ptr<LineSocket> socket_;
};

bool is_command(std::string_view line, std::string_view name) {
  const json request = json::parse(line, nullptr, false);
  return text_of(request, "cmd", 64) == name;
}

// Waits for a request. A client that says nothing must not keep others out: it is given up after `idle` if
// somebody else is waiting.
bool client_speaks(const LineSocket& client, int listener, std::chrono::milliseconds idle) {
  const Deadline end = Deadline::clock::now() + kClientPatience;
  while (Deadline::clock::now() < end) {
    if (client.wait_to_read(Deadline::clock::now() + idle)) return true;
    pollfd waiting{listener, POLLIN, 0};
    if (::poll(&waiting, 1, 0) > 0) return false;
  }
  return false;
}

void serve_client(net::FileDescriptor fd, int listener, std::chrono::milliseconds idle) {
  const Gid address = local_address(fd.get()).ip;
  net::set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  LineSocket client(std::move(fd));
  std::unique_ptr<SessionProcess> session;
  ControlSession without_endpoint(address);  // answers hello, and says that start comes first
  while (client_speaks(client, listener, idle)) {
    const Deadline deadline = Deadline::clock::now() + kLineLimit;
    const auto line = client.read_line(deadline);
    if (!line) return;
    if (is_command(*line, "start")) {
      session.reset();  // first, so that its UDP port is free
      session = std::make_unique<SessionProcess>(address);
    }
    const bool here = !session || is_command(*line, "hello");
    std::string answer;
    if (here) {
      answer = without_endpoint.answer(*line);
    } else {
      answer = session->ask(*line).value_or(
          R"({"ok":false,"error":"the process of the endpoint ended or hangs"})");
    }
    if (!client.write_line(answer, Deadline::clock::now() + kLineLimit)) return;
  }
}

}  // namespace

void serve_control(net::FileDescriptor listener, std::chrono::milliseconds idle) {
  while (true) {
    const int fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0 && errno != EINTR && errno != ECONNABORTED) return;
    if (fd >= 0) serve_client(net::FileDescriptor(fd), listener.get(), idle);
  }
}

tl::expected<ServerProcess, std::string> ServerProcess::start(std::chrono::milliseconds idle) {
  auto listener = listen_tcp({*net::parse_address("127.0.0.1"), 0});
  if (!listener) return tl::unexpected(listener.error());
  const UdpAddress at = local_address(listener->get());
  const pid_t pid = ::fork();
  if (pid < 0) return tl::unexpected<std::string>(fmt::format("cannot fork: {}", std::strerror(errno)));
  if (pid == 0) {
    end_with_parent();
    serve_control(std::move(*listener), idle);
    ::_exit(0);
  }
  return ServerProcess(pid, {at.ip, at.port});
}

ServerProcess::~ServerProcess() {
  end_process(pid_);
}

}  // namespace mroce::comply
