// Queue pairs: creation, the state machine, posting, error and flush.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/mroce/engine_impl.h"
#include "core/rdma/qp_state.h"

namespace mroce {

// Stream numbers go round the 16-bit space, so that a number rests as long as possible before it is used
// again, and one whose farewell the peer has not yet accepted is passed over.
Result<uint16_t> Engine::Impl::allocate_stream() {
  for (uint32_t tries = 0; tries < 65536; ++tries) {
    const uint16_t candidate = next_stream;
    next_stream = candidate >= 65534 ? uint16_t{16} : static_cast<uint16_t>(candidate + 1);
    if ((candidate >= 16 || MROCE_MUTANT(kLowStreams)) && stream_qp(candidate) == nullptr &&
        !busy_streams.contains(candidate))
      return candidate;
  }
  return fail(Errc::kNoMemory);
}

void Engine::Impl::set_stream_qp(uint16_t stream, QueuePair* qp) {
  auto& page = streams[stream >> 8];
  if (!page) page = std::make_unique<std::array<QueuePair*, 256>>();
  (*page)[stream & 0xff] = qp;
}

Result<QpHandle> Engine::Impl::create_qp(const QpInit& init) {
  Pd* pd = find(init.pd);
  Cq* send_cq = find(init.send_cq);
  Cq* recv_cq = find(init.recv_cq);
  Srq* srq = init.srq ? find(init.srq) : nullptr;
  if (pd == nullptr || send_cq == nullptr || recv_cq == nullptr || (init.srq && srq == nullptr)) {
    return fail(Errc::kInvalidArgument);
  }
  if (init.cap.max_send_wr > config.max_qp_wr || init.cap.max_recv_wr > config.max_qp_wr ||
      init.cap.max_send_sge > config.max_sge || init.cap.max_recv_sge > config.max_sge ||
      init.cap.max_inline_data > config.max_inline) {
    return fail(Errc::kInvalidArgument);
  }
  if (qps.size() >= config.max_qp) return fail(Errc::kNoMemory);
  const auto stream = allocate_stream();
  if (!stream) return fail(stream.error());

  auto qp = std::make_unique<QueuePair>();
  qp->handle = QpHandle{++handle_counter};
  qp->stream = *stream;
  qp->qpn = uint32_t{config.slot} << 16 | *stream;
  qp->user = init.user;
  qp->pd = init.pd;
  qp->send_cq = send_cq;
  qp->recv_cq = recv_cq;
  qp->srq = srq;
  qp->cap = init.cap;
  qp->cap.max_send_sge = std::max(1u, init.cap.max_send_sge);
  qp->cap.max_recv_sge = srq != nullptr ? 0 : std::max(1u, init.cap.max_recv_sge);
  if (srq != nullptr) qp->cap.max_recv_wr = 0;
  qp->signal_all = init.signal_all;
  qp->relaxed = init.relaxed || !config.tail_hold;
  if (srq == nullptr) qp->rq = std::make_unique<ReceiveQueue>(qp->cap.max_recv_wr, qp->cap.max_recv_sge);
  qp->slab_mask = std::bit_ceil(std::max(1u, qp->cap.max_send_wr)) - 1;
  ++pd->users;
  ++send_cq->users;
  ++recv_cq->users;
  if (srq != nullptr) ++srq->users;
  set_stream_qp(*stream, qp.get());
  const QpHandle handle = qp->handle;
  qps[handle.value] = std::move(qp);
  return handle;
}

namespace {
void store_attributes(QueuePair& qp, const QpAttr& attr, uint32_t mask) {
  if (mask & qp_mask::kAccessFlags) qp.attr.access_flags = attr.access_flags;
  if (mask & qp_mask::kAv) {
    qp.attr.sgid_index = attr.sgid_index;
    qp.attr.dgid = attr.dgid;
  }
  if (mask & qp_mask::kDestQpn) qp.attr.dest_qpn = attr.dest_qpn;
  if (mask & qp_mask::kSqPsn) qp.attr.sq_psn = attr.sq_psn;
  if (mask & qp_mask::kRqPsn) qp.attr.rq_psn = attr.rq_psn;
  if (mask & qp_mask::kTimeout) qp.attr.timeout = attr.timeout;
  if (mask & qp_mask::kRetryCnt) qp.attr.retry_cnt = attr.retry_cnt;
  if (mask & qp_mask::kRnrRetry) qp.attr.rnr_retry = attr.rnr_retry;
  if (mask & qp_mask::kMinRnrTimer) qp.attr.min_rnr_timer = attr.min_rnr_timer;
  if (mask & qp_mask::kMaxRdAtomic) qp.attr.max_rd_atomic = attr.max_rd_atomic;
  if (mask & qp_mask::kMaxDestRdAtomic) qp.attr.max_dest_rd_atomic = attr.max_dest_rd_atomic;
}
}  // namespace

Status Engine::Impl::modify_qp(Time now, QueuePair& qp, const QpAttr& attr, uint32_t mask) {
  const auto allowed = check_modify(qp.state, attr, mask, config.max_rd_atomic);
  if (!allowed) return allowed;
  if ((mask & qp_mask::kAv) && attr.sgid_index >= config.ports.size()) return fail(Errc::kInvalidArgument);
  store_attributes(qp, attr, mask);
  const QpState next = (mask & qp_mask::kState) ? attr.state : qp.state;
  if (next == qp.state) return {};
  switch (next) {
    case QpState::kReset:
      tear_down_halves(now, qp, wire::StopReason::kGone);
      qp.send_cq->queue.purge(qp.qpn);
      qp.recv_cq->queue.purge(qp.qpn);
      qp.tx.sq.clear();
      qp.tx.next = qp.tx.accepted = qp.tx.sq.begin();
      qp.tx.fail_msn.reset();
      qp.tx.open_tries = qp.tx.rnr_tries = 0;
      if (qp.rq) {
        while (qp.rq->begin() != qp.rq->posted()) qp.rq->pop();
      }
      qp.comm_established = false;
      qp.state = QpState::kReset;
      qp.attr = QpAttr{};
      return {};
    case QpState::kErr:
      enter_error(now, qp, WcStatus::kWrFlushErr);
      return {};
    case QpState::kSqd:
      qp.state = next;
      qp.sqd_notify = (mask & qp_mask::kEnSqdAsyncNotify) != 0;
      check_drained(qp);
      return {};
    default:
      qp.state = next;
      if (next == QpState::kRts) make_ready(now, qp);
      return {};
  }
}

void Engine::Impl::check_drained(QueuePair& qp) {
  if (qp.state != QpState::kSqd || !qp.sqd_notify || !qp.tx.idle()) return;
  qp.sqd_notify = false;
  emit(EventKind::kSqDrained, qp.user);
}

Status Engine::Impl::destroy_qp(Time now, QpHandle handle) {
  QueuePair* qp = find(handle);
  if (qp == nullptr) return fail(Errc::kNotFound);
  tear_down_halves(now, *qp, wire::StopReason::kGone);
  qp->send_cq->queue.purge(qp->qpn);
  qp->recv_cq->queue.purge(qp->qpn);
  --qp->send_cq->users;
  --qp->recv_cq->users;
  if (qp->srq != nullptr) --qp->srq->users;
  if (Pd* pd = find(qp->pd)) --pd->users;
  set_stream_qp(qp->stream, nullptr);
  qps.erase(handle.value);
  return {};
}

void Engine::Impl::tear_down_halves(Time now, QueuePair& qp, wire::StopReason reason) {
  close_tx(now, qp);
  close_rx(now, qp, reason, wire::NakCode::kNone);
}

Status Engine::Impl::post_send(Time now, QueuePair& qp, const SendWr& wr) {
  if (qp.state == QpState::kReset || qp.state == QpState::kInit || qp.state == QpState::kRtr) {
    return fail(Errc::kBadState);
  }
  TxHalf& tx = qp.tx;
  if (tx.sq.size() >= qp.cap.max_send_wr) return fail(Errc::kQueueFull);
  const bool is_inline = (wr.flags & send_flag::kInline) != 0;
  if (!is_inline && wr.sges.size() > qp.cap.max_send_sge) return fail(Errc::kInvalidArgument);
  uint64_t length = 0;
  for (const Sge& sge : wr.sges) length += sge.length;
  if (length > 0x80000000ULL || (is_inline && length > qp.cap.max_inline_data))
    return fail(Errc::kInvalidArgument);
  SendWqe wqe;
  wqe.wr_id = wr.wr_id;
  wqe.opcode = wr.opcode;
  wqe.flags = wr.flags;
  wqe.length = static_cast<uint32_t>(length);
  wqe.remote_addr = wr.remote_addr;
  wqe.rkey = wr.rkey;
  wqe.imm = wr.imm_or_invalidate;
  wqe.compare_or_add = wr.compare_or_add;
  wqe.swap = wr.swap;
  wqe.is_inline = is_inline;
  switch (wr.opcode) {
    case Opcode::kCompareSwap:
    case Opcode::kFetchAdd:
      if (wqe.length != 8 || is_inline) return fail(Errc::kInvalidArgument);
      break;
    case Opcode::kRead:
      if (is_inline) return fail(Errc::kInvalidArgument);
      break;
    case Opcode::kWrite:
    case Opcode::kWriteImm:
    case Opcode::kSend:
    case Opcode::kSendImm:
    case Opcode::kSendInv:
      break;
    default:
      return fail(Errc::kInvalidArgument);
  }
  if (qp.state == QpState::kErr) {
    push_send_completion(qp, wqe, WcStatus::kWrFlushErr);
    return {};
  }
  const uint64_t msn = tx.sq.end();
  if (is_inline) {
    if (qp.inline_slab.empty()) qp.inline_slab.resize((qp.slab_mask + 1) * qp.cap.max_inline_data);
    std::byte* out = qp.inline_of(msn);
    for (const Sge& sge : wr.sges) {
      if (sge.length == 0) continue;
      std::memcpy(out, memory.fetch(sge.addr, sge.length), sge.length);
      out += sge.length;
    }
  } else if (!wr.sges.empty()) {
    if (qp.sge_slab.empty()) qp.sge_slab.resize((qp.slab_mask + 1) * qp.cap.max_send_sge);
    std::copy(wr.sges.begin(), wr.sges.end(), qp.sges_of(msn).begin());
    wqe.nsges = static_cast<uint32_t>(wr.sges.size());
  }
  tx.sq.push(wqe);
  make_ready(now, qp);
  return {};
}

Status Engine::Impl::post_recv(Time now, QueuePair& qp, const RecvWr& wr) {
  if (qp.state == QpState::kReset || !qp.rq) return fail(Errc::kBadState);
  if (qp.state == QpState::kErr) {
    if (wr.sges.size() > qp.cap.max_recv_sge) return fail(Errc::kInvalidArgument);
    Wc wc;
    wc.wr_id = wr.wr_id;
    wc.status = WcStatus::kWrFlushErr;
    wc.opcode = WcOpcode::kRecv;
    wc.qp_num = qp.qpn;
    push_completion(*qp.recv_cq, wc, true);
    return {};
  }
  const auto posted = qp.rq->post(wr);
  if (posted) update_credit(now, qp, false);
  return posted;
}

void Engine::Impl::flush_receives(QueuePair& qp) {
  if (!qp.rq) return;
  while (qp.rq->begin() != qp.rq->posted()) {
    Wc wc;
    wc.wr_id = qp.rq->wr_id(qp.rq->begin());
    wc.status = WcStatus::kWrFlushErr;
    wc.opcode = WcOpcode::kRecv;
    wc.qp_num = qp.qpn;
    qp.rq->pop();
    push_completion(*qp.recv_cq, wc, true);
  }
}

// A queue pair that lost a completion cannot go on: its program would wait for ever (IBTA 11.6.3: local work
// queue catastrophic error). What it has outstanding is flushed, into nothing if that goes to the same CQ.
void Engine::Impl::fail_users_of_overrun_cqs(Time now) {
  while (!overrun_cqs.empty()) {
    const Cq* cq = find(overrun_cqs.back());
    overrun_cqs.pop_back();
    if (cq == nullptr) continue;
    for (const auto& [key, qp] : qps) {
      if ((qp->send_cq != cq && qp->recv_cq != cq) || qp->state == QpState::kErr ||
          qp->state == QpState::kReset || qp->state == QpState::kInit)
        continue;
      emit(EventKind::kQpFatal, qp->user);
      enter_error(now, *qp, WcStatus::kWrFlushErr);
    }
  }
}

void Engine::Impl::enter_error(Time now, QueuePair& qp, WcStatus status) {
  if (qp.state == QpState::kErr) return;
  qp.state = QpState::kErr;
  // Whatever is already finished completes well: its order comes first.
  complete_requests(now, qp);
  tear_down_halves(now, qp, wire::StopReason::kGone);
  WcStatus next = status;
  while (!qp.tx.sq.empty()) {
    push_send_completion(qp, qp.tx.sq.front(), next);
    qp.tx.sq.pop();
    next = WcStatus::kWrFlushErr;
  }
  qp.tx.next = qp.tx.accepted = qp.tx.sq.begin();
  qp.tx.fail_msn.reset();
  flush_receives(qp);
  if (qp.srq != nullptr) emit(EventKind::kQpLastWqeReached, qp.user);
}

}  // namespace mroce
