// MroceTransport: the engine of core/mroce, as is, on one simulated host.
//
// A flow is a WRITE (several, if it is longer than a message can be) on a queue pair of its own. Destination
// addresses name the flow in their upper bits, so that what is placed is counted per flow. Connections and
// streams are open before the run begins, as in a job that has set up its queue pairs: see mroce_setup.h.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/mroce/engine.h"
#include "sim/transport.h"

namespace mroce::sim {

// The "simulator/NIC" profile of docs/spec, section "Constants". Times that depend on the fabric are set from
// its base RTT where they are zero.
struct MroceOptions {
  uint32_t paths = 32;          // of a connection; spread over the planes
  uint32_t initial_window = 0;  // packets a path; 0: one bandwidth-delay product over all paths
  uint32_t window_packets = 0;  // of a connection; 0: twice the bandwidth-delay product
  uint32_t cpsn_window = 4096;
  uint32_t ack_every = 8;
  uint32_t ack_delay_ns = 4000;
  uint32_t block_repeats = 1;
  uint32_t pto_min_ns = 0;  // 0: four base RTTs, at least 10 us
  uint32_t reo_min_ns = 5000;
  bool ecn = true;
  bool hints = true;
  bool tail_hold = true;

  // Sets the member of that name. Errors name the key or the value, and the hint lists the keys.
  static constexpr const char* kKeys =
      "paths, initial_window, window_packets, cpsn_window, ack_every, ack_delay_ns, block_repeats, "
      "pto_min_ns, "
      "reo_min_ns, ecn, hints, tail_hold";
  bool set(std::string_view key, std::string_view value, std::string& error);
};

class MroceTransport final : public Transport, private Memory {
 public:
  MroceTransport(const HostContext& context, const MroceOptions& options);
  ~MroceTransport() override;

  void start(SimTime now, uint32_t index, const Flow& flow) override;
  void receive(SimTime now, uint32_t port, Packet& packet) override;
  void on_timer(SimTime now) override;
  void on_receive_drop(SimTime now) override { engine_.on_receive_overflow(engine_now(now), 1); }
  SimTime deadline() const override;
  Packet* pull(SimTime now, uint32_t port) override;
  TransportCounters counters() const override;
  uint64_t memory_bytes() const override;

  // ---- for the set-up (mroce_setup.h), before the run; `now` is the engine's own time
  struct Side {
    QpHandle qp;
    uint32_t number = 0;
  };
  std::optional<Side> make_queue_pair(uint32_t flow);  // none: the host has too many
  void connect(Time now, const Side& side, uint32_t peer_host, uint32_t peer_number);
  Engine& engine() { return engine_; }
  void open_stream(Time now, const Side& side);  // by an empty WRITE
  // The run's time zero is the engine's `origin`.
  void begin(Time origin);
  void expect(uint32_t flow, uint64_t bytes);                      // as its destination
  void send_from(uint32_t flow, const Side& side, uint32_t rkey);  // as its source
  uint32_t rkey() const { return region_.rkey; }
  static uint32_t host_of(const Gid& address);
  static Gid address_of(uint32_t host, uint32_t plane);

 private:
  struct Outgoing {
    uint32_t flow = 0;
    QpHandle qp;
    uint32_t rkey = 0;
    uint32_t open = 0;  // messages posted and not completed
    bool failed = false;
    uint64_t bytes = 0;
    uint64_t posted = 0;
  };
  struct Incoming {
    uint32_t flow = 0;
    uint64_t left = 0;
  };

  void place(uint64_t addr, std::span<const std::byte> bytes) override;
  void place_tail(uint64_t addr, std::span<const std::byte> bytes) override { place(addr, bytes); }
  const std::byte* fetch(uint64_t addr, uint32_t length) override;
  uint64_t compare_swap(uint64_t, uint64_t, uint64_t) override { return 0; }
  uint64_t fetch_add(uint64_t, uint64_t) override { return 0; }

  Time engine_now(SimTime now) const { return engine_time(now) + shift_; }
  void post_more(SimTime now, Outgoing& outgoing);
  void take_completions(SimTime now);
  Packet* to_packet(const TxBurst& burst);
  Outgoing* outgoing_of(uint32_t flow);
  Incoming* incoming_of(uint32_t flow);

  HostContext context_;
  MroceOptions options_;
  Engine engine_;
  PdHandle pd_;
  CqHandle cq_;
  MrInfo region_;
  Nanos shift_{0};
  SimTime now_ = 0;                           // of the call that is being worked off
  std::vector<Outgoing> outgoing_;            // sorted by flow
  std::vector<Incoming> incoming_;            // sorted by flow
  std::vector<std::deque<Packet*>> waiting_;  // by port: chosen by the engine while another port was pulled
  uint32_t waiting_packets_ = 0;
  bool may_have_more_ = false;
  uint64_t placed_bytes_ = 0;
  uint64_t failed_flows_ = 0;
};

}  // namespace mroce::sim
