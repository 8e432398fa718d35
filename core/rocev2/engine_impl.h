// The inside of Engine, split by event over several files.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/base/ring.h"
#include "core/base/rng.h"
#include "core/rdma/mr_table.h"
#include "core/rocev2/codec.h"
#include "core/rocev2/deadline_heap.h"
#include "core/rocev2/engine.h"
#include "core/rocev2/qp.h"
#include "core/rocev2/qpn_map.h"

namespace mroce::rocev2 {

// A received packet after decoding.
struct Arrival {
  const Headers& headers;
  const OpInfo& op;
  uint32_t payload = 0;
  const std::byte* bytes = nullptr;  // null: virtual
};

struct Engine::Impl {
  Impl(const EngineConfig& c, Memory& m);

  EngineConfig config;
  Memory& memory;
  Counters counters;
  Rng rng;
  MrTable regions;
  std::vector<std::unique_ptr<Qp>> qps;  // by slot
  std::vector<uint32_t> free_slots;
  QpnMap by_qpn;
  uint32_t next_qpn = 16;
  Ring<uint32_t> ready;    // queue pairs with data to send now, in turn
  Ring<uint32_t> control;  // queue pairs with a CNP, ACK or NAK to send
  DeadlineHeap paced;      // queue pairs whose rate makes them wait
  DeadlineHeap timers;
  Ring<Wc> completions;
  Ring<Event> events;
  Headers received;  // of the packet at hand; fields that its opcode lacks are old
  Headers sending;   // the same of a request
  uint64_t window_limit = 0;
  uint64_t fixed_window = 0;  // packets

  // ---- engine.cc: objects and the order of sending
  Qp* find(uint32_t qpn) {
    const uint32_t slot = by_qpn.find(qpn);
    return slot == QpnMap::kNone ? nullptr : qps[slot].get();
  }
  void on_packet(Time now, const RxPacket& packet);
  void dispatch(Time now, Qp& qp, const Arrival& arrival);
  bool poll_transmit(Time now, TxPacket& out);
  bool transmit_control(TxPacket& out);
  bool transmit_data(Time now, Qp& qp, TxPacket& out);
  void kick(Time now, Qp& qp);   // there may be data to send
  void kick_control(Qp& qp);     // there is a CNP, ACK or NAK to send
  void release_paced(Time now);  // whose time has come
  void release_if_dead(Qp& qp);
  void pace(Time now, Qp& qp, const TxPacket& out);
  void begin_packet(const Qp& qp, TxPacket& out, TxKind kind) const;
  void finish_headers(const Headers& headers, TxPacket& out) const;
  void to_error(Qp& qp);  // flushes everything that is queued

  // ---- requester.cc: work requests and the packets that they become
  Status post(Time now, Qp& qp, Wqe wqe);
  bool request_ready(Qp& qp) const;
  bool may_start(const Qp& qp, const Wqe& wqe) const;
  uint64_t window_of(uint64_t bytes) const {  // in packets
    return bytes == 0 ? window_limit
                      : std::clamp<uint64_t>((bytes + config.mtu - 1) / config.mtu, 1, window_limit);
  }
  uint64_t window_packets(const Qp& qp) const {
    if (!config.window.variable || config.window.bytes == 0) return fixed_window;
    const double share = qp.dcqcn.rate_bps() / config.line_rate_bps;
    return window_of(
        std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(config.window.bytes) * share)));
  }
  void transmit_request(Time now, Qp& qp, TxPacket& out);
  void after_new_request(Qp& qp, const Wqe& wqe);
  bool build_request(Qp& qp, const Wqe& wqe, uint64_t psn, TxPacket& out);
  bool wants_ack(Qp& qp, const Wqe& wqe, uint64_t psn);
  bool fetch_payload(const Qp& qp, const Wqe& wqe, uint64_t offset, TxPacket& out);

  // ---- acknowledge.cc: what the other side says about requests
  void on_response(Time now, Qp& qp, const Arrival& arrival);
  void on_ack(Time now, Qp& qp, uint64_t psn, const Aeth& aeth);
  void on_nak(Time now, Qp& qp, uint64_t psn, uint8_t syndrome);
  void on_rnr(Time now, Qp& qp, uint64_t psn, uint8_t syndrome);
  void on_read_response(Time now, Qp& qp, uint64_t psn, const Arrival& arrival);
  void on_atomic_ack(Time now, Qp& qp, uint64_t psn, const Arrival& arrival);
  // Everything before `psn` has arrived. False if a READ or atomic before it has no response yet; then only
  // what is before that counts.
  bool acknowledge_before(Time now, Qp& qp, uint64_t psn);
  void advance(Time now, Qp& qp, uint64_t una);
  void take_credits(Qp& qp, const Aeth& aeth) const;
  void rewind(Qp& qp);
  void implied_nak(Qp& qp);
  void complete(Qp& qp, const Wqe& wqe, WcStatus status);
  void fail_oldest(Qp& qp, WcStatus status);
  bool scatter(const Qp& qp, const Wqe& wqe, uint64_t offset, const Arrival& arrival);

  // ---- irn.cc: selective repeat
  void on_irn_nack(Time now, Qp& qp, uint64_t psn, const Sack& sack);
  void begin_recovery(Qp& qp);
  bool next_resend(Qp& qp, uint64_t& psn) const;  // moves resend_next over what has arrived
  void hold(Qp& qp, uint64_t psn, const Arrival& arrival);
  void drain_held(Qp& qp);
  Sack make_sack(const Qp& qp) const;

  // ---- responder.cc: requests
  void on_request(Time now, Qp& qp, const Arrival& arrival);
  void on_gap(Time now, Qp& qp);
  void on_duplicate(Qp& qp, uint64_t psn, const Arrival& arrival);
  bool responses_full(const Qp& qp, bool duplicate) const;
  bool execute(Qp& qp, const Arrival& arrival);  // false: refused, nothing changed
  bool execute_send(Qp& qp, const Arrival& arrival);
  bool execute_write(Qp& qp, const Arrival& arrival);
  bool execute_read(Qp& qp, const Arrival& arrival);
  bool execute_atomic(Qp& qp, const Arrival& arrival);
  bool write_fits(Qp& qp, const Arrival& arrival) const;
  void place_in_receive(Qp& qp, const Arrival& arrival, bool& ok);
  void complete_receive(Qp& qp, const Arrival& arrival, WcOpcode opcode, uint64_t bytes);
  bool refuse(Qp& qp, uint8_t syndrome);  // false
  bool receiver_not_ready(Qp& qp);        // false
  void next_request(Qp& qp) const;

  // ---- respond.cc: READ responses, ACKs, NAKs, CNPs
  void transmit_response(Qp& qp, TxPacket& out);
  bool transmit_ack(Qp& qp, TxPacket& out);
  void transmit_cnp(Qp& qp, TxPacket& out);
  uint8_t credits(const Qp& qp) const;
  void schedule_ack(Qp& qp);
  void schedule_nak(Qp& qp, uint8_t syndrome);
  void schedule_cnp(Time now, Qp& qp);

  // ---- timers.cc
  void on_timeout(Time now);
  void run_timers(Time now, Qp& qp);
  void on_retransmission_timeout(Qp& qp);
  void arm_timeout(Time now, Qp& qp);
  Nanos timeout_of(const Qp& qp);
  void schedule_timer(Qp& qp);
};

}  // namespace mroce::rocev2
