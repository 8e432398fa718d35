// The requesting side of a stream: work requests become packets, acceptances and responses become
// completions.
//
// A message may start when its QP's rules allow: a fence waits for all READs and atomics before it, READs and
// atomics are bounded by what the peer can hold, messages that consume a receive need a credit, and at most
// kMessageWindow messages are unfinished. WRITE and SEND are done when the peer has accepted every packet;
// READ and atomics when the response is complete. Completions come in posting order.
#include <algorithm>

#include "core/mroce/engine_impl.h"
#include "core/rdma/rnr_timer.h"
#include "core/rdma/sge_pieces.h"

namespace mroce {

using wire::DataOp;
using wire::NakCode;

DataOp Engine::Impl::op_for(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWrite:
      return DataOp::kWrite;
    case Opcode::kWriteImm:
      return DataOp::kWriteImm;
    case Opcode::kSend:
      return DataOp::kSend;
    case Opcode::kSendImm:
      return DataOp::kSendImm;
    case Opcode::kSendInv:
      return DataOp::kSendInv;
    case Opcode::kRead:
      return DataOp::kReadReq;
    case Opcode::kCompareSwap:
      return DataOp::kCompareSwap;
    case Opcode::kFetchAdd:
      return DataOp::kFetchAdd;
  }
  return DataOp::kVoid;
}

// What a requester is told when its peer refuses a message, by NAK, in a response or with STOP.
WcStatus Engine::Impl::status_of(NakCode code) {
  switch (code) {
    case NakCode::kAccess:
      return WcStatus::kRemAccessErr;
    case NakCode::kInvalid:
    case NakCode::kLength:
      return WcStatus::kRemInvReqErr;
    case NakCode::kRemoteOp:
      return WcStatus::kRemOpErr;
    default:
      return WcStatus::kRetryExcErr;
  }
}

// Puts the stream into its connection's ring if it may have something to send; opens it if it is closed.
void Engine::Impl::make_ready(Time now, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  if (!tx.sq.empty() && tx.state == TxHalf::State::kClosed && qp.state == QpState::kRts &&
      tx.open_retry_at == kNever && tx.gone_at == kNever) {
    open_stream(now, qp);
  }
  if (tx.state == TxHalf::State::kOpen && !tx.ready && (tx.next != tx.sq.end() || !tx.forgets.empty())) {
    tx.ready = true;
    tx.conn->ready.push(qp.stream);
    want_tx(*tx.conn);
  }
}

bool Engine::Impl::may_start(Time now, QueuePair& qp, const SendWqe& wqe) {
  TxHalf& tx = qp.tx;
  if (qp.state != QpState::kRts) return false;
  if (tx.next - tx.accepted >= kMessageWindow) return false;
  if ((wqe.flags & send_flag::kFence) != 0 && tx.rd_outstanding > 0 && !MROCE_MUTANT(kFenceIgnored))
    return false;
  if (wqe.wants_response() && tx.rd_outstanding >= std::max(1u, tx.rd_limit) &&
      !MROCE_MUTANT(kReadLimitIgnored))
    return false;
  if (wqe.consumes_receive() && tx.next_rqsn + tx.credits_returned == tx.credit_limit &&
      !MROCE_MUTANT(kCreditIgnored)) {
    ask_for_credit(now, qp);
    return false;
  }
  return true;
}

bool Engine::Impl::has_request(Time now, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  if (tx.state != TxHalf::State::kOpen) return false;
  if (!tx.forgets.empty()) return true;
  if (tx.rewind_from != UINT64_MAX) return false;
  if (tx.rnr_hold_until != kNever) {
    if (now < tx.rnr_hold_until) return false;
    tx.rnr_hold_until = kNever;
  }
  // Behind a rewind there may be messages that were accepted before.
  while (tx.next != tx.sq.end() && tx.sq[tx.next].all_sent) ++tx.next;
  if (tx.next == tx.sq.end() || (tx.fail_msn && tx.next >= *tx.fail_msn)) return false;
  const SendWqe& wqe = tx.sq[tx.next];
  if (wqe.started) return true;
  if (wqe.wants_response() && tx.rd_limit == 0) {
    // The peer (max_dest_rd_atomic) or this QP (max_rd_atomic) takes none at all: it could never start.
    fail_request(now, qp, tx.next,
                 qp.attr.max_rd_atomic == 0 ? WcStatus::kLocQpOpErr : WcStatus::kRemInvReqErr);
    return false;
  }
  return may_start(now, qp, wqe);
}

