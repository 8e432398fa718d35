// Times against the closed form, conservation, determinism.

#include <gtest/gtest.h>

#include "sim/fat_tree.h"
#include "sim/random_scenario.h"
#include "sim/test_run.h"

namespace mroce::sim {
namespace {

constexpr uint64_t kRate = 400'000'000'000;

SimTime wire_time(uint32_t bytes) {
  return serialisation(bytes, kRate);
}

Topology leaf_spine(uint32_t leaves = 4, uint32_t hosts = 4, uint32_t spines = 4) {
  LeafSpineSpec spec;
  spec.leaves = leaves;
  spec.hosts_per_leaf = hosts;
  spec.spines = spines;
  return make_leaf_spine(spec).value();
}

TEST(Fabric, one_packet_takes_the_sum_of_its_links) {
  const Topology topology = leaf_spine();
  std::vector<Flow> flows{make_flow(0, 0, 15, 4096), make_flow(1, 4, 5, 4096)};
  const RunResult result = test_run(topology, test_options(), flows);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(flows[0].received, 4 * (microseconds(1) + wire_time(4160)));
  EXPECT_EQ(flows[0].finished, flows[0].received + 4 * (microseconds(1) + wire_time(64)));
  EXPECT_EQ(flows[1].received, 2 * (microseconds(1) + wire_time(4160)));
  EXPECT_EQ(result.base_rtt, flows[0].finished);
  EXPECT_EQ(result.fabric.hops, 4U + 4 + 2 + 2);
}

TEST(Fabric, latency_of_switches_is_added_once_a_switch) {
  FatTreeSpec spec = full_fat_tree(4, kRate, microseconds(1));
  spec.tier[0].switch_delay = nanos(100);
  spec.tier[1].switch_delay = nanos(200);
  spec.tier[2].switch_delay = nanos(400);
  std::vector<Flow> flows{make_flow(0, 0, 15, 4096)};
  test_run(make_fat_tree(spec).value(), test_options(), flows);
  EXPECT_EQ(flows[0].received, 6 * (microseconds(1) + wire_time(4160)) + nanos(2 * 100 + 2 * 200 + 400));
}

TEST(Fabric, one_flow_fills_its_link_to_the_last_picosecond) {
  const Topology topology = leaf_spine();
  const uint32_t packets = 1000;
  std::vector<Flow> flows{make_flow(0, 0, 15, packets * 4096ULL)};
  TestTransportOptions transport;
  transport.window = packets;
  test_run(topology, test_options(), flows, transport);
  EXPECT_EQ(flows[0].received, packets * wire_time(4160) + 3 * wire_time(4160) + 4 * microseconds(1));
}

TEST(Fabric, rates_that_do_not_divide_evenly_are_rounded_once_a_packet) {
  LeafSpineSpec spec;
  spec.host_rate_bps = spec.fabric_rate_bps = 300'000'000'000;
  std::vector<Flow> flows{make_flow(0, 0, 63, 4096 * 10)};
  TestTransportOptions transport;
  test_run(make_leaf_spine(spec).value(), test_options(), flows, transport);
  EXPECT_EQ(flows[0].received, 13 * serialisation(4160, spec.host_rate_bps) + 4 * microseconds(1));
}

TEST(Fabric, planes_carry_a_flow_each_at_full_rate) {
  LeafSpineSpec spec;
  spec.planes = 4;
  const Topology topology = make_leaf_spine(spec).value();
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 4; ++i) flows.push_back(make_flow(i, 0, 60, 100 * 4096));
  TestTransportOptions transport;
  transport.window = 100;
  test_run(topology, test_options(), flows, transport);
  for (const Flow& flow : flows) EXPECT_EQ(flow.received, 103 * wire_time(4160) + 4 * microseconds(1));
}

TEST(Fabric, every_pair_of_hosts_is_connected_in_every_topology) {
  LeafSpineSpec rails;
  rails.leaves = 8;
  rails.rails = 4;
  rails.hosts_per_leaf = 3;
  LeafSpineSpec sites = rails;
  sites.rails = 0;
  sites.planes = 2;
  sites.bundle = 2;
  sites.long_haul_cables = 3;
  sites.border_cables = 2;
  FatTreeSpec tree = full_fat_tree(4, kRate, nanos(500));
  tree.planes = 2;
  FatTreeSpec bundles;
  bundles.tiers = 2;
  bundles.hosts = 24;
  bundles.tier[0].down_ports = 4;
  bundles.tier[0].up_ports = 4;
  bundles.tier[1].bundle = 2;
  bundles.tier[1].down_ports = 12;
  for (const Topology& topology : {make_leaf_spine(rails).value(), make_leaf_spine(sites).value(),
                                   make_fat_tree(tree).value(), make_fat_tree(bundles).value()}) {
    std::vector<Flow> flows;
    for (uint32_t a = 0; a < topology.hosts; ++a) {
      for (uint32_t b = 0; b < topology.hosts; ++b) {
        if (a != b) flows.push_back(make_flow(a * topology.hosts + b, a, b, 9000));
      }
    }
    TestTransportOptions transport;
    transport.spray = true;
    const RunResult result = test_run(topology, test_options(), flows, transport);
    EXPECT_TRUE(result.complete) << topology.name << ": " << result.trouble;
    expect_conservation(result);
  }
}

TEST(Fabric, neighbours_on_a_rail_are_at_the_same_leaf) {
  LeafSpineSpec spec;
  spec.leaves = 8;
  spec.rails = 4;
  spec.hosts_per_leaf = 4;
  const Topology topology = make_leaf_spine(spec).value();
  std::vector<Flow> flows{make_flow(0, 1, 1 + 4, 4096), make_flow(1, 1, 2, 4096, microseconds(100))};
  test_run(topology, test_options(), flows);
  EXPECT_EQ(flows[0].received, 2 * (microseconds(1) + wire_time(4160)));
  EXPECT_EQ(flows[1].received - flows[1].start, 4 * (microseconds(1) + wire_time(4160)));
}

TEST(Fabric, results_are_the_same_on_1_2_and_4_threads_and_conserve_bytes) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario s = random_scenario(seed);
    std::string first;
    for (const uint32_t threads : {1U, 1U, 2U, 4U}) {
      s.options.threads = threads;
      const RunResult result = test_run(s.topology, s.options, s.flows, s.transport, nullptr, s.faults);
      expect_conservation(result);
      ASSERT_FALSE(HasFailure()) << "seed " << seed;
      const std::string print = fingerprint(result, s.flows);
      if (first.empty()) first = print;
      ASSERT_EQ(first, print) << "seed " << seed << ", " << threads << " threads";
    }
  }
}

