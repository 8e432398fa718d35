// Loss recovery: what an ACK tells, and what silence tells.
//
// Three rules find losses, each for a case that the others miss:
//   gap    a transmission is lost when one sent more than `reorder_threshold` later on the same path and in
//   the same
//          entropy epoch is acknowledged (the threshold grows by each proof that it was too small, and
//          decays);
//   RACK   the oldest of a path is lost when it is overdue and something sent clearly later, on any path, is
//   acknowledged
//          (RFC 8985 in spirit, across paths); two such expiries without any acknowledgement fail the path;
//   PTO    one timer for the connection: first it sends the newest packet again elsewhere and declares
//   nothing lost; from
//          the second expiry on everything older than it is lost, which also gives the window back.
// A lost packet goes out again under a fresh PSEQ, before new data, first choice the path that lost it.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

namespace {
constexpr uint32_t kMaxReorder = 64;
constexpr Nanos kDefaultPto = millis(10);  // before any round-trip sample

bool bit_of(const wire::PathBlock& block, uint64_t distance) {
  return (block.vector[distance / 64] >> (distance % 64) & 1) != 0;
}
}  // namespace

void Engine::Impl::release(Connection& c, Path& p, SentPacket& s, SentPacket::State state) {
  MROCE_ASSERT(s.state == SentPacket::State::kFlying && p.inflight > 0);
  s.state = state;
  if (state == SentPacket::State::kAcked) ++p.counters.acked;
  --p.inflight;
  p.inflight_bytes -= s.bytes;
  c.hints[p.plane].inflight_bytes -= s.bytes;
  c.inflight_bytes -= s.bytes;
}

// The peer has it. Its newest transmission leaves the window, whichever way we learned.
void Engine::Impl::accept_cpsn(Time now, Connection& c, uint64_t cpsn) {
  if (!c.tx.contains(cpsn)) return;
  TxPacket& packet = c.tx[cpsn];
  if (packet.state == TxPacket::State::kAccepted) return;
  if (packet.transmissions > 0) {
    Path& p = c.paths[packet.path];
    // It was sent once, so this path carried it, even if the ACK with the path's own block was lost.
    if (packet.transmissions == 1) note_alive(now, c, p);
    if (p.sent.contains(packet.pseq) && p.sent[packet.pseq].state == SentPacket::State::kFlying) {
      release(c, p, p.sent[packet.pseq], SentPacket::State::kAcked);
    }
  }
  packet.state = TxPacket::State::kAccepted;
  c.progressed = now;
  const TxPacket accepted = packet;
  switch (accepted.kind) {
    case TxPacket::Kind::kRequest:
      request_accepted(now, c, *stream_qp(accepted.stream), accepted.owner);
      break;
    case TxPacket::Kind::kResponse:
      response_accepted(now, *stream_qp(accepted.stream), accepted.owner);
      break;
    case TxPacket::Kind::kControl:
      on_control_accepted(now, c, c.control[accepted.owner]);
      break;
    case TxPacket::Kind::kVoid:
      if (accepted.voided_for != nullptr && --accepted.voided_for->tx.voids_open == 0) {
        finish_rewind(now, *accepted.voided_for);
      }
      break;
  }
}

void Engine::Impl::advance_tx(Connection& c) {
  while (!c.tx.empty() && c.tx.front().state == TxPacket::State::kAccepted) c.tx.pop();
}

void Engine::Impl::on_cack(Time now, Connection& c, uint64_t cack, bool& progress) {
  if (cack <= c.peer_cack) return;
  c.peer_cack = cack;
  for (uint64_t cpsn = c.tx.begin(); cpsn < cack && c.alive(); ++cpsn) {
    if (!c.tx.contains(cpsn) || c.tx[cpsn].state == TxPacket::State::kAccepted) continue;
    accept_cpsn(now, c, cpsn);
    progress = true;
  }
}

