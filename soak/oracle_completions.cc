#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "soak/oracle.h"

namespace mroce::soak {

std::string describe(const Flow& flow, const Op& op) {
  return fmt::format(
      "{} {} of {} bytes, id {}, number {} of {} from {} ({:#x}) to {} ({:#x}), flags {:#x}, flaw {}",
      name_of(op.opcode), op.posted ? "posted" : "unposted", op.length, op.id,
      static_cast<size_t>(&op - flow.ops.data()), flow.ops.size(), flow.requester->endpoint->name(),
      flow.requester->qp.number, flow.responder->endpoint->name(), flow.responder->qp.number, op.flags,
      name_of(op.flaw));
}

void Oracle::report(std::string_view kind, std::string text) {
  if (on_violation) on_violation(kind, text);
  if (violations_.size() < 20) violations_.push_back({std::string(kind), std::move(text)});
}

// ---- posting
// ----------------------------------------------------------------------------------------------------

// The engine may look at the buffers of an inline work request at once, and at others at any time from now
// on.
void Oracle::before_post(Flow& flow, Op& op) {
  if (op.local_bytes == 0) return;
  Area area;
  area.end = op.local + op.local_bytes;
  area.kind = Area::Kind::kOperation;
  area.flow = &flow;
  area.op = &op;
  areas_[flow.requester->endpoint->index()][op.local] = area;
}

void Oracle::posted(Flow& flow, Op& op) {
  op.posted = true;
  op.posted_tick = tick();
  if (op.flaw != Flaw::kNone) {
    flow.requester->receives->disturbed = true;
    flow.responder->receives->disturbed = true;
  }
  if (op.is_inline()) forget_op_memory(op, *flow.requester->endpoint);
}

void Oracle::forget_op_memory(Op& op, Endpoint& endpoint) {
  areas_[endpoint.index()].erase(op.local);
}

// Receives of both sides may be left with a part of a message, and given back.
void Oracle::disturbed(Link& link) {
  link.disturbed = true;
  for (Side& side : link.side) {
    if (side.receives != nullptr) side.receives->disturbed = true;
  }
}

void Oracle::destroyed(Side& side) {
  side.alive = false;
  disturbed(*side.link);
  Flow& flow = *side.out;
  for (size_t i = flow.next_end; i < flow.next_post; ++i) end_op(flow, flow.ops[i], Op::End::kAbandoned);
}

void Oracle::end_op(Flow& flow, Op& op, Op::End end) {
  op.end = end;
  op.ended_tick = tick();
  if (!op.is_inline() && op.local_bytes != 0) forget_op_memory(op, *flow.requester->endpoint);
  if (on_ended) on_ended(flow, op);
}

// ---- completions of work requests
// --------------------------------------------------------------------------------

namespace {
WcOpcode completion_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWrite:
    case Opcode::kWriteImm:
      return WcOpcode::kWrite;
    case Opcode::kRead:
      return WcOpcode::kRead;
    case Opcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case Opcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    default:
      return WcOpcode::kSend;
  }
}

WcStatus status_of(const Op& op) {
  switch (op.flaw) {
    case Flaw::kUnknownKey:
    case Flaw::kOutOfBounds:
    case Flaw::kNoRight:
      return WcStatus::kRemAccessErr;
    case Flaw::kMisaligned:
    case Flaw::kShortReceive:
      return WcStatus::kRemInvReqErr;
    case Flaw::kLocalKey:
      return WcStatus::kLocProtErr;
    case Flaw::kNone:
      break;
  }
  return WcStatus::kSuccess;
}
}  // namespace

void Oracle::on_send_completion(Side& side, const Wc& wc) {
  Flow& flow = *side.out;
  notable_ = notable_ || wc.status != WcStatus::kSuccess;
  size_t index = flow.next_end;
  while (index < flow.next_post && flow.ops[index].id != wc.wr_id) ++index;
  if (index >= flow.next_post) {
    report(
        "completion_unknown",
        fmt::format("a completion of nothing that is outstanding (twice, or out of order): id {}, status {}",
                    wc.wr_id, static_cast<int>(wc.status)));
    return;
  }
  if (flow.failed) {
    if (index != flow.next_end) report("completion_lost", describe(flow, flow.ops[flow.next_end]));
    if (wc.status != WcStatus::kWrFlushErr) {
      report("status", fmt::format("not flushed after an error but {}: {}", static_cast<int>(wc.status),
                                   describe(flow, flow.ops[index])));
    }
    for (; flow.next_end <= index; ++flow.next_end) end_op(flow, flow.ops[flow.next_end], Op::End::kFlushed);
    return;
  }
  for (; flow.next_end < index; ++flow.next_end) {
    Op& op = flow.ops[flow.next_end];
    if (op.signaled()) report("completion_lost", describe(flow, op));
    check_success(flow, op);
    end_op(flow, op, Op::End::kSuccess);
  }
  Op& op = flow.ops[index];
  if (wc.qp_num != side.qp.number) report("fields", fmt::format("wrong qp_num: {}", describe(flow, op)));
  if (wc.opcode != completion_of(op.opcode))
    report("fields", fmt::format("wrong opcode: {}", describe(flow, op)));
  if (wc.status == WcStatus::kSuccess) {
    if (!op.signaled()) report("completion_unasked", describe(flow, op));
    if (wc.byte_len != op.length)
      report("fields", fmt::format("byte_len {}: {}", wc.byte_len, describe(flow, op)));
    check_success(flow, op);
    end_op(flow, op, Op::End::kSuccess);
  } else {
    flow.failed = true;
    check_failure(flow, op, wc);
    end_op(flow, op, Op::End::kError);
  }
  ++flow.next_end;
}

