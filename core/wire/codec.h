// Encoding and decoding of packet.h. Decoders take untrusted bytes: they check lengths first, then meaning,
// and answer false for anything that is not exactly right; they never read past `in`. Reserved bits are sent
// as zero and ignored on arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/wire/packet.h"

namespace mroce::wire {

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

// --- common header ---
inline bool decode_common(In datagram, Common& out);  // any version and type nibble; false only if too short
inline void encode_common(const Common& header, std::byte* out);  // writes kCommonBytes

// --- DATA (hot: inline in data_codec.h) ---
// `datagram` without its trailer. On success `payload` is what follows the headers (and TLVs, which are
// skipped), and: the op is known; WRITE*, SEND* and READ_RESP have offset + payload <= length; stream control
// has exactly kStreamControlBytes; all others have no payload. Fields that the op does not use are zero in
// `out`.
inline bool decode_data(In datagram, const Common& header, Data& out, In& payload);
// Writes header_bytes(data.op) bytes, common header included; returns that size. Writes no TLVs.
inline size_t encode_data(const Common& header, const Data& data, std::byte* out);
// Bytes of a DATA datagram before its payload, told from what cannot be trusted yet; 0 if there is no
// telling. `datagram` without its trailer. In mode 2 the payload behind them is encrypted.
inline size_t data_header_bytes(In datagram, uint8_t flags);

// Refuses numbers of more than 24 bits, RNR timer codes above 31 and unknown reasons.
bool decode_stream_control(In payload, StreamControl& out);
void encode_stream_control(const StreamControl& control, std::byte* out);  // kStreamControlBytes

// --- whole datagrams without trailer; encoders return bytes written, 0 if `out` is too small ---
// The caller has looked at version and type already. Behind PROBE_ACK, CLOSE, RESET and VERSION nothing may
// follow except, with flag EXT, TLVs, which are skipped; behind PROBE and INIT anything may follow (padding).
// ACK: refuses more than 4 blocks, a path above 63, a penalty above 127, a NAK without a known code, more
// entries of a kind than `out` can hold, two PORT_STATUS, and known TLVs of another length than theirs.
bool decode_ack(In datagram, Ack& out);
size_t encode_ack(const Common& header, const Ack& ack, Out out);
bool decode_probe(In datagram, Probe& out);
size_t encode_probe(const Common& header, const Probe& probe, size_t pad_to,
                    Out out);  // pad_to: bytes before the trailer
bool decode_probe_ack(In datagram, ProbeAck& out);
size_t encode_probe_ack(const Common& header, const ProbeAck& ack, Out out);
bool decode_close(In datagram, Close& out);
size_t encode_close(const Common& header, const Close& close, Out out);
bool decode_reset(In datagram, Reset& out);
size_t encode_reset(const Common& header, const Reset& reset, Out out);
bool decode_version(In datagram, VersionList& out);
size_t encode_version(const Common& header, const VersionList& list, Out out);
bool decode_retry(In datagram, Retry& out);
size_t encode_retry(const Common& header, const Retry& retry, Out out);
// Does not judge the magic and versions: the engine counts those by name. With a magic that is not ours only
// the fixed part is read and nports is 0; else it refuses nports outside 1..kMaxPlanes and prefixes above
// 128, and, with flag EXT, a list of TLVs that does not end in END, has a known one twice or of a wrong
// length. Does not look for kMinInitBytes, since the trailer counts there.
bool decode_init(In datagram, Init& out);
// Sets EXT by itself if there are TLVs to write.
size_t encode_init(const Common& header, const Init& init, size_t pad_to, Out out);
// What both ends hash of an INIT or INIT_ACK that decode_init() has accepted: from the magic to END, with the
// payload MTU as zero (repetitions lower it) and without COOKIE (only repetitions have it).
std::vector<std::byte> init_transcript(In datagram);

// --- integrity, mode 0 ---
// CRC-32C (Castagnoli) by ISA-L. `state` chains parts: start with kCrcStart, end with crc_finish.
inline constexpr uint32_t kCrcStart = 0xffffffffu;
uint32_t crc_update(uint32_t state, In bytes);
constexpr uint32_t crc_finish(uint32_t state) {
  return ~state;
}
void write_trailer(uint32_t crc, std::byte* out);  // kTrailerBytes, big-endian
// True if the last kTrailerBytes are the CRC of what is before them.
bool check_trailer(In datagram);

// --- small codings ---
// Rate of a hint: mantissa (bits 10-0) * 2^exponent (bits 15-11) bytes/s, rounded down; error at most 0.1 %.
// Codes sort like rates. 0 is "none"; 0xffff is "unlimited", decoded as and encoded from kUnlimitedRate only:
// rates above the range (4.39 TB/s) become 0xfffe.
inline constexpr uint64_t kUnlimitedRate = ~uint64_t{0};
uint16_t encode_rate(uint64_t bytes_per_s);
uint64_t decode_rate(uint16_t code);
// Backlog: 0..15 exact, above that (8 + low 3 bits) << (high bits - 1), rounded down, capped at 255.
uint8_t encode_backlog(uint64_t packets);
uint64_t decode_backlog(uint8_t code);
// The 64-bit number whose low 32 bits are `wire` and that is nearest to `expected` (RFC 9000, appendix A.3
// idea).
constexpr uint64_t expand32(uint32_t wire, uint64_t expected) {
  const uint64_t candidate = (expected & ~0xffffffffULL) | wire;
  const int64_t distance = static_cast<int64_t>(candidate - expected);
  if (distance > 0x80000000LL && candidate >= 0x100000000ULL) return candidate - 0x100000000ULL;
  if (distance < -0x80000000LL) return candidate + 0x100000000ULL;
  return candidate;
}

}  // namespace mroce::wire

#include "core/wire/data_codec.h"  // IWYU pragma: export
