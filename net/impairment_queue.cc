#include "net/impairment_queue.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"

namespace mroce::net {

bool DelayQueue::later(const HeldDatagram& a, const HeldDatagram& b) {
  return a.due != b.due ? a.due > b.due : a.order > b.order;
}

bool DelayQueue::push(HeldDatagram&& datagram) {
  if (heap_.size() >= kMaxDatagrams || bytes_ + datagram.bytes.size() > kMaxBytes) return false;
  datagram.order = pushed_++;
  bytes_ += datagram.bytes.size();
  if (!datagram.lost) ++sizes_[datagram.outgoing ? 1 : 0];
  heap_.push_back(std::move(datagram));
  std::push_heap(heap_.begin(), heap_.end(), later);
  return true;
}

HeldDatagram DelayQueue::pop() {
  MROCE_ASSERT(!heap_.empty());
  std::pop_heap(heap_.begin(), heap_.end(), later);
  HeldDatagram datagram = std::move(heap_.back());
  heap_.pop_back();
  bytes_ -= datagram.bytes.size();
  if (!datagram.lost) --sizes_[datagram.outgoing ? 1 : 0];
  return datagram;
}

}  // namespace mroce::net
