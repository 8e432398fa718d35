// How connections end: CLOSE and CLOSE_ACK, RESET, silence.
//
// A connection that is to end first drains for a bounded time: what it sent is acknowledged, what the peer
// sent arrives. Then CLOSE, which carries the final CACK (so that a peer whose last acknowledgements were
// lost learns that its packets arrived), is repeated until CLOSE_ACK or close_linger. Whoever got CLOSE stays
// as long to repeat CLOSE_ACK.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

using State = Connection::State;

void Engine::Impl::shutdown(Time now) {
  if (shutting_down) return;
  shutting_down = true;
  for (const auto& [key, qp] : qps) close_rx(now, *qp, wire::StopReason::kGone, wire::NakCode::kNone);
  for (const auto& each : connections) {
    Connection* c = each.get();
    if (c == nullptr) continue;
    if (c->state == State::kInitSent || c->state == State::kTimeWait) {
      lose_connection(now, *c, false);
    } else if (c->state == State::kOpen) {
      c->state = State::kDraining;
      c->drain_by = now + config.drain_limit;
      c->ack_at = now;
      want_tx(*c);
      drain_step(now, *c);
      reschedule(*c);
    }
  }
}

void Engine::Impl::drain_step(Time now, Connection& c) {
  if (c.state != State::kDraining) return;
  const bool sent_all = c.tx.empty() && c.next_control == c.control.end() && c.ready.empty();
  const bool done = (sent_all && !c.received.has_holes()) || MROCE_MUTANT(kNoDrain);
  if (done || now >= c.drain_by) begin_close(now, c, 0);
}

void Engine::Impl::begin_close(Time now, Connection& c, uint32_t reason) {
  c.state = State::kClosing;
  c.close_reason = reason;
  c.close_at = now;
  c.close_by = now + config.close_linger;
  want_tx(c);
  reschedule(c);
}

void Engine::Impl::on_close(Time now, Connection& c, wire::In datagram) {
  wire::Close close;
  if (!wire::decode_close(datagram, close)) {
    ++counters.drop_malformed;
    return;
  }
  // The peer's final CACK is never behind one that it told before, nor ahead of what we sent: who ends a
  // connection must know more than its id.
  const uint64_t cack = wire::expand32(close.cack, c.peer_cack);
  if (cack < c.peer_cack || cack > c.tx.end()) {
    ++counters.drop_forged_ack;
    return;
  }
  c.close_ack_due = true;
  want_tx(c);
  if (c.state == State::kTimeWait) return;
  bool progress = false;
  on_cack(now, c, cack, progress);
  const bool mutual = c.state == State::kClosing;
  lose_connection(now, c, false);
  // lose_connection() closed it; it stays to answer repetitions.
  c.state = State::kTimeWait;
  // Who wanted to go anyway stays only until the answer is out.
  c.close_by = now + (mutual ? millis(20) : config.close_linger);
  by_id[c.local_id] = &c;
  closed.erase(std::remove(closed.begin(), closed.end(), c.index), closed.end());
  want_tx(c);
  reschedule(c);
}

void Engine::Impl::on_close_ack(Time now, Connection& c) {
  if (c.state != State::kClosing) return;
  lose_connection(now, c, false);
}

void Engine::Impl::on_reset(Time now, Connection& c, wire::In datagram) {
  wire::Reset reset;
  if (!wire::decode_reset(datagram, reset)) {
    ++counters.drop_malformed;
    return;
  }
  if (!crypto::same_in_constant_time(reset.token, c.reset_token)) {
    ++counters.drop_reset;
    return;
  }
  lose_connection(now, c, true);
}

// `failed`: all queue pairs of the connection go to ERR. Otherwise (an orderly end) only those that still
// have work outstanding; the others stay as they are and may be connected anew.
void Engine::Impl::lose_connection(Time now, Connection& c, bool failed) {
  if (c.state == State::kClosed) return;
  const bool was_closing = c.state == State::kClosing || c.state == State::kTimeWait;
  c.state = State::kClosed;
  if (failed && !was_closing) ++counters.connections_failed;
  std::vector<QpHandle> affected;
  for (const auto& [key, qp] : qps) {
    if (qp->tx.conn == &c || qp->rx.conn == &c) affected.push_back(qp->handle);
  }
  std::sort(affected.begin(), affected.end());
  for (const QpHandle handle : affected) {
    QueuePair& qp = *find(handle);
    bool hit = failed;
    if (qp.tx.conn == &c) {
      hit = hit || (!qp.tx.sq.empty() && qp.state != QpState::kErr);
      qp.tx.conn = nullptr;
      qp.tx.state = TxHalf::State::kClosed;
      qp.tx.ready = false;
      qp.tx.stop_waiting();
    }
    if (qp.rx.conn == &c) drop_rx_state(qp);
    if (!hit || qp.state == QpState::kReset || qp.state == QpState::kInit) continue;
    if (failed) {
      enter_error(now, qp, WcStatus::kRetryExcErr);
    } else {
      outlive_peer(now, qp);
    }
  }
  for (uint64_t i = c.control.begin(); i != c.control.end(); ++i) {
    const ControlMessage& message = c.control[i];
    if (!message.holds_stream || message.accepted) continue;
    const auto it = busy_streams.find(message.local_stream);
    if (it != busy_streams.end() && --it->second == 0) busy_streams.erase(it);
  }
  by_id.erase(c.local_id);
  // Under every address that led to it: others than its own were added when connections were merged.
  std::erase_if(by_address, [&](const auto& entry) { return entry.second == &c; });
  closed.push_back(c.index);
}

}  // namespace mroce
