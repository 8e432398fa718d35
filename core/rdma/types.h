// What verbs means, as plain data: operations, work requests, completions, attributes.
//
// Numeric values are those of rdma-core's <infiniband/verbs.h> (which follow the IBTA specification, chapters
// 10 and 11) wherever a program can see them, so that the verbs library converts by cast; it checks each by
// static_assert. Sizes are bytes, times are named with their unit.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/address.h"

namespace mroce {

// Access flags of a memory region and of a queue pair (ibv_access_flags).
namespace access {
inline constexpr uint32_t kLocalWrite = 1;
inline constexpr uint32_t kRemoteWrite = 2;
inline constexpr uint32_t kRemoteRead = 4;
inline constexpr uint32_t kRemoteAtomic = 8;
inline constexpr uint32_t kAll = 15;
}  // namespace access

enum class Opcode : uint8_t {  // ibv_wr_opcode
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kSendInv = 9,
};

namespace send_flag {  // ibv_send_flags
inline constexpr uint32_t kFence = 1;
inline constexpr uint32_t kSignaled = 2;
inline constexpr uint32_t kSolicited = 4;
inline constexpr uint32_t kInline = 8;
}  // namespace send_flag

struct Sge {  // laid out like ibv_sge
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};

struct SendWr {
  uint64_t wr_id = 0;
  Opcode opcode = Opcode::kSend;
  uint32_t flags = 0;         // send_flag
  std::span<const Sge> sges;  // with kInline, addresses are copied from at once and keys are not looked at
  uint64_t remote_addr = 0;   // WRITE, READ, atomics
  uint32_t rkey = 0;          // WRITE, READ, atomics
  uint32_t imm_or_invalidate = 0;  // the immediate as a number (big-endian on the wire), or the rkey
  uint64_t compare_or_add = 0;     // atomics
  uint64_t swap = 0;               // compare-and-swap
};

struct RecvWr {
  uint64_t wr_id = 0;
  std::span<const Sge> sges;
};

enum class WcStatus : uint8_t {  // ibv_wc_status
  kSuccess = 0,
  kLocLenErr = 1,
  kLocQpOpErr = 2,
  kLocProtErr = 4,
  kWrFlushErr = 5,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
  kFatalErr = 19,
  kGeneralErr = 21,
};

enum class WcOpcode : uint8_t {  // ibv_wc_opcode
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kRecv = 128,
  kRecvWriteImm = 129,
};

namespace wc_flag {  // ibv_wc_flags
inline constexpr uint32_t kWithImm = 2;
inline constexpr uint32_t kWithInv = 8;
}  // namespace wc_flag

struct Wc {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  uint32_t byte_len = 0;
  uint32_t imm_or_invalidated = 0;
  uint32_t qp_num = 0;  // the local QP
  uint32_t src_qp = 0;
  uint32_t flags = 0;  // wc_flag
};

enum class QpState : uint8_t { kReset = 0, kInit, kRtr, kRts, kSqd, kSqe, kErr };  // ibv_qp_state

namespace qp_mask {  // ibv_qp_attr_mask
inline constexpr uint32_t kState = 1u << 0;
inline constexpr uint32_t kCurState = 1u << 1;
inline constexpr uint32_t kEnSqdAsyncNotify = 1u << 2;
inline constexpr uint32_t kAccessFlags = 1u << 3;
inline constexpr uint32_t kPkeyIndex = 1u << 4;
inline constexpr uint32_t kPort = 1u << 5;
inline constexpr uint32_t kQkey = 1u << 6;
inline constexpr uint32_t kAv = 1u << 7;
inline constexpr uint32_t kPathMtu = 1u << 8;
inline constexpr uint32_t kTimeout = 1u << 9;
inline constexpr uint32_t kRetryCnt = 1u << 10;
inline constexpr uint32_t kRnrRetry = 1u << 11;
inline constexpr uint32_t kRqPsn = 1u << 12;
inline constexpr uint32_t kMaxRdAtomic = 1u << 13;
inline constexpr uint32_t kAltPath = 1u << 14;
inline constexpr uint32_t kMinRnrTimer = 1u << 15;
inline constexpr uint32_t kSqPsn = 1u << 16;
inline constexpr uint32_t kMaxDestRdAtomic = 1u << 17;
inline constexpr uint32_t kPathMigState = 1u << 18;
inline constexpr uint32_t kCap = 1u << 19;
inline constexpr uint32_t kDestQpn = 1u << 20;
inline constexpr uint32_t kRateLimit = 1u << 25;
}  // namespace qp_mask

struct QpCap {
  uint32_t max_send_wr = 0;
  uint32_t max_recv_wr = 0;
  uint32_t max_send_sge = 0;
  uint32_t max_recv_sge = 0;
  uint32_t max_inline_data = 0;
};

// What the completion of a work request of this kind says that it was.
constexpr WcOpcode completion_opcode(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWrite:
    case Opcode::kWriteImm:
      return WcOpcode::kWrite;
    case Opcode::kRead:
      return WcOpcode::kRead;
    case Opcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case Opcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    default:
      return WcOpcode::kSend;
  }
}

// The attributes that the transport acts upon. What verbs merely stores (pkey index, port, path MTU enum,
// service level, hop limit …) the verbs library keeps.
struct QpAttr {
  QpState state = QpState::kReset;
  QpState cur_state = QpState::kReset;
  uint32_t access_flags = 0;       // remote access allowed through this QP
  uint32_t sgid_index = 0;         // local GID; with kAv
  Gid dgid;                        // with kAv
  uint32_t dest_qpn = 0;           // 24 bits
  uint32_t sq_psn = 0;             // 24 bits
  uint32_t rq_psn = 0;             // 24 bits
  uint8_t timeout = 0;             // 4.096 us * 2^timeout, 0..31; 0 = never
  uint8_t retry_cnt = 0;           // 0..7
  uint8_t rnr_retry = 0;           // 0..7; 7 = for ever
  uint8_t min_rnr_timer = 0;       // 0..31, IBTA table 46
  uint8_t max_rd_atomic = 0;       // outstanding READ and ATOMIC as requester
  uint8_t max_dest_rd_atomic = 0;  // the same as responder
};

}  // namespace mroce
