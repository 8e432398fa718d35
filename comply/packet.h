// Packet: one datagram of a run in either direction, decoded as far as it can be, and what assertions ask of
// it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comply/target.h"
#include "core/wire/codec.h"

namespace mroce::comply {

struct Packet {
  bool sent = false;  // by the tester
  Time at{};
  Bytes bytes;
  Ecn ecn = Ecn::kNotEct;
  UdpAddress from, to;
  uint8_t plane = 0;            // of the tester's address
  bool to_source_port = false;  // of received ones: not at the listening port
  bool to_stranger = false;
  std::string note;       // what the tester did with it: "lost", "damaged" …
  bool consumed = false;  // an expectation was met by it

  // What is not well formed, or of another type, is not there.
  bool good_trailer = false;  // CRC, or a tag that the connection has checked
  bool sealed = false;        // `bytes` have a tag of mode 2; what follows is what they were before
  uint32_t key_phase = 0;     // of what is sealed: key updates of the target before it
  std::optional<wire::Common> header;
  std::optional<wire::Data> data;
  Bytes payload;  // of data
  std::optional<wire::StreamControl> control;
  std::optional<wire::Ack> ack;
  std::optional<wire::Probe> probe;
  std::optional<wire::ProbeAck> probe_ack;
  std::optional<wire::Init> init;  // INIT or INIT_ACK
  std::optional<wire::Close> close;
  std::optional<wire::Reset> reset;
  std::optional<wire::VersionList> version;
  std::optional<wire::Retry> retry;

  bool is(wire::Type type) const { return header && header->type == type; }
  bool is(wire::DataOp op) const { return data && data->op == op; }
  bool has(uint8_t flag) const { return header && (header->flags & flag) != 0; }
  // The block of a path in an ACK, or nullptr.
  const wire::PathBlock* block(uint8_t path) const;
  // The NAK for a CPSN in an ACK, or nullptr.
  const wire::Nak* nak(uint32_t cpsn) const;
  const wire::Credit* credit(uint16_t stream) const;
};

Packet decode(Bytes bytes);
// Of a datagram of mode 2: what it says once it is opened. `plain` has no trailer; nothing: no key opens it.
void decode_opened(Packet& packet, const std::optional<Bytes>& plain);
// One line without time and direction: "DATA p1 e0 pseq 7 cpsn 9 WRITE stream 16 msn 0 4096+1024 of 8192 AR".
std::string describe(const Packet& packet);

// Is PSEQ `pseq` among those that the block says have come?
bool says_received(const wire::PathBlock& block, uint32_t pseq);

using Match = std::function<bool(const Packet&)>;
Match type(wire::Type type);
Match op(wire::DataOp op);
Match operator&&(Match a, Match b);
Match on_path(uint8_t path);

// The trailer of mode 0 is appended to, or made right in, a datagram.
void append_trailer(Bytes& datagram);
void fix_trailer(Bytes& datagram);

}  // namespace mroce::comply
