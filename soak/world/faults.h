// What a network does to datagrams: faults that hold all the time, spells that come and go, and a tally of
// what really happened.
//
// A kind of fault is counted when it hits: a loss for the datagram that was lost, a pause for the endpoint
// that did not run. What was drawn and hit nothing counts for nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/time.h"

namespace mroce::soak {

// X(name, word, sentence)
#define MROCE_FAULT_KINDS(X)                                                       \
  X(kLoss, "loss", "datagrams lost, each of its own")                              \
  X(kLossBurst, "loss_burst", "datagrams lost in a row")                           \
  X(kReorder, "reorder", "datagrams held back")                                    \
  X(kDuplicate, "duplicate", "datagrams that came twice")                          \
  X(kLateDuplicate, "late_duplicate", "datagrams that came again much later")      \
  X(kCorrupt, "corrupt", "datagrams with a changed byte")                          \
  X(kTruncate, "truncate", "datagrams cut short")                                  \
  X(kMark, "mark", "datagrams marked CE")                                          \
  X(kQueueFull, "queue_full", "datagrams that found a queue full")                 \
  X(kClog, "clog", "datagrams on a way with almost no rate")                       \
  X(kCut, "cut", "datagrams between two endpoints that do not reach each other")   \
  X(kPathDown, "path_down", "datagrams on a silent path")                          \
  X(kBlackout, "blackout", "datagrams while nothing gets through")                 \
  X(kLinkDown, "link_down", "ports that lost their link, and told")                \
  X(kLinkSilent, "link_silent", "ports that lost their link, and did not tell")    \
  X(kPause, "pause", "endpoints that did not get the CPU")                         \
  X(kClockJump, "clock_jump", "clocks that jumped forward")                        \
  X(kCrash, "crash", "endpoints that died and were started anew")                  \
  X(kSlowReader, "slow_reader", "datagrams lost in front of a slow receiver")      \
  X(kFalseCredit, "false_credit", "credits that the network raised")               \
  X(kQpError, "qp_error", "queue pairs put into ERR")                              \
  X(kQpReset, "qp_reset", "queue pairs put into RESET")                            \
  X(kQpRemade, "qp_remade", "queue pairs thrown away, with others in their place") \
  X(kRegionGone, "region_gone", "regions deregistered under way")                  \
  X(kFlaw, "flaw", "work requests that must fail")                                 \
  X(kDrain, "drain", "queue pairs drained and resumed")                            \
  X(kReregister, "reregister", "regions registered anew")                          \
  X(kResize, "resize", "completion queues resized")

enum class FaultKind : uint8_t {
#define MROCE_FAULT_ENUM(name, word, sentence) name,
  MROCE_FAULT_KINDS(MROCE_FAULT_ENUM)
#undef MROCE_FAULT_ENUM
      kCount
};
inline constexpr size_t kFaultKinds = static_cast<size_t>(FaultKind::kCount);
std::string_view name_of(FaultKind kind);
std::string_view sentence_of(FaultKind kind);

struct FaultTally {
  std::array<uint64_t, kFaultKinds> counts{};
  void count(FaultKind kind) { ++counts[static_cast<size_t>(kind)]; }
  uint64_t of(FaultKind kind) const { return counts[static_cast<size_t>(kind)]; }
  void add(const FaultTally& other) {
    for (size_t i = 0; i < kFaultKinds; ++i) counts[i] += other.counts[i];
  }
};

struct Faults {
  Nanos latency = micros(10);
  Nanos jitter{0};     // uniform, on top, for each datagram of its own: reorders
  double reorder = 0;  // share of datagrams that is delayed by reorder_delay on top
  Nanos reorder_delay = micros(100);
  double loss = 0;        // share that is lost, each of its own
  double burst_loss = 0;  // probability that a datagram begins a time in which everything is lost
  Nanos burst_length = micros(200);
  double duplicate = 0;
  Nanos duplicate_after = micros(50);
  double late_duplicate = 0;
  Nanos late_duplicate_after = seconds(3600);
  double corrupt = 0;              // share that gets one byte changed
  double truncate = 0;             // share that loses its end
  double ce = 0;                   // share that is marked, if it is ECN-capable
  uint64_t rate_bps = 0;           // 0: as fast as it comes
  uint64_t queue_bytes = 1 << 20;  // in front of the rate; what does not fit is lost
  uint64_t ce_above_bytes = 0;     // marks when the queue is longer; 0: never
  bool cut = false;                // loses everything
  bool clogged = false;            // the rate is next to nothing
};

// Worse weather for a while, for all datagrams or for some.
struct Spell {
  FaultKind kind = FaultKind::kCut;
  Time from{};
  Time until{};
  std::optional<uint32_t> sender;  // endpoints, by index
  std::optional<uint32_t> receiver;
  std::optional<uint8_t> path;
  double share = 1;       // of the datagrams that are lost, changed, …
  uint64_t rate_bps = 0;  // kClog
  Nanos delay{0};         // kReorder, kDuplicate

  bool covers(Time now, uint32_t a, uint32_t b, uint8_t on_path) const {
    return now >= from && now < until && sender.value_or(a) == a && receiver.value_or(b) == b &&
           path.value_or(on_path) == on_path;
  }
  bool loses_everything() const {
    return kind == FaultKind::kCut || kind == FaultKind::kPathDown || kind == FaultKind::kBlackout;
  }
  void worsen(Faults& faults) const;
};

}  // namespace mroce::soak
