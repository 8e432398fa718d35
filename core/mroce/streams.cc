// The life of a stream, and receive credits.
//
// Each direction is opened by its sender: STREAM_OPEN, answered by ACCEPT when the receiving QP is ready (RTR
// or later) and means this peer, else by REFUSE, which is tried again under the QP's timeout and retry count.
// No DATA before ACCEPT. It ends by CLOSE (from its sender) or STOP (from its receiver). All of these have a
// CPSN, so none is lost or seen twice, but they may overtake each other: the incarnation number of the
// sending half tells old ones from new ones.
//
// Receive credits are counters that only grow, so that a lost or late one does no harm: the receiver says how
// many receives it has granted since the stream opened; the sender uses them by RQSN and may give unused ones
// back. Without an SRQ every posted receive is a credit. With one, credit is a reservation in the SRQ: it is
// granted on demand (STREAM_BLOCKED) plus a small standing amount while the SRQ is well filled, and asked
// back (RECLAIM) when others wait.
#include <algorithm>

#include "core/mroce/engine_impl.h"
#include "core/rdma/rnr_timer.h"

namespace mroce {

using wire::DataOp;
using wire::NakCode;
using wire::StopReason;
using wire::StreamControl;

namespace {
constexpr uint32_t kMaxDemand = 64;    // credits asked for at once
constexpr uint32_t kMaxStanding = 16;  // credits an idle stream may hold in an SRQ
constexpr uint32_t kStreamMask = 0xffff;

bool later(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) > 0;
}

bool ready_to_receive(QpState state) {
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
}

ControlMessage control(DataOp op, const QueuePair& qp, uint32_t peer_qpn, uint32_t incarnation) {
  ControlMessage message;
  message.op = op;
  message.local_stream = qp.stream;
  message.peer_stream = static_cast<uint16_t>(peer_qpn & kStreamMask);
  message.body.src_qpn = qp.qpn;
  message.body.dst_qpn = peer_qpn;
  message.body.incarnation = incarnation;
  return message;
}

Nanos open_interval(const QueuePair& qp) {
  const Nanos wanted = ack_timeout(qp.attr.timeout).value_or(millis(100));
  return std::clamp<Nanos>(wanted, millis(50), seconds(4));
}
}  // namespace

void Engine::Impl::queue_control(Time, Connection& c, ControlMessage message) {
  if (message.holds_stream) ++busy_streams[message.local_stream];
  c.control.push(message);
  want_tx(c);
}

void Engine::Impl::open_stream(Time now, QueuePair& qp) {
  const UdpAddress peer{qp.attr.dgid, static_cast<uint16_t>(config.base_port + (qp.attr.dest_qpn >> 16))};
  const auto connected = connect(now, qp.attr.sgid_index, peer);
  TxHalf& tx = qp.tx;
  if (tx.working_since == kNever) tx.working_since = now;
  if (!connected) {
    tx.open_retry_at = now + open_interval(qp);
    reschedule(qp);
    return;
  }
  tx.conn = *connected;
  tx.state = TxHalf::State::kOpening;
  tx.open_retry_at = kNever;
  tx.next_rqsn = tx.credit_limit = tx.credits_returned = tx.demand_sent = tx.rd_outstanding = 0;
  tx.credit_blocked = false;
  tx.blocked_since = kNever;
  ++tx.incarnation;
  ControlMessage message = control(DataOp::kStreamOpen, qp, qp.attr.dest_qpn, tx.incarnation);
  message.body.sq_psn = qp.attr.sq_psn;
  message.msn = static_cast<uint32_t>(tx.sq.begin());
  queue_control(now, *tx.conn, message);
  reschedule(qp);
}

