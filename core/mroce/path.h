// Path: one way from here to the peer, in the sending direction, with its own sequence numbers, round-trip
// time, window and health. RxPath is what the receiving side remembers of the peer's path of the same number.
//
// A PSEQ names one transmission and is never used again (docs/spec, "Numbering"), so a hole below LARGEST
// always means that this transmission was lost or is late, and a round-trip sample is never ambiguous.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/address.h"
#include "core/base/ring.h"
#include "core/base/time.h"
#include "core/mroce/engine.h"
#include "core/wire/codec.h"

namespace mroce {

struct SentPacket {
  enum class State : uint8_t { kFlying, kAcked, kLost };
  uint64_t cpsn = 0;
  Time sent{};
  uint32_t bytes = 0;
  uint8_t epoch = 0;
  State state = State::kFlying;
  bool by_gap = false;  // lost by the gap rule: if it is acknowledged after all, the threshold was too small
};

struct RttEstimator {  // RFC 6298 with the gains 1/8 and 1/4
  Nanos srtt{0};
  Nanos var{0};
  Nanos min{0};
  bool valid = false;

  void sample(Nanos rtt) {
    if (rtt < Nanos{1}) rtt = Nanos{1};
    if (!valid) {
      srtt = min = rtt;
      var = rtt / 2;
      valid = true;
      return;
    }
    const Nanos error = rtt > srtt ? rtt - srtt : srtt - rtt;
    var += (error - var) / 4;
    srtt += (rtt - srtt) / 8;
    if (rtt < min) min = rtt;
  }
};

struct CongestionState {
  double cwnd = 32;        // packets
  double cwnd_before = 0;  // for the undo of a cut that proved spurious
  double alpha = 0;        // EWMA of the CE share, as in DCTCP (RFC 8257)
  double usual = 0;        // mean window of the usable paths at the end of the last round
  bool slow_start = true;
  bool ecn_seen = false;
  Time cut_at{};           // last cut; at most one a round trip
  uint64_t round_end = 0;  // PSEQ that ends the current round
  uint32_t round_sent = 0;
  uint32_t round_lost = 0;
  uint32_t round_ce = 0;
  uint32_t blind_rounds = 0;  // consecutive rounds with over 30 % loss and no ECN ever seen
};

struct Path {
  uint8_t id = 0;
  uint8_t plane = 0;
  uint32_t port = 0;  // local
  UdpAddress to;
  uint16_t entropy = 0;
  uint8_t epoch = 0;
  PathState state = PathState::kNew;

  Ring<SentPacket> sent;       // by PSEQ; end() is the next PSEQ
  uint64_t scan = 0;           // transmissions below this one are judged: acknowledged or lost
  uint64_t highest_acked = 0;  // PSEQ; valid if any_acked
  bool any_acked = false;
  uint64_t other_pseq = 0;  // numbering of packets other than DATA
  uint32_t inflight = 0;    // packets
  uint64_t spread_bytes =
      0;  // sent here, for taking turns; a path that joins starts where the least used one is
  uint64_t inflight_bytes = 0;
  Ring<uint64_t> rtx;  // CPSNs that were lost here and go out here again
  RttEstimator rtt;
  CongestionState cc;
  uint32_t reorder_threshold = 0;  // packets
  uint32_t clean_rounds = 0;
  uint32_t rx_count = 0, ce_count = 0;  // the receiver's counters, as last reported

  double loss = 0;              // share of packets, over about the last kLossPackets
  uint32_t judged_packets = 0;  // that `loss` is based on
  uint32_t bad_rounds = 0;      // since it is DEGRADED
  Time degraded_until = kNever;

  Time suspect_since{};            // valid while it is SUSPECT
  uint32_t silent_tests = 0;       // packets sent since then that RACK gave up
  uint32_t overdue_since_ack = 0;  // packets that RACK gave up since then
  Time probe_at = kNever;
  Nanos probe_interval{0};
  uint64_t probe_token = 0;
  Time probe_sent{};
  bool probe_flying = false;
  uint32_t probes_answered = 0;  // in a row
  bool link_up = true;           // local link, and the peer's plane as it told us
  bool peer_up = true;
  PathCounters counters;

  bool usable() const {
    return link_up && peer_up &&
           (state == PathState::kActive || state == PathState::kSuspect || state == PathState::kDegraded);
  }
};

struct RxPath {
  bool seen = false;
  bool news = false;     // something to acknowledge
  uint32_t port = 0;     // local, of the last datagram
  uint8_t repeats = 0;   // further ACKs that carry the block again where they have room
  uint64_t largest = 0;  // PSEQ
  std::array<uint64_t, 4> vector{};
  uint32_t rx_count = 0;
  uint32_t ce_count = 0;
  uint32_t ts_echo = 0;
  Time arrived{};

  // A PSEQ in full: nearest to the highest so far, or to `first`, which the peer has announced.
  uint64_t expand(uint32_t pseq, uint64_t first) const {
    return wire::expand32(pseq, seen ? largest : first);
  }
  // Notes that `pseq` arrived; `accepted` sets its bit. Returns true if it left or found a gap just below it.
  bool note(uint64_t pseq, bool accepted);
  bool is_set(uint64_t pseq) const;
};

}  // namespace mroce
