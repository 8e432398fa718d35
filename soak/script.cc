// What the applications of a random run want to do.
#include <algorithm>

#include "soak/run.h"

namespace mroce::soak {

namespace {
constexpr uint32_t kFinalOps = 3;  // of each flow, for the time after the faults
constexpr uint32_t kMeetingOps = 5;
constexpr uint32_t kMaxTargets = 8;
}  // namespace

// Sizes that tend to break things: nothing, one byte, around the packet size, around a few of them.
uint32_t Run::random_length(uint32_t most) {
  const uint32_t mtu = o_.max_payload;
  uint64_t length = 0;
  switch (rng_.below(6)) {
    case 0:
      length = rng_.below(4);
      break;
    case 1:
      length = rng_.between(7, 260);
      break;
    case 2:
      length = mtu * rng_.between(1, 3) + rng_.between(0, 2) - 1;
      break;
    case 3:
      length = rng_.below(5 * mtu);
      break;
    case 4:
      length = mtu * rng_.between(1, 20) + rng_.between(0, 2) - 1;
      break;
    default:
      length = rng_.below(most + 1);
      break;
  }
  if (length > 256 && length > bytes_left_) length = rng_.below(256);
  length = std::min<uint64_t>(length, most);
  bytes_left_ -= std::min(bytes_left_, length);
  return static_cast<uint32_t>(length);
}

Op Run::random_op(Flow& flow) {
  Op op;
  op.id = next_id_++;
  op.pattern = rng_.next();
  const uint64_t kind = rng_.below(100);
  op.opcode = kind < 30   ? Opcode::kWrite
              : kind < 40 ? Opcode::kWriteImm
              : kind < 60 ? Opcode::kSend
              : kind < 67 ? Opcode::kSendImm
              : kind < 70 ? Opcode::kSendInv
              : kind < 85 ? Opcode::kRead
              : kind < 90 ? Opcode::kCompareSwap
                          : Opcode::kFetchAdd;
  if (rng_.chance(0.7)) op.flags |= send_flag::kSignaled;
  if (rng_.chance(0.1)) op.flags |= send_flag::kFence;
  if (rng_.chance(0.1)) op.flags |= send_flag::kSolicited;
  shape(flow, op);
  return op;
}

void Run::shape(Flow& flow, Op& op) {
  if (op.is_atomic()) {
    op.length = 8;
    op.operand = rng_.next();
    // A swap succeeds now and then only if it guesses: 0 is right until the first atomic on the word.
    op.compare = op.opcode == Opcode::kCompareSwap ? (rng_.chance(0.5) ? 0 : rng_.next()) : 0;
  } else {
    op.length = random_length(op.is_send() ? std::min(o_.largest, flow.responder->receives->bytes_each)
                                           : std::min(o_.largest, flow.region.length));
    if (!op.reads() && op.length <= o_.max_inline && rng_.chance(0.4)) op.flags |= send_flag::kInline;
  }
  op.imm = static_cast<uint32_t>(rng_.next());
  if (op.opcode == Opcode::kSendInv) {
    Endpoint& endpoint = *flow.responder->endpoint;
    const auto extra = endpoint.engine().reg_mr(endpoint.pd(), flow.region.addr, flow.region.length,
                                                flow.region.addr, access::kAll);
    op.imm = extra.value().rkey;
  }
  place_target(flow, op);
}

void Run::place_target(Flow& flow, Op& op) {
  if (op.is_atomic()) {
    const Mr& words = host_of(*flow.responder).words;
    op.remote = words.addr + 8 * rng_.below(kMaxTargets);
    op.rkey = words.rkey;
    return;
  }
  if (op.is_send()) return;
  op.rkey = flow.region.rkey;
  // Often at the beginning, so that WRITEs and READs overlap.
  op.remote = flow.region.addr + (rng_.chance(0.4) ? 0 : rng_.below(flow.region.length - op.length + 1));
  if (op.length == 0 && rng_.chance(0.5)) {  // nobody looks at the key then
    op.remote = rng_.next();
    op.rkey = static_cast<uint32_t>(rng_.next());
  }
}

void Run::make_flawed(Flow& flow, Op& op) {
  static constexpr std::array kAll = {Flaw::kUnknownKey, Flaw::kOutOfBounds,  Flaw::kNoRight,
                                      Flaw::kMisaligned, Flaw::kShortReceive, Flaw::kLocalKey};
  op.flaw = kAll[rng_.below(kAll.size())];
  op.flags &= ~send_flag::kInline;
  if (op.flaw == Flaw::kShortReceive) {
    op.opcode = Opcode::kSend;
    op.length = flow.responder->receives->bytes_each + 1;
    op.remote = 0;
    op.rkey = 0;
    return;
  }
  if (op.flaw == Flaw::kMisaligned) {
    if (!op.is_atomic()) op.opcode = Opcode::kFetchAdd;
    shape(flow, op);
    op.remote += 1 + rng_.below(7);
    return;
  }
  if (op.is_send() && op.flaw != Flaw::kLocalKey)
    op.opcode = rng_.chance(0.5) ? Opcode::kWrite : Opcode::kRead;
  shape(flow, op);
  op.flags &= ~send_flag::kInline;
  if (op.length == 0) {
    op.length = 1;
    place_target(flow, op);
  }
  const uint64_t end = op.is_atomic()
                           ? host_of(*flow.responder).words.addr + host_of(*flow.responder).words.length
                           : flow.region.addr + flow.region.length;
  if (op.flaw == Flaw::kUnknownKey) op.rkey = 0xdead0000 + static_cast<uint32_t>(rng_.below(65536));
  if (op.flaw == Flaw::kOutOfBounds)
    op.remote = op.is_atomic() ? end : end - op.length + 1 + rng_.below(op.length);
  if (op.flaw == Flaw::kNoRight) op.rkey = host_of(*flow.responder).no_rights.rkey;
  if (op.flaw == Flaw::kNoRight) op.remote = host_of(*flow.responder).no_rights.addr;
}

void Run::write_script(Flow& flow, bool flawed) {
  const auto count = static_cast<uint32_t>(rng_.between(1, meeting_ ? kMeetingOps : o_.operations));
  const uint32_t flaw_at = flawed ? static_cast<uint32_t>(rng_.below(count)) : UINT32_MAX;
  for (uint32_t i = 0; i < count; ++i) {
    Op op = random_op(flow);
    if (i == flaw_at) make_flawed(flow, op);
    flow.ops.push_back(std::move(op));
  }
  if (flaw_at != UINT32_MAX && flaw_at != 0) flow.ops[flaw_at - 1].flags |= send_flag::kSignaled;
  flow.ops.back().flags |= send_flag::kSignaled;
  flow.main_ops = flow.ops.size();
  for (uint32_t i = 0; i < kFinalOps; ++i) {
    Op op = random_op(flow);
    op.opcode = i == 0 ? Opcode::kWrite : i == 1 ? Opcode::kSend : Opcode::kRead;
    op.flags = send_flag::kSignaled;
    op.length = 0;
    bytes_left_ += 3 * o_.max_payload;
    shape(flow, op);
    op.flags = send_flag::kSignaled;
    flow.ops.push_back(std::move(op));
  }
  result_.operations += flow.ops.size();
}

std::vector<Sge> Run::split(uint64_t addr, uint32_t bytes, uint32_t lkey, uint32_t most) {
  std::vector<Sge> sges;
  const uint64_t count = rng_.between(1, most);
  for (uint64_t i = 0; i < count; ++i) {
    const auto part = static_cast<uint32_t>(i + 1 == count ? bytes : rng_.below(bytes + 1));
    sges.push_back({addr, part, lkey});
    addr += part;
    bytes -= part;
  }
  return sges;
}

bool Run::prepare(Flow& flow, Op& op) {
  Host& host = host_of(*flow.requester);
  if (op.length == 0) return true;
  const auto local = host.free.take(op.length);
  if (!local) return false;
  op.local = *local;
  op.local_bytes = op.length;
  op.sges = split(op.local, op.length, host.arena.lkey, o_.max_sge);
  if (op.flaw == Flaw::kLocalKey) {
    for (Sge& sge : op.sges) sge.lkey = 0xbad00000;
  }
  const auto bytes = host.endpoint->memory().bytes(op.local, op.length);
  if (op.reads()) {
    std::fill(bytes.begin(), bytes.end(), std::byte{0xDD});
  } else {
    fill_pattern(bytes, op.pattern);
  }
  return true;
}

void Run::take_back(Flow& flow, Op& op) {
  if (op.local_bytes == 0) return;
  oracle_.forget_op_memory(op, *flow.requester->endpoint);
  host_of(*flow.requester).free.give_back(op.local, op.local_bytes);
  op.local_bytes = 0;
  op.sges.clear();
}

}  // namespace mroce::soak
