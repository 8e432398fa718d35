// QueuePair: a verbs RC queue pair, which is a stream in each direction.
//
// The sending half owns the send queue. Every work request is one message with the next MSN; RDSLOT of a READ
// or atomic is its MSN. The receiving half owns the messages that the peer is sending: packets of many
// messages arrive in any order, are placed at once, and messages are finished strictly in MSN order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/ring.h"
#include "core/mroce/engine.h"
#include "core/rdma/receive_queue.h"
#include "core/wire/packet.h"

namespace mroce {

struct Connection;

// Messages of one stream that may be unfinished at once. Normative: a receiver refuses MSN >= oldest
// unfinished + this.
inline constexpr uint64_t kMessageWindow = 1024;
// Responses that one stream may have unfinished.
inline constexpr uint64_t kMaxResponses = 4096;

struct SendWqe {
  uint64_t wr_id = 0;
  Opcode opcode = Opcode::kSend;
  uint32_t flags = 0;
  uint32_t length = 0;
  uint32_t nsges = 0;
  bool is_inline = false;
  uint64_t remote_addr = 0;
  uint32_t rkey = 0;
  uint32_t imm = 0;
  uint64_t compare_or_add = 0;
  uint64_t swap = 0;

  uint32_t rqsn = 0;         // valid once started, for messages that consume a receive
  uint32_t next_offset = 0;  // payload that has a CPSN
  uint32_t unaccepted = 0;   // packets with a CPSN that the peer has not accepted
  bool started = false;
  bool all_sent = false;   // every packet has a CPSN
  bool responded = false;  // READ, atomic: the whole response is here
  uint32_t response_bytes = 0;
  bool failed = false;
  bool voided = false;  // some of its packets became VOID: it starts again from its first byte
  WcStatus status = WcStatus::kSuccess;

  bool wants_response() const {
    return opcode == Opcode::kRead || opcode == Opcode::kCompareSwap || opcode == Opcode::kFetchAdd;
  }
  bool consumes_receive() const {
    return opcode == Opcode::kSend || opcode == Opcode::kSendImm || opcode == Opcode::kSendInv ||
           opcode == Opcode::kWriteImm;
  }
  bool done() const { return all_sent && unaccepted == 0 && !voided && (!wants_response() || responded); }
};

struct TxHalf {
  enum class State : uint8_t { kClosed, kOpening, kOpen, kClosing };
  State state = State::kClosed;
  Connection* conn = nullptr;
  uint32_t incarnation = 0;
  bool open_queued = false;  // an OPEN is unanswered

  Ring<SendWqe> sq;       // by MSN
  uint64_t next = 0;      // MSN of the message that is being cut into packets
  uint64_t accepted = 0;  // every message before this MSN is accepted by the peer
  uint32_t next_rqsn = 0;
  uint32_t credit_limit = 0;      // cumulative, from the peer
  uint32_t credits_returned = 0;  // cumulative
  uint32_t demand_sent = 0;       // of the last STREAM_BLOCKED
  bool credit_blocked = false;
  Time blocked_since = kNever;  // the peer confirmed that it has no credit for us
  uint32_t rd_outstanding = 0;
  uint32_t rd_limit = 0;
  Nanos peer_rnr_timer{0};

  uint32_t open_tries = 0;
  Time open_retry_at = kNever;
  Time working_since = kNever;  // since when something is outstanding
  Time gone_at = kNever;  // the peer has ended with work of ours outstanding: when that becomes an error
  uint32_t rnr_tries = 0;
  Time rnr_hold_until = kNever;
  uint64_t rewind_from =
      UINT64_MAX;  // after an RNR NAK: messages to start again once their VOIDs are accepted
  uint32_t voids_open = 0;
  bool forgetting = false;  // the rewind's first VOIDs are accepted, the peer is being told to forget
  Ring<uint64_t> forgets;   // MSNs of messages for which it is still to be told
  std::optional<uint64_t> fail_msn;  // work requests from here on do not go out
  bool ready = false;                // is in the connection's scheduling ring
  uint32_t deficit = 0;              // bytes left of this turn