uint32_t Engine::Impl::next_request_bytes(const QueuePair& qp, const Connection& c, DataOp& op) const {
  if (!qp.tx.forgets.empty()) {
    op = DataOp::kVoid;
    return 0;
  }
  const SendWqe& wqe = qp.tx.sq[qp.tx.next];
  op = op_for(wqe.opcode);
  return wqe.wants_response() ? 0 : std::min(c.payload_mtu, wqe.length - wqe.next_offset);
}

TxPacket Engine::Impl::cut_request(Time now, Connection& c, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  if (!tx.forgets.empty()) return cut_forget(c, qp);
  SendWqe& wqe = tx.sq[tx.next];
  if (!wqe.started) {
    wqe.started = true;
    if (wqe.consumes_receive()) wqe.rqsn = tx.next_rqsn++;
    if (wqe.wants_response()) ++tx.rd_outstanding;
    if (tx.working_since == kNever) tx.working_since = now;
    reschedule(qp);
  }
  DataOp op{};
  const uint32_t length = next_request_bytes(qp, c, op);
  TxPacket packet;
  packet.kind = TxPacket::Kind::kRequest;
  packet.stream = qp.stream;
  packet.length = static_cast<uint16_t>(length);
  packet.offset = wqe.next_offset;
  packet.owner = tx.next;
  ++wqe.unaccepted;
  wqe.next_offset += length;
  c.counters.payload_bytes_sent += length;
  if (wqe.wants_response() || wqe.next_offset == wqe.length) {
    wqe.all_sent = true;
    ++tx.next;
  }
  return packet;
}

// A VOID with a CPSN of its own: the receiver forgets what it has of this message, unless it is complete.
TxPacket Engine::Impl::cut_forget(Connection& c, QueuePair& qp) {
  TxPacket packet;
  void_packet(c, packet, static_cast<uint16_t>(qp.attr.dest_qpn & 0xffff), qp.tx.forgets.front());
  packet.voided_for = &qp;
  ++qp.tx.voids_open;
  qp.tx.forgets.pop();
  return packet;
}

void Engine::Impl::request_accepted(Time now, Connection&, QueuePair& qp, uint64_t msn) {
  TxHalf& tx = qp.tx;
  if (!tx.sq.contains(msn)) return;
  SendWqe& wqe = tx.sq[msn];
  MROCE_ASSERT(wqe.unaccepted > 0);
  --wqe.unaccepted;
  tx.working_since = now;
  if (wqe.unaccepted != 0 || !wqe.all_sent) return;
  if (tx.accepted < tx.sq.begin()) tx.accepted = tx.sq.begin();
  const bool was_full = tx.next - tx.accepted >= kMessageWindow;
  while (tx.accepted < tx.next && tx.sq[tx.accepted].all_sent && tx.sq[tx.accepted].unaccepted == 0 &&
         !tx.sq[tx.accepted].voided) {
    ++tx.accepted;
  }
  complete_requests(now, qp);
  if (was_full) make_ready(now, qp);
}

void Engine::Impl::push_send_completion(QueuePair& qp, const SendWqe& wqe, WcStatus status) {
  if (status == WcStatus::kSuccess && !qp.signal_all && (wqe.flags & send_flag::kSignaled) == 0) return;
  Wc wc;
  wc.wr_id = wqe.wr_id;
  wc.status = status;
  wc.opcode = completion_opcode(wqe.opcode);
  wc.byte_len = wqe.length;
  wc.qp_num = qp.qpn;
  wc.src_qp = qp.attr.dest_qpn;
  push_completion(*qp.send_cq, wc, status != WcStatus::kSuccess);
}

void Engine::Impl::complete_requests(Time now, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  while (!tx.sq.empty()) {
    SendWqe& wqe = tx.sq.front();
    if (wqe.failed) {
      if (qp.state == QpState::kErr) return;
      const WcStatus status = wqe.status;
      enter_error(now, qp, status);
      return;
    }
    if (!wqe.done()) break;
    push_send_completion(qp, wqe, WcStatus::kSuccess);
    tx.pop_oldest();
  }
  if (tx.idle()) tx.working_since = kNever;
  if (qp.state == QpState::kSqd) check_drained(qp);
}

