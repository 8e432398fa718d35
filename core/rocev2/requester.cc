// Work requests, and the packets that they become.
#include <algorithm>
#include <cstring>

#include "core/rdma/sge_pieces.h"
#include "core/rocev2/engine_impl.h"

namespace mroce::rocev2 {
namespace {

constexpr uint64_t kMaxMessage = uint64_t{1} << 31;  // IBTA chapter 9.7.3
constexpr uint32_t kAtomicBytes = 8;

// The opcode of one packet of a SEND or WRITE.
Op op_of(Opcode opcode, bool first, bool last) {
  const bool write = opcode == Opcode::kWrite || opcode == Opcode::kWriteImm;
  if (!last) {
    if (first) return write ? Op::kWriteFirst : Op::kSendFirst;
    return write ? Op::kWriteMiddle : Op::kSendMiddle;
  }
  switch (opcode) {
    case Opcode::kWrite:
      return first ? Op::kWriteOnly : Op::kWriteLast;
    case Opcode::kWriteImm:
      return first ? Op::kWriteOnlyImm : Op::kWriteLastImm;
    case Opcode::kSendImm:
      return first ? Op::kSendOnlyImm : Op::kSendLastImm;
    case Opcode::kSendInv:
      return first ? Op::kSendOnlyInv : Op::kSendLastInv;
    default:
      return first ? Op::kSendOnly : Op::kSendLast;
  }
}

bool known(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWrite:
    case Opcode::kWriteImm:
    case Opcode::kSend:
    case Opcode::kSendImm:
    case Opcode::kSendInv:
    case Opcode::kRead:
    case Opcode::kCompareSwap:
    case Opcode::kFetchAdd:
      return true;
  }
  return false;
}

// What the SGEs hold together; copies them, or what they point to for an inline request.
Result<uint64_t> take_sges(const SendWr& wr, Wqe& wqe) {
  if (wr.sges.size() > kMaxSlices) return fail(Errc::kInvalidArgument);
  uint64_t length = 0;
  for (const Sge& sge : wr.sges) length += sge.length;
  if ((wr.flags & send_flag::kInline) == 0) {
    wqe.sges.assign(wr.sges.begin(), wr.sges.end());
    return length;
  }
  constexpr uint64_t kMaxInline = 4096;
  if (wqe.wants_response() || length > kMaxInline) return fail(Errc::kInvalidArgument);
  wqe.inlined = std::make_unique<std::byte[]>(std::max<uint64_t>(length, 1));
  uint64_t at = 0;
  for (const Sge& sge : wr.sges) {
    if (sge.length != 0)
      std::memcpy(wqe.inlined.get() + at, reinterpret_cast<const void*>(sge.addr), sge.length);
    at += sge.length;
  }
  return length;
}

}  // namespace

Status Engine::Impl::post(Time now, Qp& qp, Wqe wqe) {
  Requester& tx = qp.tx;
  if (tx.sq.size() >= qp.params.max_send_wr) return fail(Errc::kQueueFull);
  if (wqe.wants_response() && qp.params.max_rd_atomic == 0) return fail(Errc::kInvalidArgument);
  const uint64_t packets = wqe.is_atomic() ? 1 : (uint64_t{wqe.length} + config.mtu - 1) / config.mtu;
  const bool selective = config.loss.recovery == Recovery::kSelectiveRepeat;
  const uint64_t most = selective && wqe.is_read() ? SackBits::kBits / 4 : kMaxOutstanding;
  if (packets > most) return fail(Errc::kInvalidArgument);
  wqe.packets = static_cast<uint32_t>(std::max<uint64_t>(packets, 1));
  wqe.first_psn = tx.end;
  wqe.ssn = ++tx.posted_ssn;
  tx.end += wqe.packets;
  tx.sq.push(std::move(wqe));
  kick(now, qp);
  return {};
}

