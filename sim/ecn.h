// ECN marking: with what probability a packet is marked that finds `depth` bytes (itself included).
//
// RED on the instantaneous depth, as data centre switches do it for DCTCP and DCQCN: none up to kmin, then a
// slope to pmax at kmax, and everything beyond. kmin = kmax is a step.
#pragma once

#include <cstdint>

namespace mroce::sim {

struct EcnConfig {
  uint64_t kmin_bytes = 0;
  uint64_t kmax_bytes = 0;  // 0: never marks
  double pmax = 1;

  bool enabled() const { return kmax_bytes != 0; }
  double probability(uint64_t depth) const {
    if (depth <= kmin_bytes) return 0;
    if (depth > kmax_bytes) return 1;
    return pmax * static_cast<double>(depth - kmin_bytes) / static_cast<double>(kmax_bytes - kmin_bytes);
  }
};

}  // namespace mroce::sim
