// TcpTransport: TCP on one simulated host, as a baseline: Reno or DCTCP, with or without SACK, RACK, TLP.
//
// Each flow has a connection of its own, open before it begins (the round trip of its handshake is the
// fabric's), with one 5-tuple, so it stays on one path and on one port of the NIC (as bonded links do it).
// A port sends acknowledgements first, then a segment of each connection in turn. Segments are of
// `payload_mtu`; their headers are as long as real ones. What the sides of a connection do is in
// tcp_sender.h, tcp_receiver.h and tcp_congestion.h.
#pragma once

#include <memory>
#include <vector>

#include "sim/flow_index.h"
#include "sim/tcp_receiver.h"
#include "sim/tcp_sender.h"
#include "sim/transport.h"

namespace mroce::sim {

class TcpTransport final : public Transport {
 public:
  TcpTransport(const HostContext& context, const TcpOptions& options);
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  void start(SimTime now, uint32_t index, const Flow& flow) override;
  void receive(SimTime now, uint32_t port, Packet& packet) override;
  void on_timer(SimTime now) override;
  SimTime deadline() const override { return timers_.empty() ? kEndOfTime : timers_.front().at; }
  Packet* pull(SimTime now, uint32_t port) override;
  TransportCounters counters() const override;
  uint64_t memory_bytes() const override;

  const TcpSender* sender(uint32_t flow) const;  // null: not begun, or finished

 private:
  struct Connection {
    uint32_t flow = 0;
    uint32_t peer = 0;
    uint32_t hash = 0;
    uint8_t priority = 0;
    SimTime timer = kEndOfTime;  // the earliest entry in timers_
  };
  struct Outgoing : Connection {
    Outgoing(const TcpOptions& options, uint32_t mss, uint64_t bytes) : sender(options, mss, bytes) {}
    TcpSender sender;
    bool ready = false;  // stands in a queue of ready_
  };
  struct Incoming : Connection {
    explicit Incoming(const TcpOptions& options) : receiver(options) {}
    TcpReceiver receiver;
  };
  struct Timer {
    SimTime at;
    uint32_t slot;
    bool outgoing;
    bool operator<(const Timer& other) const {  // for a heap with the earliest first
      if (at != other.at) return at > other.at;
      return slot != other.slot ? slot > other.slot : outgoing > other.outgoing;
    }
  };
  struct Port {
    Ring<uint32_t> ready;  // slots of connections that may send
    Packet* acks = nullptr;
    Packet** acks_end = &acks;
  };

  void on_data(SimTime now, const Packet& packet);
  void on_ack(SimTime now, const Packet& packet);
  void send_ack(Incoming& incoming);
  Packet* make(const Connection& connection, const TcpHeader& header, uint32_t payload);
  uint32_t port_of(const Connection& connection) const { return (connection.hash >> 8) % context_.ports; }
  uint32_t incoming_slot(const Packet& packet);
  void update(uint32_t slot);  // after anything that happened to an outgoing connection
  void set_timer(Connection& connection, SimTime deadline, uint32_t slot, bool outgoing);
  void fire(SimTime now, const Timer& timer);
  void drop(uint32_t slot);

  HostContext context_;
  TcpOptions options_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
  std::vector<uint32_t> free_;  // slots of outgoing_
  std::vector<std::unique_ptr<Incoming>> incoming_;
  FlowIndex outgoing_of_;
  FlowIndex incoming_of_;
  std::vector<Port> ports_;
  std::vector<Timer> timers_;  // a heap; an entry may be earlier than what it stands for
  TransportCounters counters_;
};

}  // namespace mroce::sim
