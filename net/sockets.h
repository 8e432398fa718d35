// What the socket classes share: an owned descriptor, addresses in the kernel's form, and the MTU of a route.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/address.h"

namespace mroce::net {

class FileDescriptor {  // closes on destruction
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();
  int release() { return std::exchange(fd_, -1); }  // the caller closes it

 private:
  int fd_ = -1;
};

// A Gid that is IPv4-mapped becomes an AF_INET address. `ifindex` scopes link-local IPv6 addresses only.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
SocketAddress socket_address(const UdpAddress& address, uint32_t ifindex);
UdpAddress udp_address(const sockaddr_storage& storage);

// "192.0.2.1", "2001:db8::1", "fe80::1%eth0" (the scope is read over: a GID has none).
std::optional<Gid> parse_address(std::string_view text);
std::string to_string(const Gid& gid);

int family_of(const Gid& gid);  // AF_INET or AF_INET6

// Sets an option whose value is one int; false with errno on failure.
bool set_option(int fd, int level, int name, int value);

// The MTU of the route from `local` to `remote` as the kernel knows it (loopback's for an address of this
// host, whichever interface carries it); 0 if there is no route.
uint32_t path_mtu(const Gid& local, const Gid& remote, uint32_t ifindex = 0);

}  // namespace mroce::net
