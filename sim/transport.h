// Transport: everything of one kind of transport that runs on one host, behind one interface.
//
// The host's NIC drives it: packets in, one timer, and `pull` whenever a port can take another packet. After
// each call of start(), receive() or on_timer() the NIC pulls from its idle ports and reads deadline() again.
// `now` never goes back. All calls for one host come from one thread; transports of different hosts share
// nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/flow.h"
#include "sim/packet.h"

namespace mroce::sim {

// X(name, sentence). Sums over all hosts; zero where a transport has no such thing.
#define MROCE_SIM_TRANSPORT_COUNTERS(X)                                        \
  X(data_packets, "packets with payload sent, each transmission counted")      \
  X(payload_bytes, "payload placed or delivered at receivers, each byte once") \
  X(acks, "acknowledgements sent")                                             \
  X(nacks, "negative acknowledgements sent")                                   \
  X(cnps, "congestion notification packets sent (RoCEv2)")                     \
  X(retransmissions, "packets with payload sent again")                        \
  X(duplicates, "packets with payload that the receiver had already")          \
  X(out_of_order, "packets with payload that came before an earlier one")      \
  X(timeouts, "expiries of a retransmission or probe timer")                   \
  X(path_changes, "new entropies (mroce)")                                     \
  X(receiver_drops, "packets that a full receiver refused")                    \
  X(failed_flows, "flows that their transport gave up")

struct TransportCounters {
#define MROCE_SIM_COUNTER(name, sentence) uint64_t name = 0;
  MROCE_SIM_TRANSPORT_COUNTERS(MROCE_SIM_COUNTER)
#undef MROCE_SIM_COUNTER

  TransportCounters& operator+=(const TransportCounters& other) {
#define MROCE_SIM_COUNTER(name, sentence) name += other.name;
    MROCE_SIM_TRANSPORT_COUNTERS(MROCE_SIM_COUNTER)
#undef MROCE_SIM_COUNTER
    return *this;
  }
};

// How large a packet is on the wire. Real headers: payload + transport header + `below`. For comparison with
// simulators that count a fixed header: `fixed` is what a packet has beside its payload.
struct WireSize {
  uint32_t below = 66;  // UDP 8, IPv4 20, Ethernet 14 + 4, preamble and gap 20
  uint32_t fixed = 0;   // 0: real headers

  uint32_t of(uint32_t payload, size_t header) const {
    return fixed != 0 ? payload + fixed : payload + static_cast<uint32_t>(header) + below;
  }
};

// What a host gives to its transport. References outlive the transport.
struct HostContext {
  uint32_t host = 0;
  uint32_t ports = 1;     // of the NIC; port i is on plane i
  uint64_t rate_bps = 0;  // of each
  uint32_t payload_mtu = 4096;
  WireSize wire;
  SimTime base_rtt = 0;  // of the longest way through the idle fabric, a full packet out and an ACK back
  uint64_t seed = 1;     // of this host
  PacketPool& pool;
  FlowObserver& flows;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // `flow` begins; this host is its source. `index` names it to FlowObserver and stands in Packet::flow.
  virtual void start(SimTime now, uint32_t index, const Flow& flow) = 0;
  // A packet for this host came in through `port`. The caller releases it afterwards.
  virtual void receive(SimTime now, uint32_t port, Packet& packet) = 0;
  // now >= deadline().
  virtual void on_timer(SimTime now) = 0;
  // When on_timer() or pull() has something to do without any packet arriving; kEndOfTime: never.
  virtual SimTime deadline() const = 0;
  // These classes of the port are paused now (bit: class). Packets of them that pull() gives out wait in the
  // NIC, and few others can pass them there; a transport with traffic of several classes should hold them
  // back.
  virtual void on_pause(SimTime now, uint32_t port, uint32_t classes) {
    (void)now, (void)port, (void)classes;
  }
  // The host's receive buffer was full, and a packet for it is lost. The NIC says so; not what was in it.
  virtual void on_receive_drop(SimTime now) { (void)now; }
  // The next packet for this port, chosen now; null: nothing (yet). The NIC fills in nothing but `plane`.
  virtual Packet* pull(SimTime now, uint32_t port) = 0;
  virtual TransportCounters counters() const = 0;
  // Bytes that this host's state takes, for `mroce bench sim`.
  virtual uint64_t memory_bytes() const = 0;
};

}  // namespace mroce::sim
