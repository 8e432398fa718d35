// What an acknowledgement means for the sender.

#include "sim/tcp_sender.h"

namespace mroce::sim {

void TcpSender::on_ack(SimTime now, const TcpHeader& header) {
  const uint64_t una_before = offset_of(una_);
  const uint64_t acknowledged = tcp_unwrap(una_before, header.acknowledgement);
  if (acknowledged > offset_of(next_) || acknowledged < una_before) return;  // never sent, or old
  News news;
  news.flight_before = in_flight() * mss_;
  news.acked_bytes = acknowledged - una_before;
  const State before = state_;
  take_cumulative(now, index_at(acknowledged), news);
  if (options_->sack) take_sack(now, {header.sack.data(), header.blocks}, news);
  sample_rtt(now, news);
  congestion_.on_echo(acknowledged, offset_of(next_), news.acked_bytes, (header.flags & TcpHeader::kEce) != 0,
                      state_ != State::kOpen);
  if (news.dsack) note_dsack();
  judge_probe(news);
  if (!options_->sack) count_duplicate(news);
  finish_recovery();
  if (options_->sack && !finished()) detect(now);
  if (news.acked > 0 && before != State::kRecovery)
    congestion_.on_acked(news.acked_bytes, news.flight_before);
  if (pending_ > 0 && state_ == State::kOpen) enter_recovery();
  if (news.acked > 0) arm_after_ack(now);
}

void TcpSender::take_cumulative(SimTime now, uint64_t una, News& news) {
  while (una_ < una) {
    Segment& segment = ring_.front();
    if ((segment.flags & kEverAgain) != 0) news.resent = true;
    if ((segment.flags & kSacked) == 0) {
      delivered(now, una_, segment);
      if (news.acked_sent < 0) news.acked_sent = segment.sent;
    } else if (una_ >= examined_) {
      --sacked_above_;
    }
    set_flags(segment, 0);
    ring_.pop();
    ++una_;
    ++news.acked;
  }
  examined_ = std::max(examined_, una_);
}

void TcpSender::take_sack(SimTime now, std::span<const TcpSackBlock> blocks, News& news) {
  const uint64_t una = offset_of(una_);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t begin = tcp_unwrap(una, blocks[i].begin);
    const uint64_t end = tcp_unwrap(una, blocks[i].end);
    if (begin >= end || end > offset_of(next_)) continue;
    if (begin < una) {
      if (i == 0) news.dsack = true;
      continue;
    }
    for (uint64_t index = index_at(begin); index < index_at(end); ++index) {
      Segment& segment = ring_[index];
      if ((segment.flags & kSacked) != 0) continue;
      if ((segment.flags & kEverAgain) == 0 && news.sacked_sent < 0) news.sacked_sent = segment.sent;
      delivered(now, index, segment);
      set_flags(segment, (segment.flags & kEverAgain) | kSacked);
      if (index >= examined_) ++sacked_above_;
    }
  }
  // A duplicate of something beyond a gap comes first, inside the block behind it (RFC 2883).
  if (blocks.size() >= 2 && blocks[0].begin - blocks[1].begin < blocks[1].end - blocks[1].begin)
    news.dsack = true;
}

void TcpSender::delivered(SimTime now, uint64_t index, const Segment& segment) {
  const bool again = (segment.flags & kEverAgain) != 0;
  if (!again && index < highest_) reordering_ = true;
  highest_ = std::max(highest_, index + 1);
  // So early that it must be the original that was acknowledged.
  if (again && now - segment.sent < rtt_.smallest) return;
  if (segment.sent < rack_sent_ || (segment.sent == rack_sent_ && index < rack_index_)) return;
  rack_sent_ = segment.sent;
  rack_index_ = index;
  rack_rtt_ = now - segment.sent;
}

// Karn: never from a segment that was sent twice.
void TcpSender::sample_rtt(SimTime now, const News& news) {
  if (news.acked_sent >= 0 && !news.resent) {
    rtt_.sample(now - news.acked_sent);
  } else if (news.sacked_sent >= 0) {
    rtt_.sample(now - news.sacked_sent);
  }
}

// Without SACK. Duplicates are counted only if what they ask for was sent after the last recovery
// (RFC 6582, section 3.2); a partial acknowledgement asks for the next segment.
void TcpSender::count_duplicate(const News& news) {
  const bool outstanding = next_ > una_;
  if (news.acked > 0) {
    if (state_ == State::kOpen) duplicates_ = 0;
    duplicates_ -= std::min(duplicates_, news.acked - 1);
    if (state_ == State::kRecovery && una_ < recover_ && outstanding && (ring_[una_].flags & kLost) == 0) {
      mark_lost(una_);
      force_ = true;
    }
    return;
  }
  if (!outstanding || state_ == State::kTimedOut) return;
  if (state_ == State::kOpen && recover_ != 0 && una_ <= recover_) return;
  duplicates_ = std::min(duplicates_ + 1, next_ - una_ - lost_);
  if (state_ == State::kOpen && duplicates_ >= options_->dupack_threshold) mark_lost(una_);
}

void TcpSender::finish_recovery() {
  if (state_ == State::kOpen || una_ < recover_) return;
  if (state_ == State::kRecovery && !options_->sack) {
    congestion_.limit_window(std::max<uint64_t>(flight_bytes(), mss_) + mss_);
  }
  state_ = State::kOpen;
  duplicates_ = 0;
  force_ = false;
}

// A probe that was a retransmission and was needed hid a loss, which counts (RFC 8985, section 7.4).
void TcpSender::judge_probe(const News& news) {
  if (probe_end_ == 0) return;
  if (una_ == next_) probe_ = false;
  if (!probe_again_) {
    if (una_ >= probe_end_) probe_end_ = 0;
    return;
  }
  if (news.dsack || (una_ == probe_end_ && news.acked == 0)) {
    probe_end_ = 0;
  } else if (una_ > probe_end_) {
    probe_end_ = 0;
    if (state_ == State::kOpen) congestion_.on_loss(flight_bytes());
  }
}

void TcpSender::note_dsack() {
  constexpr uint32_t kRecoveries = 16;
  constexpr uint32_t kMaxSteps = 255;
  if (una_ >= dsack_round_) {
    reordering_steps_ = std::min(reordering_steps_ + 1, kMaxSteps);
    dsack_round_ = next_;
  }
  reordering_persists_ = kRecoveries;
}

void TcpSender::arm_after_ack(SimTime now) {
  if (una_ == next_) {
    rto_at_ = probe_at_ = reorder_at_ = kEndOfTime;
    return;
  }
  rto_at_ = now + rtt_.timeout(*options_);
  arm_probe(now);
}

void TcpSender::arm_probe(SimTime now) {
  probe_at_ = kEndOfTime;
  if (!options_->tlp || !options_->sack || state_ != State::kOpen || sacked_ != 0 || probe_end_ != 0) return;
  const bool alone = next_ - una_ == 1;  // its acknowledgement may be delayed
  const SimTime at = now + 2 * rtt_.smoothed + options_->tlp_min + (alone ? options_->delayed_ack : 0);
  if (rtt_.smoothed != 0 && at < rto_at_) probe_at_ = at;
}

}  // namespace mroce::sim
