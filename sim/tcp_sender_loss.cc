// Which segments are lost, and what follows from it.

#include "sim/tcp_sender.h"

namespace mroce::sim {

void TcpSender::mark_lost(uint64_t index) {
  Segment& segment = ring_[index];
  set_flags(segment, (segment.flags & kEverAgain) | kLost);
  first_pending_ = std::min(first_pending_, index);
}

void TcpSender::detect(SimTime now) {
  if (options_->rack) {
    detect_by_time(now);
  } else {
    detect_by_count();
  }
}

// RFC 6675: lost is what has a threshold of reported segments above it. `examined_` only goes up, so each
// segment is looked at once.
void TcpSender::detect_by_count() {
  while (examined_ < highest_) {
    Segment& segment = ring_[examined_];
    const uint64_t own = (segment.flags & kSacked) != 0 ? 1 : 0;
    if (sacked_above_ - own < options_->dupack_threshold) return;
    if ((segment.flags & (kSacked | kLost | kEverAgain)) == 0) mark_lost(examined_);
    sacked_above_ -= own;
    ++examined_;
  }
}

SimTime TcpSender::reordering_window() const {
  if (!reordering_ && (state_ != State::kOpen || sacked_ >= options_->dupack_threshold)) return 0;
  if (rtt_.smallest == kEndOfTime) return 0;
  return std::min(reordering_steps_ * (rtt_.smallest / 4), rtt_.smoothed);
}

// RFC 8985, section 6.2. Originals were sent in the order of the ring, retransmissions in that of `resent_`.
void TcpSender::detect_by_time(SimTime now) {
  reorder_at_ = kEndOfTime;
  const SimTime patience = rack_rtt_ + reordering_window();
  while (examined_ < next_) {
    const Segment& segment = ring_[examined_];
    if ((segment.flags & (kSacked | kLost | kEverAgain)) == 0) {
      if (!sent_before_delivered(segment.sent, examined_)) break;
      if (segment.sent + patience > now) {
        reorder_at_ = segment.sent + patience;
        break;
      }
      mark_lost(examined_);
    }
    if ((segment.flags & kSacked) != 0) --sacked_above_;
    ++examined_;
  }
  while (!resent_.empty()) {
    const Resent& resent = resent_.front();
    const bool open = resent.index >= una_ && (ring_[resent.index].flags & kAgain) != 0 &&
                      ring_[resent.index].sent == resent.sent;
    if (open) {
      if (!sent_before_delivered(resent.sent, resent.index)) break;
      if (resent.sent + patience > now) {
        reorder_at_ = std::min(reorder_at_, resent.sent + patience);
        break;
      }
      mark_lost(resent.index);
    }
    resent_.pop();
  }
}

void TcpSender::enter_recovery() {
  ++recoveries_;
  state_ = State::kRecovery;
  recover_ = next_;
  force_ = true;
  probe_ = false;
  probe_end_ = 0;
  probe_at_ = kEndOfTime;
  congestion_.on_loss(flight_bytes());
  if (reordering_persists_ > 0 && --reordering_persists_ == 0) reordering_steps_ = 1;
}

void TcpSender::time_out(SimTime now) {
  ++timeouts_;
  const bool first = state_ != State::kTimedOut || una_ != timed_out_at_;
  congestion_.on_timeout(flight_bytes(), first);
  timed_out_at_ = una_;
  for (uint64_t index = una_; index < next_; ++index) {
    if ((ring_[index].flags & kSacked) == 0) mark_lost(index);
  }
  resent_.clear();
  examined_ = next_;
  sacked_above_ = 0;
  duplicates_ = 0;
  state_ = State::kTimedOut;
  recover_ = next_;
  force_ = true;
  probe_ = false;
  probe_end_ = 0;
  probe_at_ = reorder_at_ = kEndOfTime;
  ++rtt_.backoff;
  rto_at_ = now + rtt_.timeout(*options_);
}

// A new segment if there is one, else the last one again: its acknowledgement brings the SACK blocks that a
// recovery needs.
void TcpSender::probe(SimTime now) {
  ++probes_;
  probe_ = true;
  probe_again_ = !may_send_new();
  probe_end_ = probe_again_ ? next_ : next_ + 1;
  probe_at_ = kEndOfTime;
  rto_at_ = now + rtt_.timeout(*options_);
}

}  // namespace mroce::sim