Status Engine::post_send(Time now, uint32_t qpn, const SendWr& wr) {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return fail(Errc::kNotFound);
  if (qp->state != QpState::kRts) return fail(Errc::kBadState);
  if (!known(wr.opcode) || qp->params.virtual_payload) return fail(Errc::kInvalidArgument);
  Wqe wqe;
  wqe.wr_id = wr.wr_id;
  wqe.opcode = wr.opcode;
  wqe.flags = wr.flags;
  wqe.remote_addr = wr.remote_addr;
  wqe.rkey = wr.rkey;
  wqe.imm_or_invalidate = wr.imm_or_invalidate;
  wqe.compare_or_add = wr.compare_or_add;
  wqe.swap = wr.swap;
  const auto length = take_sges(wr, wqe);
  if (!length) return tl::unexpected(length.error());
  if (*length > kMaxMessage || (wqe.is_atomic() && *length != kAtomicBytes))
    return fail(Errc::kInvalidArgument);
  wqe.length = static_cast<uint32_t>(*length);
  return impl_->post(now, *qp, std::move(wqe));
}

Status Engine::post_virtual(Time now, uint32_t qpn, const VirtualSend& wr) {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return fail(Errc::kNotFound);
  if (qp->state != QpState::kRts) return fail(Errc::kBadState);
  if (!known(wr.opcode) || !qp->params.virtual_payload || wr.length > kMaxMessage) {
    return fail(Errc::kInvalidArgument);
  }
  Wqe wqe;
  wqe.wr_id = wr.wr_id;
  wqe.opcode = wr.opcode;
  wqe.flags = wr.flags;
  wqe.length = wqe.is_atomic() ? kAtomicBytes : wr.length;
  return impl_->post(now, *qp, std::move(wqe));
}

// ---- what may be sent

bool Engine::Impl::request_ready(Qp& qp) const {
  Requester& tx = qp.tx;
  if (qp.state != QpState::kRts || tx.rnr_until != kNever) return false;
  if (tx.in_recovery) {
    uint64_t psn = 0;
    if (next_resend(qp, psn)) return true;
  }
  if (tx.nxt == tx.end || tx.nxt - tx.una >= window_packets(qp)) return false;
  return may_start(qp, tx.sq[tx.cursor]);
}

bool Engine::Impl::may_start(const Qp& qp, const Wqe& wqe) const {
  const Requester& tx = qp.tx;
  if (tx.nxt == wqe.first_psn && (wqe.flags & send_flag::kFence) != 0 && tx.reads_out != 0) return false;
  if (wqe.wants_response()) return tx.reads_out < qp.params.max_rd_atomic;
  if (!wqe.takes_receive() || wqe.ssn <= tx.credit_limit || tx.nxt < tx.sent_end) return true;
  // Without a credit one packet at a time may go, once everything before it is acknowledged: its answer
  // brings credits (IBTA chapter 9.7.7.2).
  return tx.nxt == tx.una;
}

bool Engine::Impl::wants_ack(Qp& qp, const Wqe& wqe, uint64_t psn) {
  Requester& tx = qp.tx;
  const bool last = psn + 1 == wqe.end_psn();
  const bool probe = wqe.takes_receive() && wqe.ssn > tx.credit_limit;
  const bool again = psn == tx.una && psn < tx.sent_end;
  const bool blocked = psn + 1 - tx.una >= window_packets(qp);
  if (++tx.since_ack_request < config.ack_interval && !last && !probe && !again && !blocked) return false;
  tx.since_ack_request = 0;
  return true;
}

// ---- packets

