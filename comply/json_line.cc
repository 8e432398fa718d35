#include "comply/json_line.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace mroce::comply {
namespace {

using nlohmann::json;

// True if `fd` is ready before the deadline.
bool wait_for(int fd, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Deadline::clock::now()).count();
    if (left < 0) return false;
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (ready == 0 && left == 0) return false;
  }
}

tl::unexpected<std::string> failed(std::string_view what) {
  return tl::unexpected<std::string>(fmt::format("{}: {}", what, std::strerror(errno)));
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

const json* member(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

// ---- lines

bool LineSocket::wait_to_read(Deadline deadline) const {
  return unread_.find('\n') != std::string::npos || wait_for(fd_.get(), POLLIN, deadline);
}

tl::expected<std::string, std::string> LineSocket::read_line(Deadline deadline) {
  size_t looked_at = 0;
  while (true) {
    const size_t end = unread_.find('\n', looked_at);
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    looked_at = unread_.size();
    if (unread_.size() > kMaxLineBytes) return tl::unexpected<std::string>("a line is longer than 64 KiB");
    if (!wait_for(fd_.get(), POLLIN, deadline)) return tl::unexpected<std::string>("no answer in time");
    std::array<char, 16384> piece;
    const ssize_t got = ::recv(fd_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got == 0) return tl::unexpected<std::string>("the control connection ended");
    if (got < 0 && errno != EAGAIN && errno != EINTR) return failed("the control connection");
    if (got > 0) unread_.append(piece.data(), static_cast<size_t>(got));
  }
}

tl::expected<void, std::string> LineSocket::write_line(std::string_view line, Deadline deadline) {
  std::string all(line);
  all += '\n';
  size_t done = 0;
  while (done < all.size()) {
    const ssize_t sent = ::send(fd_.get(), all.data() + done, all.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) done += static_cast<size_t>(sent);
    if (sent >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return failed("the control connection");
    if (!wait_for(fd_.get(), POLLOUT, deadline)) return tl::unexpected<std::string>("no answer in time");
  }
  return {};
}

// ---- addresses

std::optional<HostPort> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size()) return std::nullopt;
  const auto address = net::parse_address(host);
  if (!address) return std::nullopt;
  return HostPort{*address, number};
}

tl::expected<net::FileDescriptor, std::string> connect_tcp(const HostPort& to, Deadline deadline) {
  net::FileDescriptor fd(::socket(net::family_of(to.address), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed("socket");
  const net::SocketAddress address = net::socket_address({to.address, to.port}, 0);
  if (::connect(fd.get(), address.get(), address.length) != 0 && errno != EINPROGRESS)
    return failed("cannot connect");
  if (!wait_for(fd.get(), POLLOUT, deadline)) return tl::unexpected<std::string>("cannot connect in time");
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return tl::unexpected<std::string>(fmt::format("cannot connect: {}", std::strerror(error)));
  net::set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return fd;
}

tl::expected<net::FileDescriptor, std::string> listen_tcp(const HostPort& at) {
  net::FileDescriptor fd(::socket(net::family_of(at.address), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return failed("socket");
  net::set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  const net::SocketAddress address = net::socket_address({at.address, at.port}, 0);
  if (::bind(fd.get(), address.get(), address.length) != 0 || ::listen(fd.get(), 4) != 0)
    return failed("cannot listen");
  return fd;
}

UdpAddress local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length);
  return net::udp_address(storage);
}

// ---- values

std::optional<uint64_t> number_of(const json& object, std::string_view key, uint64_t most) {
  const json* value = member(object, key);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  if (!value->is_number_unsigned() && value->get<int64_t>() < 0) return std::nullopt;
  const auto number = value->get<uint64_t>();
  return number <= most ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> wide_number_of(const json& object, std::string_view key) {
  const auto text = text_of(object, key, 18);
  if (!text || text->size() < 3 || !text->starts_with("0x")) return std::nullopt;
  uint64_t out = 0;
  const char* const end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data() + 2, end, out, 16);
  return error == std::errc{} && stopped == end ? std::optional(out) : std::nullopt;
}

std::optional<Bytes> bytes_of(const json& object, std::string_view key, size_t most) {
  const auto text = text_of(object, key, 2 * most);
  if (!text || text->size() % 2 != 0) return std::nullopt;
  Bytes out;
  for (size_t i = 0; i < text->size(); i += 2) {
    const int high = digit_of((*text)[i]), low = digit_of((*text)[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return out;
}

std::optional<std::string> text_of(const json& object, std::string_view key, size_t most) {
  const json* value = member(object, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  const auto& text = value->get_ref<const std::string&>();
  return text.size() <= most ? std::optional(text) : std::nullopt;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return out;
}

std::string wide(uint64_t value) {
  return fmt::format("{:#x}", value);
}

}  // namespace mroce::comply
