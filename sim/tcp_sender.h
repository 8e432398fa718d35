// The sending side of a TCP connection: scoreboard, loss detection, recovery, timers.
//
// All segments are of one size but the last, so the scoreboard is a ring of segments. Four counts over it
// give what is in the network (the pipe of RFC 6675): sent, less what SACK reported, less what is lost, plus
// what was sent again. A segment may leave while the pipe is below the congestion window; the first
// retransmission of a recovery goes ahead of that.
//
// Loss, with SACK:
//   rack (RFC 8985)  a segment sent before one that was delivered, by a reordering window: none once three
//                    segments are reported and no reordering was seen, else a quarter of the shortest round
//                    trip, more for each round with D-SACKs. Finds lost retransmissions too.
//   else (RFC 6675)  a segment with three reported ones above it. A lost retransmission takes a timeout.
// Without SACK: NewReno (RFC 6582), three duplicates, then one segment a round trip on partial
// acknowledgements. Each duplicate counts as a segment that left the network, which is what inflating the
// window does.
//
// Timers: retransmission timeout (RFC 6298; everything outstanding counts as lost, window of a segment),
// tail loss probe (RFC 8985, section 7), and the end of the reordering window.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/ring.h"
#include "sim/tcp_congestion.h"
#include "sim/tcp_header.h"
#include "sim/tcp_rtt.h"

namespace mroce::sim {

struct TcpSegment {
  uint64_t index = 0;
  uint32_t bytes = 0;
  bool again = false;
  bool last = false;
};

class TcpSender {
 public:
  TcpSender(const TcpOptions& options, uint32_t mss, uint64_t bytes);

  bool can_send() const {
    if (probe_ || (pending_ > 0 && force_)) return true;
    return (pending_ > 0 || may_send_new()) && window_open();
  }
  TcpSegment take(SimTime now);  // if can_send()
  void on_ack(SimTime now, const TcpHeader& header);
  void on_timer(SimTime now);
  SimTime deadline() const { return std::min({rto_at_, probe_at_, reorder_at_}); }
  bool finished() const { return una_ == segments_; }

  void seed_rtt(SimTime rtt) { rtt_.sample(rtt); }
  const TcpCongestion& congestion() const { return congestion_; }
  const TcpRtt& rtt() const { return rtt_; }
  uint64_t timeouts() const { return timeouts_; }
  uint64_t probes() const { return probes_; }
  uint64_t recoveries() const { return recoveries_; }
  uint64_t in_flight() const {  // segments
    const uint64_t counted = next_ - una_ + again_;
    const uint64_t left = sacked_ + lost_ + duplicates_;
    return counted > left ? counted - left : 0;
  }
  uint64_t memory_bytes() const;

 private:
  enum Flag : uint8_t { kSacked = 1, kLost = 2, kAgain = 4, kEverAgain = 8 };
  enum class State : uint8_t { kOpen, kRecovery, kTimedOut };
  struct Segment {
    SimTime sent = 0;
    uint64_t flags = 0;
  };
  struct Resent {
    uint64_t index;
    SimTime sent;
  };
  // What one acknowledgement brought.
  struct News {
    uint64_t acked = 0;  // segments, cumulative
    uint64_t acked_bytes = 0;
    uint64_t flight_before = 0;  // bytes
    bool dsack = false;
    bool resent = false;       // an acknowledged segment was sent twice
    SimTime acked_sent = -1;   // of the first newly acknowledged segment that was never sent again
    SimTime sacked_sent = -1;  // likewise, reported by SACK
  };

  uint64_t offset_of(uint64_t index) const { return index == segments_ ? bytes_ : index * mss_; }
  uint64_t index_at(uint64_t offset) const { return offset == bytes_ ? segments_ : offset / mss_; }
  uint64_t flight_bytes() const { return (next_ - una_) * mss_; }
  bool window_open() const { return (in_flight() + 1) * mss_ <= congestion_.window(); }
  bool may_send_new() const {
    return next_ < segments_ && (next_ + 1 - una_) * mss_ <= options_->receive_window;
  }
  void set_flags(Segment& segment, uint64_t flags);

  TcpSegment send(SimTime now, uint64_t index);

  // tcp_sender_ack.cc
  void take_cumulative(SimTime now, uint64_t una, News& news);
  void take_sack(SimTime now, std::span<const TcpSackBlock> blocks, News& news);
  void delivered(SimTime now, uint64_t index, const Segment& segment);
  void sample_rtt(SimTime now, const News& news);
  void count_duplicate(const News& news);
  void finish_recovery();
  void judge_probe(const News& news);
  void arm_after_ack(SimTime now);
  void arm_probe(SimTime now);
  void note_dsack();

  // tcp_sender_loss.cc
  void detect(SimTime now);
  void detect_by_count();
  void detect_by_time(SimTime now);
  SimTime reordering_window() const;
  bool sent_before_delivered(SimTime sent, uint64_t index) const {
    return sent != rack_sent_ ? sent < rack_sent_ : index < rack_index_;
  }
  void mark_lost(uint64_t index);
  void enter_recovery();
  void time_out(SimTime now);
  void probe(SimTime now);

  const TcpOptions* options_;
  uint32_t mss_;
  State state_ = State::kOpen;
  bool force_ = false;  // the next retransmission does not wait for the window
  bool probe_ = false;  // send one more, whatever the window
  bool reordering_ = false;
  uint64_t bytes_;
  uint64_t segments_;
  uint64_t una_ = 0;
  uint64_t next_ = 0;
  TcpCongestion congestion_;
  TcpRtt rtt_;

  Ring<Segment> ring_;   // from una_ to next_
  uint64_t sacked_ = 0;  // counts of segments from una_ to next_
  uint64_t lost_ = 0;
  uint64_t again_ = 0;
  uint64_t pending_ = 0;        // lost and not sent again
  uint64_t duplicates_ = 0;     // without SACK: segments that left the network
  uint64_t first_pending_ = 0;  // no pending one below
  uint64_t examined_ = 0;       // originals below were found delivered or lost
  uint64_t sacked_above_ = 0;   // reported segments from examined_ on
  uint64_t highest_ = 0;        // one beyond the highest delivered
  uint64_t recover_ = 0;
  uint64_t timed_out_at_ = UINT64_MAX;  // una_ of the last timeout
  Ring<Resent> resent_;                 // in the order of sending

  SimTime rack_sent_ = -1;
  uint64_t rack_index_ = 0;
  SimTime rack_rtt_ = 0;
  uint32_t reordering_steps_ = 1;
  uint32_t reordering_persists_ = 0;  // recoveries until the steps fall back to one
  uint64_t dsack_round_ = 0;

  SimTime rto_at_ = kEndOfTime;
  SimTime probe_at_ = kEndOfTime;
  SimTime reorder_at_ = kEndOfTime;
  uint64_t probe_end_ = 0;  // 0: no probe is open
  bool probe_again_ = false;

  uint64_t timeouts_ = 0;
  uint64_t probes_ = 0;
  uint64_t recoveries_ = 0;
};

}  // namespace mroce::sim
