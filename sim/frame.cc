#include "sim/frame.h"

#include <algorithm>
#include <array>

#include "core/rocev2/icrc.h"
#include "core/rocev2/packet.h"
#include "core/wire/codec.h"
#include "core/wire/packet.h"
#include "sim/config.h"
#include "sim/tcp_header.h"

namespace mroce::sim {
namespace {

using trace::append_be16;
using trace::append_be32;
using trace::append_raw;

constexpr size_t kEthernetBytes = 14;
constexpr size_t kUdpBytes = 8;
constexpr uint32_t kEtherTypeIpv4 = 0x0800;
constexpr uint32_t kEtherTypeMacControl = 0x8808;
constexpr size_t kLeastFrame = 60;  // Ethernet's 64 without the frame check sequence
constexpr uint32_t kPfcOpcode = 0x0101;
constexpr uint16_t kMroceUdpPort = 61440;
constexpr uint8_t kHopLimit = 64;
constexpr uint32_t kTcpClientPort = 49152;
constexpr uint32_t kTcpClientPorts = 16384;
constexpr uint32_t kTcpServerPort = 5001;
constexpr uint32_t kTcpWindowShift = 14;  // the largest that RFC 7323 allows

void append_mac(trace::Bytes& out, uint32_t node) {
  append_be16(out, 0x0200);  // locally administered
  append_be32(out, node);
}

std::array<std::byte, 4> address_of(uint32_t host, uint32_t plane) {
  return {std::byte{10}, static_cast<std::byte>(plane + ((host >> 16) << 4)),
          static_cast<std::byte>(host >> 8), static_cast<std::byte>(host)};
}

void append_pause(const LinkSpec& link, const Packet& packet, trace::Bytes& out) {
  append_be32(out, 0x0180C200);  // 01:80:C2:00:00:01, which no bridge forwards
  append_be16(out, 0x0001);
  append_mac(out, link.from);
  append_be16(out, kEtherTypeMacControl);
  append_be16(out, kPfcOpcode);
  append_be16(out, 1U << packet.priority);
  for (uint32_t c = 0; c < kClasses; ++c) {
    append_be16(out, c == packet.priority && packet.fabric != 0 ? 0xffff : 0);
  }
  out.resize(kLeastFrame);
}

trace::IpHeader ip_header(const Packet& packet, std::span<const std::byte> source,
                          std::span<const std::byte> destination, uint8_t protocol, uint32_t length) {
  trace::IpHeader ip;
  ip.source = source;
  ip.destination = destination;
  ip.protocol = protocol;
  ip.traffic_class = static_cast<uint8_t>(packet.priority << 5 | static_cast<uint8_t>(packet.ecn));
  ip.hop_limit = static_cast<uint8_t>(kHopLimit - std::min(packet.hops, kHopLimit));
  ip.length = length;
  return ip;
}

// UDP without a checksum, as IPv4 allows: it would cover the payload.
void append_udp(const Packet& packet, uint16_t port, uint32_t length, Frame& out) {
  const auto source = address_of(packet.source, packet.plane);
  const auto destination = address_of(packet.destination, packet.plane);
  append_ip(out.bytes, ip_header(packet, source, destination, trace::kProtocolUdp, length));
  append_be16(out.bytes, packet.source_port);
  append_be16(out.bytes, port);
  append_be16(out.bytes, length);
  append_be16(out.bytes, 0);
}

// Payload of the frame as far as it fits. True: all of it, and `behind` more bytes would fit too.
bool append_payload(uint32_t payload, size_t behind, uint32_t limit, Frame& out) {
  const size_t room = limit > out.bytes.size() ? limit - out.bytes.size() : 0;
  out.bytes.resize(out.bytes.size() + std::min<size_t>(payload, room));
  return payload == 0 || payload + behind <= room;
}

// The engine writes no check when payload is virtual.
void append_mroce(const Packet& packet, std::span<const std::byte> header, uint32_t limit, Frame& out) {
  append_udp(packet, kMroceUdpPort, static_cast<uint32_t>(kUdpBytes + header.size()) + packet.payload, out);
  const size_t begin = out.bytes.size();
  append_raw(out.bytes, header.data(), header.size() - std::min(header.size(), wire::kTrailerBytes));
  if (!append_payload(packet.payload, wire::kTrailerBytes, limit, out)) return;
  const size_t end = out.bytes.size();
  const uint32_t crc = wire::crc_update(wire::kCrcStart, std::span(out.bytes).subspan(begin));
  out.bytes.resize(end + wire::kTrailerBytes);
  wire::write_trailer(wire::crc_finish(crc), out.bytes.data() + end);
}

void append_rocev2(const Packet& packet, std::span<const std::byte> header, uint32_t limit, Frame& out) {
  const uint32_t padded = (packet.payload + 3) & ~3U;
  const size_t begin = out.bytes.size();
  append_udp(packet, rocev2::kUdpPort,
             static_cast<uint32_t>(kUdpBytes + header.size() + rocev2::kIcrcBytes) + padded, out);
  append_raw(out.bytes, header.data(), header.size());
  if (!append_payload(padded, rocev2::kIcrcBytes, limit, out)) return;
  const auto crc = rocev2::icrc(std::span(out.bytes).subspan(begin));
  const size_t end = out.bytes.size();
  out.bytes.resize(end + rocev2::kIcrcBytes);
  if (crc) rocev2::write_icrc(*crc, out.bytes.data() + end);
}

uint8_t tcp_flags(const TcpHeader& tcp) {
  constexpr uint8_t kWireFin = 0x01;
  constexpr uint8_t kWireAck = 0x10;
  constexpr uint8_t kWireEce = 0x40;
  return static_cast<uint8_t>(kWireAck | ((tcp.flags & TcpHeader::kFin) != 0 ? kWireFin : 0) |
                              ((tcp.flags & TcpHeader::kEce) != 0 ? kWireEce : 0));
}

void append_tcp_options(const TcpHeader& tcp, trace::Bytes& out) {
  append_be32(out, 0x0101080a);  // NOP, NOP, timestamps
  append_be32(out, 0);
  append_be32(out, 0);
  if (tcp.blocks == 0) return;
  append_be32(out, 0x01010500U | (2U + 8U * tcp.blocks));  // NOP, NOP, SACK
  for (uint32_t i = 0; i < tcp.blocks; ++i) {
    append_be32(out, tcp.sack[i].begin + 1);
    append_be32(out, tcp.sack[i].end + 1);
  }
}

void append_tcp(const Packet& packet, std::span<const std::byte> header, uint32_t limit, Frame& out) {
  const TcpHeader tcp = TcpHeader::read(header);
  const auto source = address_of(packet.source, packet.plane);
  const auto destination = address_of(packet.destination, packet.plane);
  const auto bytes = static_cast<uint32_t>(tcp.wire_bytes());
  const trace::IpHeader ip =
      ip_header(packet, source, destination, trace::kProtocolTcp, bytes + packet.payload);
  append_ip(out.bytes, ip);
  const size_t begin = out.bytes.size();
  const uint32_t client = kTcpClientPort + packet.flow % kTcpClientPorts;
  const uint32_t server = kTcpServerPort + packet.flow / kTcpClientPorts;
  const bool data = packet.kind == PacketKind::kData;
  append_be16(out.bytes, data ? client : server);
  append_be16(out.bytes, data ? server : client);
  append_be32(out.bytes, tcp.sequence + 1);
  append_be32(out.bytes, tcp.acknowledgement + 1);
  out.bytes.push_back(static_cast<std::byte>(bytes / 4 << 4));
  out.bytes.push_back(std::byte{tcp_flags(tcp)});
  const uint32_t window = std::min<uint32_t>(tcp.receive_window >> kTcpWindowShift, UINT16_MAX);
  append_be16(out.bytes, data ? UINT16_MAX : window);
  append_be16(out.bytes, 0);
  append_be16(out.bytes, 0);  // urgent pointer
  append_tcp_options(tcp, out.bytes);
  // Bytes that are not there count as zeros.
  trace::put_be16(out.bytes, begin + 16, transport_checksum(ip, std::span(out.bytes).subspan(begin)));
  append_payload(packet.payload, 0, limit, out);
}

}  // namespace

void make_frame(WireProtocol protocol, const Topology& topology, uint32_t link, const Packet& packet,
                std::span<const std::byte> header, uint32_t limit, Frame& out) {
  const LinkSpec& spec = topology.links[link];
  out.bytes.clear();
  if (packet.kind == PacketKind::kPause) {
    append_pause(spec, packet, out.bytes);
    out.original_bytes = static_cast<uint32_t>(out.bytes.size());
    return;
  }
  append_mac(out.bytes, spec.to);
  append_mac(out.bytes, spec.from);
  append_be16(out.bytes, kEtherTypeIpv4);
  switch (protocol) {
    case WireProtocol::kMroce:
      append_mroce(packet, header, limit, out);
      break;
    case WireProtocol::kRocev2:
      append_rocev2(packet, header, limit, out);
      break;
    case WireProtocol::kTcp:
      append_tcp(packet, header, limit, out);
      break;
  }
  const uint32_t ip_bytes = std::to_integer<uint32_t>(out.bytes[kEthernetBytes + 2]) << 8 |
                            std::to_integer<uint32_t>(out.bytes[kEthernetBytes + 3]);
  out.original_bytes = static_cast<uint32_t>(kEthernetBytes) + ip_bytes;
}

}  // namespace mroce::sim