Verdict Engine::Impl::on_stream_control(Time now, Connection& c, const wire::Data& data,
                                        const StreamControl& body) {
  if (data.op == DataOp::kStreamOpen) {
    on_stream_open(now, c, data.msn, body);
    return Verdict::accept();
  }
  QueuePair* qp = stream_qp(data.stream);
  const bool for_tx =
      data.op == DataOp::kStreamAccept || data.op == DataOp::kStreamRefuse || data.op == DataOp::kStreamStop;
  if (for_tx) {
    const bool current = qp != nullptr && qp->tx.conn == &c &&
                         (qp->tx.incarnation == body.incarnation || MROCE_MUTANT(kAnyIncarnation)) &&
                         qp->qpn == body.dst_qpn && (qp->attr.dest_qpn == body.src_qpn);
    if (!current || qp->tx.state == TxHalf::State::kClosing) {
      // An ACCEPT for a half that is gone or going: the CLOSE overtook its OPEN. Close what the peer has just
      // opened.
      if (data.op == DataOp::kStreamAccept) {
        ControlMessage message;
        message.op = DataOp::kStreamClose;
        message.local_stream = data.stream;
        message.peer_stream = static_cast<uint16_t>(body.src_qpn & kStreamMask);
        message.body.src_qpn = body.dst_qpn;
        message.body.dst_qpn = body.src_qpn;
        message.body.incarnation = body.incarnation;
        queue_control(now, c, message);
      }
      return Verdict::accept();
    }
    if (data.op == DataOp::kStreamAccept) {
      on_stream_accept(now, c, *qp, body);
    } else if (data.op == DataOp::kStreamRefuse) {
      on_stream_refuse(now, *qp, body);
    } else {
      on_stream_stop(now, *qp, data.msn, body);
    }
    return Verdict::accept();
  }
  if (qp == nullptr || !qp->rx.open || qp->rx.conn != &c || qp->rx.incarnation != body.incarnation ||
      qp->rx.peer_qpn != body.src_qpn) {
    return Verdict::accept();  // about a half that has ended here
  }
  switch (data.op) {
    case DataOp::kStreamClose:
      end_failed_stream(now, *qp, true);
      drop_rx_state(*qp);
      break;
    case DataOp::kStreamBlocked:
      if (later(body.credit_limit, qp->rx.demand)) qp->rx.demand = body.credit_limit;
      update_credit(now, *qp, true);
      break;
    case DataOp::kCreditReturn:
      if (later(body.credit_limit, qp->rx.returned) && qp->srq != nullptr) {
        const uint32_t unused = qp->rx.granted - qp->rx.returned - static_cast<uint32_t>(qp->rx.bind_next);
        const uint32_t back = std::min(body.credit_limit - qp->rx.returned, unused);
        qp->rx.returned += back;
        qp->srq->queue.reserved -= back;
        serve_srq(now, *qp->srq);
      }
      break;
    default:
      break;
  }
  return Verdict::accept();
}

// QPNs and PSNs are equal on different hosts more often than not: the address must be the peer's as well. An
// address of another family or scope, or one beyond those that an INIT can list, cannot be checked; a host
// knows all of its own.
bool Engine::Impl::means_peer(const Connection& c, const Gid& dgid) const {
  if (dgid == c.remote.ip || (is_local(c.remote.ip) && is_local(dgid))) return true;
  if (dgid.is_v4_mapped() != c.remote.ip.is_v4_mapped() ||
      dgid.is_link_local() != c.remote.ip.is_link_local())
    return true;
  return c.peer_ports.size() >= wire::kMaxPlanes || c.lists(dgid);
}

