// Fat tree: two or three tiers of switches, any radixes, bundles and oversubscription, 1 to 8 planes.
//
// Two tiers: every leaf has a bundle of cables to every spine. Three tiers: the leaves and aggregation
// switches of a pod are connected all to all; aggregation switch a of each pod has a bundle to each core of
// group a. Each plane is a fabric of its own; port i of every host is on plane i.
#pragma once

#include <array>
#include <cstdint>

#include "sim/topology.h"

namespace mroce::sim {

inline constexpr uint32_t kMaxPlanes = 8;

struct FatTreeTier {
  uint64_t down_rate_bps = 400'000'000'000;  // of each cable downwards
  SimTime down_delay = microseconds(1);
  SimTime switch_delay = 0;
  uint32_t down_ports = 0;
  uint32_t up_ports = 0;  // 0 in the highest tier
  uint32_t bundle = 1;    // cables between a switch of this tier and one below
  uint64_t up_queue_bytes = 0;
  uint64_t down_queue_bytes = 0;
};

struct FatTreeSpec {
  std::string name = "fat tree";
  uint32_t hosts = 0;
  uint32_t planes = 1;
  uint32_t tiers = 3;      // 2 or 3
  uint32_t pod_hosts = 0;  // three tiers
  std::array<FatTreeTier, 3> tier;
};

// Empty, or what is wrong.
std::string check_fat_tree(const FatTreeSpec& spec);
TopologyResult make_fat_tree(const FatTreeSpec& spec);

// The three-tier fat tree of switches with `radix` ports: radix^3 / 4 hosts, full bisection.
FatTreeSpec full_fat_tree(uint32_t radix, uint64_t rate_bps, SimTime delay);

}  // namespace mroce::sim
