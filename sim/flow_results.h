// What became of the flows of a run: a table, and a summary.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>

#include "sim/flow.h"

namespace mroce::sim {

// CSV, a line a flow in the order of the table, after a line of names:
//   id,src,dst,bytes,start_us,fct_us,received_us,slowdown
// Times are exact, in microseconds with six digits behind the point; `received_us`, like `fct_us`, counts
// from the start. Slowdown is FCT over `ideal`. What did not happen is empty.
void write_flow_table(std::ostream& out, std::span<const Flow> flows,
                      const std::function<SimTime(const Flow&)>& ideal);

// Of the flows that finished. Percentiles are nearest-rank: p99 of n flows is the ceil(0.99 n)-th smallest.
struct FlowSummary {
  uint64_t flows = 0;
  uint64_t finished = 0;
  uint64_t bytes = 0;  // of those that finished
  double fct_mean_us = 0;
  double fct_p50_us = 0;
  double fct_p99_us = 0;
  double fct_max_us = 0;
  double goodput_bps = 0;  // bytes, from the first start to the last finish
  double jain = 0;         // index of the flows' goodputs: 1 all equal, 1/n one has it all (Jain 1984)
};
FlowSummary summarise(std::span<const Flow> flows);

// The ceil(percent / 100 * n)-th smallest of `sorted`; 0 if it is empty.
SimTime nearest_rank(std::span<const SimTime> sorted, uint32_t percent);
// Jain's fairness index: (sum x)^2 / (n sum x^2). 0 if there is nothing to share.
double jain_index(std::span<const double> values);

// A flow alone: its packets back to back through a bottleneck, then the way of the last one and its
// acknowledgement.
struct IdealPath {
  uint64_t rate_bps = 0;
  uint32_t payload_mtu = 4096;
  uint32_t packet_overhead = 66;  // bytes on the wire beside the payload
  SimTime base_rtt = 0;           // full packet out, acknowledgement back
  SimTime fct(uint64_t bytes) const;
};

}  // namespace mroce::sim
