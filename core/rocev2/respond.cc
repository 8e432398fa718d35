// What the responder sends: READ responses and results of atomics in PSN order, acknowledgements behind them,
// and congestion notification packets, which wait for nothing.
#include <algorithm>

#include "core/rocev2/engine_impl.h"

namespace mroce::rocev2 {

// An ACK may say more than the one before it, so one that waits is enough. It waits for all responses before
// it: it acknowledges everything up to its PSN.
void Engine::Impl::schedule_ack(Qp& qp) {
  qp.rx.ack_pending = true;
  if (qp.rx.responses.empty()) kick_control(qp);
}

void Engine::Impl::schedule_nak(Qp& qp, uint8_t syndrome) {
  qp.rx.nak_pending = syndrome;
  if (qp.rx.responses.empty()) kick_control(qp);
}

void Engine::Impl::schedule_cnp(Time now, Qp& qp) {
  if (now < qp.rx.cnp_allowed_at) return;
  qp.rx.cnp_allowed_at = now + config.cnp_gap;
  qp.rx.cnp_pending = true;
  kick_control(qp);
}

uint8_t Engine::Impl::credits(const Qp& qp) const {
  if (!config.end_to_end_credits || !qp.receives) return kNoCredits;
  return credit_code(qp.receives->depth());
}

void Engine::Impl::transmit_response(Qp& qp, TxPacket& out) {
  Responder& rx = qp.rx;
  Response& response = rx.responses.front();
  begin_packet(qp, out, TxKind::kResponse);
  Headers h;
  h.bth.dqpn = qp.params.dest_qpn;
  h.bth.psn = wire_psn(response.psn);
  h.aeth = {ack_syndrome(credits(qp)), response.msn};
  const bool last = response.psn + 1 == response.end_psn;
  if (response.is_atomic) {
    h.bth.op = Op::kAtomicAck;
    h.atomic_original = response.original;
  } else {
    out.payload = std::min(config.mtu, response.left);
    out.pad = static_cast<uint8_t>((4 - (out.payload & 3)) & 3);
    h.bth.pad = out.pad;
    h.bth.op =
        response.begun ? (last ? Op::kReadLast : Op::kReadMiddle) : (last ? Op::kReadOnly : Op::kReadFirst);
    if (!qp.params.virtual_payload && out.payload != 0) {
      out.slices[0] = {memory.fetch(response.addr, out.payload), out.payload};
      out.slice_count = 1;
    }
    response.begun = true;
    response.addr += out.payload;
    response.left -= out.payload;
  }
  ++response.psn;
  finish_headers(h, out);
  if (!last) return;
  rx.responses.erase(rx.responses.begin());
  if (rx.responses.empty() && (rx.ack_pending || rx.nak_pending != 0)) kick_control(qp);
}

bool Engine::Impl::transmit_ack(Qp& qp, TxPacket& out) {
  Responder& rx = qp.rx;
  if (!rx.responses.empty()) return false;  // asked again when they are out
  Headers h;
  h.bth.dqpn = qp.params.dest_qpn;
  h.bth.op = Op::kAck;
  h.aeth.msn = rx.msn;
  if (rx.nak_pending != 0) {
    begin_packet(qp, out, TxKind::kNak);
    h.bth.psn = wire_psn(rx.expected);
    h.aeth.syndrome = rx.nak_pending;
    const bool sequence = rx.nak_pending == nak::kSequence;
    const bool rnr = kind_of(rx.nak_pending) == SyndromeKind::kRnr;
    ++(sequence ? counters.naks_sent : rnr ? counters.rnr_naks_sent : counters.error_naks_sent);
    rx.nak_pending = 0;
    rx.ack_pending = false;  // a NAK acknowledges everything before it
  } else if (rx.sack_pending && rx.sack_trigger > rx.expected) {
    begin_packet(qp, out, TxKind::kNak);
    h.bth.op = Op::kIrnNack;
    h.bth.psn = wire_psn(rx.expected);
    h.aeth.syndrome = nak::kSequence;
    h.sack = make_sack(qp);
    ++counters.naks_sent;
    rx.ack_pending = false;
  } else if (rx.ack_pending) {
    begin_packet(qp, out, TxKind::kAck);
    h.bth.psn = wire_psn(rx.expected - 1);
    h.aeth.syndrome = ack_syndrome(credits(qp));
    ++counters.acks_sent;
    rx.ack_pending = false;
  } else {
    rx.sack_pending = false;
    return false;
  }
  rx.sack_pending = false;
  finish_headers(h, out);
  return true;
}

void Engine::Impl::transmit_cnp(Qp& qp, TxPacket& out) {
  begin_packet(qp, out, TxKind::kCnp);
  Headers h;
  h.bth.op = Op::kCnp;
  h.bth.becn = true;
  h.bth.dqpn = qp.params.dest_qpn;
  finish_headers(h, out);
  qp.rx.cnp_pending = false;
  ++counters.cnps_sent;
}

}  // namespace mroce::rocev2
