// EventQueue: what will happen in virtual time. Events of one time run in the order in which they were added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/time.h"

namespace mroce::soak {

class EventQueue {
 public:
  void at(Time when, std::function<void()> action) {
    heap_.push_back({when, next_number_++, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Time next() const { return heap_.empty() ? kNever : heap_.front().when; }
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  void run_one() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const std::function<void()> action = std::move(heap_.back().action);
    heap_.pop_back();
    action();
  }

 private:
  struct Entry {
    Time when;
    uint64_t number;
    std::function<void()> action;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }
  std::vector<Entry> heap_;
  uint64_t next_number_ = 0;
};

}  // namespace mroce::soak
