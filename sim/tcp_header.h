// The TCP header of the simulator: what of a real one matters, in as many bytes as a real one takes.
//
// 20 bytes, 12 of the timestamp option (its size only: round trips are measured from send times), and 4 + 8n
// where there are n SACK blocks. The two ports are one number here, the connection's. Sequence numbers are
// the low 32 bits of offsets in the stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/packet.h"

namespace mroce::sim {

struct TcpSackBlock {
  uint32_t begin = 0;
  uint32_t end = 0;  // one beyond the last byte
};

struct TcpHeader {
  static constexpr uint8_t kFin = 1;
  static constexpr uint8_t kEce = 2;
  static constexpr uint32_t kMaxBlocks = 3;  // with timestamps no more fit (RFC 2018)

  uint32_t connection = 0;
  uint32_t sequence = 0;
  uint32_t acknowledgement = 0;
  uint32_t receive_window = 0;
  uint8_t flags = 0;
  uint8_t blocks = 0;
  uint16_t unused = 0;
  std::array<TcpSackBlock, kMaxBlocks> sack{};

  size_t wire_bytes() const { return 32 + (blocks != 0 ? 4 + size_t{blocks} * sizeof(TcpSackBlock) : 0); }
  void write(Packet& packet) const {
    std::memcpy(packet.header(), this, kFixed);
    if (blocks != 0) std::memcpy(packet.header() + kFixed, sack.data(), blocks * sizeof(TcpSackBlock));
  }
  static TcpHeader read(const Packet& packet) { return read(packet.header()); }
  static TcpHeader read(std::span<const std::byte> bytes) {
    TcpHeader header;
    const std::byte* const from = bytes.data();
    std::memcpy(static_cast<void*>(&header), from, kFixed);
    header.blocks = std::min<uint8_t>(header.blocks, kMaxBlocks);
    if (header.blocks != 0)
      std::memcpy(header.sack.data(), from + kFixed, header.blocks * sizeof(TcpSackBlock));
    return header;
  }

  static constexpr size_t kFixed = 20;
};
static_assert(offsetof(TcpHeader, sack) == TcpHeader::kFixed && sizeof(TcpHeader) <= Packet::kInlineHeader);

// The offset nearest to `near` with these low bits.
constexpr uint64_t tcp_unwrap(uint64_t near, uint32_t low) {
  return near +
         static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(low - static_cast<uint32_t>(near))));
}

}  // namespace mroce::sim