void Oracle::check_success(Flow& flow, Op& op) {
  if (op.flaw != Flaw::kNone)
    report("status", fmt::format("success of what must fail: {}", describe(flow, op)));
  if (op.is_write() && op.placed_bytes != op.length && !flow.region_gone) {
    report("not_placed",
           fmt::format("{} bytes were placed at its completion: {}", op.placed_bytes, describe(flow, op)));
  }
  if (op.opcode == Opcode::kRead) {
    if (op.landed_bytes != op.length) report("not_placed", describe(flow, op));
    check_read(flow, op);
  }
  if (!op.is_atomic()) return;
  if (op.executions != 1 || op.landed_bytes != 8) {
    report("atomic", fmt::format("executed {} times: {}", op.executions, describe(flow, op)));
    return;
  }
  std::vector<std::byte> bytes;
  for (const Sge& sge : op.sges) {
    const auto part = flow.requester->endpoint->memory().bytes(sge.addr, sge.length);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  uint64_t returned = 0;
  std::memcpy(&returned, bytes.data(), 8);
  if (returned != op.original) {
    report("atomic",
           fmt::format("returned {:#x}, found {:#x}: {}", returned, op.original, describe(flow, op)));
  }
}

void Oracle::check_failure(Flow& flow, const Op& op, const Wc& wc) {
  const Link& link = *flow.requester->link;
  const Flow& other = link.flow[&flow == &link.flow[0] ? 1 : 0];
  const bool by_peer = link.disturbed || link.fragile || other.has_flaw_posted();
  const bool collateral = wc.status == WcStatus::kRetryExcErr || wc.status == WcStatus::kWrFlushErr;
  if (by_peer && collateral) return;
  if (link.impatient && (wc.status == WcStatus::kRnrRetryExcErr || collateral)) return;
  if (link.deregistered && (wc.status == WcStatus::kRemAccessErr || wc.status == WcStatus::kRemOpErr)) return;
  if (op.flaw != Flaw::kNone && wc.status == status_of(op) && &op == &flow.ops[flow.first_flaw()]) return;
  report("status", fmt::format("failed with {}: {}", static_cast<int>(wc.status), describe(flow, op)));
}

// ---- completions of receives
// ------------------------------------------------------------------------------------

Receive* Oracle::find_receive(ReceivePool& pool, uint64_t id) {
  const auto it = std::find_if(pool.outstanding.begin(), pool.outstanding.end(),
                               [&](const Receive& r) { return r.id == id; });
  return it == pool.outstanding.end() ? nullptr : &*it;
}

void Oracle::end_receive(ReceivePool& pool, uint64_t id) {
  const auto it = std::find_if(pool.outstanding.begin(), pool.outstanding.end(),
                               [&](const Receive& r) { return r.id == id; });
  const Receive receive = *it;
  pool.outstanding.erase(it);
  if (on_receive_ended) on_receive_ended(pool, receive);
}

void Oracle::on_receive_completion(Side& side, const Wc& wc) {
  ReceivePool& pool = *side.receives;
  notable_ = notable_ || wc.status != WcStatus::kSuccess;
  Receive* receive = find_receive(pool, wc.wr_id);
  if (receive == nullptr) {
    report("completion_unknown", fmt::format("a receive completes that is not posted: id {}, status {}",
                                             wc.wr_id, static_cast<int>(wc.status)));
    return;
  }
  if (!pool.srq && receive != &pool.outstanding.front()) {
    report("order", fmt::format("receive {} completes before the one posted first", wc.wr_id));
  }
  if (wc.qp_num != side.qp.number) report("fields", "wrong qp_num of a receive");
  if (wc.status != WcStatus::kSuccess) {
    on_receive_error(side, wc);
    end_receive(pool, wc.wr_id);
    return;
  }
  Flow& flow = *side.in;
  while (flow.next_receive < flow.next_post && !flow.ops[flow.next_receive].consumes_receive())
    ++flow.next_receive;
  if (flow.next_receive >= flow.next_post) {
    report("completion_unknown", fmt::format("a receive completes, but nothing was sent: id {}", wc.wr_id));
  } else {
    notable_ = notable_ || (flow.ops[flow.next_receive].flags & send_flag::kSolicited) != 0;
    check_receive(side, flow, flow.ops[flow.next_receive], *receive, wc);
    ++flow.next_receive;
  }
  end_receive(pool, wc.wr_id);
}

void Oracle::on_receive_error(Side& side, const Wc& wc) {
  if (wc.status == WcStatus::kWrFlushErr) {
    if (side.qp.state() != QpState::kErr)
      report("status", "a receive was flushed, but its queue pair is not in ERR");
    return;
  }
  Flow& flow = *side.in;
  while (flow.next_receive < flow.next_post && !flow.ops[flow.next_receive].consumes_receive())
    ++flow.next_receive;
  const bool expected = flow.next_receive < flow.next_post &&
                        flow.ops[flow.next_receive].flaw == Flaw::kShortReceive &&
                        wc.status == WcStatus::kLocLenErr;
  if (side.link->deregistered && wc.status == WcStatus::kLocProtErr) return;
  if (!expected) report("status", fmt::format("a receive failed with {}", static_cast<int>(wc.status)));
  ++flow.next_receive;
}

void Oracle::check_receive(Side& side, Flow& flow, const Op& op, const Receive& receive, const Wc& wc) {
  const auto wrong = [&](std::string_view what) {
    report("fields", fmt::format("{}: {}", what, describe(flow, op)));
  };
  if (op.flaw != Flaw::kNone)
    report("status", fmt::format("received what must fail: {}", describe(flow, op)));
  const bool with_imm = op.opcode == Opcode::kSendImm || op.opcode == Opcode::kWriteImm;
  const bool with_invalidate = op.opcode == Opcode::kSendInv;
  if (wc.opcode != (op.is_send() ? WcOpcode::kRecv : WcOpcode::kRecvWriteImm))
    wrong("wrong opcode of the receive");
  if (wc.byte_len != op.length) wrong("wrong byte_len of the receive");
  if (wc.flags != (with_imm ? wc_flag::kWithImm : with_invalidate ? wc_flag::kWithInv : 0))
    wrong("wrong flags");
  if ((with_imm || with_invalidate) && wc.imm_or_invalidated != op.imm) wrong("wrong immediate");
  if (wc.src_qp != flow.requester->qp.number) wrong("wrong src_qp");
  if (!all_before_is_placed(flow, op)) {
    report("order",
           fmt::format("a receive completes before earlier messages are placed: {}", describe(flow, op)));
  }
  if (op.opcode == Opcode::kWriteImm && op.placed_bytes != op.length) {
    report("not_placed", fmt::format("at the completion of its receive: {}", describe(flow, op)));
  }
  uint64_t offset = 0;
  for (const Sge& sge : receive.sges) {
    const auto bytes = side.endpoint->memory().bytes(sge.addr, sge.length);
    const size_t wanted =
        op.is_send() ? std::min<uint64_t>(sge.length, op.length - std::min<uint64_t>(offset, op.length)) : 0;
    if (!is_pattern(bytes.first(wanted), op.pattern, offset)) {
      report("contents", fmt::format("wrong bytes in a receive: {}", describe(flow, op)));
    }
    const auto rest = bytes.subspan(wanted);
    if (!side.receives->disturbed &&
        std::any_of(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0xCA}; })) {
      report("contents", fmt::format("bytes behind the message were written: {}", describe(flow, op)));
    }
    offset += sge.length;
  }
}

