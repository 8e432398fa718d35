// The finalisers of MurmurHash3 (Appleby, public domain): every bit of the input moves every bit of the
// output. Not for what an adversary chooses.
#pragma once

#include <cstdint>

namespace mroce::sim {

constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDULL;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  return x ^ (x >> 33);
}

constexpr uint32_t mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6BU;
  x = (x ^ (x >> 13)) * 0xC2B2AE35U;
  return x ^ (x >> 16);
}

}  // namespace mroce::sim
