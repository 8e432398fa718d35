// Times that verbs writes as 5-bit codes: the RNR NAK timer (IBTA table 46) and the local ACK timeout
// (IBTA chapter 9.7).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/base/time.h"

namespace mroce {

// In units of 10 us. Code 0 is the longest; from code 2 on the steps alternate between x 4/3 and x 3/2.
inline constexpr std::array<uint32_t, 32> kRnrTimerTable = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

// How long the requester waits after an RNR NAK with this code; only the low 5 bits count.
constexpr Nanos rnr_timer(uint8_t code) {
  return micros(int64_t{kRnrTimerTable[code & 31u]} * 10);
}

// 4.096 us * 2^code, 5 bits; code 0 means that no timeout applies.
constexpr std::optional<Nanos> ack_timeout(uint8_t code) {
  if ((code & 31u) == 0) return std::nullopt;
  return Nanos{int64_t{4096} << (code & 31u)};
}

}  // namespace mroce