void Engine::Impl::fail_request(Time now, QueuePair& qp, uint64_t msn, WcStatus status) {
  TxHalf& tx = qp.tx;
  if (!tx.sq.contains(msn) || tx.sq[msn].failed) return;
  tx.sq[msn].failed = true;
  tx.sq[msn].status = status;
  if (!tx.fail_msn || msn < *tx.fail_msn) tx.fail_msn = msn;
  void_requests(now, qp, msn);
  complete_requests(now, qp);
}

// The CPSN stays, the bytes go. `stream` and `msn` name the message that starts again; 0 names none.
void Engine::Impl::void_packet(Connection& c, TxPacket& packet, uint16_t stream, uint64_t msn) {
  packet.kind = TxPacket::Kind::kVoid;
  packet.stream = stream;
  packet.owner = msn;
  packet.length = 0;
  packet.offset = 0;
  ++c.counters.voids;
}

// Packets of messages from `from_msn` on that the peer has not accepted become VOID: their CPSNs are filled,
// their bytes are not fetched again. What flies already may still arrive as data first.
void Engine::Impl::void_requests(Time, QueuePair& qp, uint64_t from_msn) {
  TxHalf& tx = qp.tx;
  if (tx.conn == nullptr) return;
  Connection& c = *tx.conn;
  for (uint64_t i = c.tx.begin(); i != c.tx.end(); ++i) {
    TxPacket& packet = c.tx[i];
    if (packet.kind != TxPacket::Kind::kRequest || packet.stream != qp.stream || packet.owner < from_msn ||
        packet.state == TxPacket::State::kAccepted) {
      continue;
    }
    SendWqe& wqe = tx.sq[packet.owner];
    --wqe.unaccepted;
    wqe.voided = true;
    void_packet(c, packet, static_cast<uint16_t>(qp.attr.dest_qpn & 0xffff), packet.owner);
    packet.voided_for = tx.rewind_from != UINT64_MAX ? &qp : nullptr;
    if (packet.voided_for != nullptr) ++tx.voids_open;
  }
}

// RNR: the receiver had no receive for this message. All packets of it and of later messages that are not
// accepted become VOID. When those are accepted it is still unknown which of them came as data before; so the
// receiver is told to forget, by one more VOID for each message. When these are accepted and the timer has
// run, the messages start again with fresh CPSNs, same MSN and RQSN.
void Engine::Impl::start_rewind(Time now, QueuePair& qp, uint64_t msn, Nanos hold) {
  TxHalf& tx = qp.tx;
  if (tx.rewind_from != UINT64_MAX) return;
  if (qp.attr.rnr_retry != 7 && ++tx.rnr_tries > qp.attr.rnr_retry) {
    fail_request(now, qp, msn, WcStatus::kRnrRetryExcErr);
    return;
  }
  tx.rewind_from = msn;
  tx.rnr_hold_until = now + hold;
  ++tx.conn->counters.rnr;
  void_requests(now, qp, msn);
  if (tx.voids_open == 0) finish_rewind(now, qp);
  reschedule(qp);
}

void Engine::Impl::finish_rewind(Time now, QueuePair& qp) {
  TxHalf& tx = qp.tx;
  const uint64_t from = std::max(tx.rewind_from, tx.sq.begin());
  if (!tx.forgetting) {
    tx.forgetting = true;
    for (uint64_t msn = from; msn != tx.sq.end() && msn <= tx.next; ++msn) {
      if (tx.sq[msn].voided) tx.forgets.push(msn);
    }
    make_ready(now, qp);
  }
  if (!tx.forgets.empty()) return;
  tx.forgetting = false;
  tx.rewind_from = UINT64_MAX;
  uint64_t next = tx.next;
  for (uint64_t msn = from; msn != tx.sq.end() && msn <= tx.next; ++msn) {
    SendWqe& wqe = tx.sq[msn];
    if (!wqe.voided) continue;
    wqe.voided = false;
    wqe.all_sent = false;
    wqe.next_offset = 0;
    next = std::min(next, msn);
  }
  tx.next = next;
  make_ready(now, qp);
}

bool Engine::Impl::scatter(std::span<const Sge> sges, PdHandle pd, uint64_t offset, wire::In payload) {
  return for_each_piece(sges, offset, payload.size(), [&](uint64_t addr, uint32_t length, uint32_t lkey) {
    const auto host = mrs.translate(lkey, pd, addr, length, access::kLocalWrite);
    if (!host) return false;
    memory.place(*host, payload.first(length));
    payload = payload.subspan(length);
    return true;
  });
}

