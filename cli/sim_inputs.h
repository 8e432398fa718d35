// What a simulation runs on and what runs on it: topologies and workloads, from files or made to order.
#pragma once

#include <string>

#include "cli/outcome.h"
#include "sim/topology.h"
#include "sim/workload.h"

namespace mroce::cli {

// Files are told apart by their first word: "Nodes" begins htsim's .topo and .cm, a number begins the files
// of HPCC and ConWeave. `planes` multiplies the planes of whatever can have several.
Outcome<sim::Topology> read_topology(const std::string& path, uint32_t planes);
Outcome<sim::Workload> read_workload(const std::string& path, uint32_t hosts);

// "fat-tree:hosts=128,rate=400G" and the like; "permutation:size=2M" and the like.
Outcome<sim::Topology> make_topology(const std::string& text, uint32_t planes);
Outcome<sim::Workload> make_workload(const std::string& text, uint32_t hosts, uint64_t seed);

extern const char* const kFabricHelp;
extern const char* const kLoadHelp;

}  // namespace mroce::cli
