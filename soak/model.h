// What a random run is made of, as the oracle sees it: links (two queue pairs that are each other's peers),
// their flows (the work requests of one direction in posting order) and pools of posted receives.
//
// A flow writes into a region of its own, so that for every byte there it is known which work requests may
// have put it there. Contents come from a pattern that each work request has for itself.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "soak/world/endpoint.h"

namespace mroce::soak {

// What is wrong with a work request, so that it must fail.
enum class Flaw : uint8_t {
  kNone,
  kUnknownKey,
  kOutOfBounds,
  kNoRight,
  kMisaligned,
  kShortReceive,
  kLocalKey
};
std::string_view name_of(Flaw flaw);
std::string_view name_of(Opcode opcode);

struct Op {
  uint64_t id = 0;
  Opcode opcode = Opcode::kWrite;
  Flaw flaw = Flaw::kNone;
  uint32_t flags = 0;
  uint32_t length = 0;
  uint64_t pattern = 0;
  uint64_t remote = 0;
  uint32_t rkey = 0;
  uint32_t imm = 0;
  uint64_t operand = 0;  // atomics: what is added or stored; unique in the run
  uint64_t compare = 0;
  uint64_t local = 0;  // its bytes in the requester's arena, spread over SGEs
  uint32_t local_bytes = 0;
  std::vector<Sge> sges;

  enum class End : uint8_t { kOpen, kSuccess, kError, kFlushed, kAbandoned };
  bool posted = false;
  End end = End::kOpen;
  uint64_t posted_tick = 0;
  uint64_t ended_tick = UINT64_MAX;
  std::vector<bool> placed;  // WRITE: in units of 32 bytes
  uint32_t placed_bytes = 0;
  uint32_t landed_bytes = 0;  // READ, atomics: in the requester's memory
  uint32_t executions = 0;    // atomics
  uint64_t original = 0;

  bool is_write() const { return opcode == Opcode::kWrite || opcode == Opcode::kWriteImm; }
  bool is_atomic() const { return opcode == Opcode::kCompareSwap || opcode == Opcode::kFetchAdd; }
  bool reads() const { return opcode == Opcode::kRead || is_atomic(); }
  bool is_send() const {
    return opcode == Opcode::kSend || opcode == Opcode::kSendImm || opcode == Opcode::kSendInv;
  }
  bool consumes_receive() const { return is_send() || opcode == Opcode::kWriteImm; }
  bool is_inline() const { return (flags & send_flag::kInline) != 0; }
  bool signaled() const { return (flags & send_flag::kSignaled) != 0; }
};

struct Receive {
  uint64_t id = 0;
  uint64_t addr = 0;
  uint32_t slot = 0;
  std::vector<Sge> sges;
};

// The receives of one queue pair or of one SRQ.
struct ReceivePool {
  Endpoint* endpoint = nullptr;
  SrqHandle srq;  // none: of a queue pair
  uint32_t capacity = 0;
  uint32_t bytes_each = 0;
  Mr memory;  // capacity x bytes_each, one slot for each
  std::deque<Receive> outstanding;
  std::vector<uint32_t> free_slots;
  bool disturbed = false;  // a stream with a receive of this pool ended early: partial contents may remain
};

struct Side;

struct Flow {
  Side* requester = nullptr;
  Side* responder = nullptr;
  std::vector<Op> ops;
  size_t main_ops = 0;  // the rest is for the end of the run
  size_t next_post = 0;
  size_t next_end = 0;       // the first that has not ended
  size_t first_open = 0;     // all before this one ended with success
  size_t reregistered = 0;   // posted when its region was registered anew
  size_t next_receive = 0;   // no message before this one waits for its receive to complete
  bool failed = false;       // a completion with an error was seen
  Mr region;                 // at the responder; `addr` is where the peer believes it to be
  uint64_t host = 0;         // where it is
  bool region_gone = false;  // deregistered: what was in custody then is lost (docs/spec, 9.12)
  bool holds_tails = true;   // no tail is visible before all else
  std::vector<std::byte> initial;
  uint32_t mtu = 0;  // payload of a full packet; 0: not known
  bool mtu_asked = false;

  bool has_flaw_posted() const;
  size_t first_flaw() const;  // index of the first posted one; ops.size() if there is none
};

struct Link;

struct Side {
  Link* link = nullptr;
  Endpoint* endpoint = nullptr;
  Qp qp;
  Flow* out = nullptr;
  Flow* in = nullptr;
  ReceivePool* receives = nullptr;
  std::unique_ptr<ReceivePool> own_receives;
  bool alive = true;      // not destroyed
  bool ready = true;      // RTS was reached
  bool gone = false;      // its endpoint crashed
  uint64_t user = 0;      // of the queue pair
  bool draining = false;  // in SQD
  // Waits until it is told so. Who does not may find an old notice later, so this is settled once.
  std::optional<bool> waits_for_drain;
  bool drained = false;  // and told so: nothing of its flow may happen
};

struct Link {
  std::array<Side, 2> side;
  std::array<Flow, 2> flow;
  bool disturbed = false;  // one of its queue pairs was destroyed, reset or put into ERR by the application
  bool deregistered = false;  // memory that it uses was deregistered under way
  bool fragile = false;  // an endpoint is new: its peer may take the old one for alive, and fail by silence
  bool retiring = false;
  bool retired = false;
  bool impatient = false;  // may fail for want of receives
  bool must_succeed() const { return !disturbed && !fragile && !impatient && !flawed(); }
  bool alive() const { return side[0].alive || side[1].alive; }
  bool flawed() const { return flow[0].has_flaw_posted() || flow[1].has_flaw_posted(); }
};

// Byte `offset` of a pattern, and a range of it.
inline uint64_t pattern_word(uint64_t pattern, uint64_t word) {
  uint64_t x = (pattern ^ (word + 1)) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 31);
}
inline std::byte pattern_byte(uint64_t pattern, uint64_t offset) {
  return static_cast<std::byte>(pattern_word(pattern, offset / 8) >> (offset % 8 * 8));
}
void fill_pattern(std::span<std::byte> out, uint64_t pattern, uint64_t offset = 0);
bool is_pattern(std::span<const std::byte> bytes, uint64_t pattern, uint64_t offset = 0);
// How many of the first bytes are the pattern.
size_t length_of_pattern(std::span<const std::byte> bytes, uint64_t pattern, uint64_t offset = 0);

}  // namespace mroce::soak
