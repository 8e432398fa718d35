// Cuts a burst's slices along its segments, without copying a byte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/assert.h"
#include "core/mroce/burst.h"

namespace mroce::net {

// Bytes of segment `index` of `burst`.
inline uint32_t segment_length(const TxBurst& burst, uint32_t index) {
  return index + 1 < burst.segments ? burst.segment_bytes
                                    : burst.total_bytes - burst.segment_bytes * (burst.segments - 1);
}

// Walks once over the slices of a burst and yields any number of bytes at a time.
class SliceCutter {
 public:
  explicit SliceCutter(std::span<const Slice> slices) : slices_(slices) {}

  // Appends the next `length` bytes to `out` as slices.
  void take(size_t length, std::vector<Slice>& out) {
    walk(length, [&out](const std::byte* data, size_t part) { out.push_back({data, part}); });
  }
  void skip(size_t length) {
    walk(length, [](const std::byte*, size_t) {});
  }
  void copy(size_t length, std::byte* out) {
    walk(length, [&out](const std::byte* data, size_t part) { out = std::copy_n(data, part, out); });
  }

 private:
  template <class F>
  void walk(size_t length, F&& visit) {
    while (length > 0) {
      MROCE_ASSERT(index_ < slices_.size());  // a burst's total is the sum of its slices
      const Slice& slice = slices_[index_];
      const size_t part = std::min(length, slice.length - offset_);
      if (part > 0) visit(slice.data + offset_, part);
      length -= part;
      offset_ += part;
      if (offset_ == slice.length) {
        ++index_;
        offset_ = 0;
      }
    }
  }

  std::span<const Slice> slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

}  // namespace mroce::net