  // The oldest work request is over. Behind a rewind those after `next` may be over before it gets there.
  void pop_oldest() {
    sq.pop();
    if (accepted < sq.begin()) accepted = sq.begin();
    if (next < sq.begin()) next = sq.begin();
  }
  void stop_rewind() {
    voids_open = 0;
    rewind_from = UINT64_MAX;
    forgetting = false;
    forgets.clear();
  }
  // A half that ends waits for no receive of its peer any more: neither credit nor the end of an RNR.
  void stop_waiting() {
    credit_blocked = false;
    blocked_since = kNever;
    rnr_hold_until = kNever;
    stop_rewind();
  }
  // No message has begun that is not done. `next` alone does not tell: it names a message that is cut in
  // part.
  bool idle() const { return next == sq.begin() && (sq.empty() || !sq[next].started); }
};

struct HeldTail {
  std::unique_ptr<std::byte[]> bytes;
  uint32_t offset = 0;
  uint32_t length = 0;
};

struct RxMessage {
  bool seen = false;
  bool complete = false;
  bool solicited = false;
  wire::DataOp op = wire::DataOp::kVoid;
  uint32_t length = 0;
  uint32_t received = 0;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t rqsn = 0;
  uint32_t imm = 0;
  uint32_t rdslot = 0;
  uint64_t operand = 0;
  uint64_t compare = 0;
  HeldTail held;
};

struct Response {
  wire::DataOp op = wire::DataOp::kReadResp;
  uint32_t rdslot = 0;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
  uint32_t next_offset = 0;
  uint32_t unaccepted = 0;
  bool all_sent = false;
  uint64_t original = 0;
  wire::NakCode status = wire::NakCode::kNone;
};

struct RxHalf {
  bool open = false;
  Connection* conn = nullptr;
  uint32_t incarnation = 0;  // the peer's
  uint32_t peer_qpn = 0;
  Ring<RxMessage> messages;  // by MSN; begin() is the oldest unfinished
  Ring<Response> responses;
  uint64_t next_response = 0;  // number of the first response that has packets left to cut
  uint64_t rq_base = 0;        // without SRQ: number of the receive that is RQSN 0
  bool ready = false;          // is in the connection's scheduling ring for responses
  uint32_t deficit = 0;        // bytes left of its turn
  uint64_t bind_next = 0;      // SRQ: next RQSN to bind
  Ring<uint32_t> bound;        // SRQ: entry bound to an RQSN
  uint32_t granted = 0;        // credits, cumulative
  uint32_t returned = 0;       // by the peer, cumulative
  uint32_t demand = 0;         // cumulative, from STREAM_BLOCKED
  bool waits_for_srq = false;  // is in the SRQ's queue of blocked streams
  bool credit_dirty = false;   // a grant is to be told
  std::optional<uint64_t> fail_msn;
  wire::NakCode fail_code = wire::NakCode::kNone;
  WcStatus fail_status = WcStatus::kSuccess;  // of the receive that the failed message would have consumed
};

struct Cq;
struct Srq;

struct QueuePair {
  QpHandle handle;
  uint16_t stream = 0;
  uint32_t qpn = 0;
  uint64_t user = 0;
  PdHandle pd;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  QpCap cap;
  bool signal_all = false;
  bool relaxed = false;
  bool sqd_notify = false;
  bool comm_established = false;
  QpState state = QpState::kReset;
  QpAttr attr;

  std::unique_ptr<ReceiveQueue> rq;  // none with an SRQ
  std::vector<Sge> sge_slab;  // max_send_wr (rounded to a power of two) x max_send_sge, made at first use
  std::vector<std::byte> inline_slab;
  uint64_t slab_mask = 0;

  TxHalf tx;
  RxHalf rx;
  Time queued = kNever;  // see TimerQueue

  // None while the slab is not there: then no message had any.
  std::span<Sge> sges_of(uint64_t msn) {
    if (sge_slab.empty()) return {};
    return {sge_slab.data() + (msn & slab_mask) * cap.max_send_sge, cap.max_send_sge};
  }
  std::byte* inline_of(uint64_t msn) { return inline_slab.data() + (msn & slab_mask) * cap.max_inline_data; }
};

}  // namespace mroce
