#include "core/rdma/receive_queue.h"

#include <algorithm>

namespace mroce {
namespace {

uint64_t total_bytes(std::span<const Sge> sges) {
  uint64_t bytes = 0;
  for (const Sge& sge : sges) bytes += sge.length;
  return bytes;
}

}  // namespace

Status ReceiveQueue::post(const RecvWr& wr) {
  if (wr.sges.size() > max_sge_) return fail(Errc::kInvalidArgument);
  if (depth() >= capacity_) return fail(Errc::kQueueFull);
  if (depth() == entries_.size()) grow();
  const size_t at = slot(posted_);
  entries_[at] = {wr.wr_id, total_bytes(wr.sges), static_cast<uint32_t>(wr.sges.size())};
  std::copy(wr.sges.begin(), wr.sges.end(), sges_.begin() + static_cast<std::ptrdiff_t>(at * max_sge_));
  ++posted_;
  return {};
}

void ReceiveQueue::grow() {
  const size_t size = entries_.empty() ? 8 : entries_.size() * 2;
  std::vector<Entry> entries(size);
  std::vector<Sge> sges(size * max_sge_ + 1);
  for (uint64_t n = begin_; n != posted_; ++n) {
    const auto to = static_cast<size_t>(n & (size - 1));
    entries[to] = entry(n);
    const auto from = this->sges(n);
    std::copy(from.begin(), from.end(), sges.begin() + static_cast<std::ptrdiff_t>(to * max_sge_));
  }
  entries_ = std::move(entries);
  sges_ = std::move(sges);
}

Status SharedReceiveQueue::post(const RecvWr& wr) {
  if (wr.sges.size() > max_sge_) return fail(Errc::kInvalidArgument);
  if (in_use_ >= max_wr_) return fail(Errc::kQueueFull);
  uint32_t id;
  if (free_.empty()) {
    id = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
    sges_.resize(entries_.size() * max_sge_ + 1);
  } else {
    id = free_.back();
    free_.pop_back();
  }
  entries_[id] = {wr.wr_id, total_bytes(wr.sges), static_cast<uint32_t>(wr.sges.size()), false};
  std::copy(wr.sges.begin(), wr.sges.end(),
            sges_.begin() + static_cast<std::ptrdiff_t>(size_t{id} * max_sge_));
  waiting_.push(id);
  ++in_use_;
  return {};
}

std::optional<uint32_t> SharedReceiveQueue::take() {
  if (waiting_.empty()) return std::nullopt;
  const uint32_t id = waiting_.front();
  waiting_.pop();
  entries_[id].is_taken = true;
  return id;
}

void SharedReceiveQueue::release(uint32_t id) {
  MROCE_ASSERT(id < entries_.size() && entries_[id].is_taken);
  entries_[id].is_taken = false;
  free_.push_back(id);
  MROCE_ASSERT(in_use_ > 0);
  --in_use_;
}

bool SharedReceiveQueue::check_limit() {
  if (posted() >= limit_) return false;
  limit_ = 0;
  return true;
}

Status SharedReceiveQueue::modify(uint32_t max_wr, uint32_t limit) {
  if (max_wr == 0 || max_wr < in_use_ || max_wr < limit) return fail(Errc::kInvalidArgument);
  max_wr_ = max_wr;
  limit_ = limit;
  return {};
}

}  // namespace mroce
