// Impairment: a bad network on purpose, between the engine and the sockets.
//
// Works on single datagrams: the segments of a super-packet are judged one by one; what passes goes on as few
// bursts as possible without a copy, what is late, doubled or corrupted is copied into a bounded delay queue.
// What is doubled or corrupted only ends the burst before it, and leaves at once; what is dropped does not.
// For a trace, what is dropped keeps its place behind the datagrams of its path that are still held back.
// Deterministic: time is an argument, and every draw comes from a generator seeded once for each direction,
// so that the same datagrams at the same times meet the same fate. Losses in a row follow the two-state model
// of Gilbert (1960): good and bad, where bad drops everything and lasts a geometric number of packets.
//
// Delay keeps the order of a path (a burst draws its jitter once, as it travels together); only `reorder`
// overtakes. ACKs and all other packets are impaired like data.
//
// Books: offered + duplicated = delivered + dropped + queued, for each direction and at every moment.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/rng.h"
#include "core/base/time.h"
#include "core/mroce/burst.h"
#include "net/impairment_clause.h"
#include "net/impairment_queue.h"

namespace mroce::net {

// X(name, sentence)
#define MROCE_IMPAIRMENT_COUNTERS(X)                                      \
  X(offered, "datagrams that came to the impairment layer")               \
  X(delivered, "datagrams that it let pass, copies included")             \
  X(dropped_loss, "dropped by loss")                                      \
  X(dropped_burst, "dropped by burst")                                    \
  X(dropped_down, "dropped because the path was down")                    \
  X(dropped_queue, "dropped because the queue of rate or delay was full") \
  X(duplicated, "copies made by duplicate")                               \
  X(reordered, "held back by reorder")                                    \
  X(corrupted, "sent on with one bit flipped")                            \
  X(delayed, "held back by delay or rate")                                \
  X(marked, "marked CE")

struct ImpairmentCounters {
#define MROCE_IMPAIRMENT_COUNTER(name, sentence) uint64_t name = 0;
  MROCE_IMPAIRMENT_COUNTERS(MROCE_IMPAIRMENT_COUNTER)
#undef MROCE_IMPAIRMENT_COUNTER
  uint64_t dropped() const {
    return dropped_loss + dropped_burst + dropped_down + dropped_queue;
  }
};

struct PathImpairment {
  uint64_t offered = 0;
  uint64_t dropped = 0;
};

// Where datagrams go when the impairment layer is done with them.
class ImpairmentSink {
 public:
  virtual ~ImpairmentSink() = default;
  virtual void pass_out(const TxBurst& burst) = 0;
  virtual void pass_in(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes) = 0;
  // Whether it wants to know of datagrams that go no further.
  virtual bool traces() const = 0;
  // One of these. `behind`: so many segments of the next pass_out(), which
  // is sure to come if it is not 0, were sent before this one.
  virtual void dropped_out(const TxBurst& datagram, uint32_t behind) = 0;
  // In the order of the arrivals.
  virtual void dropped_in(const RxMeta& meta, std::span<const std::byte> datagram) = 0;
};

class Impairment {
 public:
  Impairment() : Impairment({}, 0, Time{}) {}
  // `seed` counts unless a clause names one. Windows count from `opened`.
  Impairment(std::vector<ImpairmentClause> clauses, uint64_t seed, Time opened);

  bool impairs_out() const { return out_.active; }
  bool impairs_in() const { return in_.active; }
  uint64_t seed() const { return seed_; }

  void transmit(Time now, const TxBurst& burst, ImpairmentSink& sink);
  void receive(Time now, const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes,
               ImpairmentSink& sink);
  // Passes on what is due, at most `max_bursts` calls of the sink.
  void release(Time now, ImpairmentSink& sink, uint32_t max_bursts = UINT32_MAX);
  Time next_deadline() const { return queue_.next_due(); }

  const ImpairmentCounters& counters(bool outgoing) const { return outgoing ? out_.counters : in_.counters; }
  const std::array<PathImpairment, 256>& paths(bool outgoing) const {
    return outgoing ? out_.paths : in_.paths;
  }
  size_t queued(bool outgoing) const { return queue_.size(outgoing); }

 private:
  struct Lane {        // the state of one clause in one direction
    bool bad = false;  // of the two-state loss model
    Time link_free{};  // when the serialised link is idle again
    Nanos delay{0};    // drawn for the present burst
  };
  struct Direction {
    explicit Direction(uint64_t seed) : rng(seed) {}
    bool active = false;
    Rng rng;
    std::vector<Lane> lanes;           // parallel to clauses_
    std::array<Time, 256> last_due{};  // by path: nothing that keeps its order may be due earlier
    ImpairmentCounters counters;
    std::array<PathImpairment, 256> paths{};
  };
  struct Datagram {  // what a verdict depends on
    uint8_t path = 0;
    uint32_t plane = 0;
    uint32_t bytes = 0;
    bool v4 = true;
    Ecn ecn = Ecn::kNotEct;
  };
  struct Verdict {
    bool drop = false;
    bool copy_twice = false;
    bool corrupt = false;
    Ecn ecn = Ecn::kNotEct;
    Time due{};         // of a dropped one: that of the last one before it on its path
    bool late = false;  // due later than now
    bool leaves_now() const { return !drop && !late; }
    bool passes() const { return leaves_now() && !copy_twice && !corrupt; }
  };

  bool applies(const ImpairmentClause& clause, bool outgoing, uint8_t path, uint32_t plane, Nanos age) const;
  void draw_delays(Direction& direction);
  Verdict judge(Direction& direction, bool outgoing, Time now, const Datagram& datagram);
  bool judge_loss(Direction& direction, const ImpairmentClause& clause, Lane& lane, Nanos age);
  bool judge_rate(Direction& direction, const ImpairmentClause& clause, Lane& lane, Time now,
                  const Datagram& datagram, Time& due);
  void set_aside(Direction& direction, HeldDatagram&& held, const Verdict& verdict, uint8_t path,
                 ImpairmentSink& sink);
  void hold(Direction& direction, HeldDatagram&& held, uint8_t path, ImpairmentSink& sink);
  void lose(HeldDatagram&& held, const Verdict& verdict, ImpairmentSink& sink);
  void drop_held(const HeldDatagram& held, uint32_t behind, ImpairmentSink& sink);
  void pass_run(uint32_t segment_bytes, ImpairmentSink& sink);
  void release_out(Time now, ImpairmentSink& sink);

  std::vector<ImpairmentClause> clauses_;
  uint64_t seed_;
  Time opened_;
  Direction out_;
  Direction in_;
  DelayQueue queue_;
  TxBurst run_;                // of the burst that is being sent: the survivors that wait to pass together
  std::vector<Slice> slices_;  // their bytes
};

}  // namespace mroce::net
