#include "core/trace/pcapng.h"

#include <algorithm>
#include <cstring>

namespace mroce::trace {
namespace {

constexpr uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
constexpr uint32_t kInterfaceBlock = 1;
constexpr uint32_t kEnhancedPacketBlock = 6;
constexpr uint16_t kOptionEnd = 0;
constexpr uint16_t kOptionComment = 1;
constexpr uint16_t kOptionName = 2;         // if_name
constexpr uint16_t kOptionSpeed = 8;        // if_speed
constexpr uint16_t kOptionResolution = 9;   // if_tsresol
constexpr uint16_t kOptionPacketFlags = 2;  // epb_flags; bits 0-1: 1 inbound, 2 outbound
constexpr size_t kMaxOption = UINT16_MAX;

template <class T>
void append_host(Bytes& out, T value) {  // pcapng is in the writer's byte order
  append_raw(out, &value, sizeof value);
}

// Options and packets are padded to four bytes; blocks begin at multiples of four.
void pad_to_4(Bytes& out, size_t begin) {
  out.resize(begin + (out.size() - begin + 3) / 4 * 4);
}

size_t begin_block(Bytes& out, uint32_t type) {
  const size_t begin = out.size();
  append_host(out, type);
  append_host(out, uint32_t{0});  // its length, when it is known
  return begin;
}

void end_block(Bytes& out, size_t begin) {
  const auto total = static_cast<uint32_t>(out.size() - begin + 4);
  std::memcpy(out.data() + begin + 4, &total, sizeof total);
  append_host(out, total);
}

void append_option(Bytes& out, size_t block, uint16_t code, const void* data, size_t length) {
  append_host(out, code);
  append_host(out, static_cast<uint16_t>(length));
  append_raw(out, data, length);
  pad_to_4(out, block);
}

void append_text(Bytes& out, size_t block, uint16_t code, std::string_view text) {
  if (!text.empty()) append_option(out, block, code, text.data(), std::min(text.size(), kMaxOption));
}

void end_options(Bytes& out) {
  append_host(out, kOptionEnd);
  append_host(out, uint16_t{0});
}

}  // namespace

void append_section(Bytes& out) {
  const size_t block = begin_block(out, kSectionHeaderBlock);
  append_host(out, uint32_t{0x1a2b3c4d});  // byte-order magic
  append_host(out, uint16_t{1});           // version 1.0
  append_host(out, uint16_t{0});
  append_host(out, int64_t{-1});  // length of the section: not given
  end_block(out, block);
}

void append_interface(Bytes& out, const PcapngInterface& interface) {
  const size_t block = begin_block(out, kInterfaceBlock);
  append_host(out, interface.link_type);
  append_host(out, uint16_t{0});
  append_host(out, interface.snap_bytes);
  append_text(out, block, kOptionName, interface.name);
  if (interface.speed_bps != 0) {
    append_option(out, block, kOptionSpeed, &interface.speed_bps, sizeof interface.speed_bps);
  }
  const uint8_t nanoseconds = 9;  // 10^-9
  append_option(out, block, kOptionResolution, &nanoseconds, 1);
  end_options(out);
  end_block(out, block);
}

void append_packet(Bytes& out, const PcapngPacket& packet, std::span<const std::byte> captured) {
  const size_t block = begin_block(out, kEnhancedPacketBlock);
  append_host(out, packet.interface);
  append_host(out, static_cast<uint32_t>(static_cast<uint64_t>(packet.unix_ns) >> 32));
  append_host(out, static_cast<uint32_t>(packet.unix_ns));
  append_host(out, static_cast<uint32_t>(captured.size()));
  append_host(out, packet.original_bytes);
  append_raw(out, captured.data(), captured.size());
  pad_to_4(out, block);
  if (packet.direction != Direction::kUnknown) {
    append_option(out, block, kOptionPacketFlags, &packet.direction, sizeof packet.direction);
  }
  append_text(out, block, kOptionComment, packet.comment);
  end_options(out);
  end_block(out, block);
}

}  // namespace mroce::trace
