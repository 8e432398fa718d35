// Rates and backlogs as small floating-point numbers. A leading one is kept for rates (11 bits of mantissa,
// so rounding down loses less than 1/1024) and implied for backlogs (8 + 3 bits).
#include <bit>

#include "core/wire/codec.h"

namespace mroce::wire {
namespace {
constexpr unsigned kMantissaBits = 11;
constexpr unsigned kMaxExponent = 31;
constexpr uint16_t kUnlimitedCode = 0xffff;
constexpr uint16_t kHighestCode = 0xfffe;
}  // namespace

uint16_t encode_rate(uint64_t bytes_per_s) {
  if (bytes_per_s == kUnlimitedRate) return kUnlimitedCode;
  const auto width = static_cast<unsigned>(std::bit_width(bytes_per_s));
  const unsigned exponent = width > kMantissaBits ? width - kMantissaBits : 0;
  if (exponent > kMaxExponent) return kHighestCode;
  const uint64_t code = (uint64_t{exponent} << kMantissaBits) | (bytes_per_s >> exponent);
  return code >= kUnlimitedCode ? kHighestCode : static_cast<uint16_t>(code);
}

uint64_t decode_rate(uint16_t code) {
  if (code == kUnlimitedCode) return kUnlimitedRate;
  return uint64_t{code & ((1u << kMantissaBits) - 1)} << (code >> kMantissaBits);
}

uint8_t encode_backlog(uint64_t packets) {
  if (packets < 16) return static_cast<uint8_t>(packets);
  const auto high = static_cast<unsigned>(std::bit_width(packets)) - 3;  // packets >> (high - 1) is 8..15
  if (high > 31) return 255;
  return static_cast<uint8_t>((high << 3) | ((packets >> (high - 1)) & 7));
}

uint64_t decode_backlog(uint8_t code) {
  if (code < 16) return code;
  return uint64_t{8u + (code & 7u)} << ((code >> 3) - 1);
}

}  // namespace mroce::wire
