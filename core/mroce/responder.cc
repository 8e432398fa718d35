// The responding side of a stream: what arrives is placed, messages are finished in order.
//
// Every packet names its message completely (operation, base address or RQSN, offset, length), so it is
// placed on arrival, in whatever order packets come. The connection has already seen to it that each packet
// is delivered once. A message is complete when all its bytes are here; complete messages are finished
// strictly by MSN: a receive completes, a READ or atomic executes, only when every message before it is
// finished.
//
// Tail hold: programs poll the last byte of a WRITE, or write data and then a flag. So the last packet of a
// WRITE is kept aside until the rest of the message and all earlier messages are placed, and stored behind a
// release fence. A kept packet is acknowledged (it cannot be lost any more); the room for them is bounded.
//
// A message that cannot be placed (key, bounds, length) marks the stream as failed from its MSN on; every
// packet from there on is answered with a NAK. When all earlier messages are finished and their responses
// accepted, the QP goes to ERR and STREAM_STOP tells the requester, reliably, which message failed and why.
#include <algorithm>
#include <cstring>

#include "core/mroce/engine_impl.h"

namespace mroce {

using wire::DataOp;
using wire::NakCode;

namespace {
bool consumes_receive(DataOp op) {
  return op == DataOp::kSend || op == DataOp::kSendImm || op == DataOp::kSendInv || op == DataOp::kWriteImm;
}
bool wants_response(DataOp op) {
  return op == DataOp::kReadReq || op == DataOp::kCompareSwap || op == DataOp::kFetchAdd;
}
bool is_write(DataOp op) {
  return op == DataOp::kWrite || op == DataOp::kWriteImm;
}
bool is_send(DataOp op) {
  return op == DataOp::kSend || op == DataOp::kSendImm || op == DataOp::kSendInv;
}

bool is_atomic(DataOp op) {
  return op == DataOp::kCompareSwap || op == DataOp::kFetchAdd;
}

bool same_message(const RxMessage& m, const wire::Data& data) {
  return m.op == data.op && m.length == data.length && m.va == data.va && m.rkey == data.rkey &&
         m.rqsn == data.rqsn && m.imm == data.imm && m.rdslot == data.rdslot;
}

void begin_message(RxMessage& m, const wire::Common& header, const wire::Data& data) {
  m.seen = true;
  m.op = data.op;
  m.length = data.length;
  m.va = data.va;
  m.rkey = data.rkey;
  m.rqsn = data.rqsn;
  m.imm = data.imm;
  m.rdslot = data.rdslot;
  m.operand = data.operand;
  m.compare = data.compare;
  m.solicited = (header.flags & wire::flag::kSolicited) != 0;
}
}  // namespace

Verdict Engine::Impl::on_request(Time now, Connection& c, const wire::Common& header, const wire::Data& data,
                                 wire::In payload) {
  QueuePair* qp = stream_qp(data.stream);
  if (qp == nullptr || !qp->rx.open || qp->rx.conn != &c) return Verdict::reject(NakCode::kUnknownStream);
  const Verdict verdict = take_request(now, c, *qp, header, data, payload);
  if (verdict.kind == Verdict::Kind::kReject)
    end_failed_stream(now, *qp);  // nothing before it may be left to finish
  return verdict;
}

Verdict Engine::Impl::take_request(Time now, Connection& c, QueuePair& qp, const wire::Common& header,
                                   const wire::Data& data, wire::In payload) {
  RxHalf& rx = qp.rx;
  const uint64_t msn = wire::expand32(data.msn, rx.messages.begin());
  // Of a message that is finished there is nothing left to place; refusing would leave the CPSN open for
  // ever.
  if (msn < rx.messages.begin()) {
    if (MROCE_MUTANT(kDuplicatesPlaced) && data.op == DataOp::kWrite) {
      const auto base = mrs.translate(data.rkey, qp.pd, data.va, data.length, access::kRemoteWrite);
      if (base && !payload.empty()) memory.place(*base + data.offset, payload);
    }
    if (MROCE_MUTANT(kAtomicAgain) && data.op == DataOp::kFetchAdd) {
      RxMessage again;
      begin_message(again, header, data);
      execute_atomic(qp, again);
    }
    return Verdict::accept();
  }
  if (msn >= rx.messages.begin() + kMessageWindow) return Verdict::reject(NakCode::kWindow);
  if (rx.fail_msn && msn >= *rx.fail_msn) return Verdict::reject(rx.fail_code);
  if (qp.state == QpState::kRtr && !qp.comm_established) {
    qp.comm_established = true;
    emit(EventKind::kCommEstablished, qp.user);
  }
  while (rx.messages.end() <= msn) rx.messages.push(RxMessage{});
  RxMessage& m = rx.messages[msn];
  if (!m.seen) {
    if (data.length > 0x80000000U) return fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
    begin_message(m, header, data);
    if (MROCE_MUTANT(kReadOnArrival) && data.op == DataOp::kReadReq) execute_read(qp, m);
    if (MROCE_MUTANT(kAtomicOnArrival) && data.op == DataOp::kFetchAdd) execute_atomic(qp, m);
  } else if (!same_message(m, data)) {
    return fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
  }
  // After an RNR the sender starts messages again of which it does not know that they are complete here.
  if (m.complete) return Verdict::accept();
  const bool carries = is_write(data.op) || is_send(data.op);
  if (carries) {
    const uint64_t rest = uint64_t{data.length} - std::min(data.offset, data.length);
    const uint64_t expected = std::min<uint64_t>(c.payload_mtu, rest);
    const bool believed = MROCE_MUTANT(kOffsetUnchecked) && data.offset + payload.size() <= data.length;
    const bool wrong = data.offset % c.payload_mtu != 0 || payload.size() != expected ||
                       (data.length != 0 && rest == 0) || m.received + payload.size() > m.length;
    if (wrong && !believed) {
      return fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
    }
  } else if (!payload.empty() || data.offset != 0 || (is_atomic(data.op) && data.length != 8)) {
    return fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
  }
  if (consumes_receive(data.op) && wire::expand32(data.rqsn, next_receive(qp)) < next_receive(qp)) {
    return fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);  // a receive that has completed
  }
  if (consumes_receive(data.op) && !bind_receive(now, qp, data.rqsn)) {
    return Verdict::reject(NakCode::kRnr, qp.attr.min_rnr_timer);
  }
  if (wants_response(data.op)) {
    if (qp.attr.max_dest_rd_atomic == 0) return fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
    if (rx.responses.size() >= kMaxResponses) return Verdict::drop();
  }
  Verdict verdict = Verdict::accept();
  if (is_write(data.op)) verdict = place_write(qp, msn, m, data, payload);
  if (is_send(data.op)) verdict = place_send(qp, msn, m, data, payload);
  if (verdict.kind != Verdict::Kind::kAccept) return verdict;
  m.received += static_cast<uint32_t>(payload.size());
  c.counters.payload_bytes_received += payload.size();
  if (!carries || m.received == m.length) {
    m.complete = true;
    if (msn == rx.messages.begin()) advance(now, qp);
  }
  return verdict;
}

