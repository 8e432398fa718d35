#include "doctor/export/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "doctor/export/http.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

bool to_socket(const ListenAddress& address, SocketAddress& out) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (::inet_pton(AF_INET, address.host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(address.port);
    std::memcpy(&out.storage, &four, sizeof four);
    out.size = sizeof four;
    return true;
  }
  if (::inet_pton(AF_INET6, address.host.c_str(), &six.sin6_addr) != 1) return false;
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(address.port);
  std::memcpy(&out.storage, &six, sizeof six);
  out.size = sizeof six;
  return true;
}

uint16_t bound_port(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

}  // namespace

tl::expected<ListenAddress, std::string> listen_address(std::string_view text) {
  ListenAddress out;
  const size_t colon = text.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? text : text.substr(colon + 1);
  std::string_view host = colon == std::string_view::npos ? std::string_view() : text.substr(0, colon);
  const auto number = whole_number(port);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string_view::npos || !number ||
      *number > 65535)
    return tl::unexpected(fmt::format("\"{}\" does not end in a port", text));
  out.port = static_cast<uint16_t>(*number);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (colon == 0) host = "0.0.0.0";
  if (!host.empty()) out.host = std::string(host);
  SocketAddress socket;
  if (!to_socket(out, socket)) return tl::unexpected(fmt::format("\"{}\" is no address", host));
  return out;
}

ScrapeServer::ScrapeServer(Metrics metrics) : ScrapeServer(std::move(metrics), Limits()) {}

ScrapeServer::~ScrapeServer() {
  for (const Connection& connection : connections_) ::close(connection.fd);
  if (listener_ >= 0) ::close(listener_);
}

tl::expected<void, std::string> ScrapeServer::listen(const ListenAddress& address) {
  SocketAddress socket;
  if (!to_socket(address, socket)) return tl::unexpected("\"" + address.host + "\" is no address");
  listener_ = ::socket(socket.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (listener_ >= 0) ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (listener_ < 0 || ::bind(listener_, socket.get(), socket.size) != 0 || ::listen(listener_, 64) != 0)
    return tl::unexpected(
        fmt::format("port {} of {} cannot be had: {}", address.port, address.host, std::strerror(errno)));
  port_ = bound_port(listener_);
  return {};
}

void ScrapeServer::accept_all() {
  while (true) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const bool no_room = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd < 0 && !(no_room && !connections_.empty())) return;
    if (no_room || connections_.size() >= limits_.connections) {
      ::close(connections_.front().fd);
      connections_.erase(connections_.begin());
    }
    if (no_room) continue;
    Connection& added = connections_.emplace_back();
    added.fd = fd;
    added.deadline = Clock::now() + limits_.request;
  }
}

void ScrapeServer::answer(Connection& connection, std::string text) {
  connection.out = std::move(text);
  connection.stage = Stage::kResponse;
  connection.deadline = Clock::now() + limits_.response;
}

bool ScrapeServer::read_request(Connection& connection) {
  char bytes[4096];
  while (true) {
    const ssize_t got = ::recv(connection.fd, bytes, sizeof bytes, 0);
    if (got < 0) return would_block();
    if (got == 0) return false;
    connection.in.append(bytes, static_cast<size_t>(got));
    if (request_complete(connection.in)) {
      answer(connection, respond(connection.in, metrics_));
      return write_response(connection);
    }
    if (connection.in.size() > kMaxRequestBytes) {
      answer(connection, refusal(431, "The request is too long."));
      return write_response(connection);
    }
  }
}

bool ScrapeServer::write_response(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const ssize_t sent = ::send(connection.fd, connection.out.data() + connection.sent,
                                connection.out.size() - connection.sent, MSG_NOSIGNAL);
    if (sent < 0) return would_block();
    connection.sent += static_cast<size_t>(sent);
  }
  // To close with bytes unread would make the kernel reset the connection, and the answer could be lost.
  ::shutdown(connection.fd, SHUT_WR);
  connection.stage = Stage::kGoodbye;
  connection.deadline = Clock::now() + limits_.goodbye;
  return drain(connection);
}

bool ScrapeServer::drain(Connection& connection) {
  char bytes[4096];
  for (int i = 0; i < 64; ++i) {
    const ssize_t got = ::recv(connection.fd, bytes, sizeof bytes, 0);
    if (got < 0) return would_block();
    if (got == 0) return false;
  }
  return true;  // more at the next turn, until the deadline
}

bool ScrapeServer::advance(Connection& connection) {
  switch (connection.stage) {
    case Stage::kRequest:
      return read_request(connection);
    case Stage::kResponse:
      return write_response(connection);
    case Stage::kGoodbye:
      return drain(connection);
  }
  return false;
}

// Who did not send a request in time is told so; who does not read the answer is left.
void ScrapeServer::expire() {
  const auto now = Clock::now();
  std::erase_if(connections_, [&](Connection& connection) {
    if (connection.deadline > now) return false;
    if (connection.stage == Stage::kRequest) {
      answer(connection, refusal(408, "No request came in time."));
      if (write_response(connection)) return false;
    }
    ::close(connection.fd);
    return true;
  });
}

int ScrapeServer::wait_ms() const {
  if (connections_.empty()) return -1;
  auto next = connections_.front().deadline;
  for (const Connection& connection : connections_) next = std::min(next, connection.deadline);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count() + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void ScrapeServer::serve(int stop_fd) {
  std::vector<pollfd> waits;
  while (true) {
    waits.assign({{stop_fd, POLLIN, 0}, {listener_, POLLIN, 0}});
    for (const Connection& connection : connections_)
      waits.push_back(
          {connection.fd, static_cast<short>(connection.stage == Stage::kResponse ? POLLOUT : POLLIN), 0});
    if (::poll(waits.data(), waits.size(), wait_ms()) < 0 && errno != EINTR) return;
    if (waits[0].revents != 0) return;
    size_t at = 2;
    std::erase_if(connections_, [&](Connection& connection) {
      if (waits[at++].revents == 0 || advance(connection)) return false;
      ::close(connection.fd);
      return true;
    });
    expire();
    if ((waits[1].revents & POLLIN) != 0) accept_all();
  }
}

}  // namespace mroce::doctor
