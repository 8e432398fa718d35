// Virtual time of the simulator: whole picoseconds, so that a byte at 800 Gbit/s (10 ps) is exact.
#pragma once

#include <cstdint>

#include "core/base/time.h"

namespace mroce::sim {

using SimTime = int64_t;  // picoseconds since the run began; also distances

inline constexpr SimTime kEndOfTime = INT64_MAX;
inline constexpr SimTime kPicosInNano = 1000;

constexpr SimTime nanos(int64_t ns) {
  return ns * kPicosInNano;
}
constexpr SimTime microseconds(int64_t us) {
  return us * 1'000'000;
}

// What an engine of core/ sees: rounded down, so that nothing is ever early by the engine's clock.
constexpr Time engine_time(SimTime at) {
  return time_from_ns(at / kPicosInNano);
}
// When a deadline of an engine is due: the first picosecond at which engine_time() reaches it.
constexpr SimTime sim_time(Time at) {
  return at == kNever ? kEndOfTime : ns_of(at) * kPicosInNano;
}

// Time that `bytes` take on a link, rounded to the nearest picosecond.
constexpr SimTime serialisation(uint64_t bytes, uint64_t rate_bps) {
  __extension__ using Wide = unsigned __int128;  // 2^40 bytes times 8e12 do not fit into 64 bits
  const Wide product = static_cast<Wide>(bytes) * 8'000'000'000'000ULL;
  return static_cast<SimTime>((product + rate_bps / 2) / rate_bps);
}

}  // namespace mroce::sim
