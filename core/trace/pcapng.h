// Blocks of a pcapng file (draft-ietf-opsawg-pcapng) as bytes: a section header, a description of each
// interface, an enhanced packet block for each packet. Time stamps are nanoseconds.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/trace/ip_headers.h"

namespace mroce::trace {

inline constexpr uint16_t kLinkTypeEthernet = 1;
inline constexpr uint16_t kLinkTypeRaw = 101;    // begins with an IP header
inline constexpr size_t kPacketBlockBytes = 64;  // at most, beside the packet's bytes and its comment

enum class Direction : uint32_t { kUnknown = 0, kInbound = 1, kOutbound = 2 };

struct PcapngInterface {
  uint16_t link_type = kLinkTypeRaw;
  uint32_t snap_bytes = 0;     // 0: no limit
  std::string_view name = {};  // empty: none
  uint64_t speed_bps = 0;      // 0: not said
};

struct PcapngPacket {
  uint32_t interface = 0;  // in the order in which they were appended
  int64_t unix_ns = 0;
  uint32_t original_bytes = 0;  // that it had on the wire
  Direction direction = Direction::kUnknown;
  std::string_view comment = {};  // empty: none
};

void append_section(Bytes& out);
void append_interface(Bytes& out, const PcapngInterface& interface);
void append_packet(Bytes& out, const PcapngPacket& packet, std::span<const std::byte> captured);

}  // namespace mroce::trace