void Engine::Impl::on_ack(Time now, Connection& c, const wire::Ack& ack) {
  const uint64_t cack = wire::expand32(ack.cack, c.peer_cack);
  if (cack > c.tx.end()) {
    ++counters.drop_forged_ack;
    return;
  }
  for (uint32_t i = 0; i < ack.nblocks; ++i) {
    const wire::PathBlock& block = ack.blocks[i];
    if (block.path >= c.paths.size()) {
      ++counters.drop_path;
      return;
    }
    const Path& p = c.paths[block.path];
    if (wire::expand32(block.largest, p.sent.end()) >= p.sent.end()) {
      ++counters.drop_forged_ack;
      return;
    }
  }
  heard_from(now, c);
  c.paths_touched = true;
  ++c.counters.acks_received;
  c.peer_penalty = std::min<uint8_t>(ack.host_penalty, 127);
  if (c.peer_penalty != 0) ++c.counters.penalized_acks;
  const uint64_t limit = wire::expand32(ack.cpsn_limit, c.cpsn_limit);
  if (limit > c.cpsn_limit && limit <= cack + config.cpsn_window) c.cpsn_limit = limit;
  if (MROCE_MUTANT(kLimitIgnored)) c.cpsn_limit += 1000;
  for (uint32_t i = 0; i < ack.ncredits; ++i) {
    const wire::Credit& credit = ack.credits[i];
    QueuePair* qp = stream_qp(credit.stream);
    const bool current =
        qp != nullptr && qp->tx.conn == &c &&
        (static_cast<uint16_t>(qp->tx.incarnation) == credit.incarnation || MROCE_MUTANT(kAnyCredit));
    if (current) on_credit(now, *qp, credit.limit);
  }
  for (uint32_t i = 0; i < ack.nreclaims; ++i) {
    QueuePair* qp = stream_qp(ack.reclaims[i]);
    if (qp != nullptr && qp->tx.conn == &c) on_reclaim(now, *qp);
  }
  bool progress = false;
  for (uint32_t i = 0; i < ack.nblocks && c.alive() && !MROCE_MUTANT(kCackOnly); ++i) {
    on_block(now, c, c.paths[ack.blocks[i].path], ack.blocks[i], progress);
  }
  on_cack(now, c, cack, progress);
  for (uint32_t i = 0; i < ack.nnaks && c.alive(); ++i) on_nak(now, c, ack.naks[i]);
  if (!c.alive()) return;
  if (ack.has_port_status) on_port_status(now, c, ack.port_status);
  for (uint32_t i = 0; i < ack.nblocks; ++i) detect_gaps(now, c, c.paths[ack.blocks[i].path]);
  look_for_overdue(now, c);
  for (Path& p : c.paths) trim_sent(c, p);
  advance_tx(c);
  if (progress) c.pto_count = 0;
  if (c.inflight_bytes == 0) {
    c.pto_from = kNever;
  } else if (progress) {
    c.pto_from = now;
  }
  if (c.state == Connection::State::kDraining) drain_step(now, c);
  want_tx(c);
}

