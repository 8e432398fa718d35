#include "core/rdma/completion_queue.h"

#include <algorithm>

namespace mroce {

bool CompletionQueue::push(const Wc& wc, bool solicited) {
  if (entries_.size() >= capacity_) {
    overflowed_ = true;
    return false;
  }
  entries_.push(wc);
  const bool wanted = armed_ == Armed::kAny ||
                      (armed_ == Armed::kSolicited && (solicited || wc.status != WcStatus::kSuccess));
  if (wanted) armed_ = Armed::kNo;
  return wanted;
}

uint32_t CompletionQueue::poll(std::span<Wc> out) {
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(out.size(), entries_.size()));
  for (uint32_t i = 0; i < count; ++i) {
    out[i] = entries_.front();
    entries_.pop();
  }
  return count;
}

void CompletionQueue::arm(bool solicited_only) {
  if (!solicited_only) {
    armed_ = Armed::kAny;
  } else if (armed_ == Armed::kNo) {
    armed_ = Armed::kSolicited;
  }
}

void CompletionQueue::purge(uint32_t qp_num) {
  // From the youngest to the oldest, what stays moves to the young end; the freed places are then the oldest
  // ones.
  uint64_t keep = entries_.end();
  for (uint64_t i = entries_.end(); i != entries_.begin(); --i) {
    if (entries_[i - 1].qp_num == qp_num) continue;
    --keep;
    if (keep != i - 1) entries_[keep] = entries_[i - 1];
  }
  while (entries_.begin() != keep) entries_.pop();
}

Status CompletionQueue::resize(uint32_t capacity) {
  if (capacity == 0 || capacity < depth()) return fail(Errc::kInvalidArgument);
  capacity_ = capacity;
  return {};
}

}  // namespace mroce