Verdict Engine::Impl::fail_message(QueuePair& qp, uint64_t msn, NakCode code, WcStatus receive_status) {
  RxHalf& rx = qp.rx;
  if (!rx.fail_msn || msn < *rx.fail_msn) {
    rx.fail_msn = msn;
    rx.fail_code = code;
    rx.fail_status = receive_status;
  }
  return Verdict::reject(code);
}

Verdict Engine::Impl::place_write(QueuePair& qp, uint64_t msn, RxMessage& m, const wire::Data& data,
                                  wire::In payload) {
  if (m.length == 0) return Verdict::accept();
  const auto base = mrs.translate(m.rkey, qp.pd, m.va, m.length, access::kRemoteWrite);
  const bool allowed = (qp.attr.access_flags & access::kRemoteWrite) != 0 || MROCE_MUTANT(kRightsIgnored);
  if (!base || !allowed) return fail_message(qp, msn, NakCode::kAccess, WcStatus::kSuccess);
  const bool last = data.offset + payload.size() == m.length;
  if (!last) {
    memory.place(*base + data.offset, payload);
    return Verdict::accept();
  }
  if (m.held.bytes) return fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
  const bool all_else_placed = msn == qp.rx.messages.begin() && m.received == data.offset;
  if (all_else_placed || qp.relaxed || MROCE_MUTANT(kTailNotHeld)) {
    memory.place_tail(*base + data.offset, payload);
    return Verdict::accept();
  }
  if (hold_tail(qp, m, data.offset, payload)) return Verdict::accept();
  ++counters.drop_held_full;
  return Verdict::drop();
}

