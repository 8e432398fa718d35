// The packets of mroce, decoded. Bytes on the wire are big-endian; the codec (codec.h) converts.
//
// A datagram is: common header (16 bytes), body by type, optional TLVs (flag EXT, or always behind ACK),
// trailer (mode 0: CRC-32C of everything before it, 4 bytes; mode 2: an AES-GCM tag, 16 bytes). Field offsets
// stand once, in fields.def, which also makes the tables of docs/spec.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/address.h"

namespace mroce::wire {

inline constexpr uint8_t kVersion = 1;
inline constexpr uint32_t kMagic = 0x6d524f43;  // "mROC", first word of INIT and INIT_ACK bodies
inline constexpr size_t kCommonBytes = 16;
inline constexpr size_t kDataBytes = 36;    // common + DATA, before the extension of the opcode
inline constexpr size_t kTrailerBytes = 4;  // of mode 0, and of what has no connection of its own
inline constexpr size_t kTagBytes = 16;     // trailer of mode 2
inline constexpr size_t kMaxHeaderBytes = kDataBytes + 32;
inline constexpr size_t kVectorBits = 256;
inline constexpr size_t kMaxPathBlocks = 4;
inline constexpr size_t kMaxPaths = 64;
inline constexpr size_t kMaxPlanes = 8;
inline constexpr size_t kMinInitBytes = 1200;  // an INIT or INIT_ACK datagram is padded at least to this

enum class Type : uint8_t {
  kInit = 0,
  kInitAck = 1,
  kRetry = 2,
  kVersion = 3,
  kData = 4,
  kAck = 5,
  kProbe = 6,
  kProbeAck = 7,
  kClose = 8,
  kReset = 9,
  kUdDatagram = 10,
  kCm = 11,
  kCloseAck = 12,
};

namespace flag {                                  // byte 1 of the common header
inline constexpr uint8_t kAckRequest = 0x80;      // AR: acknowledge at once
inline constexpr uint8_t kRetransmit = 0x40;      // RTX: this CPSN was sent before
inline constexpr uint8_t kLast = 0x20;            // LAST: the message's last packet
inline constexpr uint8_t kSolicited = 0x10;       // SE
inline constexpr uint8_t kBacklogLimited = 0x08;  // BL: the sender is limited elsewhere
inline constexpr uint8_t kExtension = 0x04;       // EXT: TLVs follow the body
inline constexpr uint8_t kKeyPhase = 0x02;        // EPH
}  // namespace flag

struct Common {                // 16 bytes
  uint8_t version = kVersion;  // byte 0, high nibble
  Type type = Type::kData;     // byte 0, low nibble
  uint8_t flags = 0;           // byte 1
  uint8_t path = 0;            // byte 2
  uint8_t epoch = 0;           // byte 3: entropy epoch of the path
  uint32_t dcid = 0;           // 4-7: the receiver's connection id
  uint32_t pseq = 0;           // 8-11: DATA has a numbering of its own, all other types share the second one
  uint32_t ts = 0;             // 12-15: sender's clock in units of 16 ns, opaque to the receiver

