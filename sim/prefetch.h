// Prefetch of the cache line at an address.
#pragma once

namespace mroce::sim {

// GCC 12 takes a function that only prefetches for one without effect, and drops calls of it. The empty
// statement is an effect that costs nothing.
inline void prefetch(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace mroce::sim