void Engine::Impl::on_stream_open(Time now, Connection& c, uint32_t msn, const StreamControl& body) {
  QueuePair* qp = stream_qp(static_cast<uint16_t>(body.dst_qpn & kStreamMask));
  StopReason refuse = StopReason::kNone;
  if (qp == nullptr || qp->qpn != body.dst_qpn) {
    refuse = StopReason::kGone;
  } else if (!ready_to_receive(qp->state) || shutting_down) {
    refuse = StopReason::kNotReady;
  } else if (qp->attr.dest_qpn != body.src_qpn || qp->attr.rq_psn != body.sq_psn ||
             !means_peer(c, qp->attr.dgid)) {
    refuse = StopReason::kMismatch;
  } else if (qp->rx.open && qp->rx.conn == &c && later(qp->rx.incarnation, body.incarnation) &&
             !MROCE_MUTANT(kOldOpenTaken)) {
    return;  // an old OPEN that came late
  }
  ControlMessage answer;
  answer.op = refuse == StopReason::kNone ? DataOp::kStreamAccept : DataOp::kStreamRefuse;
  answer.local_stream = static_cast<uint16_t>(body.dst_qpn & kStreamMask);
  answer.peer_stream = static_cast<uint16_t>(body.src_qpn & kStreamMask);
  answer.body.src_qpn = body.dst_qpn;
  answer.body.dst_qpn = body.src_qpn;
  answer.body.incarnation = body.incarnation;
  answer.body.reason = refuse;
  if (refuse == StopReason::kNone) {
    if (qp->rx.open) drop_rx_state(*qp);
    RxHalf& rx = qp->rx;
    rx.open = true;
    count_stream(c, 1);
    rx.conn = &c;
    rx.incarnation = body.incarnation;
    rx.peer_qpn = body.src_qpn;
    rx.messages.restart(msn);
    rx.rq_base = qp->rq ? qp->rq->begin() : 0;
    update_credit(now, *qp, false);
    answer.body.credit_limit = rx.granted;
    answer.body.rd_atomic = qp->attr.max_dest_rd_atomic;
    answer.body.min_rnr_timer = qp->attr.min_rnr_timer;
  }
  queue_control(now, c, answer);
}

void Engine::Impl::on_stream_accept(Time now, Connection&, QueuePair& qp, const StreamControl& body) {
  TxHalf& tx = qp.tx;
  if (tx.state != TxHalf::State::kOpening) return;
  tx.state = TxHalf::State::kOpen;
  tx.open_tries = 0;
  tx.working_since = now;
  tx.credit_limit = body.credit_limit;
  tx.rd_limit = std::min<uint32_t>(qp.attr.max_rd_atomic, body.rd_atomic);
  tx.peer_rnr_timer = rnr_timer(body.min_rnr_timer);
  make_ready(now, qp);
  reschedule(qp);
}

void Engine::Impl::on_stream_refuse(Time now, QueuePair& qp, const StreamControl&) {
  TxHalf& tx = qp.tx;
  if (tx.state != TxHalf::State::kOpening) return;
  tx.state = TxHalf::State::kClosed;
  tx.conn = nullptr;
  if (tx.sq.empty()) return;
  ++tx.open_tries;
  if (qp.attr.timeout != 0 && tx.open_tries > qp.attr.retry_cnt) {
    tx.open_tries = 0;
    enter_error(now, qp, WcStatus::kRetryExcErr);
    return;
  }
  tx.open_retry_at = MROCE_MUTANT(kRefusedAtOnce) ? kNever : now + open_interval(qp);
  reschedule(qp);
}

// The peer takes no more from this stream. STOP names the first message that it did not finish: everything
// before is done, even if the acknowledgements were lost. If nothing that has begun is left, the half just
// closes and is opened again for the next work request; else the oldest unfinished work request fails.
void Engine::Impl::on_stream_stop(Time now, QueuePair& qp, uint32_t msn, const StreamControl& body) {
  TxHalf& tx = qp.tx;
  if (tx.state != TxHalf::State::kOpen && tx.state != TxHalf::State::kOpening) return;
  const uint64_t unfinished = std::min(wire::expand32(msn, tx.sq.begin()), tx.next);
  void_requests(now, qp, tx.sq.begin());
  forget_voids(*tx.conn, qp);
  tx.stop_waiting();
  tx.state = TxHalf::State::kClosed;
  tx.conn = nullptr;
  tx.ready = false;
  while (tx.sq.begin() < unfinished && (!tx.sq.front().wants_response() || tx.sq.front().responded)) {
    push_send_completion(qp, tx.sq.front(), WcStatus::kSuccess);
    tx.pop_oldest();
  }
  tx.accepted = tx.sq.begin();
  if (!tx.sq.empty() && tx.sq.front().started) {
    const bool refused = body.reason == StopReason::kFailed && tx.sq.begin() == unfinished;
    // The peer may have had all of it in custody: that does not make it done.
    tx.sq.front().failed = true;
    tx.sq.front().status = WcStatus::kRetryExcErr;
    if (refused) {
      enter_error(now, qp, MROCE_MUTANT(kErrorsAlike) ? WcStatus::kRemOpErr : status_of(body.code));
    } else {
      outlive_peer(now, qp);
    }
    return;
  }
  tx.fail_msn.reset();
  if (tx.next == tx.sq.begin()) tx.working_since = kNever;
  make_ready(now, qp);
}