  bool operator==(const Common&) const = default;
};

enum class DataOp : uint8_t {
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,
  kSendInv = 4,
  kReadReq = 5,
  kReadResp = 6,
  kCompareSwap = 7,
  kFetchAdd = 8,
  kAtomicResp = 9,
  kVoid = 10,
  kStreamOpen = 16,
  kStreamAccept = 17,
  kStreamRefuse = 18,
  kStreamClose = 19,
  kStreamStop = 20,
  kStreamBlocked = 21,
  kCreditReturn = 22,
};

// Status byte of READ_RESP and ATOMIC_RESP, and the code of a NAK.
enum class NakCode : uint8_t {
  kNone = 0,
  kWindow = 1,
  kNoResource = 2,
  kRnr = 3,
  kAccess = 4,
  kInvalid = 5,
  kLength = 6,
  kRemoteOp = 7,
  kTrimmed = 8 /* reserved */,
  kBadConnection = 9,
  kUnknownStream = 10,
};

struct Data {                  // 20 bytes behind the common header, then the extension
  uint32_t cpsn = 0;           // 16-19
  uint16_t stream = 0;         // 20-21: the receiver's stream, bits 15-0 of its QPN
  DataOp op = DataOp::kWrite;  // 22
  uint8_t backlog = 0;         // 23: log-coded packets that wait behind this one (see encode_backlog)
  uint32_t msn = 0;            // 24-27
  uint32_t offset = 0;         // 28-31: of this payload in the message
  uint32_t length = 0;         // 32-35: of the message
  // Extension, by op:
  uint64_t va = 0;                  // WRITE, WRITE_IMM, READ_REQ, atomics: base address of the message
  uint32_t rkey = 0;                // the same
  uint32_t rqsn = 0;                // SEND*, WRITE_IMM
  uint32_t imm = 0;                 // SEND_IMM, WRITE_IMM: immediate; SEND_INV: rkey to invalidate
  uint32_t rdslot = 0;              // READ_REQ, READ_RESP, atomics, ATOMIC_RESP
  uint64_t operand = 0;             // FETCH_ADD: add; COMPARE_SWAP: swap; ATOMIC_RESP: original value
  uint64_t compare = 0;             // COMPARE_SWAP
  NakCode status = NakCode::kNone;  // READ_RESP, ATOMIC_RESP

  bool operator==(const Data&) const = default;
};

// Bytes of the extension: WRITE 12 (va, rkey); WRITE_IMM 20 (+ rqsn, imm); SEND* 8 (rqsn, imm); READ_REQ 16
// (va, rkey, rdslot); READ_RESP 8 (rdslot, status, 3 x 0); COMPARE_SWAP, FETCH_ADD 32 (va, rkey, rdslot,
// operand, compare); ATOMIC_RESP 16 (rdslot, status, 3 x 0, original); VOID and STREAM_* and CREDIT_RETURN 0.
constexpr size_t extension_bytes(DataOp op) {
  switch (op) {
    case DataOp::kWrite:
      return 12;
    case DataOp::kWriteImm:
      return 20;
    case DataOp::kSend:
    case DataOp::kSendImm:
    case DataOp::kSendInv:
      return 8;
    case DataOp::kReadReq:
      return 16;
    case DataOp::kReadResp:
      return 8;
    case DataOp::kCompareSwap:
    case DataOp::kFetchAdd:
      return 32;
    case DataOp::kAtomicResp:
      return 16;
    default:
      return 0;
  }
}
constexpr size_t header_bytes(DataOp op) {
  return kDataBytes + extension_bytes(op);
}
constexpr bool is_stream_control(DataOp op) {
  return op >= DataOp::kStreamOpen && op <= DataOp::kCreditReturn;
}

// Payload of every stream control packet (32 bytes); fields that an op does not use are zero.
enum class StopReason : uint8_t {
  kNone = 0,
  kNotReady = 1,
  kMismatch = 2,
  kNoResource = 3,
  kGone = 4,
  kFailed = 5,
};
inline constexpr size_t kStreamControlBytes = 32;
struct StreamControl {
  uint32_t src_qpn = 0;       // 0-3: sender's QPN
  uint32_t dst_qpn = 0;       // 4-7
  uint32_t sq_psn = 0;        // 8-11: OPEN: the sender's first PSN, must be the receiver's rq_psn
  uint32_t incarnation = 0;   // 12-15: of the sending half; ACCEPT, REFUSE, STOP repeat it
  uint32_t credit_limit = 0;  // 16-19: ACCEPT: RQ credits granted so far. BLOCKED: credits wanted in total.
                              //        CREDIT_RETURN: credits given back so far
  uint8_t rd_atomic = 0;      // 20: ACCEPT: READ and ATOMIC requests that may be outstanding
  uint8_t min_rnr_timer = 0;  // 21: ACCEPT: of the receiver, IBTA table 46
  StopReason reason = StopReason::kNone;  // 22: REFUSE, STOP
  NakCode code =
      NakCode::kNone;  // 23: STOP with kFailed: what became of the message that DATA names by its MSN

