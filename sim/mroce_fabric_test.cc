// mroce on simulated fabrics: what the rate hints, the DEGRADED state and the choice of paths are worth, each
// against the run without it.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/fat_tree.h"
#include "sim/flow_results.h"
#include "sim/mroce_setup.h"
#include "sim/test_run.h"

namespace mroce::sim {
namespace {

constexpr uint64_t kPacket = 4160;

RunOptions lossy_fabric() {
  RunOptions options = test_options();
  options.fabric.queue_bytes = 151 * kPacket;
  options.fabric.set_ecn({31 * kPacket, 121 * kPacket, 1});
  return options;
}

RunResult mroce_run(const Topology& topology, RunOptions options, std::vector<Flow>& flows,
                    const MroceOptions& settings = {}, const FaultPlan& faults = {}) {
  std::vector<MroceTransport*> transports;
  options.prepare = [&](SimTime base_rtt) { return open_connections(transports, flows, base_rtt); };
  const auto factory = [&](const HostContext& context) {
    auto transport = std::make_unique<MroceTransport>(context, settings);
    transports.push_back(transport.get());
    return transport;
  };
  auto result = run(topology, options, flows, factory, nullptr, faults);
  EXPECT_TRUE(result.has_value()) << result.error();
  return result.value_or(RunResult());
}

uint64_t drops(const RunResult& result) {
  uint64_t sum = 0;
  for (const SwitchCounters& each : result.switches) sum += each.dropped();
  return sum;
}

Topology leaf_spine(uint32_t leaves, uint32_t hosts_per_leaf, uint32_t spines, uint32_t planes = 1) {
  LeafSpineSpec spec;
  spec.leaves = leaves;
  spec.hosts_per_leaf = hosts_per_leaf;
  spec.spines = spines;
  spec.planes = planes;
  return make_leaf_spine(spec).value();
}

std::vector<Flow> incast(uint32_t hosts, uint32_t senders, uint64_t bytes) {
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < senders; ++i) {
    flows.push_back(make_flow(i + 1, 1 + i * (hosts - 1) / senders, 0, bytes));
  }
  return flows;
}

double last_finish_us(const std::vector<Flow>& flows) {
  SimTime last = 0;
  for (const Flow& flow : flows) last = std::max(last, flow.finished);
  return static_cast<double>(last) * 1e-6;
}

struct Incast {
  const char* name;
  uint32_t senders;
  uint64_t bytes;
};
class IncastOf : public testing::TestWithParam<Incast> {};

TEST_P(IncastOf, with_hints_drops_nothing_and_ends_within_three_percent_of_the_bound) {
  const Topology topology = leaf_spine(32, 16, 16);
  auto flows = incast(topology.hosts, GetParam().senders, GetParam().bytes);
  const RunResult result = mroce_run(topology, lossy_fabric(), flows);
  EXPECT_TRUE(result.complete) << result.trouble;
  expect_conservation(result);
  EXPECT_EQ(drops(result), 0u);
  EXPECT_EQ(result.transport.retransmissions, 0u);
  const uint64_t packets = GetParam().senders * ((GetParam().bytes + 4095) / 4096);
  const double bound_us = static_cast<double>(packets * serialisation(kPacket, 400'000'000'000)) * 1e-6;
  EXPECT_LT(last_finish_us(flows), bound_us * 1.03 + 15);  // and a round trip
  EXPECT_LT(result.max_queue_bytes, 151 * kPacket);
}

INSTANTIATE_TEST_SUITE_P(many, IncastOf,
                         testing::Values(Incast{"sixteen", 16, 1 << 20}, Incast{"sixty_four", 64, 1 << 19},
                                         Incast{"two_hundred_and_fifty_six", 256, 1 << 18}),
                         [](const auto& param) { return param.param.name; });

TEST(Incast, without_hints_drops_and_takes_longer) {
  const Topology topology = leaf_spine(32, 16, 16);
  MroceOptions settings;
  settings.hints = false;
  auto flows = incast(topology.hosts, 64, 1 << 19);
  const RunResult without = mroce_run(topology, lossy_fabric(), flows, settings);
  const double without_us = last_finish_us(flows);
  const RunResult with = mroce_run(topology, lossy_fabric(), flows);
  EXPECT_TRUE(without.complete);
  EXPECT_GT(drops(without), 1000u);
  EXPECT_EQ(drops(with), 0u);
  EXPECT_GT(without_us, last_finish_us(flows) * 1.02);
}

// Jain's index of what each sender has delivered after twenty round trips of an endless incast.
TEST(Incast, is_fair_after_twenty_round_trips) {
  const Topology topology = leaf_spine(16, 16, 8);
  auto flows = incast(topology.hosts, 64, 1 << 16);
  const RunResult result = mroce_run(topology, lossy_fabric(), flows);
  ASSERT_TRUE(result.complete);
  // All flows are equal, so equal rates mean equal completion times; 64 KiB from each take about 7 round
  // trips.
  std::vector<double> rates;
  for (const Flow& flow : flows) rates.push_back(1e6 / static_cast<double>(flow.finished - flow.started));
  EXPECT_LT(last_finish_us(flows), 20 * static_cast<double>(result.base_rtt) * 1e-6);
  EXPECT_GT(jain_index(rates), 0.95);
}

TEST(Outcast, of_one_sender_leaves_its_receivers_bandwidth_to_others) {
  // Host 0 sends to 1, 2 and 3, each of which host 4 + i wants to fill alone: the hint must not keep for host
  // 0 what it cannot use.
  const Topology topology = leaf_spine(4, 4, 4);
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 3; ++i) {
    flows.push_back(make_flow(10 + i, 0, 1 + i, 8 << 20));
    flows.push_back(make_flow(20 + i, 4 + i, 1 + i, 8 << 20));
  }
  const RunResult result = mroce_run(topology, lossy_fabric(), flows);
  ASSERT_TRUE(result.complete);
  EXPECT_EQ(drops(result), 0u);
  // Host 0 has a third of its port for each; the others get about two thirds of theirs: 8 MiB in 1.5 times
  // the time alone, or a little more while shares settle. With equal shares it would be twice.
  const double alone_us = 2048 * static_cast<double>(serialisation(kPacket, 400'000'000'000)) * 1e-6;
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_LT(static_cast<double>(flows[2 * i + 1].finished) * 1e-6, 1.75 * alone_us) << i;
  }
}

TEST(Permutation, of_all_hosts_runs_near_the_rate_of_the_links) {
  FatTreeSpec spec = full_fat_tree(8, 400'000'000'000, microseconds(1));
  const Topology topology = make_fat_tree(spec).value();
  std::vector<Flow> flows;
  for (uint32_t host = 0; host < topology.hosts; ++host) {
    flows.push_back(make_flow(host + 1, host, (host * 37 + 5) % topology.hosts, 1 << 20));
  }
  std::erase_if(flows, [](const Flow& flow) { return flow.source == flow.destination; });
  const RunResult result = mroce_run(topology, lossy_fabric(), flows);
  ASSERT_TRUE(result.complete);
  expect_conservation(result);
  EXPECT_EQ(drops(result), 0u);
  EXPECT_EQ(result.transport.payload_bytes, flows.size() << 20);
  const double ideal_us = 256 * static_cast<double>(serialisation(kPacket, 400'000'000'000)) * 1e-6 + 12.5;
  EXPECT_LT(last_finish_us(flows), 1.35 * ideal_us);
}

TEST(LossyLink, of_a_third_is_avoided) {
  const Topology topology = leaf_spine(2, 4, 8);
  const auto bad = find_links(topology, "leaf 0 spine 3");
  ASSERT_TRUE(bad.has_value()) << bad.error();
  FaultPlan faults;
  add_loss(faults, *bad, 0, 0.3);
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 4; ++i) flows.push_back(make_flow(i + 1, i, 4 + i, 64 << 20));
  auto healthy = flows;
  const RunResult lossless = mroce_run(topology, lossy_fabric(), healthy);
  const RunResult result = mroce_run(topology, lossy_fabric(), flows, {}, faults);
  ASSERT_TRUE(result.complete && lossless.complete);
  // An eighth of the paths loses 30 %: 3.75 % of the packets if nobody minds.
  EXPECT_LT(static_cast<double>(result.transport.retransmissions),
            0.015 * static_cast<double>(result.transport.data_packets));
  EXPECT_LT(last_finish_us(flows), 1.15 * last_finish_us(healthy));
}

TEST(Plane, that_dies_costs_its_share_and_no_more) {
  const Topology topology = leaf_spine(2, 4, 2, 4);
  const auto dead = find_links(topology, "plane 1");
  ASSERT_TRUE(dead.has_value()) << dead.error();
  FaultPlan faults;
  add_outage(faults, *dead, microseconds(100), kEndOfTime);
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 4; ++i) flows.push_back(make_flow(i + 1, i, 4 + i, 64 << 20));
  auto healthy = flows;
  mroce_run(topology, lossy_fabric(), healthy);
  const RunResult result = mroce_run(topology, lossy_fabric(), flows, {}, faults);
  ASSERT_TRUE(result.complete) << result.trouble;
  EXPECT_LT(last_finish_us(flows), 1.45 * last_finish_us(healthy));  // 4/3 after the first 100 us
}

TEST(Threads, do_not_change_what_mroce_does) {
  const Topology topology = leaf_spine(8, 8, 4, 2);
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 64; ++i)
    flows.push_back(make_flow(i + 1, i, (i * 5 + 9) % 64, 300'000 + i * 1000));
  std::erase_if(flows, [](const Flow& flow) { return flow.source == flow.destination; });
  std::string first;
  for (const uint32_t threads : {1u, 2u, 4u}) {
    RunOptions options = lossy_fabric();
    options.threads = threads;
    auto copy = flows;
    const RunResult result = mroce_run(topology, options, copy);
    ASSERT_TRUE(result.complete);
    const std::string print = fingerprint(result, copy);
    if (threads == 1) first = print;
    EXPECT_EQ(print, first) << threads;
  }
}

}  // namespace
}  // namespace mroce::sim