// Responses are always accepted: one that nobody waits for any more is just dropped.
Verdict Engine::Impl::on_read_response(Time now, Connection& c, const wire::Data& data, wire::In payload) {
  QueuePair* qp = stream_qp(data.stream);
  if (qp == nullptr || qp->tx.conn != &c) return Verdict::accept();
  TxHalf& tx = qp->tx;
  const uint64_t msn = wire::expand32(data.rdslot, tx.sq.begin());
  if (!tx.sq.contains(msn)) return Verdict::accept();
  SendWqe& wqe = tx.sq[msn];
  if (wqe.opcode != Opcode::kRead || !wqe.started || wqe.responded || wqe.failed) return Verdict::accept();
  if (data.status != NakCode::kNone) {
    fail_request(now, *qp, msn, status_of(data.status));
    return Verdict::accept();
  }
  const uint64_t expected =
      std::min<uint64_t>(c.payload_mtu, uint64_t{wqe.length} - std::min(data.offset, wqe.length));
  if (data.length != wqe.length || data.offset % c.payload_mtu != 0 || payload.size() != expected ||
      (wqe.length != 0 && data.offset >= wqe.length)) {
    // A peer that answers wrongly must not leave a CPSN open for ever.
    ++counters.drop_malformed;
    fail_request(now, *qp, msn, WcStatus::kRemOpErr);
    return Verdict::accept();
  }
  if (wqe.length != 0 && !scatter(qp->sges_of(msn).first(wqe.nsges), qp->pd, data.offset, payload)) {
    fail_request(now, *qp, msn, WcStatus::kLocProtErr);
    return Verdict::accept();
  }
  wqe.response_bytes += static_cast<uint32_t>(payload.size());
  c.counters.payload_bytes_received += payload.size();
  tx.working_since = now;
  if (wqe.response_bytes < wqe.length) return Verdict::accept();
  wqe.responded = true;
  --tx.rd_outstanding;
  complete_requests(now, *qp);
  make_ready(now, *qp);
  return Verdict::accept();
}

Verdict Engine::Impl::on_atomic_response(Time now, Connection& c, const wire::Data& data) {
  QueuePair* qp = stream_qp(data.stream);
  if (qp == nullptr || qp->tx.conn != &c) return Verdict::accept();
  TxHalf& tx = qp->tx;
  const uint64_t msn = wire::expand32(data.rdslot, tx.sq.begin());
  if (!tx.sq.contains(msn)) return Verdict::accept();
  SendWqe& wqe = tx.sq[msn];
  const bool atomic = wqe.opcode == Opcode::kCompareSwap || wqe.opcode == Opcode::kFetchAdd;
  if (!atomic || !wqe.started || wqe.responded || wqe.failed) return Verdict::accept();
  if (data.status != NakCode::kNone) {
    fail_request(now, *qp, msn, status_of(data.status));
    return Verdict::accept();
  }
  const uint64_t original = data.operand;
  if (!scatter(qp->sges_of(msn).first(wqe.nsges), qp->pd, 0, std::as_bytes(std::span(&original, 1)))) {
    fail_request(now, *qp, msn, WcStatus::kLocProtErr);
    return Verdict::accept();
  }
  wqe.responded = true;
  tx.working_since = now;
  --tx.rd_outstanding;
  complete_requests(now, *qp);
  make_ready(now, *qp);
  return Verdict::accept();
}

void Engine::Impl::on_nak(Time now, Connection& c, const wire::Nak& nak) {
  ++counters.naks_received;
  const uint64_t cpsn = wire::expand32(nak.cpsn, c.tx.begin());
  if (!c.tx.contains(cpsn)) return;
  const TxPacket& packet = c.tx[cpsn];
  if (packet.state == TxPacket::State::kAccepted || packet.kind != TxPacket::Kind::kRequest) return;
  QueuePair* qp = stream_qp(packet.stream);
  MROCE_ASSERT(qp != nullptr);
  const uint64_t msn = packet.owner;
  switch (nak.code) {
    case NakCode::kRnr:
      start_rewind(now, *qp, msn, rnr_timer(static_cast<uint8_t>(nak.arg & 31)));
      break;
    case NakCode::kAccess:
    case NakCode::kInvalid:
    case NakCode::kLength:
    case NakCode::kRemoteOp:
      fail_request(now, *qp, msn, status_of(nak.code));
      break;
    default:
      break;  // WINDOW, NO_RESOURCE: loss recovery sends it again. UNKNOWN_STREAM: until the STOP that says
              // why is here
  }
}

}  // namespace mroce
