#include "net/sockets.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace mroce::net {

void FileDescriptor::reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

int family_of(const Gid& gid) {
  return gid.is_v4_mapped() ? AF_INET : AF_INET6;
}

SocketAddress socket_address(const UdpAddress& address, uint32_t ifindex) {
  SocketAddress result;
  if (address.ip.is_v4_mapped()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.ip.raw.data() + 12, 4);
    std::memcpy(&result.storage, &in, sizeof in);
    result.length = sizeof in;
    return result;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(address.port);
  std::memcpy(&in6.sin6_addr, address.ip.raw.data(), 16);
  if (address.ip.is_link_local()) in6.sin6_scope_id = ifindex;
  std::memcpy(&result.storage, &in6, sizeof in6);
  result.length = sizeof in6;
  return result;
}

UdpAddress udp_address(const sockaddr_storage& storage) {
  UdpAddress result;
  if (storage.ss_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &storage, sizeof in);
    result.ip.raw[10] = result.ip.raw[11] = 0xff;
    std::memcpy(result.ip.raw.data() + 12, &in.sin_addr, 4);
    result.port = ntohs(in.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, &storage, sizeof in6);
    std::memcpy(result.ip.raw.data(), &in6.sin6_addr, 16);
    result.port = ntohs(in6.sin6_port);
  }
  return result;
}

std::optional<Gid> parse_address(std::string_view text) {
  const std::string address(text.substr(0, text.find('%')));
  Gid gid;
  if (inet_pton(AF_INET, address.c_str(), gid.raw.data() + 12) == 1) {
    gid.raw[10] = gid.raw[11] = 0xff;
    return gid;
  }
  if (inet_pton(AF_INET6, address.c_str(), gid.raw.data()) == 1) return gid;
  return std::nullopt;
}

std::string to_string(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool v4 = gid.is_v4_mapped();
  inet_ntop(v4 ? AF_INET : AF_INET6, gid.raw.data() + (v4 ? 12 : 0), text, sizeof text);
  return text;
}

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

uint32_t path_mtu(const Gid& local, const Gid& remote, uint32_t ifindex) {
  if (family_of(local) != family_of(remote)) return 0;
  const bool v4 = local.is_v4_mapped();
  const FileDescriptor fd(socket(family_of(local), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return 0;
  constexpr uint16_t kDiscard = 9;  // connecting a UDP socket sends nothing, any port does
  const SocketAddress from = socket_address({local, 0}, ifindex);
  const SocketAddress to = socket_address({remote, kDiscard}, ifindex);
  if (bind(fd.get(), from.get(), from.length) != 0 || connect(fd.get(), to.get(), to.length) != 0) return 0;
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const int failed = v4 ? getsockopt(fd.get(), IPPROTO_IP, IP_MTU, &mtu, &length)
                        : getsockopt(fd.get(), IPPROTO_IPV6, IPV6_MTU, &mtu, &length);
  return failed || mtu < 0 ? 0 : static_cast<uint32_t>(mtu);
}

}  // namespace mroce::net
