// Workloads that are made rather than read. All flows begin at time zero unless they wait for others.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/workload.h"

namespace mroce::sim {

WorkloadResult make_single_flow(uint32_t hosts, uint32_t source, uint32_t destination, uint64_t bytes);

// Each host sends to one other host and receives from one: a random cycle through all of them.
WorkloadResult make_permutation(uint32_t hosts, uint64_t bytes, uint64_t seed);

// `senders` hosts, evenly spread over all but `receiver`, send to it.
WorkloadResult make_incast(uint32_t hosts, uint32_t senders, uint64_t bytes, uint32_t receiver = 0);

// Each host sends to each other, in the order of their distance, with at most `window` flows of its own at a
// time (0: all). The next one starts when the source has the last acknowledgement of one.
WorkloadResult make_all_to_all(uint32_t hosts, uint64_t bytes, uint32_t window = 0);

struct RingOptions {
  uint64_t bytes = 0;           // of the buffer that is reduced, on each rank
  uint32_t channels = 1;        // rings side by side, each on its share of the buffer
  std::vector<uint32_t> ranks;  // hosts in the order of the ring; empty: all
};
// Reduce-scatter and all-gather around a ring (Patarasu and Yuan 2009): 2(N-1) steps, in each of which every
// rank sends one of N chunks to the next. A rank sends in a step when it has received in the step before.
WorkloadResult make_ring_all_reduce(uint32_t hosts, const RingOptions& options);

}  // namespace mroce::sim
