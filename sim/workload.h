// Workload: which flows there are, and which of them wait for others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "sim/flow.h"
#include "sim/scheduler.h"

namespace mroce::sim {

inline constexpr uint32_t kMaxFlows = 1U << 24;
inline constexpr uint64_t kMaxFlowBytes = 1ULL << 40;
inline constexpr uint32_t kMaxWorkloadHosts = 1U << 20;
inline constexpr SimTime kMaxStart = SimTime{1'000'000'000'000} * 86'400;  // a day

// Flows that belong together, neighbours in the table: a step of a collective, say.
struct FlowGroup {
  std::string name;
  uint32_t first = 0;
  uint32_t count = 0;
};

struct Workload {
  std::string name;
  uint32_t hosts = 0;  // that it is written for; flows are between hosts below it
  std::vector<Flow> flows;
  std::unique_ptr<FlowScheduler> scheduler;  // null: no flow waits for another
  std::vector<FlowGroup> groups;             // may be empty
  // HPCC flow files only: ports by flow (empty where the file has none), and the time of the file that is the
  // run's zero.
  std::vector<uint16_t> destination_ports;
  SimTime origin = 0;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const Flow& flow : flows) sum += flow.bytes;
    return sum;
  }
};

// The error is a sentence: what is wrong, where, and what to do.
using WorkloadResult = tl::expected<Workload, std::string>;

}  // namespace mroce::sim
