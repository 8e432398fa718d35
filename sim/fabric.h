// Fabric: the state of all links, switches and NICs of a run. Each piece belongs to one partition, whose
// thread alone touches it while the partitions run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "sim/config.h"
#include "sim/link.h"
#include "sim/routing.h"
#include "sim/topology.h"
#include "sim/transport.h"

namespace mroce::sim {

// X(name, sentence)
#define MROCE_SIM_DROPS(X)                                                         \
  X(queue, "packets dropped because the queue of the port was at its limit")       \
  X(shared_buffer, "packets dropped because the shared buffer gave no more room")  \
  X(headroom, "packets of a lossless class dropped because the headroom was full") \
  X(no_route, "packets dropped because no link leads to their destination")

enum class DropReason : uint8_t {
#define MROCE_SIM_DROP(name, sentence) name,
  MROCE_SIM_DROPS(MROCE_SIM_DROP)
#undef MROCE_SIM_DROP
      count
};
inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::count);

struct SwitchCounters {
  std::array<uint64_t, kDropReasons> drops{};
  uint64_t dropped_bytes = 0;
  uint64_t marks = 0;
  uint64_t pauses_sent = 0;
  uint64_t resumes_sent = 0;
  uint64_t max_buffered = 0;  // bytes in the switch; only where occupancy counts
  // Filled in at the end from the links.
  uint64_t packets_in = 0;
  uint64_t bytes_in = 0;
  uint64_t packets_out = 0;
  uint64_t bytes_out = 0;   // that the far ends have seen
  uint64_t bytes_held = 0;  // queued, or on the links that leave
  uint64_t max_queue = 0;   // bytes, of a port
  SimTime paused_time = 0;  // sum over its ports and classes: how long neighbours have paused it

  uint64_t dropped() const {
    uint64_t sum = 0;
    for (const uint64_t n : drops) sum += n;
    return sum;
  }
};

struct Switch {
  uint64_t buffered = 0;  // bytes
  uint64_t shared = 0;    // of these, in the shared buffer
  Rng rng{0};
  SwitchCounters counters;
};

// Occupancy by the port that packets came in by; only where it counts.
struct Ingress {
  std::array<uint32_t, kClasses> bytes{};
  std::array<uint32_t, kClasses> in_headroom{};
  uint64_t headroom = 0;  // limit, of each class
  uint32_t pausing = 0;   // bit: class
};

struct Host {
  std::unique_ptr<Transport> transport;
  SimTime timer = kEndOfTime;  // of the pending event that counts
  uint32_t busy_ports = 0;     // bit: the port was full, and will pull by itself
  uint32_t pull_events = 0;    // bit: by an event that is pending
  uint32_t pausing = 0;        // bit: class that its slow receiver has paused
  PacketList received;         // waiting for the host to take them in
  SimTime receiving_until = 0;
  uint64_t received_bytes = 0;
  uint64_t receiver_drops = 0;
  uint64_t pauses_sent = 0;
};

struct Fabric {
  Fabric(const Topology& topology, const FabricConfig& config, uint32_t full_packet, uint64_t seed_of_run);

  const Topology& topology;
  FabricConfig config;
  Routing routing;
  uint64_t seed;
  uint32_t full_packet;           // bytes of the largest
  uint32_t host_links;            // links below are of hosts
  std::vector<Link> links;        // of the topology, then the far ends of those that cross partitions
  std::vector<uint32_t> far_end;  // of each link: its object at the far end, mostly itself
  std::vector<Switch> switches;
  std::vector<Ingress> ingress;  // [link that leaves the same port]
  std::vector<Host> hosts;

  // Splits the links between nodes of different partitions in two. Before anything runs.
  void cut(const std::vector<uint32_t>& partition_of);
  // Sets the backlog up to which nothing can happen to a new packet.
  void set_quiet(uint32_t link);
  std::unique_ptr<LinkTrouble> make_trouble(uint32_t link) const;
  uint64_t memory_bytes() const;
  uint64_t max_queue_bytes(uint32_t link) const;  // so far
  uint64_t queue_limit(uint32_t link) const {
    const uint64_t own = topology.links[link].queue_bytes;
    return own != 0 ? own : config.queue_bytes;
  }
  bool lossless(uint32_t priority) const { return (config.pfc.classes >> priority & 1) != 0; }
};

}  // namespace mroce::sim
