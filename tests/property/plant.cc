#include "tests/property/plant.h"

#include <algorithm>

namespace mroce::test {

void Plant::watch(Endpoint& endpoint) {
  TestMemory& memory = endpoint.memory();
  if (bug == Bug::kDoubleAtomic) {
    memory.on_atomic = [this, &memory, oracle = memory.on_atomic](const AtomicExecution& execution) {
      oracle(execution);
      if (busy_ || !now(Bug::kDoubleAtomic)) return;
      busy_ = true;
      if (execution.is_swap) {
        memory.compare_swap(execution.addr, execution.compare, execution.operand);
      } else {
        memory.fetch_add(execution.addr, execution.operand);
      }
      busy_ = false;
    };
  }
  if (bug != Bug::kEarlyTail && bug != Bug::kLostPlacement && bug != Bug::kWrongByte) return;
  memory.intercept = [this, &memory](const Placement& placement, std::span<const std::byte> data) {
    if (busy_ || data.empty()) return false;
    busy_ = true;
    bool swallow = false;
    if (now(Bug::kLostPlacement)) {
      swallow = true;
    } else if (now(Bug::kWrongByte)) {
      std::vector<std::byte> changed(data.begin(), data.end());
      changed[changed.size() / 2] ^= std::byte{0x10};
      placement.tail ? memory.place_tail(placement.addr, changed) : memory.place(placement.addr, changed);
      swallow = true;
    } else if (bug == Bug::kEarlyTail && !done && !kept_ && !placement.tail && skip-- == 0) {
      kept_ = Kept{placement, {data.begin(), data.end()}};
      swallow = true;
    } else if (kept_ && placement.tail) {
      done = true;
      memory.place_tail(placement.addr, data);
      memory.place(kept_->placement.addr, kept_->data);
      kept_.reset();
      swallow = true;
    }
    busy_ = false;
    return swallow;
  };
}

void Plant::change_completions(std::vector<Wc>& completions) {
  std::vector<Wc> result;
  for (const Wc& wc : completions) {
    const bool receives = (static_cast<int>(wc.opcode) & 128) != 0;
    if (held_back_ && held_back_->qp_num == wc.qp_num) {
      result.push_back(wc);
      result.push_back(*held_back_);
      held_back_.reset();
      done = true;
      continue;
    }
    if (bug == Bug::kWrongOrder && !done && !held_back_ && !receives && wc.status == WcStatus::kSuccess &&
        skip-- == 0) {
      held_back_ = wc;
      continue;
    }
    if (wc.status == WcStatus::kSuccess && now(Bug::kLostCompletion)) continue;
    result.push_back(wc);
    if (now(Bug::kDoubleCompletion)) result.push_back(wc);
    if (receives && wc.status == WcStatus::kSuccess && now(Bug::kWrongReceive)) ++result.back().byte_len;
  }
  completions = std::move(result);
}

void Plant::after_success(Flow& flow, const Op& op) {
  if (!op.is_write() || op.length == 0 || flow.mtu == 0) return;
  TestMemory& memory = flow.responder->endpoint->memory();
  if (flow.responder->alive && flow.responder->qp.state() == QpState::kRts && now(Bug::kStaleOverwrite)) {
    std::vector<std::byte> bytes(std::min(op.length, flow.mtu));
    fill_pattern(bytes, op.pattern);
    memory.place(op.remote, bytes);
    return;
  }
  if (bug != Bug::kSilentOverwrite || done) return;
  // An earlier WRITE, complete before this one was posted, whose first byte this one has replaced.
  for (const Op& earlier : flow.ops) {
    if (&earlier == &op) return;
    if (!earlier.is_write() || earlier.length == 0 || earlier.end != Op::End::kSuccess) continue;
    if (earlier.ended_tick > op.posted_tick || earlier.remote < op.remote ||
        earlier.remote >= op.remote + op.length) {
      continue;
    }
    const std::byte old = pattern_byte(earlier.pattern, 0);
    if (old == pattern_byte(op.pattern, earlier.remote - op.remote) || !now(Bug::kSilentOverwrite)) continue;
    memory.bytes(earlier.remote, 1)[0] = old;
    return;
  }
}

}  // namespace mroce::test
