// RoCEv2 packets: what stands between UDP (port 4791) and the payload.
//
// IBTA Architecture Specification Volume 1 chapter 9 (headers, opcodes of the reliable connection) and Annex
// A17 (RoCEv2: UDP, iCRC, congestion notification). All fields are big-endian. One packet is
//
//   BTH 12 | extension headers that the opcode asks for, in the order of Headers below | payload | pad | iCRC
//   4
//
// The selective-repeat baseline (IRN) adds one packet that no standard knows; it takes an opcode from the
// range that IBTA leaves to manufacturers, so that nobody mistakes it for something else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mroce::rocev2 {

inline constexpr uint16_t kUdpPort = 4791;

enum class Op : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImm = 0x0b,
  kReadRequest = 0x0c,
  kReadFirst = 0x0d,
  kReadMiddle = 0x0e,
  kReadLast = 0x0f,
  kReadOnly = 0x10,
  kAck = 0x11,
  kAtomicAck = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInv = 0x16,
  kSendOnlyInv = 0x17,
  kCnp = 0x81,
  kIrnNack = 0xd1,  // manufacturer's range: 0xc0 | kAck
};

inline constexpr size_t kBthBytes = 12;
inline constexpr size_t kRethBytes = 16;
inline constexpr size_t kAethBytes = 4;
inline constexpr size_t kAtomicEthBytes = 28;
inline constexpr size_t kAtomicAckBytes = 8;
inline constexpr size_t kImmBytes = 4;
inline constexpr size_t kIethBytes = 4;
inline constexpr size_t kSackBytes = 20;
inline constexpr size_t kCnpReserved = 16;
inline constexpr size_t kIcrcBytes = 4;
inline constexpr size_t kMaxHeader = kBthBytes + kAtomicEthBytes;  // 40, the longest of all

// Which parts an opcode has, and where it stands in its message.
struct OpInfo {
  bool known = false;
  bool request = false;   // goes to the responder
  bool response = false;  // goes to the requester
  bool first = false;     // begins a message (FIRST, ONLY, and requests of one packet)
  bool last = false;      // ends a message
  bool payload = false;   // may have payload
  bool reth = false;
  bool aeth = false;
  bool atomic = false;
  bool atomic_ack = false;
  bool imm = false;
  bool ieth = false;
  bool sack = false;
  uint8_t header_bytes = 0;  // BTH and all extensions
};
const OpInfo& info(Op op);

struct Bth {
  Op op = Op::kSendFirst;
  bool solicited = false;
  bool migrated = true;  // M: 1 in ordinary operation
  uint8_t pad = 0;       // 0..3 bytes after the payload
  uint16_t pkey = 0xffff;
  bool fecn = false;
  bool becn = false;
  uint32_t dqpn = 0;  // 24 bits
  bool ack_request = false;
  uint32_t psn = 0;  // 24 bits
};

struct Reth {
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
};

struct Aeth {
  uint8_t syndrome = 0;
  uint32_t msn = 0;  // 24 bits
};

struct AtomicEth {
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;
};

// Selective acknowledgement of IRN: the packet that caused the NACK and which of those before it are there.
// Bit i of the 128: PSN `trigger - i` has arrived. The first word holds bits 0 to 63.
struct Sack {
  uint32_t trigger = 0;  // 24 bits
  uint64_t bits[2] = {0, 0};
};

// One decoded packet, or what to encode. Fields that the opcode lacks are not written and read as defaults.
struct Headers {
  Bth bth;
  Reth reth;
  Aeth aeth;
  AtomicEth atomic;
  uint64_t atomic_original = 0;
  uint32_t imm = 0;  // ImmDt as the 4 wire bytes in memory order, like verbs; or IETH's rkey in host order
  Sack sack;
};

// ---- syndromes of AETH

namespace nak {
inline constexpr uint8_t kSequence = 0x60;
inline constexpr uint8_t kInvalidRequest = 0x61;
inline constexpr uint8_t kRemoteAccess = 0x62;
inline constexpr uint8_t kRemoteOperation = 0x63;
}  // namespace nak

enum class SyndromeKind : uint8_t { kAck, kRnr, kReserved, kNak };
constexpr SyndromeKind kind_of(uint8_t syndrome) {  // bit 7 is reserved and looked at by nobody
  return static_cast<SyndromeKind>((syndrome >> 5) & 3);
}
inline constexpr uint8_t kNoCredits = 31;  // an ACK that says nothing of credits
constexpr uint8_t ack_syndrome(uint8_t credit_code) {
  return credit_code & 31;
}
constexpr uint8_t rnr_syndrome(uint8_t timer_code) {
  return static_cast<uint8_t>(0x20 | (timer_code & 31));
}

// IBTA table 45: receives that code 0..30 announces.
inline constexpr uint32_t kCreditTable[31] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
// The largest code that does not promise more than `receives`.
constexpr uint8_t credit_code(uint32_t receives) {
  uint8_t code = 30;
  while (kCreditTable[code] > receives) --code;
  return code;
}

}  // namespace mroce::rocev2