void Engine::Impl::on_control_accepted(Time now, Connection& c, ControlMessage& message) {
  if (message.accepted) return;
  message.accepted = true;
  if (message.holds_stream) {
    const auto it = busy_streams.find(message.local_stream);
    if (it != busy_streams.end() && --it->second == 0) busy_streams.erase(it);
  }
  if (message.op == DataOp::kStreamClose) {
    QueuePair* qp = stream_qp(message.local_stream);
    if (qp != nullptr && qp->tx.conn == &c && qp->tx.state == TxHalf::State::kClosing &&
        qp->tx.incarnation == message.body.incarnation) {
      qp->tx.state = TxHalf::State::kClosed;
      qp->tx.conn = nullptr;
      make_ready(now, *qp);
    }
  }
  while (!c.control.empty() && c.control.front().accepted) c.control.pop();
}

// Nobody waits for the VOIDs of this QP any more.
void Engine::Impl::forget_voids(Connection& c, QueuePair& qp) {
  for (uint64_t i = c.tx.begin(); i != c.tx.end(); ++i) {
    if (c.tx[i].voided_for == &qp) c.tx[i].voided_for = nullptr;
  }
  qp.tx.stop_rewind();
}

void Engine::Impl::close_tx(Time now, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  tx.open_retry_at = kNever;
  tx.working_since = kNever;
  tx.gone_at = kNever;
  tx.stop_waiting();
  if (tx.conn == nullptr || tx.state == TxHalf::State::kClosed || tx.state == TxHalf::State::kClosing) return;
  Connection& c = *tx.conn;
  void_requests(now, qp, 0);
  forget_voids(c, qp);
  // An OPEN that has not been accepted must not open anything later.
  for (uint64_t i = c.tx.begin(); i != c.tx.end(); ++i) {
    TxPacket& packet = c.tx[i];
    if (packet.kind != TxPacket::Kind::kControl || packet.state == TxPacket::State::kAccepted) continue;
    ControlMessage& message = c.control[packet.owner];
    if (message.op != DataOp::kStreamOpen || message.local_stream != qp.stream) continue;
    void_packet(c, packet, 0, 0);
    message.accepted = true;
  }
  for (uint64_t i = c.next_control; i != c.control.end(); ++i) {
    ControlMessage& message = c.control[i];
    if (message.op == DataOp::kStreamOpen && message.local_stream == qp.stream)
      message = control(DataOp::kStreamClose, qp, qp.attr.dest_qpn, message.body.incarnation);
  }
  tx.ready = false;
  tx.state = TxHalf::State::kClosing;
  ControlMessage message = control(DataOp::kStreamClose, qp, qp.attr.dest_qpn, tx.incarnation);
  message.holds_stream = true;
  queue_control(now, c, message);
}

void Engine::Impl::close_rx(Time now, QueuePair& qp, StopReason reason, NakCode code) {
  if (!qp.rx.open) return;
  Connection& c = *qp.rx.conn;
  if (c.alive()) {
    ControlMessage message = control(DataOp::kStreamStop, qp, qp.rx.peer_qpn, qp.rx.incarnation);
    message.body.reason = reason;
    message.body.code = code;
    message.msn = static_cast<uint32_t>(qp.rx.messages.begin());
    message.holds_stream = true;
    queue_control(now, c, message);
  }
  drop_rx_state(qp);
}

