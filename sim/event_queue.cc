#include "sim/event_queue.h"

#include <algorithm>
#include <bit>

#include "core/base/assert.h"

namespace mroce::sim {
namespace {

// For std::push_heap: the earliest event on top.
bool later(const Event& a, const Event& b) {
  return b < a;
}

}  // namespace

EventQueue::EventQueue(unsigned slot_bits) : slot_bits_(slot_bits), wheel_(new Chunk[kSlots]) {
  MROCE_ASSERT(slot_bits < 40);
}

void EventQueue::spill(Chunk& chunk) {
  uint32_t at = free_chunk_;
  if (at != kNoChunk) {
    free_chunk_ = spilled_[at].more;
  } else {
    at = static_cast<uint32_t>(spilled_.size());
    spilled_.emplace_back();
  }
  spilled_[at] = chunk;
  chunk.count = 0;
  chunk.more = at;
}

void EventQueue::push_far(const Event& event) {
  far_.push_back(event);
  std::push_heap(far_.begin(), far_.end(), later);
}

void EventQueue::insert_now(const Event& event) {
  MROCE_ASSERT(next_ == 0 || event.at >= current_[next_ - 1].at);
  const auto from = current_.begin() + static_cast<std::ptrdiff_t>(next_);
  current_.insert(std::upper_bound(from, current_.end(), event), event);
}

int64_t EventQueue::next_slot(int64_t after) const {
  if (after == INT64_MAX) return after;
  const auto first = static_cast<uint32_t>(after + 1) & (kSlots - 1);
  uint32_t word = first >> 6;
  uint64_t bits = used_[word] & (~0ULL << (first & 63));
  for (uint32_t i = 0; i <= kSlots / 64; ++i) {
    if (bits != 0) {
      const uint32_t slot = word << 6 | static_cast<uint32_t>(std::countr_zero(bits));
      return after + 1 + ((slot - first) & (kSlots - 1));
    }
    word = (word + 1) & (kSlots / 64 - 1);
    bits = used_[word];
  }
  return INT64_MAX;
}

void EventQueue::take_slot(int64_t slot) {
  const auto at = static_cast<uint32_t>(slot) & (kSlots - 1);
  Chunk& first = wheel_[at];
  current_.assign(first.events, first.events + first.count);
  for (uint32_t more = first.more; more != kNoChunk;) {
    Chunk& chunk = spilled_[more];
    current_.insert(current_.end(), chunk.events, chunk.events + chunk.count);
    const uint32_t following = chunk.more;
    chunk.more = free_chunk_;
    free_chunk_ = more;
    more = following;
  }
  first.count = 0;
  first.more = kNoChunk;
  used_[at >> 6] &= ~(1ULL << (at & 63));
  next_ = 0;
  ++slots_taken_;
  std::sort(current_.begin(), current_.end());
}

bool EventQueue::advance(SimTime limit) {
  if (size_ == 0) return false;
  int64_t slot = next_slot(current_slot_);
  if (!far_.empty()) slot = std::min(slot, far_.front().at >> slot_bits_);
  MROCE_ASSERT(slot != INT64_MAX);
  if (slot << slot_bits_ >= limit) return false;
  current_slot_ = slot;
  while (!far_.empty() && (far_.front().at >> slot_bits_) - slot < kSlots) {
    std::pop_heap(far_.begin(), far_.end(), later);
    push_slot(far_.back().at >> slot_bits_, far_.back());
    far_.pop_back();
  }
  take_slot(slot);
  return true;
}

SimTime EventQueue::earliest() const {
  if (next_ < current_.size()) return current_[next_].at;
  SimTime first = far_.empty() ? kEndOfTime : far_.front().at;
  const int64_t slot = next_slot(current_slot_);
  if (slot == INT64_MAX) return first;
  const Chunk* chunk = &wheel_[static_cast<uint32_t>(slot) & (kSlots - 1)];
  for (;;) {
    for (uint32_t i = 0; i < chunk->count; ++i) first = std::min(first, chunk->events[i].at);
    if (chunk->more == kNoChunk) return first;
    chunk = &spilled_[chunk->more];
  }
}

uint64_t EventQueue::memory_bytes() const {
  return kSlots * sizeof(Chunk) + spilled_.capacity() * sizeof(Chunk) +
         (current_.capacity() + far_.capacity()) * sizeof(Event);
}

}  // namespace mroce::sim
