// Leaf and spine, and what is built from it: rail-optimised fabrics and two sites.
//
// Rail-optimised: hosts are the NICs of servers with one for each GPU. NIC r of every server of a pod is at
// leaf r of the pod (its rail); host number = server * rails + r. Spines join all leaves.
//
// Two sites: each site is a leaf-spine fabric; the spines of a site have cables to its border switch, and the
// border switches are joined by long-haul cables. Hosts of the first site have the lower numbers.
#pragma once

#include <cstdint>

#include "sim/topology.h"

namespace mroce::sim {

struct LeafSpineSpec {
  uint32_t leaves = 8;  // of a site
  uint32_t hosts_per_leaf = 8;
  uint32_t spines = 8;
  uint32_t bundle = 1;  // cables between a leaf and a spine
  uint32_t planes = 1;
  uint64_t host_rate_bps = 400'000'000'000;
  uint64_t fabric_rate_bps = 400'000'000'000;
  SimTime host_delay = microseconds(1);
  SimTime fabric_delay = microseconds(1);
  SimTime switch_delay = 0;
  uint32_t rails = 0;  // 0: hosts in the order of leaves; else the leaves of a pod
  // Two sites:
  uint32_t long_haul_cables = 0;  // 0: one site
  uint64_t long_haul_rate_bps = 400'000'000'000;
  SimTime long_haul_delay = microseconds(500);  // 100 km of fibre
  uint32_t border_cables = 1;                   // from each spine to the border switch
};

TopologyResult make_leaf_spine(const LeafSpineSpec& spec);

}  // namespace mroce::sim
