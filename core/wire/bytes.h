// Big-endian integers at any address. memcpy and bswap compile to one load or store with MOVBE-class
// instructions and break no aliasing or alignment rule.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mroce::wire {

static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);

template <std::unsigned_integral T>
constexpr T swap_to_big(T value) {
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    static_assert(sizeof(T) == 8);
    return __builtin_bswap64(value);
  }
}

template <std::unsigned_integral T>
inline T load_be(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return swap_to_big(value);
}

template <std::unsigned_integral T>
inline void store_be(std::byte* to, T value) {
  value = swap_to_big(value);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace mroce::wire
