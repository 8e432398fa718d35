// Timers of a queue pair: retransmission, the wait after an RNR NAK, and the two of DCQCN. Each queue pair
// stands in the heap once, never later than the earliest of them: postponing costs nothing.
#include <algorithm>

#include "core/rdma/rnr_timer.h"
#include "core/rocev2/engine_impl.h"

namespace mroce::rocev2 {

void Engine::Impl::schedule_timer(Qp& qp) {
  const Time at = std::min({qp.tx.timeout_at, qp.tx.rnr_until, qp.dcqcn.deadline()});
  if (at < timers.of(qp.slot)) timers.set(qp.slot, at);  // a later one is looked up when the entry comes out
}

void Engine::Impl::on_timeout(Time now) {
  release_paced(now);
  while (timers.earliest() <= now) {
    Qp& qp = *qps[timers.pop()];
    run_timers(now, qp);
    schedule_timer(qp);
  }
}

void Engine::Impl::run_timers(Time now, Qp& qp) {
  if (qp.dcqcn.deadline() <= now) qp.dcqcn.on_timer(now);
  if (qp.tx.rnr_until <= now) qp.tx.rnr_until = kNever;
  if (qp.tx.timeout_at <= now) on_retransmission_timeout(qp);
  kick(now, qp);
}

Nanos Engine::Impl::timeout_of(const Qp& qp) {
  const LossConfig& loss = config.loss;
  const Requester& tx = qp.tx;
  Nanos full = loss.timeout;
  if (full == Nanos{0}) full = ack_timeout(qp.params.timeout).value_or(Nanos{0});
  if (loss.recovery == Recovery::kSelectiveRepeat && loss.rto_low != Nanos{0} &&
      tx.nxt - tx.una <= loss.rto_low_packets) {
    return loss.rto_low;
  }
  if (!loss.adaptive || tx.expiries >= loss.adaptive_doublings) return full;
  const auto base = loss.adaptive_base.count() << tx.expiries;
  const Nanos early{base + static_cast<int64_t>(rng.below(static_cast<uint64_t>(base)))};
  return full == Nanos{0} ? early : std::min(full, early);
}

void Engine::Impl::arm_timeout(Time now, Qp& qp) {
  const Nanos timeout = timeout_of(qp);
  qp.tx.timeout_at = timeout == Nanos{0} ? kNever : now + timeout;
}

void Engine::Impl::on_retransmission_timeout(Qp& qp) {
  Requester& tx = qp.tx;
  tx.timeout_at = kNever;
  if (tx.nxt == tx.una || qp.state != QpState::kRts) return;
  ++counters.timeouts;
  const bool free = config.loss.adaptive && tx.expiries < config.loss.adaptive_doublings;
  if (!free) {
    if (tx.retries_left == 0) {
      fail_oldest(qp, WcStatus::kRetryExcErr);
      return;
    }
    --tx.retries_left;
  }
  ++tx.expiries;
  tx.implied_nak_at = 0;
  rewind(qp);
}

}  // namespace mroce::rocev2
