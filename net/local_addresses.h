// The addresses of this host in GID order: IPv4 of real interfaces by interface index, IPv4 of loopback, then
// global IPv6, link-local IPv6, ::1. The setting `addresses` selects and reorders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "core/base/address.h"

namespace mroce::net {

inline constexpr size_t kMaxLocalAddresses = 64;

struct LocalAddress {
  Gid gid;
  uint32_t prefix_bits = 128;  // an IPv4 /24 is 120
  std::string interface;
  uint32_t ifindex = 0;
  uint32_t link_mtu = 1500;
  bool up = true;  // the interface is up and has a carrier
};

// `selection` is the value of the setting `addresses`; empty takes every address that can be bound on an
// interface that is administratively up. Errors: a sentence with cause and hint.
tl::expected<std::vector<LocalAddress>, std::string> find_local_addresses(std::string_view selection);

// Sorts into GID order; apart, so that it is tested without interfaces.
void sort_in_gid_order(std::vector<LocalAddress>& addresses);
// Keeps the addresses that `selection` names, in its order.
tl::expected<std::vector<LocalAddress>, std::string> select_addresses(const std::vector<LocalAddress>& all,
                                                                      std::string_view selection);

}  // namespace mroce::net