void Engine::Impl::transmit_request(Time now, Qp& qp, TxPacket& out) {
  Requester& tx = qp.tx;
  uint64_t psn = 0;
  if (tx.in_recovery && next_resend(qp, psn)) {
    uint64_t index = tx.sq.begin();
    while (tx.sq[index].end_psn() <= psn) ++index;
    const Wqe& wqe = tx.sq[index];
    if (!build_request(qp, wqe, psn, out)) {
      fail_oldest(qp, WcStatus::kLocProtErr);
      return;
    }
    tx.resend_una = false;
    tx.resend_next = wqe.is_read() ? wqe.end_psn() : psn + 1;
    out.retransmission = true;
  } else {
    const Wqe& wqe = tx.sq[tx.cursor];
    if (!build_request(qp, wqe, tx.nxt, out)) {
      fail_oldest(qp, WcStatus::kLocProtErr);
      return;
    }
    out.retransmission = tx.nxt < tx.sent_end;
    after_new_request(qp, wqe);
  }
  if (tx.timeout_at == kNever) arm_timeout(now, qp);
}

void Engine::Impl::after_new_request(Qp& qp, const Wqe& wqe) {
  Requester& tx = qp.tx;
  tx.nxt = wqe.is_read() ? wqe.end_psn() : tx.nxt + 1;
  tx.sent_end = std::max(tx.sent_end, tx.nxt);
  if (tx.nxt != wqe.end_psn()) return;
  ++tx.cursor;
  if (wqe.wants_response()) ++tx.reads_out;
}

bool Engine::Impl::build_request(Qp& qp, const Wqe& wqe, uint64_t psn, TxPacket& out) {
  begin_packet(qp, out, TxKind::kRequest);
  Headers& h = sending;
  h.bth = Bth{};
  h.bth.dqpn = qp.params.dest_qpn;
  h.bth.psn = wire_psn(psn);
  const uint64_t offset = (psn - wqe.first_psn) * config.mtu;
  if (wqe.is_atomic()) {
    h.bth.op = wqe.opcode == Opcode::kCompareSwap ? Op::kCompareSwap : Op::kFetchAdd;
    h.bth.ack_request = true;
    h.atomic = {wqe.remote_addr, wqe.rkey, wqe.swap, wqe.compare_or_add};
    if (wqe.opcode == Opcode::kFetchAdd) h.atomic.swap_or_add = wqe.compare_or_add;
    if (wqe.opcode == Opcode::kFetchAdd) h.atomic.compare = 0;
  } else if (wqe.is_read()) {
    h.bth.op = Op::kReadRequest;
    h.bth.ack_request = true;
    h.reth = {wqe.remote_addr + offset, wqe.rkey, static_cast<uint32_t>(wqe.length - offset)};
  } else {
    const bool last = psn + 1 == wqe.end_psn();
    out.payload = static_cast<uint32_t>(std::min<uint64_t>(config.mtu, wqe.length - offset));
    out.pad = static_cast<uint8_t>((4 - (out.payload & 3)) & 3);
    h.bth.op = op_of(wqe.opcode, offset == 0, last);
    h.bth.pad = out.pad;
    h.bth.solicited = last && (wqe.flags & send_flag::kSolicited) != 0;
    h.bth.ack_request = wants_ack(qp, wqe, psn);
    h.reth = {wqe.remote_addr, wqe.rkey, wqe.length};
    h.imm = wqe.imm_or_invalidate;
    if (!qp.params.virtual_payload && !fetch_payload(qp, wqe, offset, out)) return false;
  }
  finish_headers(h, out);
  return true;
}

bool Engine::Impl::fetch_payload(const Qp& qp, const Wqe& wqe, uint64_t offset, TxPacket& out) {
  if (out.payload == 0) return true;
  if (wqe.inlined) {
    out.slices[0] = {wqe.inlined.get() + offset, out.payload};
    out.slice_count = 1;
    return true;
  }
  return for_each_piece(wqe.sges, offset, out.payload, [&](uint64_t addr, uint32_t length, uint32_t lkey) {
    const auto host = regions.translate(lkey, qp.params.pd, addr, length, 0);
    if (!host || out.slice_count == kMaxSlices) return false;
    out.slices[out.slice_count++] = {memory.fetch(*host, length), length};
    return true;
  });
}

}  // namespace mroce::rocev2
