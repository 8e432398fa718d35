#include "core/mroce/rate_hints.h"

#include <algorithm>
#include <limits>

#include "core/mroce/engine_impl.h"

namespace mroce {

namespace {
constexpr double kTarget = 0.995;    // of the port's rate
constexpr double kMarkWeight = 0.2;  // how much of it marks take away
constexpr double kMarkGain = 1.0 / 8;
constexpr double kGrowth = 1.1;  // over what a sender used, if it did not use its share
constexpr double kUsed = 0.94;   // of it; above 1 / kGrowth, or the share would jump to and fro
constexpr double kMeasuredPackets = 32;
constexpr double kLeast = 1.0 / 8;   // of the equal share: to grow from
constexpr double kFlight = 1.5;      // rate x RTT in flight
constexpr double kTellAgain = 1.25;  // an idle sender hears of a change by this factor
constexpr uint64_t kFewPackets = 8;  // a backlog that is a demand, not a flood
constexpr Nanos kInterval = micros(20);
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double seconds_of(Nanos time) {
  return static_cast<double>(time.count()) * 1e-9;
}
}  // namespace

void water_fill(double capacity, std::vector<double>& demands) {
  std::vector<double> sorted = demands;
  std::sort(sorted.begin(), sorted.end());
  double left = capacity;
  double level = kInfinity;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double equal = left / static_cast<double>(sorted.size() - i);
    if (sorted[i] >= equal) {
      level = equal;
      break;
    }
    left -= sorted[i];
  }
  for (double& demand : demands) demand = std::min(demand, level);
}

// ---- receiving side

void Engine::Impl::note_demand(Time now, Connection& c, uint32_t port, uint64_t cpsn, uint64_t backlog,
                               uint32_t bytes, bool marked) {
  if (!config.rate_hints || port >= config.ports.size() || config.ports[port].rate_bps == 0) return;
  if (shares.size() < config.ports.size()) shares.resize(config.ports.size());
  if (c.demands.size() < config.ports.size()) c.demands.resize(config.ports.size());
  PortShare& share = shares[port];
  Demand& demand = c.demands[port];
  ++share.packets;
  share.marked += marked ? 1u : 0u;
  demand.bytes += bytes;
  demand.last = now;
  if (cpsn < demand.cpsn) return;
  demand.cpsn = cpsn;
  demand.backlog = backlog;
  if (backlog == 0) {
    set_active(now, c, port, false);
  } else if (!demand.active) {
    set_active(now, c, port, true);
  }
}

void Engine::Impl::set_active(Time now, Connection& c, uint32_t port, bool active) {
  Demand& demand = c.demands[port];
  if (demand.active == active) return;
  PortShare& share = shares[port];
  demand.active = active;
  demand.measured = -1;
  demand.bytes = 0;
  demand.from = now;
  share.stale = true;
  if (active) {
    // Who comes first hears of a whole port, unless those that begin with it are given a round trip to show
    // up.
    if (share.members.empty()) share.settles = now + std::max<Nanos>(2 * c.rtt.srtt, kInterval);
    share.members.push_back(c.index);
  } else {
    std::erase(share.members, c.index);
  }
}

void Engine::Impl::leave_ports(Connection& c) {
  for (uint32_t port = 0; port < c.demands.size(); ++port) set_active(Time{}, c, port, false);
}

// How many might send: connections whose peer has a stream open towards us.
void Engine::Impl::count_stream(Connection& c, int change) {
  const bool before = c.rx_streams != 0;
  c.rx_streams = static_cast<uint32_t>(static_cast<int>(c.rx_streams) + change);
  const bool after = c.rx_streams != 0;
  if (before == after) return;
  possible_senders = after ? possible_senders + 1 : possible_senders - 1;
  if (config.rate_hints) tell_idle_senders();
}

double Engine::Impl::port_capacity(uint32_t port) const {
  const double rate = static_cast<double>(config.ports[port].rate_bps) / 8;
  return kTarget * rate * (1 - kMarkWeight * shares[port].ce);
}

double Engine::Impl::start_share(uint32_t port) const {
  return possible_senders < 2 ? kInfinity : port_capacity(port) / possible_senders;
}

// Those that wait with an old idea of what they may begin with hear of it without being asked.
void Engine::Impl::tell_idle_senders() {
  if (shares.size() < config.ports.size()) shares.resize(config.ports.size());
  for (const auto& each : connections) {
    Connection* const c = each.get();
    if (c == nullptr || !c->alive() || c->rx_streams == 0) continue;
    if (c->demands.size() < config.ports.size()) c->demands.resize(config.ports.size());
    uint64_t told = 0;  // ports: one path tells for all of them
    for (RxPath& path : c->rx_paths) {
      if (!path.seen || config.ports[path.port].rate_bps == 0 || (told >> path.port & 1) != 0) continue;
      told |= uint64_t{1} << path.port;
      const Demand& demand = c->demands[path.port];
      const double start = start_share(path.port);
      const bool old =
          demand.start == 0 || start > demand.start * kTellAgain || start * kTellAgain < demand.start;
      if (demand.active || !old) continue;
      path.news = true;
      c->ack_at = std::min(c->ack_at, c->last_heard);
      want_tx(*c);
    }
  }
}

