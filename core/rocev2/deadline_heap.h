// A binary heap of (time, slot) in which each slot stands at most once and can be moved. Equal times come out
// in the order of slots, so that runs repeat exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/assert.h"
#include "core/base/time.h"

namespace mroce::rocev2 {

class DeadlineHeap {
 public:
  Time earliest() const { return heap_.empty() ? kNever : heap_.front().at; }
  // The time under which `slot` stands; kNever: it does not.
  Time of(uint32_t slot) const { return contains(slot) ? heap_[position_[slot]].at : kNever; }

  // Inserts or moves.
  void set(uint32_t slot, Time at) {
    if (!contains(slot)) {
      if (slot >= position_.size()) position_.resize(slot + 1, kNowhere);
      position_[slot] = static_cast<uint32_t>(heap_.size());
      heap_.push_back({at, slot});
      up(position_[slot]);
      return;
    }
    const uint32_t i = position_[slot];
    heap_[i].at = at;
    up(i);
    down(position_[slot]);
  }
  void remove(uint32_t slot) {
    if (contains(slot)) remove_at(position_[slot]);
  }
  // Takes the earliest out.
  uint32_t pop() {
    MROCE_ASSERT(!heap_.empty());
    const uint32_t slot = heap_.front().slot;
    remove_at(0);
    return slot;
  }
  uint64_t memory_bytes() const {
    return heap_.capacity() * sizeof(Entry) + position_.capacity() * sizeof(uint32_t);
  }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Entry {
    Time at{};
    uint32_t slot = 0;
    bool before(const Entry& other) const { return at != other.at ? at < other.at : slot < other.slot; }
  };

  bool contains(uint32_t slot) const { return slot < position_.size() && position_[slot] != kNowhere; }
  void put(uint32_t i, const Entry& entry) {
    heap_[i] = entry;
    position_[entry.slot] = i;
  }
  void up(uint32_t i) {
    const Entry entry = heap_[i];
    while (i != 0 && entry.before(heap_[(i - 1) / 2])) {
      put(i, heap_[(i - 1) / 2]);
      i = (i - 1) / 2;
    }
    put(i, entry);
  }
  void down(uint32_t i) {
    const Entry entry = heap_[i];
    for (;;) {
      uint32_t child = 2 * i + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(entry)) break;
      put(i, heap_[child]);
      i = child;
    }
    put(i, entry);
  }
  void remove_at(uint32_t i) {
    position_[heap_[i].slot] = kNowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (i == heap_.size()) return;
    put(i, last);
    up(i);
    down(position_[last.slot]);
  }

  std::vector<Entry> heap_;
  std::vector<uint32_t> position_;  // by slot
};

}  // namespace mroce::rocev2
