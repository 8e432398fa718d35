// Keys and digests as arrays, and wiping them. The rest of the engine speaks of std::byte where it means
// packets and of uint8_t where it means numbers without structure; this folder takes either.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mroce::crypto {

using Bytes = std::span<const uint8_t>;
using Key32 = std::array<uint8_t, 32>;

inline Bytes as_u8(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// Overwrites in a way that the compiler does not leave out.
void wipe(std::span<uint8_t> bytes);

}  // namespace mroce::crypto
