// Round-trip estimate and retransmission timeout (RFC 6298).
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/tcp_options.h"

namespace mroce::sim {

struct TcpRtt {
  SimTime smoothed = 0;  // 0: no sample yet
  SimTime variation = 0;
  SimTime smallest = kEndOfTime;
  uint32_t backoff = 0;  // doublings since the last sample

  void sample(SimTime rtt) {
    rtt = std::max<SimTime>(rtt, 1);
    smallest = std::min(smallest, rtt);
    backoff = 0;
    if (smoothed == 0) {
      smoothed = rtt;
      variation = rtt / 2;
      return;
    }
    variation = (3 * variation + std::max(smoothed - rtt, rtt - smoothed)) / 4;
    smoothed = (7 * smoothed + rtt) / 8;
  }

  SimTime timeout(const TcpOptions& options) const {
    const SimTime base = smoothed == 0 ? options.rto_initial : smoothed + 4 * variation;
    const SimTime bounded = std::clamp(base, std::min(options.rto_min, options.rto_max), options.rto_max);
    const uint32_t doublings = std::min(backoff, 20U);
    return bounded > options.rto_max >> doublings ? options.rto_max : bounded << doublings;
  }
};

}  // namespace mroce::sim