  bool operator==(const StreamControl&) const = default;
};  // 24-31 reserved

struct PathBlock {                   // 56 bytes
  uint8_t path = 0;                  // 0
  uint8_t flags = 0;                 // 1
  uint16_t rate = 0;                 // 2-3: hint, see encode_rate; 0 none, 0xffff unlimited
  uint32_t largest = 0;              // 4-7: highest PSEQ received
  std::array<uint64_t, 4> vector{};  // 8-39: bit i = LARGEST - i received; word 0 bit 0 is i = 0. On the wire
                                     // word 0 comes first, each word big-endian
  uint32_t rx_count = 0;             // 40-43: DATA packets received on the path, duplicates included
  uint32_t ce_count = 0;             // 44-47: of those, marked CE
  uint32_t ts_echo = 0;              // 48-51: TS of the packet that LARGEST names
  uint16_t ack_delay = 0;  // 52-53: units of 64 ns between that packet's arrival and this ACK, capped

  bool operator==(const PathBlock&) const = default;
};  // 54-55 zero
inline constexpr size_t kPathBlockBytes = 56;
inline constexpr size_t kAckBytes = kCommonBytes + 12;

struct Nak {
  uint32_t cpsn = 0;
  NakCode code = NakCode::kNone;
  uint32_t arg = 0;  // RNR: low byte the timer code (IBTA table 46)

  bool operator==(const Nak&) const = default;
};
struct Credit {
  uint16_t stream = 0;       // the receiver's (of this TLV) stream
  uint32_t limit = 0;        // credits granted so far
  uint16_t incarnation = 0;  // low bits of the sending half's: a late ACK must not grant to the next one

  bool operator==(const Credit&) const = default;
};
struct PortStatus {
  uint32_t mask = 0;  // bit i: plane i is up
  uint32_t sequence = 0;

  bool operator==(const PortStatus&) const = default;
};

inline constexpr size_t kMaxAckNaks = 16;
inline constexpr size_t kMaxAckCredits = 64;
struct Ack {
  uint32_t cack = 0;         // 16-19: every CPSN before this one is accepted
  uint8_t nblocks = 0;       // 20
  uint8_t host_penalty = 0;  // 21: 0-127
  uint16_t flags = 0;        // 22-23
  uint32_t cpsn_limit = 0;   // 24-27: first CPSN that may not be sent
  std::array<PathBlock, kMaxPathBlocks> blocks{};
  uint8_t nnaks = 0;
  uint8_t ncredits = 0;
  uint8_t nreclaims = 0;
  bool has_port_status = false;
  std::array<Nak, kMaxAckNaks> naks{};
  std::array<Credit, kMaxAckCredits> credits{};
  std::array<uint16_t, 16> reclaims{};  // streams whose unused credits are wanted back
  PortStatus port_status;

  bool operator==(const Ack&) const = default;
};

// TLVs: type (1), length of the value (1), value. Unknown types are skipped. On DATA the list ends with END
// (two zero bytes), behind which the payload begins; elsewhere it ends with the datagram.
enum class Tlv : uint8_t {
  kEnd = 0,
  kNak = 1,
  kRqCredit = 2,
  kPortStatus = 3,
  kAddPath = 4,
  kRemovePath = 5,
  kCreditReclaim = 6,
  kKeyShare = 7,
  kCookie = 8,
};
// NAK: cpsn32, code8, 3 x 0, arg32 = 12. RQ_CREDIT: stream16, incarnation16, limit32 = 8. PORT_STATUS:
// mask32, seq32 = 8. CREDIT_RECLAIM: stream16 = 2. KEY_SHARE: public key 32, key id 8 = 40. COOKIE: 1 to 64.

inline constexpr size_t kMaxProbeStreams = 64;
enum class ProbeKind : uint8_t { kQuestion = 0, kChallenge = 1 };

struct Probe {  // body: token64, count8, kind8, 2 x 0, then count x stream16; then padding up to `pad_to`
  uint64_t token = 0;
  uint8_t kind = 0;  // 0 keepalive or limits, 1 path challenge (padded to the path's full size)
  uint8_t nstreams = 0;
  std::array<uint16_t, kMaxProbeStreams>
      streams{};  // blocked streams whose credit is wanted in the answering ACK

