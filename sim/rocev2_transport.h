// Rocev2Transport: RoCEv2 on one simulated host. The protocol is core/rocev2, one engine for each port of the
// NIC; what is here is the mapping of flows to queue pairs and of packets to packets.
//
// A flow is a queue pair on each side and a WRITE of its bytes (several if it is longer than message_bytes;
// the last one has the solicited bit, by which the receiver knows that the flow is there). Both queue pairs
// have the number 16 + index of the flow; the receiver makes its own when the first packet comes, and drops
// it a little after the last one. A packet that comes later still (its ACK was lost) gets a queue pair once
// more, just to be acknowledged. The flow's UDP source port, which ECMP sees, is a hash of source,
// destination and flow. A queue pair's tag keeps it (upper half) and the priority of the data. With several
// ports a flow uses one of them, chosen by the same hash, as a bond does.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/rocev2/engine.h"
#include "sim/rocev2_options.h"
#include "sim/transport.h"

namespace mroce::sim {

class Rocev2Transport : public Transport {
 public:
  Rocev2Transport(const HostContext& context, const Rocev2Options& options);
  ~Rocev2Transport() override;

  void start(SimTime now, uint32_t index, const Flow& flow) override;
  void receive(SimTime now, uint32_t port, Packet& packet) override;
  void on_timer(SimTime now) override;
  SimTime deadline() const override;
  Packet* pull(SimTime now, uint32_t port) override;
  TransportCounters counters() const override;
  uint64_t memory_bytes() const override;

  uint64_t failed_flows() const { return failed_flows_; }  // whose retries were used up
  const rocev2::Engine& engine(uint32_t port) const { return *engines_[port]; }

 private:
  class NoMemory;
  struct Finished {  // a receiver's queue pair that is to go
    SimTime at = 0;
    uint32_t port = 0;
    uint32_t flow = 0;
  };

  void drain(SimTime now, uint32_t port);
  void accept(SimTime now, uint32_t port, const Packet& packet);
  void drop_finished(SimTime now);
  rocev2::QpParams params(uint32_t flow, uint32_t peer) const;
  uint32_t priority_of(const rocev2::TxPacket& out) const;

  HostContext context_;
  Rocev2Options options_;
  std::unique_ptr<NoMemory> memory_;
  std::vector<std::unique_ptr<rocev2::Engine>> engines_;     // by port
  std::unordered_map<uint32_t, uint32_t> messages_left_;     // by flow of this host
  std::unordered_map<uint32_t, uint64_t> received_packets_;  // by flow that has arrived: its PSNs
  std::deque<Finished> finished_;
  uint64_t failed_flows_ = 0;
};

}  // namespace mroce::sim
