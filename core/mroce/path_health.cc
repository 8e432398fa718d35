// Path health: NEW, ACTIVE, DEGRADED, SUSPECT, FAILED; probing; links.
//
// Silence on one path means failure only while packets that were sent later on other paths are acknowledged;
// if everything is silent, nothing fails and the PTO backs off. A path that fails gives its packets to the
// others, takes a new source port (a new way through the fabric, and a new epoch, so that the gap rule does
// not compare across the change), and is probed with full-size packets until three answers in a row came. A
// new path is used after one.
#include <algorithm>
#include <cmath>

#include "core/mroce/engine_impl.h"

namespace mroce {

namespace {
constexpr uint32_t kSilentPackets = 8;  // so many packets without an acknowledgement make a path SUSPECT
constexpr uint32_t kSilentTests = 3;    // and so many that were sent since then make it FAILED
constexpr uint32_t kProbesToRecover = 3;
constexpr Nanos kProbeFirst = millis(10);
constexpr Nanos kChallengeFirst =
    millis(2);                              // a new path is wanted soon, and its first challenge may be lost
constexpr Nanos kNewProbeMax = seconds(2);  // a path that never worked is asked more and more rarely
constexpr uint8_t kChallenge = 1;
constexpr uint32_t kLossPackets = 1024;  // memory of the loss estimate
constexpr uint32_t kJudgedPackets = 64;
constexpr double kDegradedLoss = 0.02;  // and four times the median of all paths
constexpr double kDegradedFactor = 4;
constexpr double kDegradedSigmas = 4;
constexpr Nanos kDegradedMost = millis(20);  // used last it may see no traffic, so no rounds
constexpr double kHealedLoss = 0.01;
constexpr uint32_t kBadRounds = 8;
}  // namespace

void Engine::Impl::set_path_state(Time, Connection& c, Path& p, PathState state) {
  if (p.state == state) return;
  p.state = state;
  p.degraded_until = kNever;
  c.paths_touched = true;
  want_tx(c);
}

// Everything that is out on the path, or waits for it, may go elsewhere.
void Engine::Impl::drain_path(Time now, Connection& c, Path& p) {
  c.paths_touched = true;
  for (uint64_t pseq = p.sent.begin(); pseq != p.sent.end(); ++pseq) {
    if (p.sent[pseq].state == SentPacket::State::kFlying) lose(now, c, p, pseq);
  }
  share_retransmissions(c, p);
  if (c.inflight_bytes == 0) c.pto_from = kNever;
}

// Lets any path take what waits to go out again on this one.
void Engine::Impl::share_retransmissions(Connection& c, Path& p) {
  while (!p.rtx.empty()) {
    c.rtx.push(p.rtx.front());
    p.rtx.pop();
  }
}

void Engine::Impl::fail_path(Time now, Connection& c, Path& p) {
  if (p.state == PathState::kFailed || p.state == PathState::kDenied) return;
  const bool never_worked = p.state == PathState::kNew;
  if (!never_worked) {
    set_path_state(now, c, p, PathState::kFailed);
    ++p.counters.failures;
  }
  drain_path(now, c, p);
  take_another_way(p);
  p.probe_flying = false;
  p.probes_answered = 0;
  p.probe_interval = kProbeFirst;
  p.probe_at = now + p.probe_interval;
  p.reorder_threshold = 0;
  want_tx(c);
}

void Engine::Impl::recover_path(Time now, Connection& c, Path& p) {
  c.paths_touched = true;
  const bool was_failed = p.state == PathState::kFailed;
  set_path_state(now, c, p, PathState::kActive);
  p.probe_at = kNever;
  p.probe_flying = false;
  p.overdue_since_ack = 0;
  uint64_t least = UINT64_MAX;
  for (const Path& other : c.paths) {
    if (&other != &p && other.usable()) least = std::min(least, other.spread_bytes);
  }
  if (least != UINT64_MAX) p.spread_bytes = std::max(p.spread_bytes, least);
  if (!was_failed) return;
  ++p.counters.recoveries;
  double sum = 0;
  uint32_t active = 0;
  for (const Path& other : c.paths) {
    if (&other == &p || !other.usable()) continue;
    sum += other.cc.cwnd;
    ++active;
  }
  p.cc.cwnd = active == 0 ? config.initial_window : std::max(2.0, sum / active / 2);
  p.cc.slow_start = true;
  p.cc.round_end = p.sent.end();
  p.rtt = RttEstimator{};
}

// The path has carried something: it is not silent.
void Engine::Impl::note_alive(Time now, Connection& c, Path& p) {
  p.overdue_since_ack = 0;
  if (p.state == PathState::kSuspect) set_path_state(now, c, p, PathState::kActive);
}

// Another way through the fabric, of which nothing is known yet.
void Engine::Impl::take_another_way(Path& p) {
  p.entropy = new_entropy();
  if (!MROCE_MUTANT(kEpochStays)) ++p.epoch;
  ++p.counters.entropy_changes;
  p.loss = 0;
  p.judged_packets = 0;
}

void Engine::Impl::leave_degraded(Time now, Connection& c, Path& p) {
  take_another_way(p);
  set_path_state(now, c, p, PathState::kActive);
}

// The median loss of the usable paths of which enough is known; none: fewer than two.
std::optional<double> Engine::Impl::usual_loss(const Connection& c) const {
  std::vector<double> losses;
  for (const Path& each : c.paths) {
    if (each.usable() && each.judged_packets >= kJudgedPackets) losses.push_back(each.loss);
  }
  if (losses.size() < 2) return std::nullopt;
  const auto middle = losses.begin() + static_cast<std::ptrdiff_t>((losses.size() - 1) / 2);
  std::nth_element(losses.begin(), middle, losses.end());
  return *middle;
}

// At the end of a round: a path that loses much more than the others is used last (DEGRADED), and if it does
// not get better, takes another way through the fabric. Chance alone must not do it: the excess is to be more
// than four standard deviations of what the usual loss would give, and more than four packets.
void Engine::Impl::judge_loss(Time now, Connection& c, Path& p) {
  if (!config.degraded_paths || p.cc.round_sent == 0) return;
  const double lost = std::min(1.0, static_cast<double>(p.cc.round_lost) / p.cc.round_sent);
  p.judged_packets = std::min(kLossPackets, p.judged_packets + p.cc.round_sent);
  p.loss += std::min(1.0, static_cast<double>(p.cc.round_sent) / p.judged_packets) * (lost - p.loss);
  if (p.state == PathState::kDegraded) {
    if (p.loss < kHealedLoss) {
      set_path_state(now, c, p, PathState::kActive);
    } else if (++p.bad_rounds >= kBadRounds) {
      leave_degraded(now, c, p);
    }
    return;
  }
  if (p.state != PathState::kActive || p.judged_packets < kJudgedPackets || p.loss <= kDegradedLoss) return;
  const std::optional<double> usual = usual_loss(c);
  if (!usual || p.loss <= kDegradedFactor * *usual) return;
  const double packets = p.judged_packets;
  const double chance = std::sqrt(packets * *usual * (1 - *usual));
  if ((p.loss - *usual) * packets <= kDegradedSigmas * (1 + chance)) return;
  p.bad_rounds = 0;
  set_path_state(now, c, p, PathState::kDegraded);
  p.degraded_until = now + kDegradedMost;
}

// The lost tail of a burst on a path that works is overdue, too, but alone; a path that is dead loses all
// that it was given. Bursts may also wait together in a queue of either host while its processor is busy, so
// what was sent before the path became SUSPECT does not count twice: single packets that are sent since then,
// one after the other, decide.
void Engine::Impl::on_silent_expiry(Time now, Connection& c, Path& p, uint32_t overdue, Time newest_sent) {
  p.overdue_since_ack += overdue;
  const bool well = p.state == PathState::kActive || p.state == PathState::kDegraded;
  if (well && p.overdue_since_ack >= kSilentPackets && !MROCE_MUTANT(kNeverSuspect)) {
    set_path_state(now, c, p, PathState::kSuspect);
    share_retransmissions(c, p);
    p.suspect_since = now;
    p.silent_tests = 0;
    return;
  }
  if (p.state != PathState::kSuspect || newest_sent < p.suspect_since) return;
  if (++p.silent_tests < kSilentTests) return;
  const bool alone =
      std::none_of(c.paths.begin(), c.paths.end(), [&](const Path& o) { return &o != &p && o.usable(); });
  if (!alone) fail_path(now, c, p);
}

bool Engine::Impl::build_probe(Time now, Connection& c, Path& p, TxBurst& out) {
  c.paths_touched = true;
  if (!p.link_up || !p.peer_up) {
    p.probe_at = kNever;  // the link event starts it again
    return false;
  }
  if (p.probe_flying) {  // the last one was not answered
    p.probes_answered = 0;
    const Nanos most = p.state == PathState::kNew ? kNewProbeMax : config.probe_max;
    p.probe_interval = std::min(most, p.probe_interval * 2);
  } else {
    // The only sample so far may be the handshake's, which contains whatever kept the peer from answering it.
    const Nanos first =
        p.state == PathState::kNew ? std::clamp(4 * c.rtt.srtt, kChallengeFirst, kProbeFirst) : kProbeFirst;
    p.probe_interval = std::max(first, p.probe_interval);
  }
  p.probe_flying = true;
  p.probe_token = draw64();
  p.probe_sent = now;
  p.probe_at = now + p.probe_interval;
  ++p.counters.probes;
  wire::Probe probe;
  probe.token = p.probe_token;
  probe.kind = kChallenge;
  const wire::Common h = common(now, c, p, wire::Type::kProbe);
  const size_t size = c.full_packet() - c.trailer_bytes;
  single(out, c, p, wire::encode_probe(h, probe, size, {scratch_space(size + 64), size + 64}));
  return true;
}

void Engine::Impl::on_probe(Time now, Connection& c, const wire::Common& header, const wire::Probe& probe) {
  heard_from(now, c);
  if (c.probe_acks.size() < 64) c.probe_acks.push_back({probe.token});
  want_tx(c);
  if ((header.flags & wire::flag::kAckRequest) == 0) return;
  if (probe.nstreams == 0 && c.tx.empty())
    shed_memory(c);  // a keepalive: the peer has been idle as long as we have
  for (uint32_t i = 0; i < probe.nstreams; ++i) {
    QueuePair* qp = stream_qp(probe.streams[i]);
    if (qp != nullptr && qp->rx.open && qp->rx.conn == &c) update_credit(now, *qp, true);
  }
  for (RxPath& path : c.rx_paths) path.news = path.seen;
  schedule_ack(c, now);
}

void Engine::Impl::on_probe_ack(Time now, Connection& c, const wire::ProbeAck& answer) {
  heard_from(now, c);
  if (c.security != nullptr) c.security->note_answer(answer.token);
  for (Path& p : c.paths) {
    if (!p.probe_flying || p.probe_token != answer.token) continue;
    p.probe_flying = false;
    c.paths_touched = true;
    ++p.probes_answered;
    if (p.state == PathState::kNew) {
      p.rtt.sample(now - p.probe_sent);
      recover_path(now, c, p);
    } else if (p.state == PathState::kFailed) {
      if (p.probes_answered >= (MROCE_MUTANT(kReturnsAtOnce) ? 1 : kProbesToRecover)) {
        recover_path(now, c, p);
      } else {
        // It lives: do not wait long for the next answer, but longer than this one took, or the count would
        // start again and again on a long way.
        p.probe_interval = std::max<Nanos>(kProbeFirst, 2 * (now - p.probe_sent));
        p.probe_at = now;
      }
    }
    want_tx(c);
    break;
  }
}

// A connection without another plane keeps its paths: there is nothing better.
bool Engine::Impl::has_other_plane(const Connection& c, const Path& p) const {
  return std::any_of(c.paths.begin(), c.paths.end(),
                     [&](const Path& other) { return other.plane != p.plane; });
}

void Engine::Impl::on_link(Time now, uint32_t port, bool up) {
  if (port >= config.ports.size() || config.ports[port].up == up) return;
  config.ports[port].up = up;
  emit(up ? EventKind::kPortActive : EventKind::kPortError, 0, port);
  for (const auto& each : connections) {
    Connection* c = each.get();
    if (c == nullptr) continue;
    if (c->state == Connection::State::kInitSent) {
      for (Path& p : c->paths) p.link_up = p.port == port ? up : p.link_up;
    }
    if (!c->alive()) continue;
    bool touched = false;
    for (Path& p : c->paths) {
      if (p.port != port) continue;
      touched = true;
      c->paths_touched = true;
      p.link_up = up;
      if (up) {
        p.probe_at = p.state == PathState::kFailed || p.state == PathState::kNew ? now : kNever;
        p.probe_interval = Nanos{0};
        p.probe_flying = false;
      } else if (has_other_plane(*c, p)) {
        fail_path(now, *c, p);
      }
    }
    if (!touched) continue;
    if (!MROCE_MUTANT(kStatusSequenceStays)) ++c->port_status_sequence;
    c->port_status_repeats = 8;
    schedule_ack(*c, now);
    reschedule(*c);
  }
}

// The peer says which ports of its INIT (or INIT_ACK) have a link. Old news (a lower sequence) does not
// count.
void Engine::Impl::on_port_status(Time now, Connection& c, const wire::PortStatus& status) {
  if (c.peer_port_status_seen && static_cast<int32_t>(status.sequence - c.peer_port_status_sequence) <= 0 &&
      !MROCE_MUTANT(kOldStatusTaken))
    return;
  c.peer_port_status_seen = true;
  c.peer_port_status_sequence = status.sequence;
  for (Path& p : c.paths) {
    const auto port = std::find_if(c.peer_ports.begin(), c.peer_ports.end(),
                                   [&](const wire::InitPort& each) { return each.address == p.to.ip; });
    if (port == c.peer_ports.end()) continue;  // it never told us of this address
    const bool up = (status.mask >> (port - c.peer_ports.begin()) & 1) != 0;
    if (p.peer_up == up) continue;
    p.peer_up = up;
    c.paths_touched = true;
    if (!up) {
      if (has_other_plane(c, p)) fail_path(now, c, p);
    } else {
      p.probe_at = p.state == PathState::kFailed || p.state == PathState::kNew ? now : kNever;
      p.probe_flying = false;
    }
  }
}

}  // namespace mroce
