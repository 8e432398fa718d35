// TCP and workloads on the fabric of the simulator.

#include <gtest/gtest.h>

#include <sstream>

#include "sim/connection_matrix.h"
#include "sim/fat_tree.h"
#include "sim/flow_results.h"
#include "sim/leaf_spine.h"
#include "sim/run.h"
#include "sim/tcp_transport.h"
#include "sim/workload_generators.h"

namespace mroce::sim {
namespace {

TransportFactory tcp(TcpOptions options = {}) {
  return [options](const HostContext& context) { return std::make_unique<TcpTransport>(context, options); };
}

TcpOptions dctcp() {
  TcpOptions options;
  options.control = TcpControl::kDctcp;
  return options;
}

Topology small_fabric() {
  LeafSpineSpec spec;
  spec.leaves = 4;
  spec.hosts_per_leaf = 4;
  spec.spines = 4;
  return make_leaf_spine(spec).value();
}

RunOptions lossy(uint64_t mark_bytes = 0) {
  RunOptions options;
  options.fabric.queue_bytes = 628'160;
  if (mark_bytes != 0) options.fabric.set_ecn({mark_bytes, mark_bytes, 1});
  return options;
}

struct Outcome {
  RunResult result;
  std::string table;
};

Outcome simulate(WorkloadResult workload, const RunOptions& options, const TcpOptions& with) {
  auto result = run(small_fabric(), options, workload->flows, tcp(with), workload->scheduler.get());
  EXPECT_TRUE(result) << result.error();
  std::ostringstream out;
  write_flow_table(out, workload->flows, [](const Flow&) { return microseconds(10); });
  EXPECT_TRUE(result->complete) << result->trouble;
  EXPECT_EQ(result->transport.payload_bytes, workload->bytes());
  return {*result, out.str()};
}

TEST(TcpOnFabric, all_kinds_of_triggers_fire) {
  const auto path = std::string(MROCE_TEST_DATA) + "/triggers.cm";
  simulate(read_connection_matrix(path), lossy(), {});
}

TEST(TcpOnFabric, a_ring_all_reduce_ends_and_does_not_depend_on_threads) {
  const auto on = [](uint32_t threads) {
    RunOptions options = lossy(100'000);
    options.threads = threads;
    return simulate(make_ring_all_reduce(16, {.bytes = 1 << 20, .channels = 2, .ranks = {}}), options,
                    dctcp());
  };
  const Outcome one = on(1);
  EXPECT_EQ(one.table, on(2).table);
  EXPECT_EQ(one.result.transport.timeouts, 0u);
}

TEST(TcpOnFabric, an_all_to_all_with_a_window_ends_and_does_not_depend_on_threads) {
  const auto on = [](uint32_t threads) {
    RunOptions options = lossy();
    options.threads = threads;
    return simulate(make_all_to_all(16, 200'000, 3), options, {}).table;
  };
  EXPECT_EQ(on(1), on(2));
}

TEST(TcpOnFabric, an_incast_of_dctcp_loses_less_than_one_of_reno) {
  const auto drops = [](const TcpOptions& with) {
    const Outcome outcome = simulate(make_incast(16, 15, 2 << 20), lossy(130'000), with);
    return outcome.result.transport.retransmissions;
  };
  const uint64_t reno = drops({});
  EXPECT_GT(reno, 0u);
  EXPECT_LT(drops(dctcp()), reno / 4);
}

TEST(TcpOnFabric, uses_all_planes) {
  LeafSpineSpec spec;
  spec.planes = 4;
  const Topology topology = make_leaf_spine(spec).value();
  Workload workload;
  for (uint32_t i = 0; i < 64; ++i) {
    Flow flow;
    flow.id = i + 1;
    flow.source = 0;
    flow.destination = 1 + i % 60;
    flow.bytes = 2 << 20;
    workload.flows.push_back(flow);
  }
  const auto result = run(topology, lossy(), workload.flows, tcp());
  ASSERT_TRUE(result && result->complete);
  // One plane alone would take 64 * 2 MiB / 400 Gbit/s.
  EXPECT_LT(result->last_finish, serialisation(64ULL * (2 << 20), 400'000'000'000) / 2);
}

}  // namespace
}  // namespace mroce::sim
