// Reader of the topology files of the HPCC and ConWeave simulators (ns-3): any graph.
//
//   <nodes> <switches> <links>
//   <id of each switch ...>
//   <node> <node> <rate> <delay> <loss>      for each link: 0 2 400Gbps 3000ns 0.01
//
// Hosts are the other nodes. They must have the lowest numbers, and one link each. Rates are written in bps,
// Kbps, Mbps, Gbps or Tbps, delays in s, ms, us, ns or ps. Loss counts in both directions.
#pragma once

#include <string_view>

#include "sim/topology.h"

namespace mroce::sim {

TopologyResult parse_hpcc_topology(std::string_view file, std::string_view text);

}  // namespace mroce::sim