uint32_t Engine::Impl::on_block(Time now, Connection& c, Path& p, const wire::PathBlock& block,
                                bool& progress) {
  const uint64_t largest = wire::expand32(block.largest, p.sent.end());
  uint32_t newly = 0;
  const uint64_t reach =
      std::min<uint64_t>(wire::kVectorBits - 1, largest >= p.sent.begin() ? largest - p.sent.begin() : 0);
  if (p.sent.contains(largest)) {
    const SentPacket& top = p.sent[largest];
    const bool told_delay = block.ack_delay != UINT16_MAX;  // capped: a repeated block, too old for a sample
    if (top.state == SentPacket::State::kFlying && bit_of(block, 0) && told_delay) {
      const Nanos delay{std::min<int64_t>(int64_t{block.ack_delay} * 64, (now - top.sent).count())};
      p.rtt.sample(now - top.sent - delay);
      c.rtt.sample(now - top.sent - delay);
    }
    for (uint64_t distance = reach + 1; distance-- > 0 && c.alive();) {
      if (!bit_of(block, distance)) continue;
      const uint64_t pseq = largest - distance;
      SentPacket& s = p.sent[pseq];
      if (s.state == SentPacket::State::kAcked) continue;
      if (s.state == SentPacket::State::kLost) {
        ++p.counters.spurious;
        ++c.counters.spurious;
        // Only the gap rule learns from this: what a timer gave up had its acknowledgement lost, or came very
        // late.
        if (s.by_gap && !MROCE_MUTANT(kThresholdFixed)) {
          const uint64_t behind = p.any_acked && p.highest_acked > pseq ? p.highest_acked - pseq : 0;
          p.reorder_threshold = static_cast<uint32_t>(std::min<uint64_t>(
              kMaxReorder,
              std::max<uint64_t>(p.reorder_threshold + 1, std::min<uint64_t>(behind, kMaxReorder))));
          p.clean_rounds = 0;
        }
        cc_on_spurious(p);
        s.state = SentPacket::State::kAcked;
      } else {
        release(c, p, s, SentPacket::State::kAcked);
        ++newly;
      }
      if (s.sent > c.last_sent_acked) c.last_sent_acked = s.sent;
      if (!p.any_acked || pseq > p.highest_acked) p.highest_acked = pseq;
      p.any_acked = true;
      progress = true;
      accept_cpsn(now, c, s.cpsn);
    }
  }
  on_hint(c, p, block.rate);
  const uint32_t rx = block.rx_count - p.rx_count;
  const uint32_t ce = block.ce_count - p.ce_count;
  if (rx != 0 && rx < (1u << 31)) {
    p.rx_count = block.rx_count;
    p.ce_count = block.ce_count;
    p.counters.rx_reported += rx;
    if (ce != 0 && ce <= rx) {
      p.counters.ce_marked += ce;
      cc_on_ce(now, p, ce, rx);
      if (MROCE_MUTANT(kMarksCutAll)) {
        for (Path& other : c.paths) cc_on_ce(now, other, ce, rx);
      }
    }
  }
  if (newly == 0) return 0;
  note_alive(now, c, p);
  cc_on_acked(c, p, newly);
  if (p.any_acked && p.highest_acked >= p.cc.round_end) cc_round_end(now, c, p);
  return newly;
}

void Engine::Impl::lose(Time, Connection& c, Path& p, uint64_t pseq) {
  SentPacket& s = p.sent[pseq];
  release(c, p, s, SentPacket::State::kLost);
  ++p.counters.lost;
  ++c.counters.lost;
  cc_on_lost(p);
  if (!c.tx.contains(s.cpsn)) return;
  TxPacket& packet = c.tx[s.cpsn];
  if (packet.state != TxPacket::State::kFlying || packet.path != p.id || packet.pseq != pseq) return;
  packet.state = TxPacket::State::kWaiting;
  // Here again if the path is well, else on any.
  (p.usable() && p.state == PathState::kActive ? p.rtx : c.rtx).push(s.cpsn);
  want_tx(c);
}

void Engine::Impl::detect_gaps(Time now, Connection& c, Path& p) {
  if (!p.any_acked || p.highest_acked < p.scan || MROCE_MUTANT(kGapRuleOff)) return;
  const uint8_t epoch = p.sent.contains(p.highest_acked) ? p.sent[p.highest_acked].epoch : p.epoch;
  if (p.scan < p.sent.begin()) p.scan = p.sent.begin();
  bool gapless = true;
  uint64_t still_open = UINT64_MAX;
  for (uint64_t pseq = p.scan; pseq < p.highest_acked; ++pseq) {
    SentPacket& s = p.sent[pseq];
    if (s.state != SentPacket::State::kFlying) continue;
    gapless = false;
    if (s.epoch == epoch && p.highest_acked - pseq > p.reorder_threshold) {
      s.by_gap = true;
      lose(now, c, p, pseq);
    } else if (still_open == UINT64_MAX) {
      still_open = pseq;
    }
  }
  p.scan = std::min(still_open, p.highest_acked);
  if (gapless) return;
  p.clean_rounds = 0;
}

Time Engine::Impl::rack_deadline(const Connection& c, const Path& p) const {
  if (p.inflight == 0 || MROCE_MUTANT(kRackOff)) return kNever;
  const RttEstimator& rtt = p.rtt.valid ? p.rtt : c.rtt;
  if (!rtt.valid) return kNever;
  uint64_t oldest = std::max(p.scan, p.sent.begin());
  while (oldest != p.sent.end() && p.sent[oldest].state != SentPacket::State::kFlying) ++oldest;
  if (oldest == p.sent.end()) return kNever;
  const Time sent = p.sent[oldest].sent;
  const Nanos later = std::max(rtt.srtt / 4, config.reo_min);
  if (c.last_sent_acked <= sent + later) return kNever;
  return sent + rtt.srtt * 5 / 4 + 2 * rtt.var + config.reo_min;
}

