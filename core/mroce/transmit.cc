// What to send next, and everything that is not data.
//
// Order: handshake, VERSION replies, CLOSE; probes; acknowledgements; then data (burst.cc). Connections take
// turns, one burst each.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

using wire::Common;
using State = Connection::State;

void Engine::Impl::want_tx(Connection& c) {
  if (c.in_tx_queue) return;
  c.in_tx_queue = true;
  tx_queue.push(c.index);
}

bool Engine::Impl::poll_transmit(Time now, TxBurst& out) {
  reap();
  if (!overrun_cqs.empty()) [[unlikely]]
    fail_users_of_overrun_cqs(now);
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
    if (c->security != nullptr) [[unlikely]] {
      maintain_keys(now, *c);
      if (c->state == State::kClosed) continue;
    }
    const bool built = build_control(now, *c, out) || build_data_burst(now, *c, out);
    reschedule(*c);
    if (!built) continue;
    want_tx(*c);
    if (c->is_stranger()) c->unvalidated_bytes += out.total_bytes;
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
    leave_ports(*c);
    connections[index].reset();
  }
  closed.clear();
}

// Says through which path a burst goes.
void Engine::Impl::send_through(TxBurst& out, const Path& p, Ecn ecn) {
  out.port = p.port;
  out.entropy = p.entropy;
  out.to = p.to;
  out.path = p.id;
  out.ecn = ecn;
}

Common Engine::Impl::common(Time now, const Connection& c, Path& p, wire::Type type) const {
  Common h;
  h.type = type;
  h.flags = c.key_phase;
  h.path = p.id;
  h.epoch = p.epoch;
  h.dcid = c.peer_id;
  h.ts = static_cast<uint32_t>(ns_of(now) / 16);
  if (type != wire::Type::kData) h.pseq = static_cast<uint32_t>(p.other_pseq++);
  return h;
}

// Ends a datagram that was encoded at the start of scratch as the only one of a burst through `p`.
void Engine::Impl::single(TxBurst& out, Connection& c, Path& p, size_t bytes) {
  if (c.security != nullptr) [[unlikely]] {
    seal_other(c, p, scratch.data(), bytes);
  } else {
    const uint32_t crc =
        config.virtual_payload ? 0 : wire::crc_update(wire::kCrcStart, {scratch.data(), bytes});
    wire::write_trailer(wire::crc_finish(crc), scratch.data() + bytes);
  }
  scratch_used = 0;
  slices.clear();
  add_scratch(bytes + c.trailer_bytes);
  send_through(out, p, Ecn::kNotEct);
  out.segments = 1;
  out.segment_bytes = out.total_bytes = static_cast<uint32_t>(bytes + c.trailer_bytes);
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

bool Engine::Impl::build_control(Time now, Connection& c, TxBurst& out) {
  if ((c.state == State::kInitSent && now >= c.init_at) || c.init_ack_due) {
    send_init(now, c);
    single(out, c, c.paths.front(), scratch_used);
    return true;
  }
  if (c.state == State::kInitSent || !c.may_send()) return false;
  if (c.close_ack_due || (c.state == State::kClosing && now >= c.close_at)) {
    const bool answer = c.close_ack_due;
    c.close_ack_due = false;
    Path& p = *any_path(c);
    const wire::Close close{static_cast<uint32_t>(c.received.base()), c.close_reason};
    const auto type = answer ? wire::Type::kCloseAck : wire::Type::kClose;
    if (!answer) {
      c.close_at = MROCE_MUTANT(kCloseOnce) ? kNever : now + std::max<Nanos>(millis(5), 2 * c.rtt.srtt);
      ++c.ack_path;  // another path next time
    }
    single(out, c, p, wire::encode_close(common(now, c, p, type), close, {scratch_space(256), 256}));
    return true;
  }
  if (!c.alive()) return false;
  if (!c.probe_acks.empty()) {
    Path& p = *any_path(c);
    const wire::ProbeAck answer = c.probe_acks.back();
    c.probe_acks.pop_back();
    single(
        out, c, p,
        wire::encode_probe_ack(common(now, c, p, wire::Type::kProbeAck), answer, {scratch_space(256), 256}));
    return true;
  }
  if (now >= paths_due(c)) {
    for (Path& p : c.paths) {
      if (now >= p.probe_at && build_probe(now, c, p, out)) return true;
    }
  }
  if (c.limits_probe_wanted && !c.is_stranger()) return build_limits_probe(now, c, out);
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
  probe.token = draw64();
  if (c.security != nullptr) c.security->note_asked(probe.token);
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
  h.flags |= wire::flag::kAckRequest;
  ++p.counters.probes;
  note_outstanding(now, c);
  single(out, c, p, wire::encode_probe(h, probe, 0, {scratch_space(512), 512}));
  return true;
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
  if (best->state == PathState::kNew) return false;  // it has not proved yet that it leads to the peer
  if (!prepare_packet(now, c, cpsn)) return false;
  encode_packet(now, c, *best, cpsn, true);
  send_through(out, *best, config.ecn ? Ecn::kEct0 : Ecn::kNotEct);
  out.segments = 1;
  out.segment_bytes = out.total_bytes = wire_bytes(c, c.tx[cpsn]);
  return true;
}

}  // namespace mroce