  bool operator==(const Probe&) const = default;
};
struct ProbeAck {  // body: token64
  uint64_t token = 0;

  bool operator==(const ProbeAck&) const = default;
};
struct Close {  // body: cack32, reason32. CLOSE_ACK has the same body
  uint32_t cack = 0;
  uint32_t reason = 0;

  bool operator==(const Close&) const = default;
};
struct Reset {  // body: token 16 bytes
  std::array<uint8_t, 16> token{};

  bool operator==(const Reset&) const = default;
};
struct VersionList {  // body: count8, 3 x 0, then count version bytes
  uint8_t count = 0;
  std::array<uint8_t, 16> versions{};

  bool operator==(const VersionList&) const = default;
};

inline constexpr size_t kMaxCookieBytes = 64;
struct Cookie {  // what the receiver of an INIT gave to its sender, who repeats it; opaque
  uint8_t length = 0;
  std::array<uint8_t, kMaxCookieBytes> bytes{};

  std::span<const uint8_t> view() const { return {bytes.data(), length}; }
  bool operator==(const Cookie&) const = default;
};
struct Retry {  // body: nonce64, length8, 3 x 0, cookie
  uint64_t nonce = 0;
  Cookie cookie;

  bool operator==(const Retry&) const = default;
};

struct KeyShare {
  std::array<uint8_t, 32> public_key{};  // X25519
  std::array<uint8_t, 8> key_id{};       // names the pre-shared key; zero without one

  bool operator==(const KeyShare&) const = default;
};

// Body of INIT and INIT_ACK. INIT: DCID 0 in the common header. INIT_ACK: DCID is the initiator's scid.
struct InitPort {            // 24 bytes
  Gid address;               // 0-15
  uint32_t prefix_bits = 0;  // 16-19
  uint32_t rate_mbps = 0;    // 20-23: 0 unknown

  bool operator==(const InitPort&) const = default;
};
enum class InitAckFlag : uint8_t { kExists = 0x01 };  // bits of Init::flags

struct Init {
  uint32_t magic = kMagic;                // 0-3
  uint8_t version_min = kVersion;         // 4
  uint8_t version_max = kVersion;         // 5
  uint8_t security = 0;                   // 6: bit i = mode i offered; in INIT_ACK the chosen mode number
  uint8_t flags = 0;                      // 7: INIT_ACK: bit 0 = existing connection (see docs/spec)
  uint32_t scid = 0;                      // 8-11: sender's connection id
  std::array<uint8_t, 16> endpoint_id{};  // 12-27
  std::array<uint8_t, 16> reset_token{};  // 28-43
  uint64_t nonce = 0;                     // 44-51: INIT_ACK repeats the one of the INIT
  uint16_t listen_port = 0;               // 52-53: UDP port of the sender's receiving sockets
  uint16_t payload_mtu = 0;               // 54-55
  uint8_t max_paths = 0;                  // 56
  uint8_t nports = 0;                     // 57: 1..kMaxPlanes; planes of the sender, plane 0 first
  uint16_t max_streams = 0;               // 58-59
  uint32_t cpsn_window = 0;               // 60-63
  uint32_t first_cpsn = 0;                // 64-67
  uint32_t first_pseq = 0;                // 68-71
  uint32_t receive_buffer = 0;            // 72-75: bytes
  uint32_t known_cid = 0;  // 76-79: INIT_ACK with flag 0: the initiator's existing connection id
  std::array<InitPort, kMaxPlanes> ports{};  // 80-
  // Behind the ports, as TLVs, with flag EXT
  bool has_key_share = false;
  KeyShare key_share;
  Cookie cookie;  // INIT only; none if its length is 0

  bool operator==(const Init&) const = default;
};
inline constexpr size_t kInitFixedBytes = 80;
inline constexpr size_t kInitPortBytes = 24;

}  // namespace mroce::wire