void Engine::Impl::allocate(Time now, uint32_t port) {
  PortShare& share = shares[port];
  const Nanos passed = now - share.computed;
  const bool interval = passed >= kInterval;
  if (!share.stale && !interval) return;
  if (interval) {
    std::vector<uint32_t> silent;
    for (const uint32_t index : share.members) {
      const Connection& c = *connections[index];
      // One packet in the time that the share gives it, and some more.
      const double packet_s = c.full_packet() / std::max(1.0, c.demands[port].share);
      const Nanos patience =
          std::max<Nanos>(2 * c.rtt.srtt, kInterval) + Nanos{static_cast<int64_t>(4e9 * packet_s)};
      if (now - c.demands[port].last > patience) silent.push_back(index);
    }
    for (const uint32_t index : silent) set_active(now, *connections[index], port, false);
    if (share.packets != 0) {
      share.ce += kMarkGain * (static_cast<double>(share.marked) / share.packets - share.ce);
      share.packets = share.marked = 0;
    }
  }
  const double capacity = port_capacity(port);
  const double equal = capacity / static_cast<double>(std::max<size_t>(1, share.members.size()));
  std::vector<double> demands;
  demands.reserve(share.members.size());
  for (const uint32_t index : share.members) {
    Connection& c = *connections[index];
    Demand& demand = c.demands[port];
    const double measured_s = seconds_of(now - demand.from);
    // Enough packets to measure by.
    if (now - demand.from >= kInterval && measured_s * demand.share >= kMeasuredPackets * c.full_packet()) {
      demand.measured = static_cast<double>(demand.bytes) / measured_s;
      demand.bytes = 0;
      demand.from = now;
    }
    double wanted = kInfinity;
    if (demand.backlog <= kFewPackets) {
      wanted = static_cast<double>(demand.backlog * c.full_packet()) / seconds_of(kInterval);
    }
    if (demand.measured >= 0 && demand.measured < kUsed * demand.share) {
      wanted = std::min(wanted, kGrowth * demand.measured);
    }
    demands.push_back(std::max(wanted, kLeast * equal));
  }
  water_fill(capacity, demands);
  for (size_t i = 0; i < demands.size(); ++i) connections[share.members[i]]->demands[port].share = demands[i];
  share.stale = false;
  if (interval) share.computed = now;
}

uint16_t Engine::Impl::hint_for(Time now, Connection& c, const RxPath& path) {
  const uint32_t port = path.port;
  if (!config.rate_hints || port >= config.ports.size() || config.ports[port].rate_bps == 0) return 0;
  if (shares.size() < config.ports.size()) shares.resize(config.ports.size());
  if (c.demands.size() < config.ports.size()) c.demands.resize(config.ports.size());
  allocate(now, port);
  Demand& demand = c.demands[port];
  double rate = 0;
  if (demand.active && now >= shares[port].settles) {
    rate = shares[port].members.size() < 2 ? kInfinity : demand.share;
  } else {
    rate = demand.start = start_share(port);
  }
  return wire::encode_rate(rate == kInfinity ? wire::kUnlimitedRate
                                             : static_cast<uint64_t>(std::max(1.0, rate)));
}

// ---- sending side

void Engine::Impl::on_hint(Connection& c, const Path& p, uint16_t code) {
  if (!config.rate_hints || code == 0) return;
  const uint64_t rate = wire::decode_rate(code);
  PlaneHint& hint = c.hints[p.plane];
  hint.limited = rate != wire::kUnlimitedRate;
  hint.rate = static_cast<double>(rate);
}

// Bytes that the hint lets the plane have under way; a packet is always possible.
uint64_t Engine::Impl::hinted_flight(const Connection& c, const PlaneHint& hint) const {
  const Nanos rtt = c.rtt.valid ? c.rtt.min : kInterval;
  const double bytes = kFlight * hint.rate * seconds_of(rtt);
  return std::max<uint64_t>(c.full_packet(), static_cast<uint64_t>(bytes));
}

// May a packet go out on this plane now? If it is only too early, `later` becomes the time at which it may.
bool Engine::Impl::hint_allows(Time now, Connection& c, uint32_t plane, Time& later) {
  PlaneHint& hint = c.hints[plane];
  if (!hint.limited) return true;
  if (hint.inflight_bytes != 0 && hint.inflight_bytes + c.full_packet() > hinted_flight(c, hint))
    return false;
  const Nanos gap{static_cast<int64_t>(1e9 * c.full_packet() / std::max(1.0, hint.rate))};
  if (hint.inflight_bytes == 0 && hint.next_send + std::max(gap, c.rtt.srtt) < now) {
    // It begins, and others may begin with it: each at its own time within the gap between its packets.
    hint.next_send = now + Nanos{static_cast<int64_t>(rng.uniform() * static_cast<double>(gap.count()))};
  }
  if (now >= hint.next_send) return true;
  later = std::min(later, hint.next_send);
  return false;
}

void Engine::Impl::note_paced(Time now, Connection& c, uint32_t plane, uint32_t bytes) {
  PlaneHint& hint = c.hints[plane];
  if (!hint.limited) {
    hint.next_send = now;
    return;
  }
  hint.next_send =
      std::max(hint.next_send, now) +
      Nanos{static_cast<int64_t>(1e9 * (bytes + config.link_overhead) / std::max(1.0, hint.rate))};
}

// Packets that wait behind the one that is being encoded, as far as it is cheap to know.
uint64_t Engine::Impl::backlog_of(const Connection& c, const QueuePair& qp) const {
  constexpr uint64_t kMessages = 4;
  const TxHalf& tx = qp.tx;
  uint64_t packets = c.rtx.size() + (c.ready.size() > 1 ? c.ready.size() - 1 : 0);
  for (uint64_t msn = tx.next; msn != tx.sq.end() && msn < tx.next + kMessages; ++msn) {
    const SendWqe& wqe = tx.sq[msn];
    const uint32_t left = wqe.wants_response() ? 0 : wqe.length - wqe.next_offset;
    packets += std::max<uint64_t>(1, (left + c.payload_mtu - 1) / c.payload_mtu);
  }
  return packets;
}

}  // namespace mroce
