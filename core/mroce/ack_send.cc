// Acknowledging: what an ACK says, and how full this host is.
//
// An ACK carries the connection's CACK and limit, up to four path blocks (those with news
// first; then those whose news went out lately, because that ACK may be lost), NAKs, credits and port status.
// It may leave by any healthy path. Nothing in it depends on the order of streams.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

void Engine::Impl::schedule_ack(Connection& c, Time at) {
  if (at < c.ack_at) c.ack_at = at;
  want_tx(c);
}

// Host penalty: a receive socket that overflows is congestion in this host, which no switch marks. Grows by a
// quarter of what is left at most once a millisecond, shrinks by an eighth each 5 ms.
void Engine::Impl::note_overflow(Time now, uint64_t datagrams) {
  if (datagrams == 0) return;
  counters.socket_overflows += datagrams;
  current_penalty(now);
  if (penalty != 0 && now - penalty_changed < millis(1)) return;
  penalty = static_cast<uint8_t>(std::min(127, penalty + (127 - penalty) / 4 + 1));
  penalty_changed = now;
}

uint8_t Engine::Impl::current_penalty(Time now) {
  while (penalty != 0 && now - penalty_changed >= millis(5)) {
    penalty = static_cast<uint8_t>(penalty - penalty / 8 - 1);
    penalty_changed += millis(5);
  }
  return penalty;
}

namespace {
void add_block(Time now, RxPath& path, uint8_t id, uint16_t rate, uint8_t repeats, wire::Ack& ack) {
  wire::PathBlock& block = ack.blocks[ack.nblocks++];
  block.path = id;
  block.rate = rate;
  block.largest = static_cast<uint32_t>(path.largest);
  block.vector = path.vector;
  block.rx_count = path.rx_count;
  block.ce_count = path.ce_count;
  block.ts_echo = path.ts_echo;
  block.ack_delay = static_cast<uint16_t>(std::clamp<int64_t>((now - path.arrived).count() / 64, 0, 65535));
  path.repeats = path.news ? repeats : static_cast<uint8_t>(path.repeats - 1);
  path.news = false;
}

bool has_block(const wire::Ack& ack, size_t path) {
  return std::any_of(ack.blocks.begin(), ack.blocks.begin() + ack.nblocks,
                     [path](const wire::PathBlock& block) { return block.path == path; });
}
}  // namespace

bool Engine::Impl::build_ack(Time now, Connection& c, TxBurst& out) {
  wire::Ack ack;
  for (size_t i = 0; i < c.rx_paths.size() && ack.nblocks < wire::kMaxPathBlocks; ++i) {
    if (c.rx_paths[i].seen && c.rx_paths[i].news)
      add_block(now, c.rx_paths[i], static_cast<uint8_t>(i), hint_for(now, c, c.rx_paths[i]),
                config.block_repeats, ack);
  }
  for (size_t i = 0; i < c.rx_paths.size() && ack.nblocks < wire::kMaxPathBlocks; ++i) {
    if (!c.rx_paths[i].news && c.rx_paths[i].repeats > 0 && !has_block(ack, i)) {
      add_block(now, c.rx_paths[i], static_cast<uint8_t>(i), hint_for(now, c, c.rx_paths[i]),
                config.block_repeats, ack);
    }
  }
  const bool more =
      std::any_of(c.rx_paths.begin(), c.rx_paths.end(), [](const RxPath& p) { return p.seen && p.news; });
  ack.cack = static_cast<uint32_t>(c.received.base());
  ack.cpsn_limit = static_cast<uint32_t>(c.received.limit());
  ack.host_penalty = current_penalty(now);
  for (const wire::Nak& nak : c.naks) ack.naks[ack.nnaks++] = nak;
  c.naks.clear();
  while (!c.credit_dirty.empty() && ack.ncredits < wire::kMaxAckCredits) {
    QueuePair* qp = stream_qp(c.credit_dirty.front());
    c.credit_dirty.pop();
    if (qp == nullptr || !qp->rx.open || qp->rx.conn != &c || !qp->rx.credit_dirty) continue;
    qp->rx.credit_dirty = false;
    ack.credits[ack.ncredits++] = {static_cast<uint16_t>(qp->rx.peer_qpn & 0xffff), qp->rx.granted,
                                   static_cast<uint16_t>(qp->rx.incarnation)};
  }
  while (!c.reclaim.empty() && ack.nreclaims < ack.reclaims.size()) {
    QueuePair* qp = stream_qp(c.reclaim.front());
    c.reclaim.pop();
    if (qp == nullptr || !qp->rx.open || qp->rx.conn != &c) continue;
    ack.reclaims[ack.nreclaims++] = static_cast<uint16_t>(qp->rx.peer_qpn & 0xffff);
  }
  if (c.port_status_repeats > 0) {
    --c.port_status_repeats;
    ack.has_port_status = true;
    ack.port_status.sequence = c.port_status_sequence;
    const std::vector<uint32_t> ports = plane_ports(c.port, c.remote.ip);
    for (size_t i = 0; i < ports.size(); ++i) {
      if (config.ports[ports[i]].up) ack.port_status.mask |= 1u << i;
    }
  }
  if (!more) c.ack_pending = 0;
  c.ack_at = more || !c.credit_dirty.empty() || !c.reclaim.empty() ? now : kNever;
  // A peer that keeps sending what we have does not hear us on this path.
  if (c.counters.duplicates - c.duplicates_at_rotation >= 8) {
    c.duplicates_at_rotation = c.counters.duplicates;
    ++c.ack_path;
  }
  Path& p = *any_path(c);
  ++c.counters.acks_sent;
  single(out, c, p, wire::encode_ack(common(now, c, p, wire::Type::kAck), ack, {scratch_space(4096), 4096}));
  return true;
}

}  // namespace mroce
