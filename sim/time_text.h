// Times in files: microseconds with six digits behind the point, so nothing is rounded.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/time.h"

namespace mroce::sim {

inline std::string exact_us(SimTime time) {
  constexpr SimTime kPicosInMicro = 1'000'000;
  return fmt::format("{}.{:06}", time / kPicosInMicro, time % kPicosInMicro);
}

}  // namespace mroce::sim
