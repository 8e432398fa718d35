// One simulation, from the words of the command line to its report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/outcome.h"
#include "cli/sim_report.h"
#include "cli/sim_trace.h"
#include "sim/flow.h"
#include "sim/topology.h"
#include "sim/transport.h"

namespace mroce::cli {

struct SimOptions {
  std::string topology_file;
  std::string fabric;  // instead of a file
  std::string flow_file;
  std::string load;  // instead of a file
  std::string transport = "mroce";
  std::string loss;
  std::string limit = "10s";
  uint32_t planes = 1;
  uint32_t threads = 1;
  uint64_t seed = 1;
  std::vector<std::string> sets;
  std::vector<std::string> faults;
  std::string flow_table;  // to be written
  SimTraceOptions traces;
  bool json = false;
  bool csv = false;
};

struct Simulation {
  SimReport report;
  sim::Topology topology;
  sim::WireSize wire;
  uint32_t payload_mtu = 0;
  std::vector<sim::Flow> flows;
  // What the traces say about themselves.
  std::vector<std::string> written;
  std::vector<std::string> notices;
};

// The failure is one of the command line or of a file; flows that do not finish are in the report.
Outcome<Simulation> simulate(
    const SimOptions& options,
    const std::function<void(sim::SimTime now, uint64_t finished, uint64_t flows)>& progress);

}  // namespace mroce::cli
