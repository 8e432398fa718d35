// The bytes of a packet, made anew for each transmission: header, payload from where the work request points,
// trailer.
//
// Headers and small payloads are written to scratch; larger payloads are slices of the application's memory,
// which is not copied. In mode 2 all payloads are encrypted into scratch (security.cc).
#include <algorithm>
#include <cstring>

#include "core/mroce/engine_impl.h"
#include "core/rdma/sge_pieces.h"

// For the parts of encode_packet(): each packet goes through them, and a call costs as much as what they do.
#define MROCE_HOT [[gnu::always_inline]] inline

namespace mroce {

using wire::Common;
using wire::DataOp;
using wire::NakCode;

namespace {
constexpr uint32_t kStageBelow = 257;  // payloads below this are copied, so that their CRC holds whatever the
                                       // application does to the memory meanwhile
}

std::byte* Engine::Impl::scratch_space(size_t bytes) {
  MROCE_ASSERT(scratch_used + bytes <= scratch.size());
  return scratch.data() + scratch_used;
}

void Engine::Impl::add_scratch(size_t bytes) {
  add_slice(scratch.data() + scratch_used, bytes);
  scratch_used += bytes;
}

void Engine::Impl::add_slice(const std::byte* data, size_t bytes) {
  if (bytes == 0) return;
  if (!slices.empty() && slices.back().data + slices.back().length == data) {
    slices.back().length += bytes;
  } else {
    slices.push_back({data, bytes});
  }
}

MROCE_HOT DataOp Engine::Impl::op_of(const Connection& c, const TxPacket& packet) const {
  switch (packet.kind) {
    case TxPacket::Kind::kRequest:
      return op_for(stream_qp(packet.stream)->tx.sq[packet.owner].opcode);
    case TxPacket::Kind::kResponse:
      return stream_qp(packet.stream)->rx.responses[packet.owner].op;
    case TxPacket::Kind::kControl:
      return c.control[packet.owner].op;
    case TxPacket::Kind::kVoid:
      return DataOp::kVoid;
  }
  return DataOp::kVoid;
}

uint32_t Engine::Impl::wire_bytes(const Connection& c, const TxPacket& packet) const {
  return static_cast<uint32_t>(wire::header_bytes(op_of(c, packet)) + packet.length + c.trailer_bytes);
}

// Checks that the bytes of a packet can be had. If not, the work request fails (or the response turns into an
// error response) and the packet becomes a VOID; it is sent all the same. False: nothing to send for this
// CPSN any more.
bool Engine::Impl::prepare_packet(Time now, Connection& c, uint64_t cpsn) {
  TxPacket& packet = c.tx[cpsn];
  if (packet.kind == TxPacket::Kind::kRequest && packet.length != 0) {
    QueuePair& qp = *stream_qp(packet.stream);
    const SendWqe& wqe = qp.tx.sq[packet.owner];
    if (!wqe.is_inline && !readable(qp, packet)) {
      const uint16_t stream = packet.stream;
      fail_request(now, qp, packet.owner, WcStatus::kLocProtErr);
      MROCE_ASSERT(stream_qp(stream) != nullptr);
    }
  } else if (packet.kind == TxPacket::Kind::kResponse && packet.length != 0) {
    QueuePair& qp = *stream_qp(packet.stream);
    Response& response = qp.rx.responses[packet.owner];
    if (!mrs.translate(response.rkey, qp.pd, response.va + packet.offset, packet.length,
                       access::kRemoteRead)) {
      response.status = NakCode::kAccess;
    }
    if (response.status != NakCode::kNone) packet.length = 0;
  }
  return c.tx[cpsn].state != TxPacket::State::kAccepted;
}

bool Engine::Impl::readable(QueuePair& qp, const TxPacket& packet) {
  if (config.virtual_payload) return true;  // there is nothing to read
  const SendWqe& wqe = qp.tx.sq[packet.owner];
  return for_each_piece(qp.sges_of(packet.owner).first(wqe.nsges), packet.offset, packet.length,
                        [&](uint64_t addr, uint32_t length, uint32_t lkey) {
                          return mrs.translate(lkey, qp.pd, addr, length, 0).has_value();
                        });
}

void Engine::Impl::fill_request(const TxPacket& packet, QueuePair& qp, Common& h, wire::Data& d) {
  const SendWqe& wqe = qp.tx.sq[packet.owner];
  d.stream = static_cast<uint16_t>(qp.attr.dest_qpn & 0xffff);
  d.op = op_for(wqe.opcode);
  d.msn = static_cast<uint32_t>(packet.owner);
  d.offset = packet.offset;
  d.length = wqe.length;
  d.va = wqe.remote_addr;
  d.rkey = wqe.rkey;
  d.rqsn = wqe.rqsn;
  d.imm = wqe.imm;
  d.rdslot = static_cast<uint32_t>(packet.owner);
  d.operand = wqe.opcode == Opcode::kCompareSwap ? wqe.swap : wqe.compare_or_add;
  d.compare = wqe.compare_or_add;
  d.backlog = wire::encode_backlog(backlog_of(*qp.tx.conn, qp));
  if (wqe.wants_response() || packet.offset + packet.length == wqe.length) h.flags |= wire::flag::kLast;
  if ((wqe.flags & send_flag::kSolicited) != 0) h.flags |= wire::flag::kSolicited;
}

void Engine::Impl::fill_response(const TxPacket& packet, QueuePair& qp, wire::Data& d) {
  const Response& response = qp.rx.responses[packet.owner];
  d.stream = static_cast<uint16_t>(qp.rx.peer_qpn & 0xffff);
  d.op = response.op;
  d.offset = packet.offset;
  d.length = response.length;
  d.rdslot = response.rdslot;
  d.operand = response.original;
  d.status = response.status;
  d.backlog = wire::encode_backlog(
      (response.length - std::min(response.length, response.next_offset) + qp.rx.conn->payload_mtu - 1) /
      qp.rx.conn->payload_mtu);
}

// Adds the payload of a request behind its header; returns the CRC so far. Staged payloads land in scratch.
uint32_t Engine::Impl::gather_request(const TxPacket& packet, QueuePair& qp, PayloadWay way, uint32_t crc) {
  const SendWqe& wqe = qp.tx.sq[packet.owner];
  if (config.virtual_payload) return add_payload(nullptr, packet.length, way, crc);
  if (wqe.is_inline) return add_payload(qp.inline_of(packet.owner) + packet.offset, packet.length, way, crc);
  for_each_piece(qp.sges_of(packet.owner).first(wqe.nsges), packet.offset, packet.length,
                 [&](uint64_t addr, uint32_t length, uint32_t lkey) {
                   const auto host = mrs.translate(lkey, qp.pd, addr, length, 0);
                   crc = add_payload(memory.fetch(*host, length), length, way, crc);
                   return true;
                 });
  return crc;
}

uint32_t Engine::Impl::gather_response(const TxPacket& packet, QueuePair& qp, PayloadWay way, uint32_t crc) {
  if (config.virtual_payload) return add_payload(nullptr, packet.length, way, crc);
  const Response& response = qp.rx.responses[packet.owner];
  const auto addr =
      mrs.translate(response.rkey, qp.pd, response.va + packet.offset, packet.length, access::kRemoteRead);
  return add_payload(memory.fetch(*addr, packet.length), packet.length, way, crc);
}

uint32_t Engine::Impl::add_payload(const std::byte* data, uint32_t bytes, PayloadWay way, uint32_t crc) {
  if (bytes == 0) return crc;
  if (config.virtual_payload) {
    slices.push_back({nullptr, bytes});
    return crc;
  }
  if (way == PayloadWay::kSlice) {
    add_slice(data, bytes);
  } else if (way == PayloadWay::kStage) {
    std::memcpy(scratch_space(bytes), data, bytes);
    data = scratch_space(bytes);
    add_scratch(bytes);
  } else {
    sealing->update({data, bytes}, scratch_space(bytes));
    add_scratch(bytes);
    return crc;
  }
  return wire::crc_update(crc, {data, bytes});
}

// What the header says of a packet; the queue pair that it belongs to, if it has one.
MROCE_HOT QueuePair* Engine::Impl::fill_packet(Connection& c, const TxPacket& packet, Common& h,
                                               wire::Data& d) {
  switch (packet.kind) {
    case TxPacket::Kind::kRequest: {
      QueuePair* const qp = stream_qp(packet.stream);
      fill_request(packet, *qp, h, d);
      return qp;
    }
    case TxPacket::Kind::kResponse: {
      QueuePair* const qp = stream_qp(packet.stream);
      fill_response(packet, *qp, d);
      return qp;
    }
    case TxPacket::Kind::kControl:
      d.stream = packet.stream;
      d.op = c.control[packet.owner].op;
      d.msn = c.control[packet.owner].msn;
      d.length = wire::kStreamControlBytes;
      return nullptr;
    case TxPacket::Kind::kVoid:
      d.stream = packet.stream;
      d.op = DataOp::kVoid;
      d.msn = static_cast<uint32_t>(packet.owner);
      return nullptr;
  }
  return nullptr;
}

// Adds what follows the header; returns the CRC so far (in mode 2 it means nothing).
MROCE_HOT uint32_t Engine::Impl::gather(Connection& c, const TxPacket& packet, QueuePair* qp, PayloadWay way,
                                        uint32_t crc) {
  if (packet.kind == TxPacket::Kind::kRequest) return gather_request(packet, *qp, way, crc);
  if (packet.kind == TxPacket::Kind::kResponse && packet.length != 0) {
    return gather_response(packet, *qp, way, crc);
  }
  if (packet.kind != TxPacket::Kind::kControl) return crc;
  std::byte* const body = scratch_space(wire::kStreamControlBytes);
  wire::encode_stream_control(c.control[packet.owner].body, body);
  add_scratch(wire::kStreamControlBytes);
  if (way == PayloadWay::kSeal) {
    sealing->update({body, wire::kStreamControlBytes}, body);
    return crc;
  }
  return wire::crc_update(crc, {body, wire::kStreamControlBytes});
}

// DATA whose header lies in scratch: the payload goes behind it encrypted, straight from where it lies.
void Engine::Impl::seal_data(Connection& c, const Path& p, const TxPacket& packet, QueuePair* qp,
                             wire::In header) {
  sealing = &c.security->tx.begin(true, p.id, p.sent.end());
  sealing->associate(header);
  gather(c, packet, qp, PayloadWay::kSeal, 0);
  sealing->seal(scratch_space(wire::kTagBytes));
  add_scratch(wire::kTagBytes);
  sealing = nullptr;
  ++c.security->tx_packets;
}

void Engine::Impl::encode_packet(Time now, Connection& c, Path& p, uint64_t cpsn, bool ask) {
  TxPacket& packet = c.tx[cpsn];
  const bool again = packet.transmissions > 0;
  Common h = common(now, c, p, wire::Type::kData);
  h.pseq = static_cast<uint32_t>(p.sent.end());
  if (ask) h.flags |= wire::flag::kAckRequest;
  if (again) h.flags |= wire::flag::kRetransmit;
  wire::Data d;
  d.cpsn = static_cast<uint32_t>(cpsn);
  std::byte* const start = scratch_space(wire::kMaxHeaderBytes);
  QueuePair* const qp = fill_packet(c, packet, h, d);
  const size_t header = wire::encode_data(h, d, start);
  add_scratch(header);
  if (c.security != nullptr) [[unlikely]] {
    seal_data(c, p, packet, qp, {start, header});
  } else {
    const PayloadWay way = again || packet.length < kStageBelow ? PayloadWay::kStage : PayloadWay::kSlice;
    uint32_t crc = config.virtual_payload ? 0 : wire::crc_update(wire::kCrcStart, {start, header});
    crc = gather(c, packet, qp, way, crc);
    wire::write_trailer(wire::crc_finish(crc), scratch_space(wire::kTrailerBytes));
    add_scratch(wire::kTrailerBytes);
  }
  note_sent(now, c, p, cpsn, static_cast<uint32_t>(header + packet.length + c.trailer_bytes));
}

void Engine::Impl::note_sent(Time now, Connection& c, Path& p, uint64_t cpsn, uint32_t bytes) {
  TxPacket& packet = c.tx[cpsn];
  if (packet.transmissions > 0) {
    ++p.counters.retransmitted;
    ++c.counters.retransmissions;
  } else if (packet.kind == TxPacket::Kind::kRequest || packet.kind == TxPacket::Kind::kResponse) {
    if (packet.length != 0 && c.first_data == kNever) c.first_data = now;
  }
  if (packet.transmissions < UINT8_MAX) ++packet.transmissions;
  packet.state = TxPacket::State::kFlying;
  packet.path = p.id;
  packet.pseq = p.sent.end();
  p.sent.push({cpsn, now, bytes, p.epoch, SentPacket::State::kFlying});
  ++p.inflight;
  p.inflight_bytes += bytes;
  c.hints[p.plane].inflight_bytes += bytes;
  if (config.rate_hints) note_paced(now, c, p.plane, bytes);
  c.inflight_bytes += bytes;
  ++p.cc.round_sent;
  ++p.counters.sent;
  p.counters.bytes += bytes;
  p.spread_bytes += bytes;
  ++c.counters.data_packets_sent;
  c.last_sent = now;
  if (c.pto_from == kNever) c.pto_from = now;
  note_outstanding(now, c);
}

}  // namespace mroce
