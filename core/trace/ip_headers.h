// IP headers and checksums as bytes, for traces of packets that never had any: sockets do not show them, and
// a simulator has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mroce::trace {

using Bytes = std::vector<std::byte>;

inline constexpr uint8_t kProtocolTcp = 6;
inline constexpr uint8_t kProtocolUdp = 17;

void append_raw(Bytes& out, const void* data, size_t length);
void append_be16(Bytes& out, uint32_t value);  // the low 16 bits
void append_be32(Bytes& out, uint32_t value);
void put_be16(Bytes& out, size_t at, uint16_t value);

struct IpHeader {
  std::span<const std::byte> source = {};       // 4 bytes or 16: that decides about the version
  std::span<const std::byte> destination = {};  // as many
  uint8_t protocol = kProtocolUdp;
  uint8_t traffic_class = 0;  // DSCP in the upper six bits, ECN in the lower two
  uint8_t hop_limit = 64;
  uint32_t length = 0;  // of what follows the header
};

// IPv4: no options, DF, identification 0, with its checksum. IPv6: no extensions, flow label 0.
void append_ip(Bytes& out, const IpHeader& ip);

// The Internet checksum (RFC 1071) of a TCP or UDP segment with its pseudo header. `segment` may lack bytes
// at its end: they count as zeros, and ip.length as it is. For UDP 0 is written as 0xffff by whoever stores
// it.
uint16_t transport_checksum(const IpHeader& ip, std::span<const std::byte> segment);

}  // namespace mroce::trace
