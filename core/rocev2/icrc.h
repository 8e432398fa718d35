// The invariant CRC of RoCEv2 (IBTA Annex A17.3.3): CRC-32 (polynomial 0x04C11DB7, reflected, as Ethernet's)
// over everything that no router changes. Fields that routers do change count as all ones:
//
//   a pseudo LRH of 8 bytes of FF in front
//   IPv4: type of service, time to live, header checksum     IPv6: traffic class, flow label, hop limit
//   UDP: checksum                                            BTH: byte 4 (FECN, BECN, reserved)
//
// The CRC begins with all ones, is inverted at the end, and is sent with its least significant byte first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mroce::rocev2 {

// `datagram`: IP header, UDP header, BTH, … up to and including the padding, without iCRC. nullopt if these
// are not an IPv4 header of 20 bytes or an IPv6 header, with UDP and a BTH behind it.
std::optional<uint32_t> icrc(std::span<const std::byte> datagram);

void write_icrc(uint32_t crc, std::byte* out);
// `datagram` ends with its iCRC.
bool check_icrc(std::span<const std::byte> datagram);

// For callers whose payload lies elsewhere: the state after the masked headers, then the rest in pieces.
// `headers` is everything up to at least the BTH.
std::optional<uint32_t> icrc_begin(std::span<const std::byte> headers);
uint32_t icrc_update(uint32_t state, std::span<const std::byte> bytes);
constexpr uint32_t icrc_finish(uint32_t state) {
  return state;  // the inversions at both ends belong to each update (ISA-L), and cancel in between
}

}  // namespace mroce::rocev2
