// Oracle: the reference model of a random run. It is told what the application posts, sees every access of
// the engines to memory and every completion, and says what must not have happened.
//
// Memory (oracle_memory.cc): a placement must belong to a work request that is posted and not yet ended,
// carry its bytes, and come once; a tail (last packet of a WRITE) comes only when all else of its message and
// of all earlier messages of its flow is placed; nothing is read from or written to buffers that were given
// back. Atomics happen once, in posting order, behind everything before them, and see the value that the
// previous one left. Completions (oracle_completions.cc): one for each signaled work request, in order, with
// the right fields; a success implies that the bytes are where they belong; after a failure everything else
// is flushed; receives complete in the order of the messages, with their bytes, behind everything before
// them; a queue pair that goes to ERR flushes all receives; a queue pair that told that it is drained (SQD)
// does nothing for its work requests. READ and final contents: each byte must come from a WRITE that no later
// one has certainly replaced: one that was posted after the completion of the earlier, or whose tail covers
// the byte.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "soak/model.h"

namespace mroce::soak {

struct Violation {
  std::string kind;
  std::string text;
};

class Oracle {
 public:
  // ---- the application's doings
  void watch(Endpoint& endpoint);  // before anything is made on it
  void add_link(Link& link);
  void add_pool(ReceivePool& pool);
  void add_words(Endpoint& endpoint, const Mr& words);  // targets of atomics, all of them 0
  void remove_link(Link& link);                         // both sides destroyed; checks what its flows left
  void before_post(Flow& flow, Op& op);
  void posted(Flow& flow, Op& op);
  void forget_op_memory(Op& op, Endpoint& endpoint);
  void disturbed(Link& link);  // the application breaks it
  void destroyed(Side& side);
  // Deregistered: nothing may be read or written there any more.
  void region_gone(Flow& flow) {
    areas_[flow.responder->endpoint->index()].erase(flow.host);
    flow.region_gone = true;
  }
  // The region is at `host` now, with the same contents.
  void region_moved(Flow& flow, uint64_t host);
  // Messages may start again after an RNR NAK, from their first byte: bytes may come again before the end.
  void allow_rewinds() { rewinds_ = true; }
  // Did a completion come, since this was asked last, that a CQ armed for solicited ones has to tell?
  bool take_notable() { return std::exchange(notable_, false); }
  void pool_gone(const ReceivePool& pool) { areas_[pool.endpoint->index()].erase(pool.memory.addr); }

  // ---- completions
  void on_send_completion(Side& side, const Wc& wc);
  void on_receive_completion(Side& side, const Wc& wc);

  // ---- at the end
  void check_finished(Link& link);  // everything that was posted has ended
  void check_final_memory(Flow& flow);

  void report(std::string_view kind, std::string text);
  const std::vector<Violation>& violations() const { return violations_; }
  uint64_t tick() { return ++tick_; }

  // Told when a work request ends, so that its buffers can be used again.
  std::function<void(Flow&, Op&)> on_ended;
  std::function<void(ReceivePool&, const Receive&)> on_receive_ended;
  std::function<void(std::string_view kind, const std::string& text)> on_violation;

 private:
  struct Area {  // what stands at a range of addresses of an endpoint
    enum class Kind : uint8_t { kRegion, kReceive, kOperation, kWords };
    uint64_t end = 0;
    Kind kind = Kind::kRegion;
    Flow* flow = nullptr;
    Op* op = nullptr;
    ReceivePool* pool = nullptr;
  };
  using Areas = std::map<uint64_t, Area>;

  // oracle_memory.cc
  Area* area_of(uint32_t endpoint, uint64_t addr, uint64_t length);
  void on_place(Endpoint& endpoint, const Placement& placement, std::span<const std::byte> data);
  void on_fetch(Endpoint& endpoint, uint64_t addr, uint32_t length);
  void on_atomic(Endpoint& endpoint, const AtomicExecution& execution);
  void place_in_region(Flow& flow, const Placement& placement, std::span<const std::byte> data);
  bool try_place(Flow& flow, Op& op, const Placement& placement, std::span<const std::byte> data, bool again);
  void check_tail(Flow& flow, const Op& op);
  bool all_before_is_placed(const Flow& flow, const Op& op) const;
  bool may_place(const Side& side, std::string_view what);
  void check_running(const Flow& flow, std::string_view what);
  void check_region(const Flow& flow, std::span<const std::byte> bytes, uint64_t addr, const Op* reader);
  std::vector<const Op*> candidates(const Flow& flow, uint64_t addr, uint64_t length, const Op* reader) const;
  struct Allowed {
    std::vector<const Op*> writes;
    bool initial = true;  // so may what stood there at first
  };
  Allowed allowed_at(const Flow& flow, const std::vector<const Op*>& writes, const Op* reader,
                     uint64_t addr) const;
  bool is_allowed(const Flow& flow, const Allowed& allowed, std::span<const std::byte> bytes,
                  uint64_t addr) const;

  // oracle_completions.cc
  void end_op(Flow& flow, Op& op, Op::End end);
  void check_success(Flow& flow, Op& op);
  void check_failure(Flow& flow, const Op& op, const Wc& wc);
  void check_read(Flow& flow, const Op& op);
  void check_receive(Side& side, Flow& flow, const Op& op, const Receive& receive, const Wc& wc);
  void on_receive_error(Side& side, const Wc& wc);
  Receive* find_receive(ReceivePool& pool, uint64_t id);
  void end_receive(ReceivePool& pool, uint64_t id);

  bool rewinds_ = false;
  bool notable_ = false;
  std::vector<Violation> violations_;
  uint64_t tick_ = 0;
  std::map<uint32_t, Areas> areas_;                          // by endpoint
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> words_;  // (endpoint, address): value by the model
  struct AtomicOwner {
    Flow* flow;
    size_t index;
  };
  std::map<uint64_t, AtomicOwner> atomics_;  // by operand
};

std::string describe(const Flow& flow, const Op& op);

}  // namespace mroce::soak
