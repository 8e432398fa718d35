// A run: a topology, a transport on each host, flows, faults; then results.
//
// The fabric is cut into as many partitions as there are threads. They run in windows no longer than the
// smallest delay of a link between them: what a window sends to another partition arrives after it. Results
// do not depend on the number of threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "sim/config.h"
#include "sim/fabric.h"
#include "sim/faults.h"
#include "sim/partition.h"
#include "sim/scheduler.h"
#include "sim/topology.h"
#include "sim/trace.h"
#include "sim/transport.h"

namespace mroce::sim {

using TransportFactory = std::function<std::unique_ptr<Transport>(const HostContext&)>;

inline constexpr uint32_t kMaxThreads = 64;

struct RunOptions {
  FabricConfig fabric;
  uint32_t threads = 1;
  SimTime limit = microseconds(10'000'000);  // of simulated time
  uint64_t seed = 1;
  uint32_t payload_mtu = 4096;
  WireSize wire;
  // Called when all transports are made, before time zero (set-up that is not simulated); an error text, or
  // empty.
  std::function<std::string(SimTime base_rtt)> prepare;
  // Called every now and then while the run goes on, on any thread, one at a time; may do nothing to the run.
  std::function<void(SimTime now, uint64_t flows_finished)> progress;
  TraceOptions trace;
};

struct RunResult {
  bool complete = false;  // every flow finished
  std::string trouble;    // if not: a sentence that says why, as far as is known
  uint64_t flows_finished = 0;
  uint64_t flows_received = 0;
  uint32_t first_unfinished = kNoFlow;  // position in the table
  bool limit_reached = false;           // something was still to happen at the limit of simulated time
  bool deadlock = false;                // packets wait and nothing will ever move them
  SimTime simulated = 0;                // time of the last event
  SimTime last_finish = 0;
  SimTime base_rtt = 0;
  FabricCounters fabric;
  TransportCounters transport;
  std::vector<SwitchCounters> switches;
  uint64_t max_queue_bytes = 0;  // of any port of a switch
  uint64_t pauses_sent = 0;
  SimTime paused_time = 0;

  // Depends on the number of threads; not part of what must be the same.
  uint32_t partitions = 1;
  uint64_t memory_bytes = 0;  // fabric, packets, events, transports
  uint64_t fabric_bytes = 0;
  uint64_t transport_bytes = 0;
  uint64_t packet_bytes = 0;
};

// Fills in the results of `flows`. The error is a sentence about the options, the topology or the flows.
tl::expected<RunResult, std::string> run(const Topology& topology, const RunOptions& options,
                                         std::vector<Flow>& flows, const TransportFactory& factory,
                                         FlowScheduler* scheduler = nullptr, const FaultPlan& faults = {});

}  // namespace mroce::sim