// ---- the end
// ----------------------------------------------------------------------------------------------------

void Oracle::check_finished(Link& link) {
  const bool must_succeed = link.must_succeed();
  for (const Side& side : link.side) {
    if (!side.alive || !side.own_receives || side.qp.state() != QpState::kErr) continue;
    for (const Receive& receive : side.own_receives->outstanding)
      report("completion_lost",
             fmt::format("receive {} of queue pair {:#x}, which is in ERR, was not flushed", receive.id,
                         side.qp.number));
  }
  for (Flow& flow : link.flow) {
    if (!flow.requester->alive) continue;
    // Work requests at the end that asked for no completion and got none have ended if nothing failed.
    while (flow.next_end < flow.next_post && !flow.failed && !flow.ops[flow.next_end].signaled()) {
      Op& op = flow.ops[flow.next_end++];
      check_success(flow, op);
      end_op(flow, op, Op::End::kSuccess);
    }
    if (flow.next_end < flow.next_post) {
      report("stall", fmt::format("never ended: {}", describe(flow, flow.ops[flow.next_end])));
    }
    if (!must_succeed) continue;
    for (; flow.next_receive < flow.next_post; ++flow.next_receive) {
      const Op& op = flow.ops[flow.next_receive];
      if (op.consumes_receive())
        report("completion_lost", fmt::format("of the receive for {}", describe(flow, op)));
    }
  }
}

}  // namespace mroce::soak
