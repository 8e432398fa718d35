// DelayQueue: copies of datagrams that are due later, ordered by due time and, among equals, by arrival.
// Bounded in bytes and in number; what does not fit is refused, and the caller counts it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "core/mroce/burst.h"

namespace mroce::net {

struct HeldDatagram {
  Time due{};
  uint64_t order = 0;
  bool outgoing = true;
  bool lost = false;  // goes no further: it only keeps its place for the trace
  TxBurst tx;         // outgoing: where to; its slices are empty
  RxMeta rx;          // incoming
  std::vector<std::byte> bytes;
};

class DelayQueue {
 public:
  static constexpr size_t kMaxBytes = 64u << 20;
  static constexpr size_t kMaxDatagrams = 65536;

  // False if there is no room.
  bool push(HeldDatagram&& datagram);
  bool empty() const { return heap_.empty(); }
  size_t size(bool outgoing) const { return sizes_[outgoing ? 1 : 0]; }  // without those that are lost
  Time next_due() const { return heap_.empty() ? kNever : heap_.front().due; }
  const HeldDatagram& front() const { return heap_.front(); }
  HeldDatagram pop();

 private:
  static bool later(const HeldDatagram& a, const HeldDatagram& b);

  std::vector<HeldDatagram> heap_;
  size_t bytes_ = 0;
  std::array<size_t, 2> sizes_{};
  uint64_t pushed_ = 0;
};

}  // namespace mroce::net