bool Engine::Impl::hold_tail(QueuePair&, RxMessage& m, uint32_t offset, wire::In payload) {
  if (held_bytes + payload.size() > config.held_bytes) return false;
  m.held.bytes = std::make_unique<std::byte[]>(config.virtual_payload ? 1 : payload.size());
  if (!config.virtual_payload) std::memcpy(m.held.bytes.get(), payload.data(), payload.size());
  m.held.offset = offset;
  m.held.length = static_cast<uint32_t>(payload.size());
  held_bytes += payload.size();
  return true;
}

void Engine::Impl::drop_tail(RxMessage& m) {
  held_bytes -= m.held.length;
  m.held = HeldTail{};
}

// The key may have gone while the tail was held: it is looked at again.
bool Engine::Impl::release_tail(QueuePair& qp, RxMessage& m) {
  if (!m.held.bytes) return true;
  const auto base = mrs.translate(m.rkey, qp.pd, m.va, m.length, access::kRemoteWrite);
  if (base) memory.place_tail(*base + m.held.offset, {m.held.bytes.get(), m.held.length});
  drop_tail(m);
  return base.has_value();
}

// RQSN of the receive that completes next.
uint64_t Engine::Impl::next_receive(const QueuePair& qp) const {
  return qp.rq ? qp.rq->begin() - qp.rx.rq_base : qp.rx.bound.begin();
}

// Makes sure that a receive belongs to `rqsn`. With an SRQ, entries are bound in RQSN order up to the highest
// RQSN seen, so that a later message can never take the entry that an earlier one needs.
bool Engine::Impl::bind_receive(Time now, QueuePair& qp, uint32_t rqsn) {
  RxHalf& rx = qp.rx;
  const uint64_t number = wire::expand32(rqsn, next_receive(qp));
  if (number < next_receive(qp)) return false;
  if (qp.rq) return qp.rq->contains(rx.rq_base + number);
  bool took = false;
  while (rx.bind_next <= number) {
    if (rx.granted - rx.returned == static_cast<uint32_t>(rx.bind_next)) return false;
    const auto entry = qp.srq->queue.take();
    MROCE_ASSERT(entry.has_value());
    --qp.srq->queue.reserved;
    rx.bound.push(*entry);
    ++rx.bind_next;
    took = true;
  }
  if (took) {
    if (qp.srq->queue.check_limit()) emit(EventKind::kSrqLimitReached, qp.srq->user);
    update_credit(now, qp, false);
  }
  return true;
}

std::span<const Sge> Engine::Impl::receive_sges(QueuePair& qp, uint32_t rqsn) const {
  const uint64_t number =
      MROCE_MUTANT(kOldestReceive) ? next_receive(qp) : wire::expand32(rqsn, next_receive(qp));
  return qp.rq ? qp.rq->sges(qp.rx.rq_base + number) : qp.srq->queue.sges(qp.rx.bound[number]);
}

uint64_t Engine::Impl::receive_bytes(QueuePair& qp, uint32_t rqsn) const {
  const uint64_t number = wire::expand32(rqsn, next_receive(qp));
  return qp.rq ? qp.rq->bytes(qp.rx.rq_base + number) : qp.srq->queue.bytes(qp.rx.bound[number]);
}

Verdict Engine::Impl::place_send(QueuePair& qp, uint64_t msn, RxMessage& m, const wire::Data& data,
                                 wire::In payload) {
  if (m.length > receive_bytes(qp, data.rqsn) && MROCE_MUTANT(kLengthIgnored)) return Verdict::accept();
  if (m.length > receive_bytes(qp, data.rqsn)) {
    return fail_message(qp, msn, NakCode::kLength, WcStatus::kLocLenErr);
  }
  const PdHandle pd = qp.srq != nullptr ? qp.srq->pd : qp.pd;
  if (!scatter(receive_sges(qp, data.rqsn), pd, data.offset, payload)) {
    return fail_message(qp, msn, NakCode::kRemoteOp, WcStatus::kLocProtErr);
  }
  return Verdict::accept();
}

void Engine::Impl::advance(Time now, QueuePair& qp) {
  RxHalf& rx = qp.rx;
  while (rx.open && !rx.messages.empty() && rx.messages.front().complete) {
    const uint64_t msn = rx.messages.begin();
    if (rx.fail_msn && *rx.fail_msn == msn) break;
    if (!finish_message(qp, msn, rx.messages.front())) break;
    rx.messages.pop();
  }
  end_failed_stream(now, qp);
}

