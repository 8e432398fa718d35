#include "sim/tcp_sender.h"

#include "core/base/assert.h"

namespace mroce::sim {

TcpSender::TcpSender(const TcpOptions& options, uint32_t mss, uint64_t bytes)
    : options_(&options),
      mss_(mss),
      bytes_(bytes),
      segments_((bytes + mss - 1) / mss),
      congestion_(options, mss) {
  MROCE_ASSERT(bytes > 0 && mss > 0);
}

TcpSegment TcpSender::take(SimTime now) {
  if (probe_) {
    probe_ = false;
    return send(now, may_send_new() ? next_ : next_ - 1);
  }
  if (pending_ > 0) {
    force_ = false;
    first_pending_ = std::max(first_pending_, una_);
    while ((ring_[first_pending_].flags & (kLost | kAgain)) != kLost) ++first_pending_;
    return send(now, first_pending_);
  }
  return send(now, next_);
}

TcpSegment TcpSender::send(SimTime now, uint64_t index) {
  TcpSegment out;
  out.index = index;
  out.last = index + 1 == segments_;
  out.bytes = out.last ? static_cast<uint32_t>(bytes_ - index * mss_) : mss_;
  if (index == next_) {
    ring_.push({now, 0});
    ++next_;
  } else {
    out.again = true;
    Segment& segment = ring_[index];
    segment.sent = now;
    set_flags(segment, segment.flags | kAgain | kEverAgain);
    if (options_->sack && options_->rack) resent_.push({index, now});
  }
  if (rto_at_ == kEndOfTime) rto_at_ = now + rtt_.timeout(*options_);
  if (!out.again) arm_probe(now);
  return out;
}

void TcpSender::set_flags(Segment& segment, uint64_t flags) {
  const auto pending = [](uint64_t each) { return (each & (kLost | kAgain)) == kLost ? 1U : 0U; };
  const auto change = [&](uint64_t& count, Flag flag) {
    if ((flags & flag) != 0) ++count;
    if ((segment.flags & flag) != 0) --count;
  };
  change(sacked_, kSacked);
  change(lost_, kLost);
  change(again_, kAgain);
  pending_ = pending_ + pending(flags) - pending(segment.flags);
  segment.flags = flags;
}

void TcpSender::on_timer(SimTime now) {
  if (now >= reorder_at_) {
    detect(now);
    if (pending_ > 0 && state_ == State::kOpen) enter_recovery();
  }
  if (now >= rto_at_) return time_out(now);
  if (now >= probe_at_) probe(now);
}

uint64_t TcpSender::memory_bytes() const {
  return ring_.capacity() * sizeof(Segment) + resent_.capacity() * sizeof(Resent);
}

}  // namespace mroce::sim
