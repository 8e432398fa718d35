// Deadlines. A connection's is the minimum of: handshake, ACK delay, PTO, RACK of each path, probes, limits
// probe, drain, CLOSE, keepalive, silence. A stream's: opening again, RNR hold, RNR patience, its own
// time-out.
#include <algorithm>

#include "core/mroce/engine_impl.h"
#include "core/rdma/rnr_timer.h"

namespace mroce {

using State = Connection::State;

namespace {
constexpr Nanos kMinTry = millis(125);  // floor of one try of a QP's timeout at software speed
constexpr Nanos kLimitsProbeMax = millis(100);
constexpr Nanos kAskAgain = millis(500);  // a keepalive without an answer is repeated

// IBTA 9.7.6.1.3: a try may take up to four times the nominal timeout; retry_cnt tries follow the first.
Nanos one_try(Nanos timeout) {
  return std::max(kMinTry, 4 * timeout);
}
}  // namespace

Nanos Engine::Impl::stream_budget(const QueuePair& qp) const {
  const auto timeout = ack_timeout(qp.attr.timeout);
  if (!timeout) return Nanos::max();
  return (qp.attr.retry_cnt + 1) * one_try(*timeout);
}

// The peer has ended, orderly, while work of ours was outstanding. An adapter hears nothing of that: it
// repeats until its tries are used up, and a program whose last requests do not matter to it is gone by then.
// So the error waits for the time of one try.
void Engine::Impl::outlive_peer(Time now, QueuePair& qp) {
  qp.tx.working_since = kNever;
  qp.tx.gone_at = now + one_try(ack_timeout(qp.attr.timeout).value_or(kMinTry));
  reschedule(qp);
}

// From now on we wait for a sign of life.
void Engine::Impl::note_outstanding(Time now, Connection& c) {
  if (c.oldest_unanswered == kNever) c.oldest_unanswered = now;
}

Time Engine::Impl::deadline(Connection& c) const {
  switch (c.state) {
    case State::kInitSent:
      return c.init_at;
    case State::kClosing:
      return c.may_send() ? std::min(c.close_at, c.close_by) : c.close_by;
    case State::kTimeWait:
      return c.close_by;
    case State::kClosed:
      return kNever;
    case State::kOpen:
    case State::kDraining:
      break;
  }
  const Time silent = c.oldest_unanswered == kNever
                          ? kNever
                          : std::max(c.oldest_unanswered, c.last_heard) + config.silence_limit;
  // An acceptor that may say no more to an address that has not shown itself waits for it, or for the end.
  if (!c.may_send()) return std::min(silent, c.state == State::kDraining ? c.drain_by : kNever);
  Time at = std::min({c.ack_at, c.limits_probe_at, c.paced_until});
  if (c.state == State::kDraining) at = std::min(at, c.drain_by);
  if (c.pto_from != kNever && !MROCE_MUTANT(kPtoOff)) {
    const Nanos wait = std::min(config.pto_max, pto(c) * (1u << std::min(c.pto_count, 10u)));
    at = std::min(at, c.pto_from + wait);
  }
  at = std::min(at, paths_due(c));
  if (c.oldest_unanswered != kNever) {
    at = std::min(at, silent);
    if (c.inflight_bytes == 0 && !c.is_stranger()) at = std::min(at, c.asked_at + kAskAgain);
  }
  if (!c.tx.empty()) at = std::min(at, c.progressed + config.silence_limit);
  return std::min(at, std::max(c.last_heard, c.last_sent) + config.keepalive);
}

// A path's timers: its RACK deadline, which the caller has worked out, its next challenge, the end of
// DEGRADED.
Time Engine::Impl::path_due(const Path& p, Time rack) {
  return std::min({rack, p.probe_at, p.degraded_until});
}

Time Engine::Impl::paths_due(Connection& c) const {
  const auto work_out = [&] {
    Time at = kNever;
    for (const Path& p : c.paths) at = std::min(at, path_due(p, rack_deadline(c, p)));
    return at;
  };
  if (c.paths_touched) {
    c.paths_due = work_out();
    c.paths_touched = false;
  }
#ifndef NDEBUG
  MROCE_ASSERT(c.paths_due <= work_out());
#endif
  return c.paths_due;
}

Time Engine::Impl::deadline(const QueuePair& qp) const {
  const TxHalf& tx = qp.tx;
  if (tx.sq.empty()) return kNever;
  Time at = std::min(tx.open_retry_at, tx.gone_at);
  if (tx.rnr_hold_until != kNever) at = std::min(at, tx.rnr_hold_until);
  if (tx.blocked_since != kNever && qp.attr.rnr_retry != 7) {
    at = std::min(at, tx.blocked_since + qp.attr.rnr_retry * tx.peer_rnr_timer);
  }
  const Nanos budget = stream_budget(qp);
  if (tx.working_since != kNever && tx.conn != nullptr && budget != Nanos::max()) {
    at = std::min(at, std::max(tx.working_since, tx.conn->last_heard) + budget);
  }
  return at;
}

void Engine::Impl::reschedule(Connection& c) {
  timers.schedule(TimerEntry::Kind::kConnection, c.index, deadline(c), c.queued);
}

void Engine::Impl::reschedule(QueuePair& qp) {
  timers.schedule(TimerEntry::Kind::kStream, qp.stream, deadline(qp), qp.queued);
}

void Engine::Impl::on_timeout(Time now) {
  reap();
  while (timers.earliest() <= now) {
    const TimerEntry entry = timers.pop();
    if (entry.kind == TimerEntry::Kind::kStream) {
      QueuePair* qp = stream_qp(static_cast<uint16_t>(entry.id));
      if (qp == nullptr || qp->queued != entry.at) continue;
      qp->queued = kNever;
      const QpHandle handle = qp->handle;
      if (deadline(*qp) <= now) fire(now, *qp);
      if (QueuePair* still = find(handle)) reschedule(*still);
      continue;
    }
    Connection* c = entry.id < connections.size() ? connections[entry.id].get() : nullptr;
    if (c == nullptr || c->queued != entry.at) continue;
    c->queued = kNever;
    if (deadline(*c) <= now) fire(now, *c);
    // What is due by now and is done by sending (an ACK, a probe) waits in the transmit queue, which
    // schedules anew.
    if (deadline(*c) > now) reschedule(*c);
  }
}

void Engine::Impl::fire(Time now, Connection& c) {
  want_tx(c);
  c.paths_touched = true;
  if (now >= c.paced_until) c.paced_until = kNever;
  switch (c.state) {
    case State::kInitSent:
      if (MROCE_MUTANT(kInitForEver)) c.started = now;
      if (now - c.started >= config.silence_limit) {
        lose_connection(now, c, true);
      }
      return;
    case State::kClosing:
    case State::kTimeWait:
      if (now >= c.close_by) lose_connection(now, c, false);
      return;
    case State::kClosed:
      return;
    case State::kOpen:
    case State::kDraining:
      break;
  }
  // A peer that answers but takes none of our packets (a way that lets only small ones through) is as good as
  // silent.
  const bool stuck = !c.tx.empty() && now >= c.progressed + config.silence_limit;
  if (MROCE_MUTANT(kSilenceForever)) c.last_heard = c.progressed = now;
  if (stuck || (c.oldest_unanswered != kNever &&
                now >= std::max(c.oldest_unanswered, c.last_heard) + config.silence_limit)) {
    lose_connection(now, c, true);
    return;
  }
  if (c.state == State::kDraining) {
    drain_step(now, c);
    if (c.state != State::kDraining) return;
  }
  for (Path& p : c.paths) {
    if (p.inflight != 0) detect_overdue(now, c, p);
    if (now >= p.degraded_until) leave_degraded(now, c, p);
  }
  if (c.inflight_bytes == 0) c.pto_from = kNever;
  if (c.pto_from != kNever && !MROCE_MUTANT(kPtoOff) &&
      now >= c.pto_from + std::min(config.pto_max, pto(c) * (1u << std::min(c.pto_count, 10u)))) {
    on_pto(now, c);
  }
  if (now >= c.limits_probe_at) probe_limits(now, c);
  if (c.oldest_unanswered != kNever && c.inflight_bytes == 0 && !c.is_stranger() &&
      now >= c.asked_at + kAskAgain) {
    c.limits_probe_wanted = true;
  }
  if (now >= std::max(c.last_heard, c.last_sent) + config.keepalive) {
    c.limits_probe_wanted = true;
    c.last_sent = now;
    shed_memory(c);
  }
}

// Repeats the question for limits while any stream is blocked on credit.
void Engine::Impl::probe_limits(Time now, Connection& c) {
  const bool blocked = std::any_of(qps.begin(), qps.end(), [&](const auto& entry) {
    return entry.second->tx.conn == &c && entry.second->tx.credit_blocked;
  });
  if (!blocked) {
    c.limits_probe_at = kNever;
    return;
  }
  c.limits_probe_wanted = true;
  c.limits_probe_interval = std::min(kLimitsProbeMax, std::max(config.pto_min, c.limits_probe_interval * 2));
  c.limits_probe_at = now + c.limits_probe_interval;
}

// An idle connection gives back what its rings grew to.
void Engine::Impl::shed_memory(Connection& c) {
  for (Path& p : c.paths) {
    // Lost transmissions, too: nobody acknowledges them any more.
    while (!p.sent.empty() && p.sent.front().state != SentPacket::State::kFlying) p.sent.pop();
    p.scan = std::max(p.scan, p.sent.begin());
    if (p.sent.empty()) p.sent.release();
    if (p.rtx.empty()) p.rtx.release();
  }
  if (c.tx.empty()) c.tx.release();
  if (c.rtx.empty()) c.rtx.release();
  if (c.ready.empty()) c.ready.release();
  if (c.control.empty()) c.control.release();
  if (c.credit_dirty.empty()) c.credit_dirty.release();
}

void Engine::Impl::fire(Time now, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  if (now >= tx.gone_at) {
    enter_error(now, qp, WcStatus::kRetryExcErr);
    return;
  }
  if (now >= tx.open_retry_at) {
    tx.open_retry_at = kNever;
    make_ready(now, qp);
    return;
  }
  if (tx.rnr_hold_until != kNever && now >= tx.rnr_hold_until) {
    tx.rnr_hold_until = kNever;
    make_ready(now, qp);
  }
  if (tx.blocked_since != kNever && qp.attr.rnr_retry != 7 &&
      now >= tx.blocked_since + qp.attr.rnr_retry * tx.peer_rnr_timer) {
    tx.blocked_since = kNever;  // earlier work may keep the queue pair alive, and this is due only once
    fail_request(now, qp, tx.next, WcStatus::kRnrRetryExcErr);
    return;
  }
  const Nanos budget = stream_budget(qp);
  if (tx.working_since != kNever && tx.conn != nullptr && budget != Nanos::max() &&
      now >= std::max(tx.working_since, tx.conn->last_heard) + budget) {
    enter_error(now, qp, WcStatus::kRetryExcErr);
  }
}

}  // namespace mroce
