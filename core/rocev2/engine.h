// Engine: the RoCEv2 transport of one port (reliable connections: requester and responder) as a deterministic
// state machine, in the manner of core/mroce/engine.h: `now` is an argument and never goes back, randomness
// comes from EngineConfig::seed, memory is reached through `Memory`. It makes and takes everything between
// UDP and iCRC; the driver adds or removes addresses, UDP and iCRC (icrc.h). Not thread-safe.
//
// The driver's loop, in this order:
//   1. on_packet() for what has arrived;
//   2. on_timeout(now) when now >= next_deadline();
//   3. poll_transmit() as long as the wire takes packets and until it answers false;
//   4. poll_completion() and poll_event() until they answer false;
//   5. sleep until a packet, a command or next_deadline().
//
// What is sent next is decided in poll_transmit(): CNPs, ACKs and NAKs first, then one packet of the next
// queue pair in turn whose rate (dcqcn.h) and window allow it.
//
// Sequence numbers, acknowledgement and retransmission follow IBTA chapter 9.7 and 9.9. Every packet takes
// one PSN, a READ as many as its response has packets. A responder executes in PSN order only; it answers a
// gap with one NAK, repeats the acknowledgement of duplicates, executes a duplicate READ again and answers a
// duplicate atomic from a cache. A requester goes back to the oldest unacknowledged PSN on a NAK, on a
// timeout and on a response that shows an earlier one to be missing. With Recovery::kSelectiveRepeat requests
// are held by the responder when they come early, and resent one by one (irn.cc).
#pragma once

#include <array>
#include <memory>
#include <span>

#include "core/base/error.h"
#include "core/base/time.h"
#include "core/mroce/burst.h"
#include "core/mroce/memory.h"
#include "core/rdma/handles.h"
#include "core/rdma/types.h"
#include "core/rocev2/config.h"
#include "core/rocev2/counters.h"
#include "core/rocev2/packet.h"

namespace mroce::rocev2 {

struct QpParams {
  uint32_t qpn = 0;   // 24 bits; 0: the engine chooses
  uint64_t peer = 0;  // address of the other side, as the driver names it
  uint32_t dest_qpn = 0;
  uint32_t sq_psn = 0;   // 24 bits
  uint32_t rq_psn = 0;   // 24 bits
  uint16_t entropy = 0;  // for the UDP source port
  uint64_t tag = 0;      // the driver's own; comes back in TxPacket
  PdHandle pd{1};
  uint32_t access_flags = access::kAll;  // remote access through this queue pair
  uint8_t timeout = 14;                  // 4.096 us * 2^timeout; 0: never
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;  // 7: for ever
  uint8_t min_rnr_timer = 12;
  uint8_t max_rd_atomic = 16;
  uint8_t max_dest_rd_atomic = 16;
  uint32_t max_send_wr = 128;
  uint32_t max_recv_wr = 128;
  uint32_t max_recv_sge = 4;
  bool signal_all = false;
  // Payload has a length and no bytes: no keys are looked at, memory is not touched. Both sides must agree.
  bool virtual_payload = false;
};

struct VirtualSend {  // post_virtual(): a WRITE or SEND without bytes
  uint64_t wr_id = 0;
  Opcode opcode = Opcode::kWrite;
  uint32_t flags = send_flag::kSignaled;
  uint32_t length = 0;
};

enum class TxKind : uint8_t { kRequest, kResponse, kAck, kNak, kCnp };

inline constexpr uint32_t kMaxSlices = 16;  // SGEs of a work request

struct TxPacket {
  uint32_t qpn = 0;  // the local one
  uint64_t peer = 0;
  uint64_t tag = 0;
  uint16_t entropy = 0;
  TxKind kind = TxKind::kRequest;
  bool ect = false;  // send it ECT(0)
  bool retransmission = false;
  uint8_t header_bytes = 0;
  uint8_t pad = 0;  // zero bytes to send behind the payload
  uint8_t slice_count = 0;
  uint32_t payload = 0;
  std::array<std::byte, kMaxHeader> header;  // header_bytes of it
  std::array<Slice, kMaxSlices> slices;      // the payload if it is real; valid until the next call
};

struct RxPacket {
  uint64_t peer = 0;
  Ecn ecn = Ecn::kNotEct;
  std::span<const std::byte> bytes;  // from the BTH on, without iCRC
  uint32_t virtual_behind = 0;       // payload and padding that have no bytes
};

enum class EventKind : uint8_t {
  kSolicited,  // a message with the solicited bit has arrived as a whole; `bytes` is its length
  kQpError,    // the queue pair went to ERR by itself
};

struct Event {
  EventKind kind = EventKind::kSolicited;
  uint32_t qpn = 0;
  uint64_t bytes = 0;
};

struct QpStats {
  QpState state = QpState::kReset;
  double rate_bps = 0;
  double target_bps = 0;
  double alpha = 0;
  uint64_t outstanding = 0;  // PSNs
  uint32_t queued = 0;       // work requests that are not complete
  bool in_recovery = false;  // IRN
};

class Engine {
 public:
  Engine(const EngineConfig& config, Memory& memory);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // ---- getters
  const EngineConfig& config() const;
  const Counters& counters() const;
  Time next_deadline() const;  // kNever if nothing waits
  uint64_t memory_bytes() const;
  Result<QpStats> qp_stats(Time now, uint32_t qpn) const;
  uint64_t executed_psns(uint32_t qpn) const;  // as responder; 0 if there is no such queue pair

  // ---- inputs
  void on_packet(Time now, const RxPacket& packet);
  void on_timeout(Time now);

  // ---- commands
  // [iova, iova + length) at host address `addr`; the key serves as lkey and rkey.
  Result<uint32_t> reg_mr(PdHandle pd, uint64_t addr, uint64_t length, uint64_t iova, uint32_t access_flags);
  // A queue pair that is ready to send and receive at once; returns its number.
  Result<uint32_t> create_qp(Time now, const QpParams& params);
  Status destroy_qp(uint32_t qpn);
  Status post_send(Time now, uint32_t qpn, const SendWr& wr);
  Status post_virtual(Time now, uint32_t qpn, const VirtualSend& wr);
  Status post_recv(Time now, uint32_t qpn, const RecvWr& wr);

  // ---- outputs
  bool poll_transmit(Time now, TxPacket& out);
  bool has_reports() const;  // a completion or an event waits
  bool poll_completion(Wc& out);
  bool poll_event(Event& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mroce::rocev2
