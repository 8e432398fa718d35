#include "net/local_addresses.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "net/setting_rules.h"
#include "net/sockets.h"

namespace mroce::net {
namespace {

uint32_t prefix_bits_of(const sockaddr* mask, bool v4) {
  if (mask == nullptr) return 128;
  uint32_t bits = 0;
  const auto count = [&bits](const void* bytes, size_t length) {
    uint8_t raw[16];
    std::memcpy(raw, bytes, length);
    for (size_t i = 0; i < length; ++i) bits += static_cast<uint32_t>(std::popcount(raw[i]));
  };
  if (v4) {
    count(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr, 4);
    return 96 + bits;
  }
  count(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr, 16);
  return bits;
}

uint32_t link_mtu_of(int fd, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd, SIOCGIFMTU, &request) != 0 || request.ifr_mtu <= 0) return 1500;
  return static_cast<uint32_t>(request.ifr_mtu);
}

// A tentative IPv6 address (its duplicate detection still runs) is listed, but cannot be bound yet.
bool can_be_bound(const LocalAddress& address) {
  const FileDescriptor fd(socket(family_of(address.gid), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return false;
  const SocketAddress local = socket_address({address.gid, 0}, address.ifindex);
  return bind(fd.get(), local.get(), local.length) == 0;
}

int rank_of(const Gid& gid) {
  if (gid.is_v4_mapped()) return gid.is_loopback() ? 1 : 0;
  if (gid.is_loopback()) return 4;
  return gid.is_link_local() ? 3 : 2;
}

std::vector<LocalAddress> list_interfaces(const ifaddrs* list) {
  const FileDescriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::vector<LocalAddress> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    LocalAddress address;
    address.gid = udp_address(storage).ip;
    address.prefix_bits = prefix_bits_of(entry->ifa_netmask, family == AF_INET);
    address.interface = entry->ifa_name;
    if (const size_t label = address.interface.find(':'); label != std::string::npos) {
      address.interface.resize(label);  // "eth0:1" is an alias name of an address on eth0
    }
    address.ifindex = if_nametoindex(address.interface.c_str());
    address.link_mtu = link_mtu_of(fd.get(), address.interface);
    address.up = (entry->ifa_flags & IFF_RUNNING) != 0;
    if (can_be_bound(address)) found.push_back(std::move(address));
  }
  return found;
}

}  // namespace

void sort_in_gid_order(std::vector<LocalAddress>& addresses) {
  std::stable_sort(addresses.begin(), addresses.end(), [](const LocalAddress& a, const LocalAddress& b) {
    const int rank_a = rank_of(a.gid);
    const int rank_b = rank_of(b.gid);
    return rank_a != rank_b ? rank_a < rank_b : a.ifindex < b.ifindex;
  });
}

tl::expected<std::vector<LocalAddress>, std::string> select_addresses(const std::vector<LocalAddress>& all,
                                                                      std::string_view selection) {
  std::vector<LocalAddress> selected;
  while (!selection.empty()) {
    const size_t comma = std::min(selection.find(','), selection.size());
    const std::string_view part = trimmed(selection.substr(0, comma));
    selection.remove_prefix(std::min(comma + 1, selection.size()));
    const auto gid = parse_address(part);
    const auto same = [&gid](const LocalAddress& address) { return gid && address.gid == *gid; };
    const auto match = std::find_if(all.begin(), all.end(), same);
    if (match == all.end()) {
      std::vector<std::string> names;
      for (const LocalAddress& address : all) names.push_back(to_string(address.gid));
      return tl::unexpected(
          fmt::format("addresses: {} is not an address of this host that is up; there are {}", part,
                      fmt::join(names, ", ")));
    }
    if (std::find_if(selected.begin(), selected.end(), same) != selected.end()) {
      return tl::unexpected(fmt::format("addresses: {} is named twice; name each address once", part));
    }
    selected.push_back(*match);
  }
  return selected;
}

tl::expected<std::vector<LocalAddress>, std::string> find_local_addresses(std::string_view selection) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return tl::unexpected(
        fmt::format("cannot list the local addresses: {}; are sockets of family AF_NETLINK allowed?",
                    std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<LocalAddress> all = list_interfaces(list);
  sort_in_gid_order(all);
  if (!trimmed(selection).empty()) {
    auto selected = select_addresses(all, selection);
    if (!selected) return selected;
    all = std::move(*selected);
  }
  if (all.empty()) {
    return tl::unexpected<std::string>(
        "there is no local IP address; bring an interface up, e.g. `ip link set lo up`");
  }
  if (all.size() > kMaxLocalAddresses) all.resize(kMaxLocalAddresses);
  return all;
}

}  // namespace mroce::net