// Forgets everything that the peer was doing on this stream; nothing is placed for it from now on.
void Engine::Impl::drop_rx_state(QueuePair& qp) {
  RxHalf& rx = qp.rx;
  if (!rx.open) return;
  Connection& c = *rx.conn;
  for (uint64_t i = c.tx.begin(); i != c.tx.end(); ++i) {
    TxPacket& packet = c.tx[i];
    if (packet.kind != TxPacket::Kind::kResponse || packet.stream != qp.stream) continue;
    void_packet(c, packet, 0, 0);  // a response is no message of the peer's: its VOID names none
  }
  for (uint64_t i = rx.messages.begin(); i != rx.messages.end(); ++i) drop_tail(rx.messages[i]);
  if (qp.srq != nullptr) {
    SharedReceiveQueue& queue = qp.srq->queue;
    for (uint64_t i = rx.bound.begin(); i != rx.bound.end(); ++i) unbind_receive(qp, rx.bound[i]);
    queue.reserved -= rx.granted - rx.returned - static_cast<uint32_t>(rx.bind_next);
  }
  rx = RxHalf{};
  count_stream(c, -1);
}

// A receive that was bound to a message which will not arrive: flushed if the QP failed, else given back to
// the SRQ.
void Engine::Impl::unbind_receive(QueuePair& qp, uint32_t entry) {
  SharedReceiveQueue& queue = qp.srq->queue;
  const uint64_t wr_id = queue.wr_id(entry);
  if (qp.state == QpState::kErr) {
    Wc wc;
    wc.wr_id = wr_id;
    wc.status = WcStatus::kWrFlushErr;
    wc.opcode = WcOpcode::kRecv;
    wc.qp_num = qp.qpn;
    queue.release(entry);
    push_completion(*qp.recv_cq, wc, true);
    return;
  }
  const auto sges = queue.sges(entry);
  const std::vector<Sge> copy(sges.begin(), sges.end());
  queue.release(entry);
  const auto posted = queue.post({wr_id, copy});
  MROCE_ASSERT(posted.has_value());
}

// ---- credits
// ----------------------------------------------------------------------------------------------------

void Engine::Impl::mark_credit(QueuePair& qp) {
  if (qp.rx.credit_dirty) return;
  qp.rx.credit_dirty = true;
  qp.rx.conn->credit_dirty.push(qp.stream);
}

// `announce_now`: the peer asked, so it gets an answer at once, even if there is nothing new to say.
void Engine::Impl::update_credit(Time now, QueuePair& qp, bool announce_now) {
  RxHalf& rx = qp.rx;
  if (!rx.open) return;
  const bool asked = announce_now;
  const bool peer_waits = later(rx.demand, rx.granted);
  if (qp.rq) {
    const uint32_t granted = static_cast<uint32_t>(qp.rq->posted() - rx.rq_base);
    if (granted != rx.granted) {
      rx.granted = granted;
      mark_credit(qp);
      announce_now = announce_now || peer_waits;
    }
  } else {
    SharedReceiveQueue& queue = qp.srq->queue;
    const uint32_t free = queue.posted() - queue.reserved;
    uint32_t give = peer_waits ? std::min(rx.demand - rx.granted, free) : 0;
    const uint32_t unused = rx.granted - rx.returned - static_cast<uint32_t>(rx.bind_next);
    const uint32_t standing = std::min(kMaxStanding, (free - give) / (4 * std::max(1u, qp.srq->users)));
    if (unused + give < standing) give = std::min(free, standing - unused);
    if (give != 0) {
      rx.granted += give;
      queue.reserved += give;
      mark_credit(qp);
      announce_now = announce_now || peer_waits;
    }
    // A peer that asks again may do so because our RECLAIM was lost.
    if (later(rx.demand, rx.granted) && (!rx.waits_for_srq || asked)) {
      if (!rx.waits_for_srq) qp.srq->blocked.push(qp.stream);
      rx.waits_for_srq = true;
      for (const auto& [key, other] : qps) {
        const RxHalf& half = other->rx;
        if (other->srq != qp.srq || !half.open || other.get() == &qp || half.waits_for_srq) continue;
        if (half.granted - half.returned != static_cast<uint32_t>(half.bind_next))
          on_srq_pressure(now, *other);
      }
    }
  }
  if (announce_now) {
    mark_credit(qp);
    schedule_ack(*rx.conn, now);
  }
}

