#include "sim/tcp_receiver.h"

#include <algorithm>

namespace mroce::sim {

TcpReceiver::Arrival TcpReceiver::on_segment(SimTime now, const TcpOptions& options, uint32_t sequence,
                                             uint32_t bytes, bool fin) {
  Arrival arrival;
  const uint64_t begin = tcp_unwrap(next_, sequence);
  const uint64_t end = begin + bytes;
  if (fin) length_ = end;
  const bool gaps = !held_.empty();
  ++unacknowledged_;
  if (begin <= next_ && end > next_) {  // in order, the usual case
    uint64_t delivered = end;
    auto merged = held_.begin();
    while (merged != held_.end() && merged->begin <= delivered) {
      delivered = std::max(delivered, merged->end);
      ++merged;
    }
    held_.erase(held_.begin(), merged);
    arrival.delivered = delivered - next_;
    next_ = delivered;
    arrival.complete = next_ == length_;
  } else if (end <= next_ || !insert(begin, end)) {
    arrival.duplicate = true;
    again_ = {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  } else {
    arrival.out_of_order = true;
    report_first(begin);
  }
  const bool quick = quick_ > 0;
  if (quick) --quick_;
  arrival.acknowledge =
      arrival.delivered == 0 || gaps || arrival.complete || quick || unacknowledged_ >= options.ack_every;
  if (!arrival.acknowledge && ack_at_ == kEndOfTime) ack_at_ = now + options.delayed_ack;
  return arrival;
}

bool TcpReceiver::insert(uint64_t begin, uint64_t end) {
  // The first range that ends at or after `begin`, and those after it that touch.
  auto first = std::lower_bound(held_.begin(), held_.end(), begin,
                                [](const Range& range, uint64_t at) { return range.end < at; });
  if (first != held_.end() && first->begin <= begin && first->end >= end) return false;
  auto last = first;
  while (last != held_.end() && last->begin <= end) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
    ++last;
  }
  if (first == last) {
    held_.insert(first, {begin, end});
  } else {
    *first = {begin, end};
    held_.erase(first + 1, last);
  }
  return true;
}

const TcpReceiver::Range* TcpReceiver::range_with(uint64_t offset) const {
  const auto it = std::upper_bound(held_.begin(), held_.end(), offset,
                                   [](uint64_t at, const Range& range) { return at < range.end; });
  return it != held_.end() && it->begin <= offset ? &*it : nullptr;
}

// Moves the range of `offset` to the front; others keep their order. Two that became one count as one.
void TcpReceiver::report_first(uint64_t offset) {
  const Range* const own = range_with(offset);
  std::array<uint64_t, 4> reported{offset};
  uint32_t count = 1;
  for (uint32_t i = 0; i < reported_count_ && count < reported.size(); ++i) {
    const Range* const range = range_with(reported_[i]);
    if (range != nullptr && range != own) reported[count++] = reported_[i];
  }
  reported_ = reported;
  reported_count_ = count;
}

void TcpReceiver::acknowledge(const TcpOptions& options, TcpHeader& header) {
  header.acknowledgement = static_cast<uint32_t>(next_);
  header.receive_window = options.receive_window;
  if (marked_) header.flags |= TcpHeader::kEce;
  if (options.sack) {
    if (again_.begin != again_.end) header.sack[header.blocks++] = again_;
    for (uint32_t i = 0; i < reported_count_ && header.blocks < TcpHeader::kMaxBlocks; ++i) {
      const Range* const range = range_with(reported_[i]);
      if (range == nullptr) continue;
      header.sack[header.blocks++] = {static_cast<uint32_t>(range->begin), static_cast<uint32_t>(range->end)};
    }
  }
  again_ = {};
  unacknowledged_ = 0;
  ack_at_ = kEndOfTime;
}

}  // namespace mroce::sim
