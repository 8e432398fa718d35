// Routing: the equal next links from a switch to a host.
//
// In a tree they are computed from the switch's range; in a graph they come from tables that hold each
// distinct set once. A link that is down may be excluded by its own switch: choose() then takes the next
// candidate that is not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/hash.h"
#include "sim/topology.h"

namespace mroce::sim {

inline constexpr uint32_t kBorderTier = 15;  // of the switches that join two sites

// Tables of a graph: for each switch and host the position of a set of links.
struct GraphRoutes {
  struct Set {
    uint32_t first = 0;  // in `members`
    uint32_t count = 0;  // 0: no way
  };
  std::vector<uint32_t> set_of;  // [switch * hosts + host]
  std::vector<Set> sets;
  std::vector<uint32_t> members;  // links

  uint64_t memory_bytes() const {
    return set_of.capacity() * 4 + sets.capacity() * sizeof(Set) + members.capacity() * 4;
  }
};

struct NextLinks {
  uint32_t first = 0;
  uint32_t count = 0;
  const uint32_t* members = nullptr;  // null: first, first + 1, ...

  uint32_t link(uint32_t index) const { return members != nullptr ? members[index] : first + index; }
};

// Spreads a hash evenly over [0, count).
inline uint32_t spread(uint32_t hash, uint32_t count) {
  return static_cast<uint32_t>((static_cast<uint64_t>(hash) * count) >> 32);
}

// What ECMP of one switch makes of a packet's hash.
inline uint32_t mix_hash(uint32_t hash, uint32_t seed) {
  return mix32(hash ^ seed);
}

class Routing {
 public:
  explicit Routing(const Topology& topology);

  void set_seed(uint32_t index, uint32_t seed) { nodes_[index].seed = seed; }
  uint32_t seed(uint32_t index) const { return nodes_[index].seed; }
  const void* address(uint32_t index) const { return &nodes_[index]; }  // for prefetching

  // Position of the link that ECMP of a switch takes among `count`.
  uint32_t spread_at(uint32_t index, uint32_t hash, uint32_t count) const {
    return spread(mix_hash(hash, nodes_[index].seed), count);
  }

  NextLinks next(uint32_t index, uint32_t destination) const {
    if (graph_ != nullptr) [[unlikely]]
      return next_in_graph(index, destination);
    const Node& node = nodes_[index];
    const uint32_t place = place_ == nullptr ? destination : place_[destination];
    const uint32_t offset = place - node.low;
    if (offset < node.span) {
      if (node.per_bundle == 1) return {node.down + offset * node.bundle, node.bundle, nullptr};
      return {node.down + offset / node.per_bundle * node.bundle, node.bundle, nullptr};
    }
    return {node.up, node.up_count, nullptr};
  }

 private:
  struct Node {
    uint32_t low = 0;
    uint32_t span = 0;
    uint32_t per_bundle = 1;
    uint32_t bundle = 1;
    uint32_t down = 0;
    uint32_t up = 0;
    uint32_t up_count = 0;
    uint32_t seed = 0;  // of the switch, for ECMP
  };
  NextLinks next_in_graph(uint32_t index, uint32_t destination) const;

  std::vector<Node> nodes_;
  const uint32_t* place_ = nullptr;
  const GraphRoutes* graph_ = nullptr;
  uint32_t hosts_ = 0;
};

// Of all sets of GraphRoutes together. Usual fabrics have a thousandth of it.
inline constexpr size_t kMaxRouteMembers = size_t{1} << 25;

// Shortest ways by breadth-first search from every host. `topology.links` must be complete. None: the sets of
// next links would have more than `max_members` members.
std::optional<GraphRoutes> shortest_routes(const Topology& topology, size_t max_members = kMaxRouteMembers);

}  // namespace mroce::sim
