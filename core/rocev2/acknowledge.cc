// What the other side says about requests: ACKs, NAKs, READ responses, results of atomics.
#include <algorithm>
#include <cstring>

#include "core/rdma/rnr_timer.h"
#include "core/rdma/sge_pieces.h"
#include "core/rocev2/engine_impl.h"

namespace mroce::rocev2 {
void Engine::Impl::on_response(Time now, Qp& qp, const Arrival& arrival) {
  Requester& tx = qp.tx;
  const uint64_t psn = expand_psn(arrival.headers.bth.psn, tx.una);
  // A NAK may name the packet after the last one sent (when everything had arrived after all).
  if (psn > tx.sent_end || (psn == tx.sent_end && arrival.headers.bth.op != Op::kIrnNack &&
                            kind_of(arrival.headers.aeth.syndrome) != SyndromeKind::kNak)) {
    ++counters.drop_response;
    return;
  }
  switch (arrival.headers.bth.op) {
    case Op::kAck:
      on_ack(now, qp, psn, arrival.headers.aeth);
      break;
    case Op::kIrnNack:
      on_irn_nack(now, qp, psn, arrival.headers.sack);
      break;
    case Op::kAtomicAck:
      on_atomic_ack(now, qp, psn, arrival);
      break;
    default:
      on_read_response(now, qp, psn, arrival);
  }
}

void Engine::Impl::on_ack(Time now, Qp& qp, uint64_t psn, const Aeth& aeth) {
  switch (kind_of(aeth.syndrome)) {
    case SyndromeKind::kAck:
      ++counters.acks_received;
      take_credits(qp, aeth);
      if (psn < qp.tx.una) return;
      if (!acknowledge_before(now, qp, psn + 1)) implied_nak(qp);
      return;
    case SyndromeKind::kRnr:
      on_rnr(now, qp, psn, aeth.syndrome);
      return;
    case SyndromeKind::kNak:
      on_nak(now, qp, psn, aeth.syndrome);
      return;
    case SyndromeKind::kReserved:
      ++counters.drop_response;
  }
}

void Engine::Impl::on_nak(Time now, Qp& qp, uint64_t psn, uint8_t syndrome) {
  const uint8_t code = syndrome & 0x7f;
  if (code < nak::kSequence || code > nak::kRemoteOperation) {
    ++counters.drop_response;
    return;
  }
  if (psn < qp.tx.una) return;  // old
  if (code == nak::kSequence) {
    ++counters.naks_received;
    acknowledge_before(now, qp, psn);
    if (config.loss.nak_cuts_rate) qp.dcqcn.on_cnp(now);
    rewind(qp);
    return;
  }
  ++counters.error_naks_received;
  if (!acknowledge_before(now, qp, psn)) return;  // comes again after the missing response
  if (qp.tx.sq.empty()) return;
  if (code == nak::kInvalidRequest) fail_oldest(qp, WcStatus::kRemInvReqErr);
  if (code == nak::kRemoteAccess) fail_oldest(qp, WcStatus::kRemAccessErr);
  if (code == nak::kRemoteOperation) fail_oldest(qp, WcStatus::kRemOpErr);
}

void Engine::Impl::on_rnr(Time now, Qp& qp, uint64_t psn, uint8_t syndrome) {
  Requester& tx = qp.tx;
  constexpr uint8_t kForEver = 7;
  if (psn < tx.una || tx.rnr_until != kNever) return;
  ++counters.rnr_naks_received;
  if (!acknowledge_before(now, qp, psn)) {
    implied_nak(qp);
    return;
  }
  if (tx.una == tx.sent_end) return;  // nothing is outstanding
  if (qp.params.rnr_retry != kForEver) {
    if (tx.rnr_left == 0) {
      fail_oldest(qp, WcStatus::kRnrRetryExcErr);
      return;
    }
    --tx.rnr_left;
  }
  rewind(qp);
  tx.rnr_until = now + rnr_timer(syndrome);
}

bool Engine::Impl::acknowledge_before(Time now, Qp& qp, uint64_t psn) {
  Requester& tx = qp.tx;
  uint64_t limit = psn;
  // All requests before `psn` are looked at, also those that are to be sent again (reads_out counts them no
  // more): a late ACK may overtake the response to a READ.
  for (uint64_t i = tx.sq.begin(); i != tx.sq.end() && tx.sq[i].first_psn < psn; ++i) {
    if (!tx.sq[i].wants_response()) continue;
    limit = std::max(tx.una, tx.sq[i].first_psn);
    break;
  }
  if (limit > tx.una) advance(now, qp, limit);
  return limit == psn;
}

void Engine::Impl::advance(Time now, Qp& qp, uint64_t una) {
  Requester& tx = qp.tx;
  if (config.loss.recovery == Recovery::kSelectiveRepeat) {
    for (uint64_t psn = tx.una; psn != una; ++psn) tx.sacked.clear(psn);
    if (tx.in_recovery && una >= tx.recovery_end) tx.in_recovery = false;
    tx.resend_una = false;
  }
  tx.una = una;
  tx.retries_left = qp.params.retry_cnt;
  tx.rnr_left = qp.params.rnr_retry;
  tx.expiries = 0;
  while (!tx.sq.empty() && tx.sq.front().end_psn() <= una) {
    const Wqe& wqe = tx.sq.front();
    const bool before_cursor = tx.sq.begin() < tx.cursor;
    if (wqe.wants_response() && before_cursor) --tx.reads_out;
    complete(qp, wqe, WcStatus::kSuccess);
    tx.sq.pop();
  }
  if (tx.nxt < una) {  // it arrived although it was to be sent again
    tx.nxt = una;
  }
  tx.cursor = std::max(tx.cursor, tx.sq.begin());
  while (tx.cursor != tx.sq.end() && tx.sq[tx.cursor].end_psn() <= tx.nxt) ++tx.cursor;
  if (tx.una == tx.nxt) {
    tx.timeout_at = kNever;
  } else {
    arm_timeout(now, qp);
  }
}

void Engine::Impl::take_credits(Qp& qp, const Aeth& aeth) const {
  const uint8_t code = aeth.syndrome & 31;
  Requester& tx = qp.tx;
  if (!config.end_to_end_credits || code == kNoCredits) {
    tx.credit_limit = UINT32_MAX;
    tx.credits_known = false;
    return;
  }
  // The requester's count of messages has 32 bits, the MSN 24 of them.
  const uint32_t oldest = tx.posted_ssn - static_cast<uint32_t>(tx.sq.size());
  const auto msn = static_cast<uint32_t>(expand_psn(aeth.msn, kPsnBase + oldest) - kPsnBase);
  const uint32_t limit = msn + kCreditTable[code];
  if (!tx.credits_known || static_cast<int32_t>(limit - tx.credit_limit) > 0) tx.credit_limit = limit;
  tx.credits_known = true;
}

// Back to the oldest packet that is not acknowledged.
void Engine::Impl::rewind(Qp& qp) {
  Requester& tx = qp.tx;
  tx.timeout_at = kNever;  // runs again from the next transmission on
  if (config.loss.recovery == Recovery::kSelectiveRepeat) {
    // As after a timeout of TCP (RFC 6675, section 5.1): whatever is not known to have arrived is lost.
    begin_recovery(qp);
    tx.resend_una = true;
    tx.resend_next = tx.una;
    tx.lost_end = tx.sent_end;
    return;
  }
  tx.nxt = tx.una;
  tx.cursor = tx.sq.begin();
  tx.reads_out = 0;
}

void Engine::Impl::implied_nak(Qp& qp) {
  Requester& tx = qp.tx;
  if (tx.implied_nak_at == tx.una || tx.nxt == tx.una) return;
  tx.implied_nak_at = tx.una;
  ++counters.implied_naks;
  rewind(qp);
}

void Engine::Impl::on_read_response(Time now, Qp& qp, uint64_t psn, const Arrival& arrival) {
  Requester& tx = qp.tx;
  if (psn < tx.una) return;  // of a request that was repeated
  if (!acknowledge_before(now, qp, psn) || tx.una != psn) {
    implied_nak(qp);
    return;
  }
  const Wqe* wqe = tx.sq.empty() ? nullptr : &tx.sq.front();
  const uint64_t offset = wqe == nullptr ? 0 : (psn - wqe->first_psn) * config.mtu;
  if (wqe == nullptr || !wqe->is_read() ||
      arrival.payload != std::min<uint64_t>(config.mtu, wqe->length - offset)) {
    ++counters.drop_response;
    return;
  }
  if (arrival.op.aeth) take_credits(qp, arrival.headers.aeth);
  if (!qp.params.virtual_payload && !scatter(qp, *wqe, offset, arrival)) {
    fail_oldest(qp, WcStatus::kLocProtErr);
    return;
  }
  counters.rx_payload_bytes += arrival.payload;
  advance(now, qp, psn + 1);
}

void Engine::Impl::on_atomic_ack(Time now, Qp& qp, uint64_t psn, const Arrival& arrival) {
  Requester& tx = qp.tx;
  if (psn < tx.una) return;
  if (!acknowledge_before(now, qp, psn) || tx.una != psn) {
    implied_nak(qp);
    return;
  }
  if (tx.sq.empty() || !tx.sq.front().is_atomic()) {
    ++counters.drop_response;
    return;
  }
  take_credits(qp, arrival.headers.aeth);
  std::byte original[8];
  std::memcpy(original, &arrival.headers.atomic_original, sizeof original);
  const Arrival result{arrival.headers, arrival.op, sizeof original, original};
  if (!qp.params.virtual_payload && !scatter(qp, tx.sq.front(), 0, result)) {
    fail_oldest(qp, WcStatus::kLocProtErr);
    return;
  }
  advance(now, qp, psn + 1);
}

bool Engine::Impl::scatter(const Qp& qp, const Wqe& wqe, uint64_t offset, const Arrival& arrival) {
  if (arrival.payload == 0) return true;
  const std::byte* from = arrival.bytes;
  return for_each_piece(
      wqe.sges, offset, arrival.payload, [&](uint64_t addr, uint32_t length, uint32_t lkey) {
        const auto host = regions.translate(lkey, qp.params.pd, addr, length, access::kLocalWrite);
        if (!host) return false;
        memory.place(*host, {from, length});
        from += length;
        return true;
      });
}

void Engine::Impl::complete(Qp& qp, const Wqe& wqe, WcStatus status) {
  const bool signaled = qp.params.signal_all || (wqe.flags & send_flag::kSignaled) != 0;
  if (!signaled && status == WcStatus::kSuccess) return;
  Wc wc;
  wc.wr_id = wqe.wr_id;
  wc.status = status;
  wc.opcode = completion_opcode(wqe.opcode);
  wc.byte_len = wqe.length;
  wc.qp_num = qp.params.qpn;
  wc.src_qp = qp.params.dest_qpn;
  completions.push(wc);
}

void Engine::Impl::fail_oldest(Qp& qp, WcStatus status) {
  MROCE_ASSERT(!qp.tx.sq.empty());
  complete(qp, qp.tx.sq.front(), status);
  qp.tx.sq.pop();
  to_error(qp);
}

}  // namespace mroce::rocev2
