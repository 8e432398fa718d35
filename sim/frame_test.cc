// Frames, byte by byte where another program would look.
#include "sim/frame.h"

#include <gtest/gtest.h>

#include "core/rocev2/codec.h"
#include "core/rocev2/icrc.h"
#include "core/wire/bytes.h"
#include "core/wire/codec.h"
#include "core/wire/packet.h"
#include "sim/leaf_spine.h"
#include "sim/tcp_header.h"

namespace mroce::sim {
namespace {

constexpr size_t kIp = 14;
constexpr size_t kUdp = kIp + 20;
constexpr size_t kBehindUdp = kUdp + 8;

Topology two_leaves() {
  LeafSpineSpec spec;
  spec.leaves = 2;
  spec.hosts_per_leaf = 2;
  spec.spines = 1;
  return make_leaf_spine(spec).value();
}

Packet packet_of(uint32_t payload, PacketKind kind = PacketKind::kData) {
  Packet packet;
  packet.source = 1;
  packet.destination = 2;
  packet.payload = payload;
  packet.kind = kind;
  packet.priority = 3;
  packet.ecn = Ecn::kCe;
  packet.hops = 2;
  packet.source_port = 50'000;
  return packet;
}

Frame frame_of(WireProtocol protocol, const Packet& packet, std::span<const std::byte> header,
               uint32_t limit = 0) {
  Frame frame;
  make_frame(protocol, two_leaves(), 1, packet, header, limit, frame);
  return frame;
}

uint16_t be16(const Frame& frame, size_t at) {
  return wire::load_be<uint16_t>(frame.bytes.data() + at);
}
uint32_t be32(const Frame& frame, size_t at) {
  return wire::load_be<uint32_t>(frame.bytes.data() + at);
}

TEST(Frame, has_the_nodes_of_its_link_and_the_hosts_of_its_packet) {
  const std::vector<std::byte> header(28);
  const Frame frame = frame_of(WireProtocol::kRocev2, packet_of(4096), header);
  EXPECT_EQ(be32(frame, 2), 4U);  // from host 1 to leaf 0, the fifth node
  EXPECT_EQ(be32(frame, 8), 1U);
  EXPECT_EQ(be16(frame, 12), 0x0800);
  EXPECT_EQ(frame.bytes[kIp + 1], std::byte{0x63});  // class 3, CE
  EXPECT_EQ(frame.bytes[kIp + 8], std::byte{62});
  EXPECT_EQ(be32(frame, kIp + 12), 0x0a000001U);
  EXPECT_EQ(be32(frame, kIp + 16), 0x0a000002U);
  EXPECT_EQ(be16(frame, kUdp), 50'000);
  EXPECT_EQ(be16(frame, kUdp + 2), 4791);
}

TEST(Frame, a_host_beyond_16_bits_and_a_plane_have_an_address_of_their_own) {
  Packet packet = packet_of(0, PacketKind::kAck);
  packet.source = 0x3abcd;
  packet.plane = 2;
  const std::vector<std::byte> header(16);
  EXPECT_EQ(be32(frame_of(WireProtocol::kRocev2, packet, header), kIp + 12), 0x0a32abcdU);
}

TEST(Frame, payload_is_counted_and_not_there_unless_the_limit_allows_it) {
  const std::vector<std::byte> header(28, std::byte{1});
  const Frame bare = frame_of(WireProtocol::kRocev2, packet_of(4095), header);
  EXPECT_EQ(bare.bytes.size(), kBehindUdp + 28);
  EXPECT_EQ(bare.original_bytes, kBehindUdp + 28 + 4096 + 4);  // padded to four bytes, iCRC
  EXPECT_EQ(be16(bare, kIp + 2), bare.original_bytes - kIp);
  EXPECT_EQ(be16(bare, kUdp + 4), bare.original_bytes - kUdp);
  EXPECT_EQ(frame_of(WireProtocol::kRocev2, packet_of(4095), header, 128).bytes.size(), 128U);
  const Frame whole = frame_of(WireProtocol::kRocev2, packet_of(4095), header, 9000);
  EXPECT_EQ(whole.bytes.size(), whole.original_bytes);
  // All but the last byte: the iCRC does not fit.
  const Frame less = frame_of(WireProtocol::kRocev2, packet_of(4095), header, whole.original_bytes - 1);
  EXPECT_EQ(less.bytes.size(), whole.original_bytes - 4);
}

TEST(Frame, the_icrc_of_rocev2_is_right_with_and_without_payload) {
  rocev2::Headers headers;
  headers.bth.op = rocev2::Op::kAck;
  headers.bth.dqpn = 77;
  std::vector<std::byte> bytes(rocev2::kMaxHeader);
  bytes.resize(rocev2::encode(headers, bytes.data()));
  const Frame ack = frame_of(WireProtocol::kRocev2, packet_of(0, PacketKind::kAck), bytes);
  EXPECT_EQ(ack.bytes.size(), ack.original_bytes);
  EXPECT_TRUE(rocev2::check_icrc(std::span(ack.bytes).subspan(kIp)));
  const auto decoded = rocev2::decode_whole(std::span(ack.bytes).subspan(kBehindUdp, bytes.size()));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->bth.dqpn, 77U);
  const Frame data = frame_of(WireProtocol::kRocev2, packet_of(1000), bytes, 9000);
  EXPECT_TRUE(rocev2::check_icrc(std::span(data.bytes).subspan(kIp)));
}

TEST(Frame, the_check_of_mroce_is_right_with_and_without_payload_and_stands_behind_it) {
  std::vector<std::byte> header(60, std::byte{0x5a});  // the engine leaves the last four to us
  const Frame ack = frame_of(WireProtocol::kMroce, packet_of(0, PacketKind::kAck), header);
  EXPECT_EQ(ack.bytes.size(), ack.original_bytes);
  EXPECT_EQ(ack.bytes.size(), kBehindUdp + 60);
  EXPECT_TRUE(wire::check_trailer(std::span(ack.bytes).subspan(kBehindUdp)));
  EXPECT_EQ(be16(ack, kUdp + 2), 61440);
  const Frame bare = frame_of(WireProtocol::kMroce, packet_of(4096), header);
  EXPECT_EQ(bare.bytes.size(), kBehindUdp + 60 - wire::kTrailerBytes);
  EXPECT_EQ(bare.original_bytes, kBehindUdp + 60 + 4096);
  const Frame whole = frame_of(WireProtocol::kMroce, packet_of(4096), header, 9000);
  EXPECT_EQ(whole.bytes.size(), whole.original_bytes);
  EXPECT_TRUE(wire::check_trailer(std::span(whole.bytes).subspan(kBehindUdp)));
}

TEST(Frame, tcp_has_ports_flags_blocks_and_a_checksum_of_its_own) {
  TcpHeader tcp;
  tcp.sequence = 0;
  tcp.acknowledgement = 8192;
  tcp.receive_window = 1 << 26;
  tcp.flags = TcpHeader::kEce;
  tcp.blocks = 2;
  tcp.sack[0] = {12288, 16384};
  std::vector<std::byte> room(sizeof(Packet) + Packet::kInlineHeader);
  PacketPool pool;
  Packet* const packet = pool.allocate(tcp.wire_bytes());
  tcp.write(*packet);
  packet->flow = 16384 + 5;
  packet->kind = PacketKind::kAck;
  const Frame ack = frame_of(WireProtocol::kTcp, *packet, std::as_const(*packet).header());
  const size_t behind = kUdp;
  EXPECT_EQ(ack.bytes.size(), kUdp + tcp.wire_bytes());
  EXPECT_EQ(ack.bytes.size(), ack.original_bytes);
  EXPECT_EQ(be16(ack, behind), 5002);
  EXPECT_EQ(be16(ack, behind + 2), 49157);
  EXPECT_EQ(be32(ack, behind + 8), 8193U);
  EXPECT_EQ(ack.bytes[behind + 12], std::byte{13 << 4});  // 52 bytes
  EXPECT_EQ(ack.bytes[behind + 13], std::byte{0x50});     // ACK, ECE
  EXPECT_EQ(be16(ack, behind + 14), (1 << 26) >> 14);
  EXPECT_EQ(be32(ack, behind + 36), 12289U);
  const trace::IpHeader ip{.source = std::span(ack.bytes).subspan(kIp + 12, 4),
                           .destination = std::span(ack.bytes).subspan(kIp + 16, 4),
                           .protocol = trace::kProtocolTcp,
                           .length = static_cast<uint32_t>(tcp.wire_bytes())};
  EXPECT_EQ(trace::transport_checksum(ip, std::span(ack.bytes).subspan(kUdp)), 0);
  packet->kind = PacketKind::kData;
  packet->payload = 100;
  const Frame data = frame_of(WireProtocol::kTcp, *packet, std::as_const(*packet).header(), 9000);
  EXPECT_EQ(be16(data, behind), 49157);
  EXPECT_EQ(data.bytes.size(), data.original_bytes);
  pool.release(packet);
}

TEST(Frame, a_pause_is_a_mac_control_frame_of_its_class) {
  Packet packet = packet_of(0, PacketKind::kPause);
  packet.fabric = 1;
  const Frame pause = frame_of(WireProtocol::kMroce, packet, {});
  EXPECT_EQ(pause.bytes.size(), 60U);
  EXPECT_EQ(be32(pause, 0), 0x0180c200U);
  EXPECT_EQ(be16(pause, 4), 1);
  EXPECT_EQ(be16(pause, 12), 0x8808);
  EXPECT_EQ(be16(pause, 14), 0x0101);
  EXPECT_EQ(be16(pause, 16), 1 << 3);
  EXPECT_EQ(be16(pause, 18 + 2 * 3), 0xffff);
  EXPECT_EQ(be16(pause, 18 + 2 * 4), 0);
  packet.fabric = 0;
  const Frame resume = frame_of(WireProtocol::kMroce, packet, {});
  EXPECT_EQ(be16(resume, 16), 1 << 3);
  EXPECT_EQ(be16(resume, 18 + 2 * 3), 0);
}

}  // namespace
}  // namespace mroce::sim
