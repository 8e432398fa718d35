// Posted receives: the queue of one QP, and the queue that several QPs share.
//
// A private queue is addressed by an ever-growing number, because a message names the receive that it
// consumes (its RQSN): entry n serves message n, whichever arrives first, and entries leave in order. A
// shared queue hands its entries out in the order of posting; a message then keeps its entry until it is
// complete, so that entries come back in any order. Both keep SGEs in one flat array and take memory for what
// was in use at the most, not for what was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/assert.h"
#include "core/base/error.h"
#include "core/base/ring.h"
#include "core/rdma/handles.h"
#include "core/rdma/types.h"

namespace mroce {

class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t capacity, uint32_t max_sge) : capacity_(capacity), max_sge_(max_sge) {}

  uint32_t capacity() const { return capacity_; }
  uint32_t max_sge() const { return max_sge_; }
  uint64_t begin() const { return begin_; }    // number of the oldest entry
  uint64_t posted() const { return posted_; }  // entries posted so far: the number of the next one
  uint32_t depth() const { return static_cast<uint32_t>(posted_ - begin_); }
  bool contains(uint64_t n) const { return n - begin_ < posted_ - begin_; }

  // kInvalidArgument: too many SGEs. kQueueFull.
  Status post(const RecvWr& wr);

  // For begin() <= n < posted(); spans hold until the next post().
  uint64_t wr_id(uint64_t n) const { return entry(n).wr_id; }
  std::span<const Sge> sges(uint64_t n) const {
    const Entry& found = entry(n);
    return {&sges_[slot(n) * max_sge_], found.sge_count};
  }
  uint64_t bytes(uint64_t n) const { return entry(n).bytes; }  // of all SGEs together

  // Drops the oldest entry.
  void pop() {
    MROCE_ASSERT(begin_ != posted_);
    ++begin_;
  }
  // Takes every entry out, oldest first: visit(wr_id). `visit` may not post.
  template <class Visit>
  void flush(Visit&& visit) {
    while (begin_ != posted_) {
      const uint64_t id = wr_id(begin_);
      pop();
      visit(id);
    }
  }

 private:
  struct Entry {
    uint64_t wr_id = 0;
    uint64_t bytes = 0;
    uint32_t sge_count = 0;
  };

  size_t slot(uint64_t n) const { return static_cast<size_t>(n & (entries_.size() - 1)); }
  const Entry& entry(uint64_t n) const {
    MROCE_ASSERT(contains(n));
    return entries_[slot(n)];
  }
  void grow();

  uint32_t capacity_;
  uint32_t max_sge_;
  uint64_t begin_ = 0;
  uint64_t posted_ = 0;
  std::vector<Entry> entries_;  // a power of two of them; entry n at n mod size
  std::vector<Sge> sges_;       // max_sge_ for each slot, and one more so that a span of none has an address
};

class SharedReceiveQueue {
 public:
  SharedReceiveQueue(PdHandle pd, uint32_t max_wr, uint32_t max_sge, uint32_t limit, uint64_t user)
      : pd_(pd), max_wr_(max_wr), max_sge_(max_sge), limit_(limit), user_(user) {}

  PdHandle pd() const { return pd_; }
  uint32_t max_wr() const { return max_wr_; }
  uint32_t max_sge() const { return max_sge_; }
  uint32_t limit() const { return limit_; }  // 0: disarmed
  uint64_t user() const { return user_; }
  uint32_t posted() const { return static_cast<uint32_t>(waiting_.size()); }  // not yet taken
  uint32_t in_use() const { return in_use_; }                                 // posted or taken

  // Credits that the engine has promised to streams and that were not used yet. The queue only keeps the
  // number.
  uint32_t reserved = 0;

  // kInvalidArgument: too many SGEs. kQueueFull: max_wr entries are posted or taken.
  Status post(const RecvWr& wr);
  // The entry that was posted first; nullopt if there is none. Its owner gives it back with release().
  std::optional<uint32_t> take();
  void release(uint32_t id);

  // Of a taken entry; spans hold until the next post().
  uint64_t wr_id(uint32_t id) const { return taken(id).wr_id; }
  std::span<const Sge> sges(uint32_t id) const {
    const Entry& found = taken(id);
    return {&sges_[size_t{id} * max_sge_], found.sge_count};
  }
  uint64_t bytes(uint32_t id) const { return taken(id).bytes; }

  // IBV_EVENT_SRQ_LIMIT_REACHED: true once when fewer than limit() entries are posted; that disarms.
  bool check_limit();
  // Arms the limit, or disarms it with 0. Both at once or neither: what is asked for must fit together, not
  // what was before. kInvalidArgument: a limit above max_wr; a max_wr of 0 or below in_use().
  Status modify(uint32_t max_wr, uint32_t limit);

 private:
  struct Entry {
    uint64_t wr_id = 0;
    uint64_t bytes = 0;
    uint32_t sge_count = 0;
    bool is_taken = false;
  };

  const Entry& taken(uint32_t id) const {
    MROCE_ASSERT(id < entries_.size() && entries_[id].is_taken);
    return entries_[id];
  }

  PdHandle pd_;
  uint32_t max_wr_;
  uint32_t max_sge_;
  uint32_t limit_;
  uint64_t user_;
  uint32_t in_use_ = 0;
  std::vector<Entry> entries_;
  std::vector<Sge> sges_;  // max_sge_ for each entry, and one more so that a span of none has an address
  std::vector<uint32_t> free_;
  Ring<uint32_t> waiting_;
};

}  // namespace mroce
