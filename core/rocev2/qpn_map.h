// Queue pair number -> slot: open addressing with linear probing, at most half full.
#pragma once

#include <cstdint>
#include <vector>

namespace mroce::rocev2 {

class QpnMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t find(uint32_t qpn) const {
    if (entries_.empty()) return kNone;
    for (size_t i = home(qpn);; i = (i + 1) & mask()) {
      if (entries_[i].qpn == qpn) return entries_[i].slot;
      if (entries_[i].qpn == kFree) return kNone;
    }
  }
  void insert(uint32_t qpn, uint32_t slot) {  // not there yet
    if ((count_ + 1) * 2 > entries_.size()) grow();
    put(qpn, slot);
    ++count_;
  }
  void erase(uint32_t qpn) {
    if (entries_.empty()) return;
    size_t hole = home(qpn);
    while (entries_[hole].qpn != qpn) {
      if (entries_[hole].qpn == kFree) return;
      hole = (hole + 1) & mask();
    }
    --count_;
    // Entries behind the hole move into it when their home is not between the two (Knuth 6.4, algorithm R).
    for (size_t i = (hole + 1) & mask(); entries_[i].qpn != kFree; i = (i + 1) & mask()) {
      if (((i - home(entries_[i].qpn)) & mask()) < ((i - hole) & mask())) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole] = Entry{};
  }
  uint64_t memory_bytes() const { return entries_.capacity() * sizeof(Entry); }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;  // no queue pair number: these have 24 bits
  struct Entry {
    uint32_t qpn = kFree;
    uint32_t slot = 0;
  };

  size_t mask() const { return entries_.size() - 1; }
  size_t home(uint32_t qpn) const { return ((qpn * 0x9E3779B1u) >> 8) & mask(); }
  void put(uint32_t qpn, uint32_t slot) {
    size_t i = home(qpn);
    while (entries_[i].qpn != kFree) i = (i + 1) & mask();
    entries_[i] = {qpn, slot};
  }
  void grow() {
    std::vector<Entry> old(entries_.empty() ? 8 : entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.qpn != kFree) put(entry.qpn, entry.slot);
    }
  }

  std::vector<Entry> entries_;
  size_t count_ = 0;
};

}  // namespace mroce::rocev2
