// Connection: the pairing of two endpoints. It owns the paths, the one numbering of packets (CPSN) with its
// window in both directions, loss recovery and acknowledgement; streams (queue pairs) only cut messages into
// packets for it.
//
// Sending: a packet gets its CPSN once, when it is cut; TxPacket remembers how to make its bytes again (from
// the work request, the response, or the control message; nothing is copied). Every transmission gets a fresh
// PSEQ on some path. Receiving: `received` has one bit per CPSN of the window; a packet is delivered when its
// bit turns, so it is delivered once, whichever path and however often it came.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/ring.h"
#include "core/mroce/path.h"
#include "core/mroce/queue_pair.h"
#include "core/mroce/rate_hints.h"
#include "core/mroce/security.h"
#include "core/wire/codec.h"

namespace mroce {

struct TxPacket {
  enum class Kind : uint8_t { kRequest, kResponse, kControl, kVoid };
  enum class State : uint8_t { kWaiting, kFlying, kAccepted };
  Kind kind = Kind::kVoid;
  State state = State::kWaiting;
  uint8_t path = 0;           // of the newest transmission
  uint8_t transmissions = 0;  // saturates
  uint16_t stream = 0;        // kRequest, kResponse: ours. kControl, kVoid: the peer's
  uint16_t length = 0;        // payload
  uint32_t offset = 0;
  uint64_t owner = 0;  // kRequest, kVoid: MSN; kResponse: number of the response; kControl: of the message
  uint64_t pseq = 0;   // of the newest transmission
  QueuePair* voided_for = nullptr;  // kVoid: the live QP that waits for it to be accepted
};

struct ControlMessage {
  wire::DataOp op = wire::DataOp::kStreamOpen;
  uint16_t local_stream = 0;
  uint16_t peer_stream = 0;
  uint32_t msn = 0;
  wire::StreamControl body;
  bool accepted = false;
  bool holds_stream = false;  // the local stream number may not be used again before this is accepted
};

// Bits of the CPSNs in [base, base + window). Grows with use up to the window.
class CpsnWindow {
 public:
  void open(uint64_t first, uint64_t window) {
    base_ = first;
    window_ = window;
  }
  uint64_t base() const { return base_; }  // every CPSN below is received
  uint64_t limit() const { return base_ + window_; }
  bool has_holes() const { return count_ != 0; }
  bool is_set(uint64_t cpsn) const;
  void set(uint64_t cpsn);  // base() <= cpsn < limit(); advances the base over what is complete
  size_t memory_bytes() const { return words_.capacity() * sizeof(uint64_t); }

 private:
  void grow(uint64_t needed_bits);
  uint64_t base_ = 0;
  uint64_t window_ = 0;
  uint64_t count_ = 0;           // bits set above the base
  std::vector<uint64_t> words_;  // bit of CPSN c at c mod (64 x size), size a power of two
};

inline constexpr uint8_t kModeCrc = 0;  // numbers of the wire
inline constexpr uint8_t kModeGcm = 2;
constexpr uint8_t mode_bit(uint8_t mode) {
  return static_cast<uint8_t>(1u << mode);
}

struct Connection {
  static constexpr uint32_t kResponses = 1u << 16;
  // kTimeWait: the peer said CLOSE; we stay to repeat CLOSE_ACK.
  enum class State : uint8_t { kInitSent, kOpen, kDraining, kClosing, kTimeWait, kClosed };
  uint32_t index = 0;  // in Engine::Impl::connections
  State state = State::kInitSent;
  bool initiator = false;
  bool validated = false;          // a packet with our connection id and a good CRC came
  uint64_t inits_bytes = 0;        // received as acceptor before that,
  uint64_t unvalidated_bytes = 0;  // and sent
  uint32_t local_id = 0;           // what the peer writes as DCID
  uint32_t peer_id = 0;
  std::array<uint8_t, 16> peer_endpoint{};
  std::array<uint8_t, 16> reset_token{};  // ours: who sends it to us ends the connection
  std::array<uint8_t, 16> peer_reset_token{};
  uint64_t nonce = 0;
  uint32_t port = 0;  // primary local port
  UdpAddress remote;  // primary, with the peer's listening port
  uint32_t payload_mtu = 1024;
  uint8_t trailer_bytes = wire::kTrailerBytes;
  uint8_t key_phase = 0;     // flag EPH of what we send: 0 or flag::kKeyPhase
  uint64_t peer_window = 0;  // packets
  uint64_t peer_receive_buffer = 0;
  std::vector<wire::InitPort> peer_ports;
  uint32_t planes = 1;

  std::unique_ptr<Security> security;  // mode 2; none in mode 0
  uint8_t mode() const { return security == nullptr ? kModeCrc : kModeGcm; }

  // Handshake
  std::unique_ptr<Opening> opening;  // while it is needed
  uint32_t init_tries = 0;           // INITs, or INIT_ACKs before the peer had shown itself, that were sent
  Time init_at = kNever;             // next INIT
  bool init_ack_due = false;
  uint32_t init_ack_bytes = 0;  // size of the INIT that is answered
  uint32_t init_payload = 0;    // offered in our INIT
  bool yields = false;          // INIT_SENT: the peer called us at the same time, and its connection wins
  Time started{};

