// Event queue: a timing wheel with a total order.
//
// Events are ordered by (at, key, what). Keys name a kind and a link or host, never a thread or a moment of
// insertion, so the order of a run is the same however its nodes are spread over threads.
//
// The wheel has kSlots slots of 2^slot_bits picoseconds (Varghese and Lauck 1987). A slot is a chain of
// 128-byte chunks of seven events, the first chunk of each slot lies in the wheel itself: a push touches one
// cache line or two. When a slot becomes current its events are copied out and sorted; a push into the
// current slot is inserted in order. A bitmap finds the next slot that has events. What lies beyond the wheel
// waits in a binary heap.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/prefetch.h"
#include "sim/time.h"

namespace mroce::sim {

// In this order at equal times.
enum class EventKind : uint32_t {
  kFault,    // id: position in the fault schedule
  kSent,     // a transmission ended; id: link
  kCredit,   // credit came back; id: link, what: class and bytes
  kArrival,  // the first packet on the link arrives; id: link, what: position of its object
  kReceive,  // the receive buffer of a host gives out a packet; id: host
  kStart,    // id: host, what: flow
  kTimer,    // id: host
  kPull,     // a port of a host has room; id: link
};

inline constexpr uint32_t kEventIdBits = 28;

constexpr uint32_t event_key(EventKind kind, uint32_t id) {
  return static_cast<uint32_t>(kind) << kEventIdBits | id;
}

struct Event {
  SimTime at = 0;
  uint32_t what = 0;
  uint32_t key = 0;

  EventKind kind() const { return static_cast<EventKind>(key >> kEventIdBits); }
  uint32_t id() const { return key & ((1U << kEventIdBits) - 1); }
  uint64_t rank() const { return static_cast<uint64_t>(key) << 32 | what; }
  // As one number, so that comparing takes no branch. Times are not negative.
  __extension__ using Order = unsigned __int128;
  Order order() const { return static_cast<Order>(at) << 64 | rank(); }
  bool operator<(const Event& other) const { return order() < other.order(); }
};
static_assert(sizeof(Event) == 16);

class EventQueue {
 public:
  static constexpr uint32_t kSlots = 8192;

  explicit EventQueue(unsigned slot_bits);

  // `at` must not lie before the last event that was popped.
  void push(SimTime at, uint32_t key, uint32_t what) {
    const int64_t slot = at >> slot_bits_;
    ++size_;
    if (slot - current_slot_ >= kSlots) [[unlikely]]
      return push_far({at, what, key});
    if (slot <= current_slot_) [[unlikely]]
      return insert_now({at, what, key});
    push_slot(slot, {at, what, key});
  }

  // Takes the first event if it lies before `limit`.
  bool pop(SimTime limit, Event& event) {
    if (next_ == current_.size() && !advance(limit)) return false;
    if (current_[next_].at >= limit) return false;
    event = current_[next_++];
    --size_;
    return true;
  }

  // For prefetching: the event `distance` places after the one to be popped next, if it is in the current
  // slot.
  const Event* ahead(size_t distance) const {
    return next_ + distance < current_.size() ? &current_[next_ + distance] : nullptr;
  }
  int64_t next_slot(int64_t after) const;  // that has events, after this one; INT64_MAX: none
  // Its events, as far as they are in the first chunk.
  template <class Visit>
  void visit(int64_t slot, Visit&& visit) const {
    if (slot == INT64_MAX) return;
    const Chunk& chunk = wheel_[static_cast<uint32_t>(slot) & (kSlots - 1)];
    for (uint32_t i = 0; i < chunk.count; ++i) visit(chunk.events[i]);
  }
  void prefetch_slot(int64_t slot) const {
    const Chunk& chunk = wheel_[static_cast<uint32_t>(slot) & (kSlots - 1)];
    prefetch(&chunk);
    prefetch(&chunk.count);
  }
  int64_t current_slot() const { return current_slot_; }
  uint64_t slots_taken() const { return slots_taken_; }

  SimTime earliest() const;  // kEndOfTime: empty
  size_t size() const { return size_; }
  uint64_t memory_bytes() const;

 private:
  static constexpr uint32_t kChunkEvents = 7;
  static constexpr uint32_t kNoChunk = UINT32_MAX;
  struct alignas(64) Chunk {
    Event events[kChunkEvents];
    uint32_t count = 0;
    uint32_t more = kNoChunk;  // an older, full chunk of the same slot
  };
  static_assert(sizeof(Chunk) == 128);

  void push_slot(int64_t slot, const Event& event) {
    const auto at = static_cast<uint32_t>(slot) & (kSlots - 1);
    Chunk& chunk = wheel_[at];
    if (chunk.count == kChunkEvents) [[unlikely]]
      spill(chunk);
    chunk.events[chunk.count++] = event;
    used_[at >> 6] |= 1ULL << (at & 63);
  }
  void spill(Chunk& chunk);
  void push_far(const Event& event);
  void insert_now(const Event& event);
  bool advance(SimTime limit);
  void take_slot(int64_t slot);

  unsigned slot_bits_;
  int64_t current_slot_ = 0;
  std::vector<Event> current_;  // sorted
  size_t next_ = 0;             // in current_
  size_t size_ = 0;
  uint64_t slots_taken_ = 0;
  std::unique_ptr<Chunk[]> wheel_;
  std::vector<Chunk> spilled_;
  uint32_t free_chunk_ = kNoChunk;
  uint64_t used_[kSlots / 64] = {};
  std::vector<Event> far_;  // heap, earliest first
};

}  // namespace mroce::sim
