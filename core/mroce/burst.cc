// Bursts of data: which path, and which packets.
//
// The path of a burst is chosen here, at the last moment, so that the newest feedback counts: among usable
// paths with room, those with retransmissions of their own first, then the emptiest relative to its window;
// paths that are about as empty take turns by bytes. A burst carries lost packets before new ones, and
// streams take turns by deficit round robin. All packets of a burst but the last have one size.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

using wire::DataOp;

namespace {
constexpr uint32_t kQuantum = 65536;  // bytes of a stream's turn
}

uint32_t Engine::Impl::path_room(const Path& p, double most) const {
  if (!p.usable()) return 0;
  if (p.state == PathState::kSuspect) return p.inflight == 0 ? 1 : 0;
  const double room = std::max(1.0, std::min(p.cc.cwnd, most)) - p.inflight;
  return room < 1.0 ? 0 : static_cast<uint32_t>(room);
}

// Bytes of a burst: small enough that every path gets two of them into the window.
uint32_t Engine::Impl::burst_limit(const Connection& c) const {
  const uint64_t share = c.window_bytes(config.window_bytes) / (2 * std::max<size_t>(1, c.paths.size()));
  return static_cast<uint32_t>(
      std::max<uint64_t>(c.full_packet(), std::min<uint64_t>(share, config.max_burst_bytes)));
}

Path* Engine::Impl::choose_path(Time now, Connection& c) {
  c.paced_until = kNever;
  const uint64_t packets = c.window_bytes(config.window_bytes) / c.full_packet();
  // A path that gets its next packet too late detects no gaps: keep at least two packets a path in flight.
  const size_t active =
      std::clamp<size_t>(packets / 2, std::min<size_t>(c.planes, c.paths.size()), c.paths.size());
  Path* best = nullptr;
  int best_rank = 0;
  size_t considered = 0;
  const size_t n = c.paths.size();
  const double most = cc_max(c);
  uint32_t closed_planes = 0;
  for (uint32_t plane = 0; config.rate_hints && plane < c.planes; ++plane) {
    if (!hint_allows(now, c, plane, c.paced_until)) closed_planes |= 1u << plane;
  }
  for (size_t i = 0, at = c.next_path % n; i < n; ++i, ++at) {
    Path& p = c.paths[at < n ? at : at - n];
    if (!p.usable()) continue;
    // What waits on a path for its retransmission has no timer: it must not be passed over.
    if (considered >= active && p.rtx.empty()) continue;
    ++considered;
    if (path_room(p, most) == 0) continue;
    if ((closed_planes >> p.plane & 1) != 0) continue;
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
    if (wire::kDataBytes + wire::kStreamControlBytes + c.trailer_bytes > max_bytes) return false;
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
  const uint32_t bytes = static_cast<uint32_t>(wire::header_bytes(op) + payload + c.trailer_bytes);
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

bool Engine::Impl::build_data_burst(Time now, Connection& c, TxBurst& out) {
  if (!c.alive() || !c.may_send() || !more_to_send(now, c)) return false;
  const uint64_t window =
      MROCE_MUTANT(kWindowOfOwn) ? config.window_bytes : c.window_bytes(config.window_bytes);
  if (c.inflight_bytes != 0 && c.inflight_bytes + c.full_packet() > window) return false;
  Path* p = choose_path(now, c);
  if (p == nullptr) return false;
  const uint64_t budget = std::max<uint64_t>(
      c.full_packet(), std::min({uint64_t{burst_limit(c)}, window - c.inflight_bytes, c.stranger_room()}));
  const uint32_t free = path_room(*p, cc_max(c));
  const uint32_t room = std::min(free, kMaxSegments);
  chosen.clear();
  uint32_t first = UINT32_MAX;
  uint64_t total = 0;
  uint64_t cpsn = 0;
  const uint64_t voids = c.counters.voids;
  while (chosen.size() < room && next_packet(now, c, *p, first, cpsn)) {
    if (!prepare_packet(now, c, cpsn)) continue;
    const uint32_t bytes = wire_bytes(c, c.tx[cpsn]);
    if (first == UINT32_MAX) first = bytes;
    chosen.push_back(cpsn);
    total += bytes;
    if (bytes < first || total + first > budget) break;
  }
  if (chosen.empty()) return false;
  if (c.counters.voids != voids) total = keep_equal_sizes(c, first);
  const bool stalls = free <= chosen.size() || c.hints[p->plane].limited ||
                      c.inflight_bytes + total + c.full_packet() > window;
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

}  // namespace mroce
