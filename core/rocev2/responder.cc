// Requests: their order, their rights, and what they do to memory.
#include <algorithm>
#include <cstring>

#include "core/rdma/sge_pieces.h"
#include "core/rocev2/engine_impl.h"

namespace mroce::rocev2 {

void Engine::Impl::on_request(Time now, Qp& qp, const Arrival& arrival) {
  Responder& rx = qp.rx;
  const uint64_t psn = expand_psn(arrival.headers.bth.psn, rx.expected);
  if (psn == rx.expected) {
    if (!execute(qp, arrival)) return;
    rx.nak_sent = false;
    if (!rx.held.empty()) drain_held(qp);
    return;
  }
  if (psn < rx.expected) {
    ++counters.duplicates;
    on_duplicate(qp, psn, arrival);
    return;
  }
  if (psn - rx.expected > 2 * kMaxOutstanding) {
    ++counters.drop_psn;
    return;
  }
  ++counters.out_of_order;
  if (config.loss.recovery == Recovery::kSelectiveRepeat) {
    hold(qp, psn, arrival);
  } else {
    on_gap(now, qp);
  }
}

void Engine::Impl::on_gap(Time now, Qp& qp) {
  Responder& rx = qp.rx;
  const Nanos interval = config.loss.nak_interval;
  if (rx.nak_sent && (interval == Nanos{0} || now < rx.nak_again_at)) return;
  rx.nak_sent = true;
  rx.nak_again_at = now + interval;
  schedule_nak(qp, nak::kSequence);
}

// Duplicates may stand among the responses beside as many new ones, because one that the network made (or
// kept for long) asks for what the requester has already. So more new ones than agreed are noticed late, and
// there is a bound.
bool Engine::Impl::responses_full(const Qp& qp, bool duplicate) const {
  return qp.rx.responses.size() >= size_t{qp.params.max_dest_rd_atomic} * (duplicate ? 1 : 2);
}

void Engine::Impl::on_duplicate(Qp& qp, uint64_t psn, const Arrival& arrival) {
  Responder& rx = qp.rx;
  const Op op = arrival.headers.bth.op;
  if (op == Op::kReadRequest) {
    const Reth& reth = arrival.headers.reth;
    const uint64_t packets = std::max<uint64_t>(1, (uint64_t{reth.length} + config.mtu - 1) / config.mtu);
    if (psn + packets > rx.expected) return;  // not what was executed
    const uint64_t end = psn + packets;
    std::erase_if(rx.responses, [&](const Response& r) { return r.psn < end && psn < r.end_psn; });
    if (responses_full(qp, true)) return;
    execute_read(qp, arrival);
    return;
  }
  if (op == Op::kCompareSwap || op == Op::kFetchAdd) {
    const auto found = std::find_if(rx.atomics.begin(), rx.atomics.end(),
                                    [&](const CachedAtomic& cached) { return cached.psn == psn; });
    if (found == rx.atomics.end()) return;  // IBTA chapter 9.7.5.2.8: silently dropped
    std::erase_if(rx.responses, [&](const Response& r) { return r.psn == psn; });
    if (responses_full(qp, true)) return;
    const auto at = std::find_if(rx.responses.begin(), rx.responses.end(),
                                 [&](const Response& r) { return r.psn > psn; });
    rx.responses.insert(at, {psn, psn + 1, 0, found->original, 0, found->msn, true, false});
    return;
  }
  schedule_ack(qp);
}

bool Engine::Impl::refuse(Qp& qp, uint8_t syndrome) {
  schedule_nak(qp, syndrome);
  to_error(qp);
  return false;
}

// The request at the expected PSN came (again), so its answer is due (again); those behind it get none.
bool Engine::Impl::receiver_not_ready(Qp& qp) {
  qp.rx.nak_sent = true;
  schedule_nak(qp, rnr_syndrome(qp.params.min_rnr_timer));
  return false;
}

void Engine::Impl::next_request(Qp& qp) const {
  qp.rx.expected += 1;
  qp.rx.nak_sent = false;
}

bool Engine::Impl::execute(Qp& qp, const Arrival& arrival) {
  Responder& rx = qp.rx;
  const Op op = arrival.headers.bth.op;
  const bool send = op <= Op::kSendOnlyImm || op == Op::kSendLastInv || op == Op::kSendOnlyInv;
  const bool write = op >= Op::kWriteFirst && op <= Op::kWriteOnlyImm;
  // A message in progress goes on with its own kind; otherwise something begins (IBTA table 58).
  const auto expected_kind = send ? Responder::Message::kSend : Responder::Message::kWrite;
  if (rx.message == Responder::Message::kNone
          ? !arrival.op.first
          : arrival.op.first || !(send || write) || rx.message != expected_kind) {
    return refuse(qp, nak::kInvalidRequest);
  }
  if (arrival.op.payload &&
      (arrival.payload > config.mtu || (!arrival.op.last && arrival.payload != config.mtu))) {
    return refuse(qp, nak::kInvalidRequest);
  }
  if (send) return execute_send(qp, arrival);
  if (write) return execute_write(qp, arrival);
  return op == Op::kReadRequest ? execute_read(qp, arrival) : execute_atomic(qp, arrival);
}

// ---- SEND

void Engine::Impl::place_in_receive(Qp& qp, const Arrival& arrival, bool& ok) {
  Responder& rx = qp.rx;
  const uint64_t entry = qp.receives->begin();
  WcStatus failure = WcStatus::kSuccess;
  if (rx.received + arrival.payload > qp.receives->bytes(entry)) failure = WcStatus::kLocLenErr;
  if (failure == WcStatus::kSuccess && arrival.bytes != nullptr) {
    const std::byte* from = arrival.bytes;
    const bool placed = for_each_piece(qp.receives->sges(entry), rx.received, arrival.payload,
                                       [&](uint64_t addr, uint32_t length, uint32_t key) {
                                         const auto host = regions.translate(key, qp.params.pd, addr, length,
                                                                             access::kLocalWrite);
                                         if (!host) return false;
                                         memory.place(*host, {from, length});
                                         from += length;
                                         return true;
                                       });
    if (!placed) failure = WcStatus::kLocProtErr;
  }
  ok = failure == WcStatus::kSuccess;
  if (ok) return;
  Wc wc;
  wc.wr_id = qp.receives->wr_id(entry);
  wc.status = failure;
  wc.opcode = WcOpcode::kRecv;
  wc.qp_num = qp.params.qpn;
  completions.push(wc);
  qp.receives->pop();
  refuse(qp, failure == WcStatus::kLocLenErr ? nak::kInvalidRequest : nak::kRemoteOperation);
}

bool Engine::Impl::execute_send(Qp& qp, const Arrival& arrival) {
  Responder& rx = qp.rx;
  if (!qp.receives || qp.receives->depth() == 0) return receiver_not_ready(qp);
  if (arrival.op.first) rx.received = 0;
  bool ok = false;
  place_in_receive(qp, arrival, ok);
  if (!ok) return false;
  rx.received += arrival.payload;
  counters.rx_payload_bytes += arrival.payload;
  rx.message = arrival.op.last ? Responder::Message::kNone : Responder::Message::kSend;
  next_request(qp);
  if (arrival.op.last) {
    rx.msn = (rx.msn + 1) & kPsnMask;
    complete_receive(qp, arrival, WcOpcode::kRecv, rx.received);
  }
  if (arrival.headers.bth.ack_request) schedule_ack(qp);
  return true;
}

void Engine::Impl::complete_receive(Qp& qp, const Arrival& arrival, WcOpcode opcode, uint64_t bytes) {
  Wc wc;
  wc.wr_id = qp.receives->wr_id(qp.receives->begin());
  wc.opcode = opcode;
  wc.byte_len = static_cast<uint32_t>(bytes);
  wc.qp_num = qp.params.qpn;
  wc.src_qp = qp.params.dest_qpn;
  if (arrival.op.imm || arrival.op.ieth) wc.imm_or_invalidated = arrival.headers.imm;
  wc.flags = (arrival.op.imm ? wc_flag::kWithImm : 0) | (arrival.op.ieth ? wc_flag::kWithInv : 0);
  qp.receives->pop();
  completions.push(wc);
  if (arrival.headers.bth.solicited) events.push({EventKind::kSolicited, qp.params.qpn, bytes});
}

// ---- WRITE

bool Engine::Impl::write_fits(Qp& qp, const Arrival& arrival) const {
  const Responder& rx = qp.rx;
  const uint64_t left = rx.length - rx.received;
  return arrival.op.last ? arrival.payload == left : arrival.payload < left;
}

bool Engine::Impl::execute_write(Qp& qp, const Arrival& arrival) {
  Responder& rx = qp.rx;
  if (arrival.op.first) {
    const Reth& reth = arrival.headers.reth;
    rx.received = 0;
    rx.length = reth.length;
    if (rx.length > (uint64_t{1} << 31)) return refuse(qp, nak::kInvalidRequest);
    if (!qp.params.virtual_payload) {
      if ((qp.params.access_flags & access::kRemoteWrite) == 0) return refuse(qp, nak::kRemoteAccess);
      const auto host =
          regions.translate(reth.rkey, qp.params.pd, reth.va, reth.length, access::kRemoteWrite);
      if (!host) return refuse(qp, nak::kRemoteAccess);
      rx.addr = *host;
    }
  }
  if (!write_fits(qp, arrival)) return refuse(qp, nak::kInvalidRequest);
  if (arrival.op.imm && (!qp.receives || qp.receives->depth() == 0)) return receiver_not_ready(qp);
  if (arrival.bytes != nullptr) {
    const std::span<const std::byte> bytes{arrival.bytes, arrival.payload};
    arrival.op.last ? memory.place_tail(rx.addr, bytes) : memory.place(rx.addr, bytes);
    rx.addr += arrival.payload;
  }
  rx.received += arrival.payload;
  counters.rx_payload_bytes += arrival.payload;
  rx.message = arrival.op.last ? Responder::Message::kNone : Responder::Message::kWrite;
  next_request(qp);
  if (arrival.op.last) {
    rx.msn = (rx.msn + 1) & kPsnMask;
    if (arrival.op.imm) {
      complete_receive(qp, arrival, WcOpcode::kRecvWriteImm, rx.received);
    } else if (arrival.headers.bth.solicited) {
      events.push({EventKind::kSolicited, qp.params.qpn, rx.received});
    }
  }
  if (arrival.headers.bth.ack_request) schedule_ack(qp);
  return true;
}

// ---- READ and atomics

// Also for a duplicate: then expected PSN and MSN stay.
bool Engine::Impl::execute_read(Qp& qp, const Arrival& arrival) {
  Responder& rx = qp.rx;
  const Reth& reth = arrival.headers.reth;
  if (reth.length > (uint64_t{1} << 31) || responses_full(qp, false)) {
    return refuse(qp, nak::kInvalidRequest);
  }
  uint64_t host = 0;
  if (!qp.params.virtual_payload) {
    if ((qp.params.access_flags & access::kRemoteRead) == 0) return refuse(qp, nak::kRemoteAccess);
    const auto found = regions.translate(reth.rkey, qp.params.pd, reth.va, reth.length, access::kRemoteRead);
    if (!found) return refuse(qp, nak::kRemoteAccess);
    host = *found;
  }
  const uint64_t packets = std::max<uint64_t>(1, (uint64_t{reth.length} + config.mtu - 1) / config.mtu);
  const uint64_t psn = expand_psn(arrival.headers.bth.psn, rx.expected);
  if (psn == rx.expected) {
    rx.expected += packets;
    rx.nak_sent = false;
    rx.msn = (rx.msn + 1) & kPsnMask;
  }
  Response response{psn, psn + packets, host, 0, reth.length, rx.msn, false, false};
  const auto at =
      std::find_if(rx.responses.begin(), rx.responses.end(), [&](const Response& r) { return r.psn > psn; });
  rx.responses.insert(at, response);
  return true;
}

bool Engine::Impl::execute_atomic(Qp& qp, const Arrival& arrival) {
  Responder& rx = qp.rx;
  const AtomicEth& atomic = arrival.headers.atomic;
  if (atomic.va % 8 != 0 || responses_full(qp, false)) {
    return refuse(qp, nak::kInvalidRequest);
  }
  uint64_t original = 0;
  if (!qp.params.virtual_payload) {
    if ((qp.params.access_flags & access::kRemoteAtomic) == 0) return refuse(qp, nak::kRemoteAccess);
    const auto host = regions.translate(atomic.rkey, qp.params.pd, atomic.va, 8, access::kRemoteAtomic);
    if (!host) return refuse(qp, nak::kRemoteAccess);
    if (*host % 8 != 0) return refuse(qp, nak::kInvalidRequest);
    original = arrival.headers.bth.op == Op::kCompareSwap
                   ? memory.compare_swap(*host, atomic.compare, atomic.swap_or_add)
                   : memory.fetch_add(*host, atomic.swap_or_add);
  }
  const uint64_t psn = rx.expected;
  next_request(qp);
  rx.msn = (rx.msn + 1) & kPsnMask;
  if (rx.atomics.size() >= qp.params.max_dest_rd_atomic) rx.atomics.erase(rx.atomics.begin());
  rx.atomics.push_back({psn, original, rx.msn});
  rx.responses.push_back({psn, psn + 1, 0, original, 0, rx.msn, true, false});
  return true;
}

}  // namespace mroce::rocev2
