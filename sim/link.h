// Link: one direction of a cable, and the queue of the port that sends into it.
//
// Lazy mode, the fast one: a FIFO. When a packet is queued the moment at which it will arrive is known and
// written into it (Packet::at = end of its transmission + delay), and only the first packet of the FIFO has
// an event. So a hop costs one event, and there are no more events pending than links. Departures are not
// events: `cursor` is the first packet not yet seen to have left, `queued` the bytes from there on, and
// whoever must know the exact depth moves the cursor first (settle()). Mostly nobody must: the time until
// busy_until bounds the depth to within one packet, and below `quiet` nothing can happen to a new packet.
//
// Explicit mode: packets that have not started wait in queues of their classes, and the end of each
// transmission is an event that picks the next. It is entered when packets of different classes wait or a
// class is paused, left when nothing waits; ports whose departures matter to somebody (shared buffer, PFC,
// credits) stay in it. A packet whose transmission has started is never called back, in either mode: it is in
// the FIFO with its arrival time. That is what makes handing packets to another thread safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "core/base/rng.h"
#include "sim/config.h"
#include "sim/packet.h"

namespace mroce::sim {

// FIFO of packets chained by `next`.
struct PacketList {
  Packet* head = nullptr;
  Packet* tail = nullptr;

  void push(Packet* packet) {
    packet->next = nullptr;
    if (head == nullptr) {
      head = packet;
    } else {
      tail->next = packet;
    }
    tail = packet;
  }
  Packet* pop() {
    Packet* const packet = head;
    head = packet->next;
    return packet;
  }
};

// State of a link in explicit mode. Queue kClasses holds pause frames, which go before everything.
struct alignas(64) ClassQueues {
  Packet* sending = nullptr;
  uint32_t used = 0;    // bit: queue is not empty
  uint32_t paused = 0;  // bit: class
  uint32_t turn = 0;    // of the weighted classes
  std::array<uint32_t, kClasses + 1> bytes{};
  std::array<PacketList, kClasses + 1> waiting;
  std::array<int64_t, kClasses> deficit{};
  std::array<int64_t, kClasses> credit{};
  std::array<SimTime, kClasses> paused_since{};
  SimTime paused_time = 0;

  // Sum over classes, with pauses that are not over.
  SimTime paused_until(SimTime now) const {
    SimTime sum = paused_time;
    for (uint32_t c = 0; c < kClasses; ++c) {
      if ((paused >> c & 1) != 0) sum += now - paused_since[c];
    }
    return sum;
  }
};

// What may happen to packets on the link. Loss is drawn at the far end, in order of arrival.
struct LinkTrouble {
  double loss = 0;
  // Bursts (Gilbert 1960, Elliott 1963): probabilities to enter and leave the bad state at each packet.
  double enter_bad = 0;
  double leave_bad = 1;
  double bad_loss = 0;
  bool bad = false;
  uint32_t down = 0;      // outages that overlap now
  SimTime up_since = -1;  // what had started before is lost
  Rng rng{0};

  bool loses(SimTime started) {
    if (down > 0 || started < up_since) return true;
    if (enter_bad > 0) bad = bad ? !rng.chance(leave_bad) : rng.chance(enter_bad);
    const double p = bad ? bad_loss : loss;
    return p > 0 && rng.chance(p);
  }
};

struct alignas(64) Link {
  enum Flag : uint8_t {
    kExplicit = 1,
    kSticky = 2,     // stays explicit
    kCrossing = 4,   // its far end belongs to another partition: no arrival events here
    kListed = 8,     // crossing, and in the list of those with packets
    kTroubled = 16,  // packets may be lost: see LinkTrouble
    kAvoided = 32,   // its switch knows that it is down
    kToHost = 64,
    kWatched = 128,  // its packets are traced: see trace.h
  };

  Packet* head = nullptr;
  Packet* tail = nullptr;
  Packet* cursor = nullptr;
  SimTime busy_until = 0;
  SimTime delay = 0;
  SimTime quiet = kEndOfTime;   // backlog in time up to which a packet is neither marked nor dropped
  uint32_t queued = 0;          // bytes from the cursor on; explicit: with those that wait
  uint32_t picos_per_byte = 0;  // 0: not whole
  uint32_t to = 0;              // node
  uint16_t to_port = 0;         // of a switch: position of the reverse link; of a host: plane
  uint8_t flags = 0;
  uint8_t last_class = 0;  // of the tail

  uint64_t rate_bps = 0;
  uint64_t arrived_packets = 0;  // at the far end, without pause frames; lost ones too
  uint64_t arrived_bytes = 0;
  uint64_t lost_packets = 0;
  uint64_t lost_bytes = 0;
  SimTime max_backlog = 0;  // in time
  std::unique_ptr<ClassQueues> classes;
  std::unique_ptr<LinkTrouble> trouble;

  bool is(Flag flag) const { return (flags & flag) != 0; }
  void set(Flag flag, bool on = true) { flags = static_cast<uint8_t>(on ? flags | flag : flags & ~flag); }

  SimTime time_of(uint32_t bytes) const {
    if (picos_per_byte != 0) [[likely]]
      return static_cast<SimTime>(bytes) * picos_per_byte;
    return static_cast<SimTime>((bytes * 8'000'000'000'000ULL + rate_bps / 2) / rate_bps);
  }
  void set_rate(uint64_t bps) {
    rate_bps = bps;
    picos_per_byte = 8'000'000'000'000ULL % bps == 0 ? static_cast<uint32_t>(8'000'000'000'000ULL / bps) : 0;
  }
  // Time until what is queued now has been sent.
  SimTime backlog(SimTime now) const {
    if (!is(kExplicit)) return std::max<SimTime>(busy_until - now, 0);
    return time_of(queued);
  }
  // Moves the cursor past the packets whose transmission has ended.
  void settle(SimTime now) {
    while (cursor != nullptr && cursor->at - delay <= now) {
      queued -= cursor->bytes;
      cursor = cursor->next;
    }
  }
};
static_assert(sizeof(Link) == 128);

}  // namespace mroce::sim
