// Helpers of the tests of runs.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/leaf_spine.h"
#include "sim/run.h"
#include "sim/test_transport.h"

namespace mroce::sim {

inline Flow make_flow(uint32_t id, uint32_t source, uint32_t destination, uint64_t bytes, SimTime start = 0,
                      uint8_t priority = 0) {
  Flow flow;
  flow.id = id;
  flow.source = source;
  flow.destination = destination;
  flow.bytes = bytes;
  flow.start = start;
  flow.priority = priority;
  return flow;
}

inline RunOptions test_options() {
  RunOptions options;
  options.wire.fixed = 64;
  return options;
}

inline RunResult test_run(const Topology& topology, const RunOptions& options, std::vector<Flow>& flows,
                          const TestTransportOptions& transport = {}, FlowScheduler* scheduler = nullptr,
                          const FaultPlan& faults = {}) {
  auto result = run(
      topology, options, flows,
      [&](const HostContext& context) { return std::make_unique<TestTransport>(context, transport); },
      scheduler, faults);
  EXPECT_TRUE(result.has_value()) << result.error();
  return result.value_or(RunResult());
}

// What came into a switch left it, was dropped, or is still there.
inline void expect_conservation(const RunResult& result) {
  for (size_t i = 0; i < result.switches.size(); ++i) {
    const SwitchCounters& c = result.switches[i];
    EXPECT_EQ(c.bytes_in, c.bytes_out + c.bytes_held + c.dropped_bytes) << "switch " << i;
  }
}

// Everything that must not depend on the number of threads.
inline std::string fingerprint(const RunResult& result, const std::vector<Flow>& flows) {
  std::string out = fmt::format("{} {} {} {} {} {} {} {}\n", result.complete, result.trouble,
                                result.flows_finished, result.simulated, result.last_finish,
                                result.max_queue_bytes, result.pauses_sent, result.paused_time);
#define MROCE_SIM_COUNTER(name, sentence) out += fmt::format(#name " {}\n", result.fabric.name);
  MROCE_SIM_FABRIC_COUNTERS(MROCE_SIM_COUNTER)
#undef MROCE_SIM_COUNTER
#define MROCE_SIM_COUNTER(name, sentence) out += fmt::format(#name " {}\n", result.transport.name);
  MROCE_SIM_TRANSPORT_COUNTERS(MROCE_SIM_COUNTER)
#undef MROCE_SIM_COUNTER
  for (const SwitchCounters& c : result.switches) {
    out += fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", c.packets_in, c.bytes_in, c.packets_out,
                       c.bytes_out, c.bytes_held, c.dropped_bytes, c.marks, c.pauses_sent, c.paused_time,
                       c.max_queue, c.max_buffered);
  }
  for (const Flow& flow : flows) out += fmt::format("{} {} {}\n", flow.started, flow.finished, flow.received);
  return out;
}

}  // namespace mroce::sim