  // Sending
  std::vector<Path> paths;
  Ring<TxPacket> tx;  // by CPSN; begin() is the oldest that the peer has not accepted
  uint64_t peer_cack = 0;
  uint64_t cpsn_limit = 0;  // first CPSN that we may not use
  Ring<uint64_t> rtx;       // lost CPSNs that any path may take
  Ring<uint32_t> ready;     // streams with something to send: kResponses bit, stream number
  Ring<ControlMessage> control;
  uint64_t next_control = 0;  // first control message without a CPSN
  uint64_t inflight_bytes = 0;
  uint8_t peer_penalty = 0;
  uint32_t next_path = 0;   // round robin among equals
  Time last_sent_acked{};   // newest transmission time that was acknowledged, any path
  bool tlp_wanted = false;  // PTO expired: send one probe packet
  uint32_t pto_count = 0;
  Time pto_from = kNever;  // last progress or first transmission; kNever when nothing flies
  RttEstimator rtt;        // over all paths
  Time last_heard{};
  Time last_sent{};
  Time progressed{};  // while `tx` holds anything: when the peer last accepted something, or it began
  Time oldest_unanswered = kNever;  // when we began to wait for an answer, for the silence limit
  bool limits_probe_wanted = false;
  Time asked_at{};  // the last limits probe or keepalive
  Time limits_probe_at = kNever;
  Nanos limits_probe_interval{0};
  uint16_t asked_stream = 0;  // the last blocked stream that a limits probe named

  std::array<PlaneHint, wire::kMaxPlanes> hints;
  Time paced_until = kNever;  // the first plane whose hint lets a waiting packet go

  // Receiving
  uint64_t first_pseq_peer = 0;
  CpsnWindow received;
  std::vector<RxPath> rx_paths;
  std::vector<Demand> demands;  // by local port
  uint32_t rx_streams = 0;      // halves that are open towards us
  uint32_t ack_pending = 0;     // DATA packets not yet acknowledged
  uint32_t burst_packets = 0;   // of these, from the burst that is being read
  bool ack_urgent = false;      // a gap, a duplicate, a CE mark or a NAK: acknowledge at once
  bool ack_requested = false;   // AR was set
  Time ack_at = kNever;
  std::vector<wire::Nak> naks;
  Ring<uint16_t> credit_dirty;
  Ring<uint16_t> reclaim;  // streams whose unused credits we want back
  uint32_t port_status_repeats = 0;
  uint32_t port_status_sequence = 0;
  uint32_t peer_port_status_sequence = 0;
  bool peer_port_status_seen = false;
  std::vector<wire::ProbeAck> probe_acks;  // answers that are due
  uint8_t ack_path = 0;                    // rotates when the peer seems not to hear us
  uint64_t duplicates_at_rotation = 0;

  // End
  Time close_at = kNever;  // next CLOSE
  Time close_by = kNever;
  Time drain_by = kNever;
  bool close_ack_due = false;
  uint32_t close_reason = 0;

  // The earliest probe or RACK deadline of the paths. Sending on a path cannot bring it forward; whatever
  // else happens to a path says `paths_touched`, and it is worked out anew when it is next asked for.
  Time paths_due = kNever;
  bool paths_touched = true;

  bool in_tx_queue = false;
  Time queued = kNever;  // see TimerQueue
  ConnectionCounters counters;
  Time opened{};
  Time first_data = kNever;
  Time last_data{};

  uint64_t first_cpsn = 0;  // ours
  uint64_t first_pseq = 0;  // ours, the same on every path
  uint32_t full_packet() const { return payload_mtu + 56 + trailer_bytes; }
  bool alive() const { return state == State::kOpen || state == State::kDraining; }
  // Is `address` among those that the peer's INIT or INIT_ACK named?
  bool lists(const Gid& address) const {
    return std::any_of(peer_ports.begin(), peer_ports.end(),
                       [&](const wire::InitPort& port) { return port.address == address; });
  }
  // What may be sent before the peer has shown that it is where it says (RFC 9000 section 8.1).
  bool is_stranger() const { return !initiator && !validated; }
  uint64_t stranger_room() const {
    return is_stranger() ? 3 * inits_bytes - std::min(3 * inits_bytes, unvalidated_bytes) : UINT64_MAX;
  }
  bool may_send() const { return stranger_room() >= full_packet(); }
  uint64_t window_bytes(uint64_t cap) const {
    uint64_t w = peer_receive_buffer / 2 < cap ? peer_receive_buffer / 2 : cap;
    w = w * (128u - peer_penalty) / 128;
    const uint64_t least = 2 * (uint64_t{payload_mtu} + wire::kMaxHeaderBytes + trailer_bytes);
    return w < least ? least : w;
  }
};

}  // namespace mroce
