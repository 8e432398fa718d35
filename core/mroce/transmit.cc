// What to send next, and where: bursts.
//
// Order: handshake, VERSION replies, CLOSE; probes; acknowledgements; then data. The path of a data burst is
// chosen here, at the last moment, so that the newest feedback counts: among usable paths with room, those
// with retransmissions of their own first, then the emptiest relative to its window, ties in turn. A burst
// carries lost packets before new ones, and streams take turns by deficit round robin. All packets of a burst
// but the last have one size.
#include <algorithm>
#include <cstring>

#include "core/mroce/engine_impl.h"
#include "core/rdma/sge_pieces.h"

namespace mroce {

using wire::Common;
using wire::DataOp;
using wire::NakCode;
using State = Connection::State;

namespace {
constexpr uint32_t kQuantum = 65536;   // bytes of a stream's turn
constexpr uint32_t kStageBelow = 257;  // payloads below this are copied, so that their CRC holds whatever the
                                       // application does to the memory meanwhile

void send_through(TxBurst& out, const Path& p, Ecn ecn) {
  out.port = p.port;
  out.entropy = p.entropy;
  out.to = p.to;
  out.path = p.id;
  out.ecn = ecn;
}
}  // namespace

void Engine::Impl::want_tx(Connection& c) {
  if (c.in_tx_queue) return;
  c.in_tx_queue = true;
  tx_queue.push(c.index);
}

bool Engine::Impl::poll_transmit(Time now, TxBurst& out) {
  reap();
  scratch_used = 0;
  slices.clear();
  out = TxBurst{};
  if (!replies.empty()) {
    reply_bytes = std::move(replies.front().bytes);
    out.port = replies.front().port;
    out.to = replies.front().to;
    replies.pop();
    add_slice(reply_bytes.data(), reply_bytes.size());
    out.segments = 1;
    out.segment_bytes = out.total_bytes = static_cast<uint32_t>(reply_bytes.size());
    out.slices = slices;
    ++counters.tx_datagrams;
    return true;
  }
  for (uint64_t tries = tx_queue.size(); tries > 0; --tries) {
    const uint32_t index = tx_queue.front();
    tx_queue.pop();
    Connection* c = connections[index].get();
    if (c == nullptr) continue;
    c->in_tx_queue = false;
    if (c->state == State::kClosed) continue;
    const bool built = build_control(now, *c, out) || build_data_burst(now, *c, out);
    reschedule(*c);
    if (!built) continue;
    want_tx(*c);
    out.slices = slices;
    counters.tx_datagrams += out.segments;
    counters.tx_bytes += out.total_bytes;
    ++counters.tx_bursts;
    return true;
  }
  return false;
}

// Connections that ended are freed only here and at the other entries, never under a caller that still holds
// them.
void Engine::Impl::reap() {
  for (const uint32_t index : closed) {
    Connection* c = connections[index].get();
    if (c == nullptr || c->state != State::kClosed) continue;
    if (finished.size() < 1024 && c->opened != Time{}) finished.push_back(stats_of(*c));
    connections[index].reset();
  }
  closed.clear();
}

// ---- building blocks
// --------------------------------------------------------------------------------------------

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

Common Engine::Impl::common(Time now, const Connection& c, Path& p, wire::Type type) const {
  Common h;
  h.type = type;
  h.path = p.id;
  h.epoch = p.epoch;
  h.dcid = c.peer_id;
  h.ts = static_cast<uint32_t>(ns_of(now) / 16);
  if (type != wire::Type::kData) h.pseq = static_cast<uint32_t>(p.other_pseq++);
  return h;
}

// Ends a datagram that was encoded at the start of scratch as the only one of a burst through `p`.
void Engine::Impl::single(TxBurst& out, Path& p, size_t bytes) {
  wire::write_trailer(wire::crc_finish(wire::crc_update(wire::kCrcStart, {scratch.data(), bytes})),
                      scratch.data() + bytes);
  scratch_used = 0;
  slices.clear();
  add_scratch(bytes + wire::kTrailerBytes);
  send_through(out, p, Ecn::kNotEct);
  out.segments = 1;
  out.segment_bytes = out.total_bytes = static_cast<uint32_t>(bytes + wire::kTrailerBytes);
}

// A path for what is not data: healthy ones in turn, else whichever there is.
Path* Engine::Impl::any_path(Connection& c) {
  for (size_t i = 0; i < c.paths.size(); ++i) {
    Path& p = c.paths[(c.ack_path + i) % c.paths.size()];
    if (p.usable() && p.state == PathState::kActive) return &p;
  }
  for (Path& p : c.paths) {
    if (p.usable()) return &p;
  }
  return &c.paths[c.ack_path % c.paths.size()];
}

// ---- everything but data
// ----------------------------------------------------------------------------------------

bool Engine::Impl::build_control(Time now, Connection& c, TxBurst& out) {
  if ((c.state == State::kInitSent && now >= c.init_at) || c.init_ack_due) {
    send_init(now, c);
    single(out, c.paths.front(), scratch_used);
    return true;
  }
  if (c.state == State::kInitSent) return false;
  if (c.close_ack_due || (c.state == State::kClosing && now >= c.close_at)) {
    const bool answer = c.close_ack_due;
    c.close_ack_due = false;
    Path& p = *any_path(c);
    const wire::Close close{static_cast<uint32_t>(c.received.base()), c.close_reason};
    const auto type = answer ? wire::Type::kCloseAck : wire::Type::kClose;
    if (!answer) {
      c.close_at = now + std::max<Nanos>(millis(5), 2 * c.rtt.srtt);
      ++c.ack_path;  // another path next time
    }
    single(out, p, wire::encode_close(common(now, c, p, type), close, {scratch_space(256), 256}));
    return true;
  }
  if (!c.alive()) return false;
  if (!c.probe_acks.empty()) {
    Path& p = *any_path(c);
    const wire::ProbeAck answer = c.probe_acks.back();
    c.probe_acks.pop_back();
    single(
        out, p,
        wire::encode_probe_ack(common(now, c, p, wire::Type::kProbeAck), answer, {scratch_space(256), 256}));
    return true;
  }
  for (Path& p : c.paths) {
    if (now >= p.probe_at && build_probe(now, c, p, out)) return true;
  }
  if (c.limits_probe_wanted) return build_limits_probe(now, c, out);
  if (c.ack_at <= now && build_ack(now, c, out)) return true;
  if (c.tlp_wanted) {
    c.tlp_wanted = false;
    if (tail_loss_probe(now, c, out)) return true;
  }
  return false;
}

// Asks for all limits again: ours may be old because the ACKs that carried them were lost. Doubles as
// keepalive.
bool Engine::Impl::build_limits_probe(Time now, Connection& c, TxBurst& out) {
  c.limits_probe_wanted = false;
  c.asked_at = now;
  wire::Probe probe;
  probe.token = rng.next();
  // More streams may be blocked than one probe can name: the next one goes on behind the last.
  for (uint32_t i = 0; i < 65536 && probe.nstreams < probe.streams.size(); ++i) {
    const QueuePair* qp = stream_qp(++c.asked_stream);
    if (!streams[c.asked_stream >> 8]) {  // a whole page without streams
      i += 0xffu - (c.asked_stream & 0xffu);
      c.asked_stream |= 0xff;
      continue;
    }
    if (qp == nullptr || qp->tx.conn != &c || !qp->tx.credit_blocked) continue;
    probe.streams[probe.nstreams++] = static_cast<uint16_t>(qp->attr.dest_qpn & 0xffff);
  }
  Path& p = *any_path(c);
  ++c.ack_path;
  Common h = common(now, c, p, wire::Type::kProbe);
  h.flags = wire::flag::kAckRequest;
  ++p.counters.probes;
  note_outstanding(now, c);
  single(out, p, wire::encode_probe(h, probe, 0, {scratch_space(512), 512}));
  return true;
}

// ---- choosing
// ---------------------------------------------------------------------------------------------------

uint32_t Engine::Impl::path_room(const Connection& c, const Path& p) const {
  if (!p.usable()) return 0;
  if (p.state == PathState::kSuspect) return p.inflight == 0 ? 1 : 0;
  const double room = std::max(1.0, std::min(p.cc.cwnd, cc_max(c))) - p.inflight;
  return room < 1.0 ? 0 : static_cast<uint32_t>(room);
}

// Bytes of a burst: small enough that every path gets two of them into the window.
uint32_t Engine::Impl::burst_limit(const Connection& c) const {
  const uint64_t share = c.window_bytes(config.window_bytes) / (2 * std::max<size_t>(1, c.paths.size()));
  return static_cast<uint32_t>(std::clamp<uint64_t>(share, c.full_packet(), kMaxBurstBytes));
}

Path* Engine::Impl::choose_path(Time, Connection& c) {
  const uint64_t packets = c.window_bytes(config.window_bytes) / c.full_packet();
  // A path that gets its next packet too late detects no gaps: keep at least two packets a path in flight.
  const size_t active =
      std::clamp<size_t>(packets / 2, std::min<size_t>(c.planes, c.paths.size()), c.paths.size());
  Path* best = nullptr;
  int best_rank = 0;
  size_t considered = 0;
  const size_t n = c.paths.size();
  for (size_t i = 0; i < n; ++i) {
    Path& p = c.paths[(c.next_path + i) % n];
    if (!p.usable()) continue;
    // What waits on a path for its retransmission has no timer: it must not be passed over.
    if (considered >= active && p.rtx.empty()) continue;
    ++considered;
    if (path_room(c, p) == 0) continue;
    // Parts of the window that are free, in 1/32: paths that are about as empty take turns by bytes, whatever
    // bursts they got.
    int rank = static_cast<int>(32 * (p.cc.cwnd - p.inflight) / p.cc.cwnd);
    if (!p.rtx.empty()) rank += 64;
    if (p.state == PathState::kDegraded) rank -= 32;
    if (best == nullptr || rank > best_rank || (rank == best_rank && p.spread_bytes < best->spread_bytes)) {
      best = &p;
      best_rank = rank;
    }
  }
  if (best != nullptr) c.next_path = static_cast<uint32_t>(best->id + 1u) % static_cast<uint32_t>(n);
  return best;
}

DataOp Engine::Impl::op_of(const Connection& c, const TxPacket& packet) const {
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
  return static_cast<uint32_t>(wire::header_bytes(op_of(c, packet)) + packet.length + wire::kTrailerBytes);
}

bool Engine::Impl::pop_waiting(Connection& c, Ring<uint64_t>& queue, uint32_t max_bytes, uint64_t& cpsn) {
  while (!queue.empty()) {
    cpsn = queue.front();
    if (!c.tx.contains(cpsn) || c.tx[cpsn].state != TxPacket::State::kWaiting) {
      queue.pop();  // accepted meanwhile
      continue;
    }
    if (wire_bytes(c, c.tx[cpsn]) > max_bytes) return false;
    queue.pop();
    return true;
  }
  return false;
}

bool Engine::Impl::next_new(Time now, Connection& c, uint32_t max_bytes, uint64_t& cpsn) {
  if (c.tx.end() >= c.cpsn_limit || c.tx.size() >= c.peer_window) return false;
  if (c.tx.empty()) c.progressed = now;
  if (c.next_control != c.control.end()) {
    while (c.next_control != c.control.end() && c.control[c.next_control].accepted) ++c.next_control;
  }
  if (c.next_control != c.control.end()) {
    if (wire::kDataBytes + wire::kStreamControlBytes + wire::kTrailerBytes > max_bytes) return false;
    TxPacket packet;
    packet.kind = TxPacket::Kind::kControl;
    packet.stream = c.control[c.next_control].peer_stream;
    packet.length = wire::kStreamControlBytes;
    packet.owner = c.next_control++;
    cpsn = c.tx.end();
    c.tx.push(packet);
    return true;
  }
  prune_ready(now, c);
  if (c.ready.empty()) return false;
  const uint32_t entry = c.ready.front();
  QueuePair& qp = *stream_qp(static_cast<uint16_t>(entry & 0xffff));
  const bool responses = (entry & Connection::kResponses) != 0;
  DataOp op{};
  uint32_t payload = 0;
  if (responses) {
    next_response_bytes(qp, c, op, payload);
  } else {
    payload = next_request_bytes(qp, c, op);
  }
  const uint32_t bytes = static_cast<uint32_t>(wire::header_bytes(op) + payload + wire::kTrailerBytes);
  if (bytes > max_bytes) return false;
  const TxPacket packet = responses ? cut_response(c, qp) : cut_request(now, c, qp);
  cpsn = c.tx.end();
  c.tx.push(packet);
  uint32_t& left = responses ? qp.rx.deficit : qp.tx.deficit;
  if (left <= bytes) {  // the turn is over
    left = kQuantum;
    c.ready.pop();
    c.ready.push(entry);
  } else {
    left -= bytes;
  }
  return true;
}

bool Engine::Impl::next_packet(Time now, Connection& c, Path& p, uint32_t max_bytes, uint64_t& cpsn) {
  if (!p.rtx.empty() && pop_waiting(c, p.rtx, max_bytes, cpsn)) return true;
  if (!p.rtx.empty()) return false;
  if (!c.rtx.empty() && pop_waiting(c, c.rtx, max_bytes, cpsn)) return true;
  if (!c.rtx.empty()) return false;
  return next_new(now, c, max_bytes, cpsn);
}

// Takes streams that have nothing to send (any more, or for now) off the head of the ring.
void Engine::Impl::prune_ready(Time now, Connection& c) {
  while (!c.ready.empty()) {
    const uint32_t entry = c.ready.front();
    QueuePair* qp = stream_qp(static_cast<uint16_t>(entry & 0xffff));
    DataOp op{};
    uint32_t payload = 0;
    if ((entry & Connection::kResponses) != 0) {
      if (qp != nullptr && qp->rx.conn == &c && qp->rx.ready) {
        if (next_response_bytes(*qp, c, op, payload)) return;
        qp->rx.ready = false;
      }
    } else if (qp != nullptr && qp->tx.conn == &c && qp->tx.ready) {
      if (has_request(now, *qp)) return;
      qp->tx.ready = false;
    }
    c.ready.pop();
  }
}

bool Engine::Impl::more_to_send(Time now, Connection& c) {
  if (!c.rtx.empty() || c.next_control != c.control.end()) return true;
  prune_ready(now, c);
  if (!c.ready.empty() || c.next_control != c.control.end()) return true;
  return std::any_of(c.paths.begin(), c.paths.end(), [](const Path& p) { return !p.rtx.empty(); });
}

// ---- data bursts
// ------------------------------------------------------------------------------------------------

bool Engine::Impl::build_data_burst(Time now, Connection& c, TxBurst& out) {
  if (!c.alive() || !more_to_send(now, c)) return false;
  const uint64_t window = c.window_bytes(config.window_bytes);
  if (c.inflight_bytes != 0 && c.inflight_bytes + c.full_packet() > window) return false;
  Path* p = choose_path(now, c);
  if (p == nullptr) return false;
  const uint64_t budget =
      std::max<uint64_t>(c.full_packet(), std::min<uint64_t>(burst_limit(c), window - c.inflight_bytes));
  const uint32_t room = std::min(path_room(c, *p), kMaxSegments);
  chosen.clear();
  uint32_t first = UINT32_MAX;
  uint64_t total = 0;
  uint64_t cpsn = 0;
  while (chosen.size() < room && next_packet(now, c, *p, first, cpsn)) {
    if (!prepare_packet(now, c, cpsn)) continue;
    const uint32_t bytes = wire_bytes(c, c.tx[cpsn]);
    if (first == UINT32_MAX) first = bytes;
    chosen.push_back(cpsn);
    total += bytes;
    if (bytes < first || total + first > budget) break;
  }
  if (chosen.empty()) return false;
  total = keep_equal_sizes(c, first);
  const bool stalls =
      path_room(c, *p) <= chosen.size() || c.inflight_bytes + total + c.full_packet() > window;
  const bool ask = stalls || !more_to_send(now, c) || c.tx.end() >= c.cpsn_limit;
  for (size_t i = 0; i < chosen.size(); ++i) {
    encode_packet(now, c, *p, chosen[i], ask && i + 1 == chosen.size());
  }
  send_through(out, *p, config.ecn ? Ecn::kEct0 : Ecn::kNotEct);
  out.segments = static_cast<uint32_t>(chosen.size());
  out.segment_bytes = first;
  out.total_bytes = static_cast<uint32_t>(total);
  return true;
}

// A request that failed while the burst was put together turned its packets into (smaller) VOIDs. The burst
// ends where sizes stop being equal; the rest waits for another. Returns the bytes that are left.
uint64_t Engine::Impl::keep_equal_sizes(Connection& c, uint32_t& first) {
  first = wire_bytes(c, c.tx[chosen.front()]);
  uint64_t total = 0;
  size_t keep = 0;
  for (bool ended = false; keep < chosen.size() && !ended; ++keep) {
    const uint32_t bytes = wire_bytes(c, c.tx[chosen[keep]]);
    if (bytes > first) break;
    ended = bytes < first;
    total += bytes;
  }
  for (size_t i = keep; i < chosen.size(); ++i) {
    c.tx[chosen[i]].state = TxPacket::State::kWaiting;
    c.rtx.push(chosen[i]);
  }
  chosen.resize(keep);
  return total;
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
  d.backlog = wire::encode_backlog(qp.tx.sq.end() - qp.tx.next);
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
}

// Adds the payload of a request behind its header; returns the CRC so far. Staged payloads land in scratch.
uint32_t Engine::Impl::gather_request(const TxPacket& packet, QueuePair& qp, bool stage, uint32_t crc) {
  const SendWqe& wqe = qp.tx.sq[packet.owner];
  if (wqe.is_inline)
    return add_payload(qp.inline_of(packet.owner) + packet.offset, packet.length, stage, crc);
  for_each_piece(qp.sges_of(packet.owner).first(wqe.nsges), packet.offset, packet.length,
                 [&](uint64_t addr, uint32_t length, uint32_t lkey) {
                   const auto host = mrs.translate(lkey, qp.pd, addr, length, 0);
                   crc = add_payload(memory.fetch(*host, length), length, stage, crc);
                   return true;
                 });
  return crc;
}

uint32_t Engine::Impl::add_payload(const std::byte* data, uint32_t bytes, bool stage, uint32_t crc) {
  if (bytes == 0) return crc;
  if (stage) {
    std::memcpy(scratch_space(bytes), data, bytes);
    data = scratch_space(bytes);
    add_scratch(bytes);
  } else {
    add_slice(data, bytes);
  }
  return wire::crc_update(crc, {data, bytes});
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
  const bool stage = again || packet.length < kStageBelow;
  QueuePair* qp = nullptr;
  switch (packet.kind) {
    case TxPacket::Kind::kRequest:
      qp = stream_qp(packet.stream);
      fill_request(packet, *qp, h, d);
      break;
    case TxPacket::Kind::kResponse:
      qp = stream_qp(packet.stream);
      fill_response(packet, *qp, d);
      break;
    case TxPacket::Kind::kControl:
      d.stream = packet.stream;
      d.op = c.control[packet.owner].op;
      d.msn = c.control[packet.owner].msn;
      d.length = wire::kStreamControlBytes;
      break;
    case TxPacket::Kind::kVoid:
      d.stream = packet.stream;
      d.op = DataOp::kVoid;
      d.msn = static_cast<uint32_t>(packet.owner);
      break;
  }
  const size_t header = wire::encode_data(h, d, start);
  add_scratch(header);
  uint32_t crc = wire::crc_update(wire::kCrcStart, {start, header});
  if (packet.kind == TxPacket::Kind::kRequest) {
    crc = gather_request(packet, *qp, stage, crc);
  } else if (packet.kind == TxPacket::Kind::kResponse && packet.length != 0) {
    const Response& response = qp->rx.responses[packet.owner];
    const auto addr =
        mrs.translate(response.rkey, qp->pd, response.va + packet.offset, packet.length, access::kRemoteRead);
    crc = add_payload(memory.fetch(*addr, packet.length), packet.length, stage, crc);
  } else if (packet.kind == TxPacket::Kind::kControl) {
    std::byte* const body = scratch_space(wire::kStreamControlBytes);
    wire::encode_stream_control(c.control[packet.owner].body, body);
    add_scratch(wire::kStreamControlBytes);
    crc = wire::crc_update(crc, {body, wire::kStreamControlBytes});
  }
  wire::write_trailer(wire::crc_finish(crc), scratch_space(wire::kTrailerBytes));
  add_scratch(wire::kTrailerBytes);
  note_sent(now, c, p, cpsn, static_cast<uint32_t>(header + packet.length + wire::kTrailerBytes));
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

// PTO: the newest packet that is not accepted goes out once more, on another path if there is one; nothing is
// declared lost.
bool Engine::Impl::tail_loss_probe(Time now, Connection& c, TxBurst& out) {
  if (c.tx.empty()) return false;
  uint64_t cpsn = c.tx.end();
  do {
    --cpsn;
  } while (cpsn != c.tx.begin() && c.tx[cpsn].state == TxPacket::State::kAccepted);
  if (c.tx[cpsn].state == TxPacket::State::kAccepted) return false;
  Path* best = nullptr;
  for (Path& p : c.paths) {
    if (!p.usable() || p.id == c.tx[cpsn].path) continue;
    if (best == nullptr || p.inflight < best->inflight) best = &p;
  }
  if (best == nullptr) best = any_path(c);
  if (!prepare_packet(now, c, cpsn)) return false;
  encode_packet(now, c, *best, cpsn, true);
  send_through(out, *best, config.ecn ? Ecn::kEct0 : Ecn::kNotEct);
  out.segments = 1;
  out.segment_bytes = out.total_bytes = wire_bytes(c, c.tx[cpsn]);
  return true;
}

}  // namespace mroce
