// How the nodes of a fabric are dealt out to threads.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/topology.h"

namespace mroce::sim {

struct Cut {
  std::vector<uint32_t> partition_of;  // each node
  uint32_t count = 1;
  SimTime lookahead = kEndOfTime;  // smallest delay of a link that crosses
};

// At most `wanted` partitions; fewer if a crossing link would have no delay. Hosts and the switches above a
// part of them go by place, so pods and leaves stay together; switches above all hosts are dealt out in turn.
Cut cut_fabric(const Topology& topology, uint32_t wanted);

}  // namespace mroce::sim
