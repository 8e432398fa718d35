// Lines of JSON over one TCP connection, as docs/comply-control.md has them; both ends of it.
//
// A line is at most 64 KiB; nothing that the other end does makes more memory be held, and every wait has a
// bound.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "comply/target.h"
#include "net/sockets.h"

namespace mroce::comply {

inline constexpr size_t kMaxLineBytes = 64 << 10;

using Deadline = std::chrono::steady_clock::time_point;

class LineSocket {
 public:
  explicit LineSocket(net::FileDescriptor fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  // Waits until there is something to read, or the other end has gone.
  bool wait_to_read(Deadline deadline) const;
  // The next line without its line feed. Errors are sentences: the end of the connection, a line that is too
  // long, time is over.
  tl::expected<std::string, std::string> read_line(Deadline deadline);
  tl::expected<void, std::string> write_line(std::string_view line, Deadline deadline);

 private:
  net::FileDescriptor fd_;
  std::string unread_;
};

struct HostPort {
  Gid address;
  uint16_t port = 0;
};
// "192.0.2.7:7700", "[2001:db8::1]:7700".
std::optional<HostPort> parse_host_port(std::string_view text);

tl::expected<net::FileDescriptor, std::string> connect_tcp(const HostPort& to, Deadline deadline);
tl::expected<net::FileDescriptor, std::string> listen_tcp(const HostPort& at);
// The local address of a socket.
UdpAddress local_address(int fd);

// ---- values of the protocol; nothing for what is not of the form or out of range
std::optional<uint64_t> number_of(const nlohmann::json& object, std::string_view key, uint64_t most);
std::optional<uint64_t> wide_number_of(const nlohmann::json& object, std::string_view key);  // "0x…"
std::optional<Bytes> bytes_of(const nlohmann::json& object, std::string_view key, size_t most);
std::optional<std::string> text_of(const nlohmann::json& object, std::string_view key, size_t most = 256);
std::string hex_of(std::span<const std::byte> bytes);
std::string wide(uint64_t value);

}  // namespace mroce::comply
