// Frames: packets of a run as the bytes that would be on an Ethernet link, for captures.
//
// Ethernet, IPv4 and UDP headers are made up from what the run knows; the transport's header is the one that
// the transport wrote. Payload is virtual: a frame has all headers, as many zeros for payload as the limit
// allows, and says how long it was. What ends a packet (the integrity check of mroce, the iCRC of RoCEv2) is
// computed, and is there if all that stands before it is.
//
//   MAC address   02:00 and the number of the node (hosts from 0, then switches): both ends of this link
//   IPv4 address  10.P.H.H: plane P (plus 16 for each 65,536 hosts), host H; time to live 64 less switches
//   DSCP          8 times the class; ECN as on the wire
//   TCP           header, options and flags are made up: 49152 + the low 14 bits of the flow's number as the
//                 port of its source, 5001 + the others as that of its destination; sequence numbers begin at
//                 1, timestamps are 0, windows are scaled by 2^14
//   pauses        MAC control frames of IEEE 802.1Qbb, opcode 0x0101, the longest time; resumes time 0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/trace/ip_headers.h"
#include "sim/packet.h"
#include "sim/topology.h"

namespace mroce::sim {

enum class WireProtocol : uint8_t { kMroce, kRocev2, kTcp };

struct Frame {
  static constexpr uint32_t kMaxHeaderBytes = 14 + 20 + 8 + Packet::kLargeHeader + 4;

  trace::Bytes bytes;
  uint32_t original_bytes = 0;  // without the frame check sequence, as captures have it
};

// `packet` gives the fields, `header` the bytes; it is on `link`. The frame ends with its headers or after
// `limit` bytes, whichever is longer.
void make_frame(WireProtocol protocol, const Topology& topology, uint32_t link, const Packet& packet,
                std::span<const std::byte> header, uint32_t limit, Frame& out);

}  // namespace mroce::sim
