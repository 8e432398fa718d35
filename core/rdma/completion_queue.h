// A completion queue: completions in order, and the one-shot notification of ibv_req_notify_cq.
//
// arm() asks for one notification at the next completion that is added after it; what is in the queue already
// does not count. Armed for solicited completions only, it waits for one that is solicited or failed
// (IBTA chapter 11.4). Of two arm() calls the wider one holds. A completion that finds the queue full is lost
// and sets overflowed(): the engine raises IBV_EVENT_CQ_ERR, as hardware does. Memory follows the number of
// completions held, not the capacity.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "core/base/ring.h"
#include "core/rdma/types.h"

namespace mroce {

class CompletionQueue {
 public:
  CompletionQueue(uint32_t capacity, uint64_t user) : capacity_(capacity), user_(user) {}

  uint32_t depth() const { return static_cast<uint32_t>(entries_.size()); }
  uint32_t capacity() const { return capacity_; }
  uint64_t user() const { return user_; }
  bool overflowed() const { return overflowed_; }

  // Adds one. True if the armed notification fires by this; that disarms the queue.
  [[nodiscard]] bool push(const Wc& wc, bool solicited);
  // Takes up to out.size() completions; returns how many.
  uint32_t poll(std::span<Wc> out);
  void arm(bool solicited_only);
  // Drops the completions of one QP and keeps the order of the others.
  void purge(uint32_t qp_num);
  // kInvalidArgument for 0 or less than depth().
  Status resize(uint32_t capacity);

 private:
  enum class Armed : uint8_t { kNo, kSolicited, kAny };

  Ring<Wc> entries_;
  uint32_t capacity_;
  uint64_t user_;
  Armed armed_ = Armed::kNo;
  bool overflowed_ = false;
};

}  // namespace mroce
