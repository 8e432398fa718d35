// A map from flows to slots: open addressing with linear probing, half full at most.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/packet.h"

namespace mroce::sim {

class FlowIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t find(uint32_t flow) const {  // kNone: not there
    if (entries_.empty()) return kNone;
    for (size_t i = home(flow);; i = (i + 1) & mask()) {
      if (entries_[i].flow == flow) return entries_[i].slot;
      if (entries_[i].flow == kNoFlow) return kNone;
    }
  }

  // `flow` must not be there.
  void insert(uint32_t flow, uint32_t slot) {
    if (2 * (size_ + 1) > entries_.size()) grow();
    place({flow, slot});
    ++size_;
  }

  // Closes the gap, so that no search stops early.
  void erase(uint32_t flow) {
    size_t gap = home(flow);
    while (entries_[gap].flow != flow) {
      if (entries_[gap].flow == kNoFlow) return;
      gap = (gap + 1) & mask();
    }
    for (size_t i = (gap + 1) & mask(); entries_[i].flow != kNoFlow; i = (i + 1) & mask()) {
      if (((i - home(entries_[i].flow)) & mask()) < ((i - gap) & mask())) continue;
      entries_[gap] = entries_[i];
      gap = i;
    }
    entries_[gap].flow = kNoFlow;
    --size_;
  }

  uint64_t memory_bytes() const { return entries_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    uint32_t flow = kNoFlow;
    uint32_t slot = 0;
  };

  size_t mask() const { return entries_.size() - 1; }
  size_t home(uint32_t flow) const { return (flow * 0x9E3779B1U >> 7) & mask(); }
  void place(Entry entry) {
    size_t i = home(entry.flow);
    while (entries_[i].flow != kNoFlow) i = (i + 1) & mask();
    entries_[i] = entry;
  }
  void grow() {
    std::vector<Entry> old(entries_.empty() ? 8 : entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.flow != kNoFlow) place(entry);
    }
  }

  std::vector<Entry> entries_;
  size_t size_ = 0;
};

}  // namespace mroce::sim
