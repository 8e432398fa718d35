// Packet sequence numbers: 24 bits on the wire, 64 bits inside. A number from the wire is read as the one
// closest to what is expected, which is IBTA chapter 9.7.1's rule that at most 2^23 packets are outstanding.
#pragma once

#include <cstdint>

namespace mroce::rocev2 {

inline constexpr uint32_t kPsnMask = 0xffffff;
// Outstanding packets of one requester; one more message may start below it, of at most as many.
inline constexpr uint64_t kMaxOutstanding = uint64_t{1} << 21;

constexpr uint32_t wire_psn(uint64_t psn) {
  return static_cast<uint32_t>(psn) & kPsnMask;
}

// The 64-bit number nearest to `near` whose low 24 bits are `psn`. May wrap below zero for small `near`; the
// engine starts its numbers at 2^32, so that it never does.
constexpr uint64_t expand_psn(uint32_t psn, uint64_t near) {
  const uint32_t ahead = (psn - wire_psn(near)) & kPsnMask;
  return ahead < (1u << 23) ? near + ahead : near + ahead - (uint64_t{1} << 24);
}

inline constexpr uint64_t kPsnBase = uint64_t{1} << 32;  // a multiple of 2^24

}  // namespace mroce::rocev2
