// Network addresses without sockets. A GID is an IPv6 address; IPv4 appears as ::ffff:a.b.c.d, which is also
// how RoCE v2 writes it (IBTA Annex A17), so that a GID and an address are the same 16 bytes here.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace mroce {

struct Gid {
  std::array<uint8_t, 16> raw{};

  auto operator<=>(const Gid&) const = default;
  bool is_v4_mapped() const {
    for (int i = 0; i < 10; ++i) {
      if (raw[static_cast<size_t>(i)] != 0) return false;
    }
    return raw[10] == 0xff && raw[11] == 0xff;
  }
  bool is_loopback() const {
    if (is_v4_mapped()) return raw[12] == 127;
    for (size_t i = 0; i < 15; ++i) {
      if (raw[i] != 0) return false;
    }
    return raw[15] == 1;
  }
  bool is_link_local() const { return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80; }
  bool is_zero() const { return *this == Gid{}; }
};

// Do `a` and `b` share the first `prefix_bits` of their 128 bits? (An IPv4 /24 is 96 + 24.)
inline bool same_prefix(const Gid& a, const Gid& b, uint32_t prefix_bits) {
  for (uint32_t bit = 0; bit < prefix_bits && bit < 128; ++bit) {
    const uint8_t mask = static_cast<uint8_t>(0x80u >> (bit % 8));
    if ((a.raw[bit / 8] & mask) != (b.raw[bit / 8] & mask)) return false;
  }
  return true;
}

struct UdpAddress {
  Gid ip;
  uint16_t port = 0;
  auto operator<=>(const UdpAddress&) const = default;
};

}  // namespace mroce
