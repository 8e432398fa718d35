// A run as a trace-event file ("Trace Event Format", JSON) for ui.perfetto.dev and chrome://tracing.
//
// A process for each link that has something to show: counters of its queue and throughput, its pauses as
// slices of a thread for each class, drops and marks as instants. A process for each host with flows: a slice
// from start to finish for each flow that it sends, on as many threads as flows overlap. Times are exact to
// the picosecond.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

#include "sim/flow.h"
#include "sim/incidents.h"
#include "sim/link_samples.h"
#include "sim/topology.h"

namespace mroce::sim {

inline constexpr size_t kMaxTracedFlows = 200'000;

struct PerfettoInput {
  const Topology& topology;
  std::span<const Flow> flows;  // those beyond kMaxTracedFlows are left out
  const LinkSamples& samples;
  std::span<const size_t> columns;  // of the samples
  const Incidents& incidents;
  SimTime end = 0;         // of the run, and of flows that have not finished
  std::string other_data;  // a JSON object about the run
};

void write_perfetto(std::ostream& out, const PerfettoInput& input);

}  // namespace mroce::sim
