// What crosses the border between the engine and a network: bursts of datagrams.
//
// A burst is up to kMaxSegments datagrams for one destination through one path; all but the last have one
// size, so that it is one UDP GSO send and one GRO receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/address.h"
#include "core/base/time.h"

namespace mroce {

inline constexpr uint32_t kMaxSegments = 64;       // UDP_MAX_SEGMENTS of Linux before 6.9
inline constexpr uint32_t kMaxBurstBytes = 65000;  // below 65,535 - IP and UDP headers

enum class Ecn : uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };  // RFC 3168

struct Slice {
  const std::byte* data;
  size_t length;
};

struct TxBurst {
  uint32_t port = 0;     // index into EngineConfig::ports: the source address
  uint16_t entropy = 0;  // which source port; equal entropy, equal 5-tuple. 0 .. kEntropies-1
  UdpAddress to;
  Ecn ecn = Ecn::kNotEct;
  uint8_t path = 0;            // for statistics, traces and impairments by path
  uint32_t segments = 0;       // 1 .. kMaxSegments
  uint32_t segment_bytes = 0;  // of every segment but the last, which is at most as long
  uint32_t total_bytes = 0;
  std::span<const Slice> slices;  // the bytes in wire order; a slice may cross a border between segments.
                                  // Valid until the next call of any engine method.
};

inline constexpr uint32_t kEntropies = 256;

struct RxMeta {
  uint32_t port = 0;  // index into EngineConfig::ports: the address that it came to
  UdpAddress from;
  Ecn ecn = Ecn::kNotEct;
};

}  // namespace mroce
