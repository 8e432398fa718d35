// TimerQueue: deadlines of many objects with cheap postponement. An object keeps the time under which it
// stands in the heap (`queued`); a later deadline costs nothing, because the entry comes out early and is
// looked at again; an earlier one adds an entry. So earliest() may be early, never late.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "core/base/time.h"

namespace mroce {

struct TimerEntry {
  enum class Kind : uint8_t { kConnection, kStream };
  Time at{};
  Kind kind = Kind::kConnection;
  uint32_t id = 0;
  bool operator>(const TimerEntry& other) const { return at > other.at; }
};

class TimerQueue {
 public:
  // `queued` is the object's own record; kNever asks for nothing.
  void schedule(TimerEntry::Kind kind, uint32_t id, Time at, Time& queued) {
    if (at >= queued) return;
    queued = at;
    heap_.push({at, kind, id});
  }
  Time earliest() const { return heap_.empty() ? kNever : heap_.top().at; }
  TimerEntry pop() {
    const TimerEntry entry = heap_.top();
    heap_.pop();
    return entry;
  }

 private:
  std::priority_queue<TimerEntry, std::vector<TimerEntry>, std::greater<>> heap_;
};

}  // namespace mroce
