// Selective repeat as IRN has it (Mittal et al., SIGCOMM 2018, section 3.1).
//
// The responder answers every packet out of order with a NACK that carries the expected PSN and what came
// beyond it. The first NACK puts the requester into recovery: it sends again the packet that the NACK expects
// and then whatever is not known to have arrived although a later packet has, each once; when there is
// nothing of that kind, new packets, as far as the window of one bandwidth-delay product allows. Recovery
// ends when everything that was sent before it is acknowledged. A packet that is lost again waits for the
// timeout, after which everything that is not known to have arrived goes out again. (The paper leaves open
// what follows the first packet after a timeout. One packet for each timeout would make a lost tail cost a
// timeout for each of its packets.)
//
// Two differences, neither visible on the wire: the NACK repeats up to 128 earlier arrivals, so that a lost
// NACK does no harm (the paper names only the packet that caused it), and the responder holds early packets
// instead of placing them, so that one path executes everything.
#include <algorithm>

#include "core/rocev2/engine_impl.h"

namespace mroce::rocev2 {
namespace {

constexpr uint64_t kMaxHeld = SackBits::kBits / 2;  // packets after the expected one
constexpr uint64_t kSackSpan = 128;

// A READ is one packet and many PSNs: when its request has arrived, so have all of them.
void mark_reads(Requester& tx, uint64_t trigger) {
  for (uint64_t i = tx.sq.begin(); i != tx.cursor && tx.sq[i].first_psn <= trigger; ++i) {
    const Wqe& wqe = tx.sq[i];
    if (!wqe.is_read() || wqe.first_psn < tx.una || !tx.sacked.test(wqe.first_psn)) continue;
    for (uint64_t psn = wqe.first_psn + 1; psn != wqe.end_psn(); ++psn) tx.sacked.set(psn);
  }
}

}  // namespace

void Engine::Impl::on_irn_nack(Time now, Qp& qp, uint64_t psn, const Sack& sack) {
  Requester& tx = qp.tx;
  if (config.loss.recovery != Recovery::kSelectiveRepeat) {
    ++counters.drop_response;
    return;
  }
  if (psn < tx.una) return;
  ++counters.naks_received;
  acknowledge_before(now, qp, psn);
  const uint64_t trigger = expand_psn(sack.trigger, tx.una);
  if (trigger >= tx.sent_end || trigger < tx.una) return;
  for (uint64_t i = 0; i < kSackSpan && trigger - i >= tx.una; ++i) {
    if (((sack.bits[i / 64] >> (i % 64)) & 1) != 0) tx.sacked.set(trigger - i);
  }
  if (tx.reads_out != 0) mark_reads(tx, trigger);
  tx.sacked_end = std::max(tx.sacked_end, trigger + 1);
  if (config.loss.nak_cuts_rate) qp.dcqcn.on_cnp(now);
  if (tx.in_recovery) return;
  begin_recovery(qp);
  if (config.loss.nak_resends_all) {
    tx.resend_next = tx.una;
    tx.lost_end = tx.sent_end;
  }
}

void Engine::Impl::begin_recovery(Qp& qp) {
  Requester& tx = qp.tx;
  tx.in_recovery = true;
  tx.recovery_end = tx.sent_end;
}

bool Engine::Impl::next_resend(Qp& qp, uint64_t& psn) const {
  Requester& tx = qp.tx;
  tx.resend_next = std::max(tx.resend_next, tx.una);
  if (tx.resend_una && tx.una < tx.sent_end) {
    psn = tx.una;
    return true;
  }
  const uint64_t end = std::min(std::max(tx.sacked_end, tx.lost_end), tx.sent_end);
  while (tx.resend_next < end && tx.sacked.test(tx.resend_next)) ++tx.resend_next;
  psn = tx.resend_next;
  return tx.resend_next < end;
}

void Engine::Impl::hold(Qp& qp, uint64_t psn, const Arrival& arrival) {
  Responder& rx = qp.rx;
  if (psn - rx.expected > kMaxHeld) {
    ++counters.drop_hold;
    return;
  }
  if (rx.held.empty()) rx.held.restart(rx.expected);
  while (rx.held.end() <= psn) rx.held.push({});
  HeldPacket& held = rx.held[psn];
  if (held.present) {
    ++counters.duplicates;
  } else {
    held.present = true;
    held.headers = arrival.headers;
    held.payload = arrival.payload;
    if (arrival.bytes != nullptr) held.bytes.assign(arrival.bytes, arrival.bytes + arrival.payload);
  }
  rx.sack_pending = true;
  rx.sack_trigger = psn;
  kick_control(qp);
}

// Executes what follows without a gap. A request that is refused stays, and so does everything after it.
void Engine::Impl::drain_held(Qp& qp) {
  Responder& rx = qp.rx;
  while (!rx.held.empty()) {
    while (!rx.held.empty() && rx.held.begin() < rx.expected) rx.held.pop();
    if (rx.held.empty() || !rx.held.front().present) return;
    HeldPacket held = std::move(rx.held.front());
    const Arrival arrival{held.headers, info(held.headers.bth.op), held.payload,
                          held.bytes.empty() ? nullptr : held.bytes.data()};
    if (!execute(qp, arrival)) {
      if (!rx.held.empty()) rx.held.front() = HeldPacket{};
      return;
    }
  }
}

Sack Engine::Impl::make_sack(const Qp& qp) const {
  const Responder& rx = qp.rx;
  Sack sack;
  sack.trigger = wire_psn(rx.sack_trigger);
  for (uint64_t i = 0; i < kSackSpan && rx.sack_trigger - i >= rx.expected; ++i) {
    const uint64_t psn = rx.sack_trigger - i;
    if (rx.held.contains(psn) && rx.held[psn].present) sack.bits[i / 64] |= uint64_t{1} << (i % 64);
  }
  return sack;
}

}  // namespace mroce::rocev2
