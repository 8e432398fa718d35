// Ring<T>: a queue that is indexed by an ever-growing 64-bit number (a PSEQ, a CPSN, an MSN) and that
// takes memory in proportion to what it holds. Entry i lives at i mod capacity; the capacity is a power of
// two, doubles when full, and falls back to nothing with release() when the ring is empty.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/assert.h"

namespace mroce {

template <class T>
class Ring {
 public:
  Ring() = default;
  explicit Ring(uint64_t first) : begin_(first), end_(first) {}

  uint64_t begin() const { return begin_; }  // number of the oldest entry
  uint64_t end() const { return end_; }      // number that the next push gets
  uint64_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  bool contains(uint64_t index) const { return index - begin_ < end_ - begin_; }
  uint64_t capacity() const { return capacity_; }

  T& operator[](uint64_t index) { return slots_[index & (capacity_ - 1)]; }
  const T& operator[](uint64_t index) const { return slots_[index & (capacity_ - 1)]; }
  T& front() { return (*this)[begin_]; }
  T& back() { return (*this)[end_ - 1]; }

  T& push(T value) {
    if (size() == capacity_) grow();
    T& slot = slots_[end_ & (capacity_ - 1)];
    slot = std::move(value);
    ++end_;
    return slot;
  }
  void pop() {
    MROCE_ASSERT(!empty());
    slots_[begin_ & (capacity_ - 1)] = T{};
    ++begin_;
  }
  void clear() {
    while (!empty()) pop();
  }
  // Empties the ring and makes `first` the number of the next entry.
  void restart(uint64_t first) {
    clear();
    begin_ = end_ = first;
  }
  // Gives the memory back. The ring must be empty; numbering goes on.
  void release() {
    MROCE_ASSERT(empty());
    slots_.reset();
    capacity_ = 0;
  }

 private:
  void grow() {
    const uint64_t capacity = capacity_ == 0 ? 8 : capacity_ * 2;
    auto slots = std::make_unique<T[]>(capacity);
    for (uint64_t i = begin_; i != end_; ++i) {
      slots[i & (capacity - 1)] = std::move(slots_[i & (capacity_ - 1)]);
    }
    slots_ = std::move(slots);
    capacity_ = capacity;
  }

  std::unique_ptr<T[]> slots_;
  uint64_t capacity_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

}  // namespace mroce