// Asks the peer of this stream to give back what it does not use.
void Engine::Impl::on_srq_pressure(Time now, QueuePair& qp) {
  Connection& c = *qp.rx.conn;
  for (uint64_t i = c.reclaim.begin(); i != c.reclaim.end(); ++i) {
    if (c.reclaim[i] == qp.stream) return;
  }
  c.reclaim.push(qp.stream);
  schedule_ack(c, now);
}

void Engine::Impl::serve_srq(Time now, Srq& srq) {
  uint64_t rounds = srq.blocked.size();
  while (rounds-- > 0 && srq.queue.posted() > srq.queue.reserved) {
    QueuePair* qp = stream_qp(srq.blocked.front());
    srq.blocked.pop();
    if (qp == nullptr || qp->srq != &srq || !qp->rx.open || !qp->rx.waits_for_srq) continue;
    qp->rx.waits_for_srq = false;
    update_credit(now, *qp, true);
  }
}

void Engine::Impl::on_credit(Time now, QueuePair& qp, uint32_t limit) {
  TxHalf& tx = qp.tx;
  if (tx.state != TxHalf::State::kOpen) return;
  if (later(limit, tx.credit_limit)) {
    tx.credit_limit = limit;
    tx.credit_blocked = false;
    tx.blocked_since = kNever;
    tx.rnr_tries = 0;
    make_ready(now, qp);
  } else if (tx.credit_blocked && tx.blocked_since == kNever) {
    note_rnr(now, qp);
  }
}

void Engine::Impl::note_rnr(Time now, QueuePair& qp) {
  qp.tx.blocked_since = now;
  ++qp.tx.conn->counters.rnr;
  reschedule(qp);
}

void Engine::Impl::ask_for_credit(Time now, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  if (tx.credit_blocked || MROCE_MUTANT(kNeverAsks)) return;
  tx.credit_blocked = true;
  uint32_t wanted = 0;
  for (uint64_t msn = tx.next; msn != tx.sq.end() && wanted < kMaxDemand; ++msn) {
    if (tx.sq[msn].consumes_receive()) ++wanted;
  }
  tx.demand_sent = tx.next_rqsn + tx.credits_returned + wanted;
  Connection& c = *tx.conn;
  ControlMessage message = control(DataOp::kStreamBlocked, qp, qp.attr.dest_qpn, tx.incarnation);
  message.body.credit_limit = tx.demand_sent;
  queue_control(now, c, message);
  if (c.limits_probe_at == kNever) {
    c.limits_probe_interval = pto(c);
    c.limits_probe_at = now + c.limits_probe_interval;
    reschedule(c);
  }
}

void Engine::Impl::on_reclaim(Time now, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  if (tx.state != TxHalf::State::kOpen) return;
  uint32_t needed = 0;
  for (uint64_t msn = tx.next; msn != tx.sq.end() && needed < kMaxDemand; ++msn) {
    if (tx.sq[msn].consumes_receive()) ++needed;
  }
  const uint32_t unused = tx.credit_limit - tx.credits_returned - tx.next_rqsn;
  if (unused <= needed) return;
  tx.credits_returned += unused - needed;
  ControlMessage message = control(DataOp::kCreditReturn, qp, qp.attr.dest_qpn, tx.incarnation);
  message.body.credit_limit = tx.credits_returned;
  queue_control(now, *tx.conn, message);
}

}  // namespace mroce
