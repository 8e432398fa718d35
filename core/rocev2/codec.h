// Reading and writing RoCEv2 headers (packet.h). Reading checks everything that can be checked without a
// queue pair; what it accepts needs no further look at lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <tl/expected.hpp>

#include "core/rocev2/packet.h"

namespace mroce::rocev2 {

// X(name, sentence)
#define MROCE_ROCEV2_DECODE_ERRORS(X)                                      \
  X(kTruncated, "shorter than its opcode needs")                           \
  X(kOpcode, "unknown opcode")                                             \
  X(kVersion, "transport version is not 0")                                \
  X(kPayload, "payload where the opcode has none, or none where it needs") \
  X(kPad, "more padding than bytes, or payload and padding not a multiple of 4")

enum class DecodeError : uint8_t {
#define MROCE_ROCEV2_ENUM(name, sentence) name,
  MROCE_ROCEV2_DECODE_ERRORS(MROCE_ROCEV2_ENUM)
#undef MROCE_ROCEV2_ENUM
};
std::string_view sentence_of(DecodeError error);

// Writes BTH and the extensions of headers.bth.op; returns their length, info(op).header_bytes (for a CNP
// with its 16 reserved bytes). `out` has room for kMaxHeader.
size_t encode(const Headers& headers, std::byte* out);

// `bytes`: from the BTH on, without iCRC; it may end with the headers when the payload is virtual. `behind`:
// bytes of payload and padding together, whether virtual or real. On success the payload is `behind` minus
// headers.bth.pad bytes long.
tl::expected<Headers, DecodeError> decode(std::span<const std::byte> bytes, uint64_t behind);
// The same into `headers`, where fields that the opcode lacks keep what was there. True on success; otherwise
// `error` says why not.
bool decode_into(std::span<const std::byte> bytes, uint64_t behind, Headers& headers, DecodeError& error);
// The same for a packet that is there as a whole, payload and padding included.
tl::expected<Headers, DecodeError> decode_whole(std::span<const std::byte> bytes);

}  // namespace mroce::rocev2
