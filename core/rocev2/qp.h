// The state of one queue pair. Plain data; what happens to it is in requester.cc, acknowledge.cc,
// responder.cc, respond.cc, irn.cc and timers.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/ring.h"
#include "core/rdma/receive_queue.h"
#include "core/rocev2/dcqcn.h"
#include "core/rocev2/engine.h"
#include "core/rocev2/psn.h"

namespace mroce::rocev2 {

struct Wqe {
  uint64_t wr_id = 0;
  uint64_t first_psn = 0;
  uint64_t remote_addr = 0;
  uint64_t compare_or_add = 0;
  uint64_t swap = 0;
  uint32_t packets = 0;  // PSNs
  uint32_t length = 0;
  uint32_t rkey = 0;
  uint32_t imm_or_invalidate = 0;
  uint32_t ssn = 0;  // counts requests from 1; what credits are given for
  uint32_t flags = 0;
  Opcode opcode = Opcode::kWrite;
  std::vector<Sge> sges;
  std::unique_ptr<std::byte[]> inlined;

  uint64_t end_psn() const { return first_psn + packets; }
  bool is_read() const { return opcode == Opcode::kRead; }
  bool is_atomic() const { return opcode == Opcode::kCompareSwap || opcode == Opcode::kFetchAdd; }
  bool wants_response() const { return is_read() || is_atomic(); }
  bool takes_receive() const {
    return opcode == Opcode::kSend || opcode == Opcode::kSendImm || opcode == Opcode::kSendInv ||
           opcode == Opcode::kWriteImm;
  }
};

// Selective repeat, sender: which PSNs above `una` have arrived, as a ring of bits.
class SackBits {
 public:
  static constexpr uint64_t kBits = 8192;
  bool test(uint64_t psn) const { return !words_.empty() && ((word(psn) >> (psn & 63)) & 1) != 0; }
  void set(uint64_t psn) {
    if (words_.empty()) words_.resize(kBits / 64);
    words_[(psn % kBits) / 64] |= uint64_t{1} << (psn & 63);
  }
  void clear(uint64_t psn) {
    if (!words_.empty()) words_[(psn % kBits) / 64] &= ~(uint64_t{1} << (psn & 63));
  }

 private:
  uint64_t word(uint64_t psn) const { return words_[(psn % kBits) / 64]; }
  std::vector<uint64_t> words_;
};

struct Requester {
  Ring<Wqe> sq;           // by number of the work request
  uint64_t una = 0;       // the oldest PSN without acknowledgement
  uint64_t nxt = 0;       // the PSN to be sent next
  uint64_t sent_end = 0;  // one after the highest PSN ever sent
  uint64_t end = 0;       // one after the last PSN of the queue
  uint64_t cursor = 0;    // work request that holds nxt
  uint32_t posted_ssn = 0;
  uint32_t reads_out = 0;              // READs and atomics before the cursor without their response
  uint64_t implied_nak_at = 0;         // una when a response last showed a gap; once for each una
  uint32_t credit_limit = UINT32_MAX;  // highest ssn that the responder has a receive for
  bool credits_known = false;
  uint32_t since_ack_request = 0;
  uint8_t retries_left = 0;
  uint8_t rnr_left = 0;
  uint32_t expiries = 0;  // in a row
  Time timeout_at = kNever;
  Time rnr_until = kNever;

  // Selective repeat
  SackBits sacked;
  bool in_recovery = false;
  bool resend_una = false;
  uint64_t recovery_end = 0;  // recovery is over when una gets here
  uint64_t resend_next = 0;
  uint64_t sacked_end = 0;  // one after the highest PSN known to have arrived
  uint64_t lost_end = 0;    // before it everything not known to have arrived is lost
};

// What the responder still has to say in PSN order: READ responses and atomic acknowledgements.
struct Response {
  uint64_t psn = 0;  // of the next packet
  uint64_t end_psn = 0;
  uint64_t addr = 0;  // host address of the next packet's payload
  uint64_t original = 0;
  uint32_t left = 0;  // bytes
  uint32_t msn = 0;
  bool is_atomic = false;
  bool begun = false;
};

struct HeldPacket {  // that came early: selective repeat
  bool present = false;
  Headers headers;
  uint32_t payload = 0;
  std::vector<std::byte> bytes;
};

struct CachedAtomic {
  uint64_t psn = 0;
  uint64_t original = 0;
  uint32_t msn = 0;
};

struct Responder {
  enum class Message : uint8_t { kNone, kSend, kWrite };

  uint64_t expected = 0;
  uint32_t msn = 0;
  bool nak_sent = false;  // for the gap, or RNR, at `expected`
  Time nak_again_at{};
  Message message = Message::kNone;
  uint64_t addr = 0;  // host address of the WRITE's next byte
  uint64_t received = 0;
  uint64_t length = 0;  // of the WRITE
  std::vector<Response> responses;
  std::vector<CachedAtomic> atomics;
  Ring<HeldPacket> held;  // from `expected` on

  bool ack_pending = false;
  uint8_t nak_pending = 0;  // syndrome
  bool sack_pending = false;
  uint64_t sack_trigger = 0;
  bool cnp_pending = false;
  Time cnp_allowed_at{};
};

struct Qp {
  Qp(const QpParams& p, const EngineConfig& config, Time now)
      : params(p), dcqcn(config.dcqcn, config.line_rate_bps, now) {}

  QpParams params;
  uint32_t slot = 0;
  QpState state = QpState::kRts;
  bool dead = false;  // destroyed; goes when no queue names it any more
  bool in_ready = false;
  bool in_paced = false;
  bool in_control = false;
  int64_t pace_at_ps = 0;
  Requester tx;
  Responder rx;
  Dcqcn dcqcn;
  std::unique_ptr<ReceiveQueue> receives;
};

}  // namespace mroce::rocev2
