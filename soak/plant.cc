#include "soak/plant.h"

#include <algorithm>

namespace mroce::soak {

void Plant::watch(Endpoint& endpoint) {
  WorldMemory& memory = endpoint.memory();
  memory.intercept = [this, &memory](const Placement& placement, std::span<const std::byte> data) {
    return !data.empty() && swallow(memory, placement, data);
  };
  if (bug != Bug::kDoubleAtomic) return;
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

bool Plant::swallow(WorldMemory& memory, const Placement& placement, std::span<const std::byte> data) {
  if (busy_) return false;
  const bool in_region = std::any_of(regions_.begin(), regions_.end(), [&](const auto& each) {
    const auto& [where, region] = each;
    return where == &memory && placement.addr >= region.addr && placement.addr < region.addr + region.length;
  });
  if (in_region && !placement.tail && now(Bug::kLostBody)) return true;
  if (now(Bug::kLostPlacement)) return true;
  if (!now(Bug::kWrongByte)) return false;
  std::vector<std::byte> changed(data.begin(), data.end());
  changed[changed.size() / 2] ^= std::byte{0x10};
  busy_ = true;
  if (placement.tail) {
    memory.place_tail(placement.addr, changed);
  } else {
    memory.place(placement.addr, changed);
  }
  busy_ = false;
  return true;
}

void Plant::change_completions(std::vector<Wc>& completions) {
  std::vector<Wc> result;
  for (const Wc& wc : completions) {
    const bool receives = (static_cast<int>(wc.opcode) & 128) != 0;
    if (held_back_ && held_back_->qp_num == wc.qp_num && !receives) {
      result.push_back(wc);
      result.push_back(*held_back_);
      held_back_.reset();
      continue;
    }
    const bool good = wc.status == WcStatus::kSuccess;
    if (bug == Bug::kWrongOrder && !done && !held_back_ && !receives && good && skip-- == 0) {
      held_back_ = wc;
      done = true;
      continue;
    }
    if (good && now(Bug::kLostCompletion)) continue;
    result.push_back(wc);
    if (now(Bug::kDoubleCompletion)) result.push_back(wc);
    if (receives && good && now(Bug::kWrongReceive)) ++result.back().byte_len;
  }
  completions = std::move(result);
}

void Plant::after_success(Flow& flow, const Op& op) {
  if (!op.is_write() || op.length == 0 || flow.mtu == 0) return;
  if (flow.responder->alive && flow.responder->qp.state() == QpState::kRts && now(Bug::kStaleOverwrite)) {
    std::vector<std::byte> bytes(std::min(op.length, flow.mtu));
    fill_pattern(bytes, op.pattern);
    flow.responder->endpoint->memory().place(op.remote, bytes);
  } else if (bug == Bug::kSilentOverwrite && !done) {
    overwrite_silently(flow, op);
  }
}

// Takes an earlier WRITE that was complete before this one was posted and whose first byte this one has
// replaced, and puts that byte back.
void Plant::overwrite_silently(Flow& flow, const Op& op) {
  for (const Op& earlier : flow.ops) {
    if (&earlier == &op) return;
    if (!earlier.is_write() || earlier.length == 0 || earlier.end != Op::End::kSuccess) continue;
    if (earlier.ended_tick > op.posted_tick || earlier.remote < op.remote ||
        earlier.remote >= op.remote + op.length) {
      continue;
    }
    const std::byte old = pattern_byte(earlier.pattern, 0);
    // A later WRITE that is under way may cover the byte once more, and hide this.
    const bool hidden =
        std::any_of(&op + 1, static_cast<const Op*>(flow.ops.data() + flow.ops.size()), [&](const Op& later) {
          return later.is_write() && earlier.remote >= later.remote &&
                 earlier.remote < later.remote + later.length;
        });
    if (hidden || old == pattern_byte(op.pattern, earlier.remote - op.remote) || !now(Bug::kSilentOverwrite))
      continue;
    flow.responder->endpoint->memory().bytes(earlier.remote, 1)[0] = old;
    return;
  }
}

}  // namespace mroce::soak