TEST(Fabric, traffic_in_one_direction_does_not_use_up_memory_of_two_threads) {
  const Topology topology = leaf_spine(2, 4, 4);
  RunOptions options = test_options();
  options.threads = 2;
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 4; ++i) flows.push_back(make_flow(i, i, 4 + i, 400'000'000));
  TestTransportOptions transport;
  transport.ack_every = 32;
  const RunResult result = test_run(topology, options, flows, transport);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.partitions, 2U);
  // 390,625 packets of 128 bytes; a few hundred exist at a time, up to 16,384 idle in one pool.
  EXPECT_LE(result.packet_bytes, 16U << 20);
}

TEST(Fabric, another_seed_gives_another_run) {
  Scenario s = random_scenario(3);
  s.options.seed = 1;
  const std::string one =
      fingerprint(test_run(s.topology, s.options, s.flows, s.transport, nullptr, s.faults), s.flows);
  s.options.seed = 2;
  const std::string two =
      fingerprint(test_run(s.topology, s.options, s.flows, s.transport, nullptr, s.faults), s.flows);
  EXPECT_NE(one, two);
}

TEST(Fabric, a_run_that_cannot_finish_says_so) {
  const Topology topology = leaf_spine();
  std::vector<Flow> flows{make_flow(7, 0, 15, 4096), make_flow(8, 1, 15, 4096)};
  FaultPlan faults;
  add_outage(faults, find_links(topology, "host 1").value(), 0, kEndOfTime);
  const RunResult result = test_run(topology, test_options(), flows, {}, nullptr, faults);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.first_unfinished, 1U);
  EXPECT_EQ(result.trouble, "1 of 2 flows did not finish, the first is flow 8");
}

TEST(Fabric, wrong_flows_are_refused_with_a_sentence) {
  const Topology topology = leaf_spine();
  const auto error = [&](const Flow& flow) {
    std::vector<Flow> flows{flow};
    return run(topology, test_options(), flows, nullptr).error();
  };
  EXPECT_EQ(error(make_flow(3, 0, 16, 1)), "flow 3 goes from host 0 to host 16, but there are 16 hosts");
  EXPECT_EQ(error(make_flow(3, 4, 4, 1)), "flow 3 goes from host 4 to itself");
  EXPECT_EQ(error(make_flow(3, 4, 5, 0)), "flow 3 has no bytes");
  EXPECT_EQ(error(make_flow(3, 4, 5, 1, 0, 8)), "flow 3 has priority 8; 0 to 7 are possible");
}

// A ring: each flow starts when the one before is received, at its own host.
class Ring final : public FlowScheduler {
 public:
  explicit Ring(bool local) : local_(local) {}
  void on_host(uint32_t, const FlowNotice& notice, FlowStarts& starts) override {
    if (local_ && notice.event == FlowEvent::kReceived && notice.flow < 7)
      starts.push_back({notice.at, notice.flow + 1});
  }
  void on_fabric(const FlowNotice& notice, SimTime earliest, FlowStarts& starts) override {
    if (!local_ && notice.event == FlowEvent::kReceived && notice.flow < 7)
      starts.push_back({earliest, notice.flow + 1});
  }

 private:
  bool local_;
};

TEST(Fabric, triggers_start_flows_at_once_on_a_host_and_a_link_later_across_on_any_threads) {
  const Topology topology = leaf_spine();
  for (const bool local : {true, false}) {
    std::string first;
    for (const uint32_t threads : {1U, 3U}) {
      std::vector<Flow> flows;
      for (uint32_t i = 0; i < 8; ++i) flows.push_back(make_flow(i, i, i + 1, 4096, i == 0 ? 0 : kEndOfTime));
      Ring ring(local);
      RunOptions options = test_options();
      options.threads = threads;
      const RunResult result = test_run(topology, options, flows, {}, &ring);
      EXPECT_TRUE(result.complete);
      for (uint32_t i = 1; i < 8; ++i) {
        EXPECT_EQ(flows[i].started, flows[i - 1].received + (local ? 0 : microseconds(1)));
      }
      const std::string print = fingerprint(result, flows);
      if (first.empty()) first = print;
      EXPECT_EQ(first, print);
    }
  }
}

}  // namespace
}  // namespace mroce::sim