// The receive that completes next must be the one that this message names: a peer that numbers them otherwise
// is wrong.
bool Engine::Impl::receive_is_next(const QueuePair& qp, const RxMessage& m) const {
  if (qp.rq ? qp.rq->depth() == 0 : qp.rx.bound.empty()) return false;
  return wire::expand32(m.rqsn, next_receive(qp)) == next_receive(qp);
}

bool Engine::Impl::finish_message(QueuePair& qp, uint64_t msn, RxMessage& m) {
  if (consumes_receive(m.op) && !receive_is_next(qp, m)) {
    fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
    return false;
  }
  switch (m.op) {
    case DataOp::kWrite:
    case DataOp::kWriteImm:
      if (!release_tail(qp, m)) {
        fail_message(qp, msn, NakCode::kAccess, WcStatus::kSuccess);
        return false;
      }
      if (m.op == DataOp::kWriteImm) complete_receive(qp, m, WcStatus::kSuccess);
      return true;
    case DataOp::kSendInv: {
      const MemoryRegion* region = mrs.find(m.imm);
      if (region == nullptr || region->pd != qp.pd) {
        fail_message(qp, msn, NakCode::kRemoteOp, WcStatus::kLocProtErr);
        return false;
      }
      MemoryRegion changed = *region;
      if (!MROCE_MUTANT(kKeepsInvalidated)) changed.access &= access::kLocalWrite;
      const auto replaced = mrs.replace(m.imm, changed);
      MROCE_ASSERT(replaced.has_value());
      complete_receive(qp, m, WcStatus::kSuccess);
      return true;
    }
    case DataOp::kSend:
    case DataOp::kSendImm:
      complete_receive(qp, m, WcStatus::kSuccess);
      return true;
    case DataOp::kReadReq:
      if (MROCE_MUTANT(kReadOnArrival) || execute_read(qp, m)) return true;
      fail_message(qp, msn, NakCode::kAccess, WcStatus::kSuccess);
      return false;
    case DataOp::kCompareSwap:
    case DataOp::kFetchAdd:
      if (m.va % 8 != 0 && !MROCE_MUTANT(kUnalignedAtomic)) {
        fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
        return false;
      }
      if ((MROCE_MUTANT(kAtomicOnArrival) && m.op == DataOp::kFetchAdd) || execute_atomic(qp, m)) return true;
      fail_message(qp, msn, NakCode::kAccess, WcStatus::kSuccess);
      return false;
    default:
      fail_message(qp, msn, NakCode::kInvalid, WcStatus::kSuccess);
      return false;
  }
}

void Engine::Impl::complete_receive(QueuePair& qp, const RxMessage& m, WcStatus status) {
  Wc wc;
  wc.status = status;
  wc.opcode = is_write(m.op) ? WcOpcode::kRecvWriteImm : WcOpcode::kRecv;
  wc.byte_len = m.length;
  wc.qp_num = qp.qpn;
  wc.src_qp = qp.rx.peer_qpn;
  if (m.op == DataOp::kSendImm || m.op == DataOp::kWriteImm) {
    wc.flags = wc_flag::kWithImm;
    wc.imm_or_invalidated = m.imm;
  } else if (m.op == DataOp::kSendInv) {
    wc.flags = wc_flag::kWithInv;
    wc.imm_or_invalidated = m.imm;
  }
  if (qp.rq) {
    wc.wr_id = qp.rq->wr_id(qp.rq->begin());
    qp.rq->pop();
  } else {
    const uint32_t entry = qp.rx.bound.front();
    wc.wr_id = qp.srq->queue.wr_id(entry);
    qp.srq->queue.release(entry);
    qp.rx.bound.pop();
  }
  push_completion(*qp.recv_cq, wc, m.solicited || status != WcStatus::kSuccess);
}

void Engine::Impl::queue_response(QueuePair& qp, Response response) {
  RxHalf& rx = qp.rx;
  rx.responses.push(response);
  if (rx.ready) return;
  rx.ready = true;
  rx.conn->ready.push(Connection::kResponses | qp.stream);
  want_tx(*rx.conn);
}

