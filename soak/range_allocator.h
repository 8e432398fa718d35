// RangeAllocator: first fit in a range of addresses.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

#include "core/base/assert.h"

namespace mroce::soak {

class RangeAllocator {
 public:
  RangeAllocator() = default;
  RangeAllocator(uint64_t begin, uint64_t bytes) { free_[begin] = begin + bytes; }

  std::optional<uint64_t> take(uint64_t bytes) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [begin, end] = *it;
      if (end - begin < bytes) continue;
      free_.erase(it);
      if (begin + bytes != end) free_[begin + bytes] = end;
      return begin;
    }
    return std::nullopt;
  }

  void give_back(uint64_t begin, uint64_t bytes) {
    uint64_t end = begin + bytes;
    const auto after = free_.find(end);
    if (after != free_.end()) {
      end = after->second;
      free_.erase(after);
    }
    const auto next = free_.upper_bound(begin);
    if (next != free_.begin() && std::prev(next)->second == begin) {
      std::prev(next)->second = end;
    } else {
      const bool fresh = free_.emplace(begin, end).second;
      MROCE_ASSERT(fresh);
    }
  }

 private:
  std::map<uint64_t, uint64_t> free_;  // begin, end
};

}  // namespace mroce::soak
