// Topology: hosts, switches, directed links, and what routing needs to know of each switch.
//
// Nodes are numbered: hosts from 0, switches from `hosts`. The links that leave a node are numbered in one
// row: port p of host h has link h * planes + p; port p of a switch has link first_link + p, its ports
// downwards first, then those upwards. Each link has a reverse link, so a port's incoming link is
// links[first_link + p].reverse.
//
// Generated fabrics are trees as far as routing goes: a switch knows the range of host places below it.
// A destination in the range is reached through the one bundle that leads to it, any other through any port
// upwards. That makes a next hop a few integer operations. Graphs from files have tables instead (routing.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "sim/time.h"

namespace mroce::sim {

struct LinkSpec {
  uint32_t from = 0;  // nodes
  uint32_t to = 0;
  uint32_t reverse = 0;  // link
  uint64_t rate_bps = 0;
  SimTime delay = 0;         // propagation, and the latency of the switch that it leads to
  double loss = 0;           // probability of a packet
  uint64_t queue_bytes = 0;  // of the port that sends, a class; 0: as the run says
};

struct SwitchSpec {
  uint32_t first_link = 0;
  uint32_t ports = 0;
  uint32_t tier = 0;  // 0: leaf
  uint32_t plane = 0;
  uint32_t index = 0;  // in its tier and plane, for names
  // Trees only. Host places [low, high) are below; each group of `bundle` ports leads to `per_bundle` places.
  uint32_t low = 0;
  uint32_t high = 0;
  uint32_t per_bundle = 1;
  uint32_t bundle = 1;
  uint32_t up_ports = 0;
};

struct GraphRoutes;  // routing.h

struct Topology {
  std::string name;
  uint32_t hosts = 0;
  uint32_t planes = 1;
  uint32_t tiers = 0;
  std::vector<SwitchSpec> switches;
  std::vector<LinkSpec> links;
  std::vector<uint32_t> place;               // of each host in the order of leaves; empty: its number
  std::shared_ptr<const GraphRoutes> graph;  // null: a tree

  uint32_t nodes() const { return hosts + static_cast<uint32_t>(switches.size()); }
  bool is_host(uint32_t node) const { return node < hosts; }
  const SwitchSpec& switch_of(uint32_t node) const { return switches[node - hosts]; }
  uint32_t place_of(uint32_t host) const { return place.empty() ? host : place[host]; }
  uint32_t first_link(uint32_t node) const {
    return is_host(node) ? node * planes : switch_of(node).first_link;
  }

  // "host 3", "leaf 2", "spine 1", "core 0", "border 1", "switch 7"; ", plane 1" where there are several.
  std::string node_name(uint32_t node) const;
  const char* node_kind(uint32_t node) const;
  std::string link_name(uint32_t link) const;  // "leaf 2 -> spine 1"
  SimTime min_delay() const;
  // A full packet of `bytes` out and an acknowledgement of `ack_bytes` back over the longest shortest way,
  // nothing else on it.
  SimTime base_rtt(uint32_t bytes, uint32_t ack_bytes) const;
  uint64_t memory_bytes() const;
};

inline constexpr uint32_t kMaxHosts = 1U << 20;
inline constexpr uint32_t kMaxLinks = 1U << 24;
inline constexpr uint32_t kMaxPorts = UINT16_MAX;  // of a switch

// The error is a sentence, with file and line where it comes from a file.
using TopologyResult = tl::expected<Topology, std::string>;

// Collects nodes and cables; finish() numbers the links. Ports of a node are in the order of its cables.
class TopologyBuilder {
 public:
  struct Direction {
    uint64_t rate_bps = 0;
    SimTime delay = 0;
    double loss = 0;
    uint64_t queue_bytes = 0;
  };

  TopologyBuilder(std::string name, uint32_t hosts, uint32_t planes);
  uint32_t add_switch(const SwitchSpec& spec);  // returns the node; links and ports are filled in by finish()
  void connect(uint32_t a, uint32_t b, const Direction& forth, const Direction& back);
  SwitchSpec& switch_of(uint32_t node) { return topology_.switches[node - topology_.hosts]; }
  TopologyResult finish();

 private:
  struct Cable {
    uint32_t a, b;
    Direction forth, back;
  };
  Topology topology_;
  std::vector<Cable> cables_;
};

}  // namespace mroce::sim