bool Engine::Impl::execute_read(QueuePair& qp, const RxMessage& m) {
  if (m.length != 0 && (!mrs.translate(m.rkey, qp.pd, m.va, m.length, access::kRemoteRead) ||
                        (qp.attr.access_flags & access::kRemoteRead) == 0)) {
    return false;
  }
  Response response;
  response.op = DataOp::kReadResp;
  response.rdslot = m.rdslot;
  response.va = m.va;
  response.rkey = m.rkey;
  response.length = m.length;
  queue_response(qp, response);
  return true;
}

bool Engine::Impl::execute_atomic(QueuePair& qp, const RxMessage& m) {
  const auto addr = mrs.translate(m.rkey, qp.pd, m.va, 8, access::kRemoteAtomic);
  const bool aligned = addr && (*addr % 8 == 0 || MROCE_MUTANT(kUnalignedAtomic));
  if (!aligned || (qp.attr.access_flags & access::kRemoteAtomic) == 0) return false;
  Response response;
  response.op = DataOp::kAtomicResp;
  response.rdslot = m.rdslot;
  response.original = m.op == DataOp::kFetchAdd ? memory.fetch_add(*addr, m.operand)
                                                : memory.compare_swap(*addr, m.compare, m.operand);
  queue_response(qp, response);
  return true;
}

bool Engine::Impl::next_response_bytes(QueuePair& qp, const Connection& c, DataOp& op,
                                       uint32_t& payload) const {
  RxHalf& rx = qp.rx;
  if (rx.next_response < rx.responses.begin()) rx.next_response = rx.responses.begin();
  if (rx.next_response == rx.responses.end()) return false;
  const Response& response = rx.responses[rx.next_response];
  op = response.op;
  payload = std::min(c.payload_mtu, response.length - response.next_offset);
  return true;
}

TxPacket Engine::Impl::cut_response(Connection& c, QueuePair& qp) {
  RxHalf& rx = qp.rx;
  Response& response = rx.responses[rx.next_response];
  TxPacket packet;
  packet.kind = TxPacket::Kind::kResponse;
  packet.stream = qp.stream;
  packet.length = static_cast<uint16_t>(std::min(c.payload_mtu, response.length - response.next_offset));
  packet.offset = response.next_offset;
  packet.owner = rx.next_response;
  ++response.unaccepted;
  response.next_offset += packet.length;
  c.counters.payload_bytes_sent += packet.length;
  if (response.next_offset == response.length) {
    response.all_sent = true;
    ++rx.next_response;
  }
  return packet;
}

void Engine::Impl::response_accepted(Time now, QueuePair& qp, uint64_t number) {
  RxHalf& rx = qp.rx;
  if (!rx.responses.contains(number)) return;
  --rx.responses[number].unaccepted;
  while (!rx.responses.empty() && rx.responses.front().all_sent && rx.responses.front().unaccepted == 0) {
    rx.responses.pop();
  }
  end_failed_stream(now, qp);
}

// `peer_closed`: the requester has ended its half, so nobody waits for responses any more.
void Engine::Impl::end_failed_stream(Time now, QueuePair& qp, bool peer_closed) {
  RxHalf& rx = qp.rx;
  if (!rx.open || !rx.fail_msn || *rx.fail_msn != rx.messages.begin()) return;
  if (!rx.responses.empty() && !peer_closed) return;
  const RxMessage& m = rx.messages.front();
  if (rx.fail_status != WcStatus::kSuccess && consumes_receive(m.op) && receive_is_next(qp, m))
    complete_receive(qp, m, rx.fail_status);
  emit(rx.fail_code == NakCode::kAccess ? EventKind::kQpAccessError : EventKind::kQpRequestError, qp.user);
  close_rx(now, qp, wire::StopReason::kFailed, rx.fail_code);
  enter_error(now, qp, WcStatus::kWrFlushErr);
}

// VOID: the sender took this packet back. What has come of its message is forgotten; the message may start
// again.
void Engine::Impl::on_void(Connection& c, const wire::Data& data) {
  QueuePair* qp = stream_qp(data.stream);
  if (qp == nullptr || !qp->rx.open || qp->rx.conn != &c) return;
  Ring<RxMessage>& messages = qp->rx.messages;
  const uint64_t msn = wire::expand32(data.msn, messages.begin());
  if (!messages.contains(msn) || messages[msn].complete) return;
  drop_tail(messages[msn]);
  // The failed message itself is still needed: its receive completes with the error.
  if (qp->rx.fail_msn && msn == *qp->rx.fail_msn) return;
  messages[msn] = RxMessage{};
}

}  // namespace mroce