// All paths, and when the next of them is due.
void Engine::Impl::look_for_overdue(Time now, Connection& c) {
  Time due = kNever;
  c.paths_touched = false;
  for (Path& p : c.paths) {
    Time rack = rack_deadline(c, p);
    if (rack <= now && detect_overdue(now, c, p)) rack = rack_deadline(c, p);
    due = std::min(due, path_due(p, rack));
  }
  if (!c.paths_touched) c.paths_due = due;
}

bool Engine::Impl::detect_overdue(Time now, Connection& c, Path& p) {
  if (rack_deadline(c, p) > now) return false;
  const RttEstimator& rtt = p.rtt.valid ? p.rtt : c.rtt;
  const Nanos late = rtt.srtt * 5 / 4 + 2 * rtt.var + config.reo_min;
  const Nanos later = std::max(rtt.srtt / 4, config.reo_min);
  uint32_t overdue = 0;
  Time newest_sent{};
  for (uint64_t pseq = std::max(p.scan, p.sent.begin()); pseq != p.sent.end(); ++pseq) {
    const SentPacket& s = p.sent[pseq];
    if (s.state != SentPacket::State::kFlying) continue;
    if (s.sent + late > now || c.last_sent_acked <= s.sent + later) break;
    newest_sent = s.sent;
    lose(now, c, p, pseq);
    ++overdue;
  }
  if (overdue != 0) on_silent_expiry(now, c, p, overdue, newest_sent);
  return overdue != 0;
}

// Judged transmissions leave the ring. Lost ones stay within reach of the vector, so that a late
// acknowledgement is seen.
void Engine::Impl::trim_sent(Connection&, Path& p) {
  while (!p.sent.empty()) {
    const SentPacket& s = p.sent.front();
    if (s.state == SentPacket::State::kFlying) break;
    if (s.state == SentPacket::State::kLost && p.sent.begin() + wire::kVectorBits >= p.sent.end()) break;
    p.sent.pop();
  }
  if (p.scan < p.sent.begin()) p.scan = p.sent.begin();
}

Nanos Engine::Impl::pto(const Connection& c) const {
  if (!c.rtt.valid) return kDefaultPto;
  // The first expiry only repeats a packet, so it need not wait for the variance, which in software is the
  // scheduler's.
  const Nanos variance = c.pto_count == 0 ? Nanos{0} : 2 * c.rtt.var;
  return std::clamp(2 * c.rtt.srtt + variance + config.ack_delay, config.pto_min, config.pto_max);
}

void Engine::Impl::on_pto(Time now, Connection& c) {
  ++c.counters.ptos;
  const Nanos base = pto(c);
  if (c.pto_count < 16 && !MROCE_MUTANT(kPtoWithoutBackoff)) ++c.pto_count;
  c.pto_from = now;
  if (c.pto_count >= 2) {
    for (Path& p : c.paths) {
      bool any = false;
      for (uint64_t pseq = std::max(p.scan, p.sent.begin()); pseq != p.sent.end(); ++pseq) {
        const SentPacket& s = p.sent[pseq];
        if (s.state != SentPacket::State::kFlying) continue;
        if (s.sent + base > now) break;
        lose(now, c, p, pseq);
        any = true;
      }
      if (any) {
        p.cc.cwnd = std::max(1.0, p.cc.cwnd / 2);
        p.cc.slow_start = true;
      }
      trim_sent(c, p);
    }
  }
  for (Path& p : c.paths) share_retransmissions(c, p);
  // Once losses are declared, the oldest go first: the newest, sent outside the window, would take what room
  // a shrunken window leaves, and the receiver may be unable to accept it before the others.
  c.tlp_wanted = c.pto_count == 1 || c.rtx.empty();
  want_tx(c);
}

}  // namespace mroce
