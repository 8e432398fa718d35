// Time as the core sees it: an argument, never a clock.
//
// `Time` is a point on the caller's monotonic axis (the endpoint passes CLOCK_MONOTONIC, the simulator
// its virtual clock); `Nanos` is a distance on it. The tag clock has no now(), so that core code cannot
// read a clock even by mistake.
#pragma once

#include <chrono>
#include <cstdint>

namespace mroce {

using Nanos = std::chrono::nanoseconds;

struct VirtualClock {
  using rep = Nanos::rep;
  using period = Nanos::period;
  using duration = Nanos;
  using time_point = std::chrono::time_point<VirtualClock>;
  static constexpr bool is_steady = true;
};

using Time = std::chrono::time_point<VirtualClock, Nanos>;

inline constexpr Time kNever = Time::max();

constexpr Time time_from_ns(int64_t ns) {
  return Time{Nanos{ns}};
}
constexpr int64_t ns_of(Time t) {
  return t.time_since_epoch().count();
}
constexpr Nanos micros(int64_t us) {
  return Nanos{us * 1000};
}
constexpr Nanos millis(int64_t ms) {
  return Nanos{ms * 1000 * 1000};
}
constexpr Nanos seconds(int64_t s) {
  return Nanos{s * 1000 * 1000 * 1000};
}

}  // namespace mroce
