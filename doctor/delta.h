// From one reading of a counter to the next.
#pragma once

#include <cstdint>

#include "doctor/evidence.h"

namespace mroce::doctor {

struct CounterStep {
  DeltaState state = DeltaState::kOk;
  uint64_t by = 0;  // 0 after a reset
};

// A counter of 32 bits that falls from its upper half to its lower one has wrapped; any other that falls was
// reset.
inline CounterStep step_between(uint64_t old, uint64_t now, uint8_t width) {
  constexpr uint64_t kHalf = 1ull << 31, kFull = 1ull << 32;
  if (now >= old) return {DeltaState::kOk, now - old};
  if (width == 32 && old < kFull && old >= kHalf && now < kHalf)
    return {DeltaState::kWrapped, now + kFull - old};
  return {DeltaState::kReset, 0};
}

}  // namespace mroce::doctor
