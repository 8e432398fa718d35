// ECMP, adaptive routing, ECN, queue limits, priorities and weights.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "sim/test_run.h"

namespace mroce::sim {
namespace {

constexpr uint64_t kRate = 400'000'000'000;
constexpr SimTime kPacketTime = serialisation(4160, kRate);

Topology two_leaves(uint32_t hosts, uint32_t spines) {
  LeafSpineSpec spec;
  spec.leaves = 2;
  spec.hosts_per_leaf = hosts;
  spec.spines = spines;
  return make_leaf_spine(spec).value();
}

TEST(Switch, ecmp_uses_as_many_of_the_ways_as_chance_says) {
  constexpr uint32_t kWays = 16;
  const Topology topology = two_leaves(kWays, kWays);
  constexpr int kRuns = 60;
  double used = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    std::vector<Flow> flows;
    for (uint32_t i = 0; i < kWays; ++i) flows.push_back(make_flow(i, i, kWays + i, 4096));
    RunOptions options = test_options();
    options.seed = seed;
    const RunResult result = test_run(topology, options, flows);
    for (uint32_t spine = 0; spine < kWays; ++spine) {
      used += result.switches[2 + spine].bytes_in >= 4160 ? 1 : 0;  // not only acknowledgements
    }
  }
  // n flows on k ways meet k (1 - (1 - 1/k)^n) of them: 10.3 of 16; the mean of 60 runs is within 0.5 (3.7
  // sigma).
  const double expected = kWays * (1 - std::pow(1 - 1.0 / kWays, kWays));
  EXPECT_NEAR(used / kRuns, expected, 0.5);
}

TEST(Switch, one_flow_stays_on_one_way_and_sprayed_packets_take_all) {
  const Topology topology = two_leaves(4, 4);
  for (const bool spray : {false, true}) {
    std::vector<Flow> flows{make_flow(0, 0, 7, 400 * 4096)};
    TestTransportOptions transport;
    transport.spray = spray;
    transport.ack_every = 400;
    const RunResult result = test_run(topology, test_options(), flows, transport);
    int used = 0;
    for (uint32_t spine = 2; spine < 6; ++spine) used += result.switches[spine].bytes_in > 10 * 4160 ? 1 : 0;
    EXPECT_EQ(used, spray ? 4 : 1);
  }
}

TEST(Switch, adaptive_routing_spreads_what_ecmp_lets_collide) {
  const Topology topology = two_leaves(8, 8);
  const auto last_received = [&](bool adaptive) {
    std::vector<Flow> flows;
    for (uint32_t i = 0; i < 8; ++i) flows.push_back(make_flow(i, i, 8 + i, 200 * 4096));
    RunOptions options = test_options();
    options.fabric.adaptive = adaptive;
    options.seed = 5;
    TestTransportOptions transport;
    transport.window = 1000;
    test_run(topology, options, flows, transport);
    SimTime last = 0;
    for (const Flow& flow : flows) last = std::max(last, flow.received);
    return last;
  };
  const SimTime ideal = 203 * kPacketTime + 4 * microseconds(1);
  EXPECT_LE(last_received(true), ideal + 10 * kPacketTime);
  EXPECT_GE(last_received(false), ideal + 190 * kPacketTime);
}

// Two hosts send to one at line rate: the queue grows by one packet per packet time.
TEST(Switch, a_step_marks_exactly_the_packets_that_find_more_than_the_threshold) {
  const Topology topology = two_leaves(4, 1);
  std::vector<Flow> flows{make_flow(0, 0, 2, 50 * 4096), make_flow(1, 1, 2, 50 * 4096)};
  RunOptions options = test_options();
  options.fabric.set_ecn({20 * 4160, 20 * 4160, 1});
  std::vector<std::vector<TestArrival>> record(topology.hosts);
  TestTransportOptions transport;
  transport.window = 100;
  transport.record = &record;
  const RunResult result = test_run(topology, options, flows, transport);
  ASSERT_EQ(record[2].size(), 100U);
  // Pairs arrive each packet time; of pair n (from 0) the first finds n packets and itself, the second one
  // more.
  uint64_t marked = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    const uint32_t depth = i / 2 + 1 + i % 2;
    EXPECT_EQ(record[2][i].marked, depth > 20) << "packet " << i;
    marked += record[2][i].marked ? 1 : 0;
  }
  EXPECT_EQ(result.fabric.marks, marked);
}

TEST(Switch, red_marks_a_share_that_grows_between_its_thresholds) {
  const EcnConfig red{100'000, 300'000, 0.5};
  EXPECT_EQ(red.probability(100'000), 0);
  EXPECT_DOUBLE_EQ(red.probability(200'000), 0.25);
  EXPECT_DOUBLE_EQ(red.probability(300'000), 0.5);
  EXPECT_EQ(red.probability(300'001), 1);
  const Topology topology = two_leaves(4, 1);
  std::vector<Flow> flows{make_flow(0, 0, 2, 2000 * 4096), make_flow(1, 1, 2, 2000 * 4096)};
  RunOptions options = test_options();
  options.fabric.set_ecn({0, 4000 * 4160, 0.5});  // the queue grows to 2000 packets: up to 0.25
  TestTransportOptions transport;
  transport.window = 4000;
  const RunResult result = test_run(topology, options, flows, transport);
  EXPECT_NEAR(static_cast<double>(result.fabric.marks), 4000 * 0.125, 100);  // 4.5 sigma
}

TEST(Switch, a_full_queue_drops_and_holds_exactly_its_limit) {
  const Topology topology = two_leaves(4, 1);
  std::vector<Flow> flows{make_flow(0, 0, 2, 50 * 4096), make_flow(1, 1, 2, 50 * 4096)};
  RunOptions options = test_options();
  options.fabric.queue_bytes = 10 * 4160;
  TestTransportOptions transport;
  transport.window = 100;
  const RunResult result = test_run(topology, options, flows, transport);
  // Pair n finds n packets: the first ten pairs find room for both but once, each later one for one packet.
  EXPECT_EQ(result.fabric.switch_drops, 41U);
  EXPECT_EQ(result.max_queue_bytes, 10U * 4160);
  expect_conservation(result);
}

TEST(Switch, a_shared_buffer_gives_each_queue_alpha_times_what_is_free) {
  const Topology topology = two_leaves(4, 1);
  RunOptions options = test_options();
  options.fabric.shared = {100 * 4160, 1};
  TestTransportOptions transport;
  transport.window = 1000;
  // One queue: q <= B - q, half of the buffer. Two queues: a third each.
  std::vector<Flow> one{make_flow(0, 0, 2, 200 * 4096), make_flow(1, 1, 2, 200 * 4096)};
  EXPECT_EQ(test_run(topology, options, one, transport).max_queue_bytes, 50U * 4160);
  std::vector<Flow> two{make_flow(0, 0, 6, 200 * 4096), make_flow(1, 1, 6, 200 * 4096),
                        make_flow(2, 2, 7, 200 * 4096), make_flow(3, 3, 7, 200 * 4096)};
  const RunResult result = test_run(two_leaves(8, 1), options, two, transport);
  EXPECT_GE(result.switches[0].max_buffered, 65U * 4160);
  EXPECT_LE(result.switches[0].max_buffered, 68U * 4160);
}

TEST(Switch, a_higher_priority_overtakes_all_that_waits) {
  const Topology topology = two_leaves(4, 1);
  std::vector<Flow> flows{make_flow(0, 0, 2, 100 * 4096), make_flow(1, 1, 2, 100 * 4096),
                          make_flow(2, 3, 2, 4096, microseconds(5), 6)};
  TestTransportOptions transport;
  transport.window = 100;
  test_run(topology, test_options(), flows, transport);
  const SimTime idle = 2 * (kPacketTime + microseconds(1));
  EXPECT_GE(flows[2].received - flows[2].start, idle);
  EXPECT_LT(flows[2].received - flows[2].start, idle + kPacketTime)
      << "waits for the packet being sent, at most";
}

TEST(Switch, packets_of_one_class_keep_their_order_when_another_cuts_in) {
  const Topology topology = two_leaves(4, 1);
  std::vector<Flow> flows{make_flow(0, 0, 2, 300 * 4096), make_flow(1, 1, 2, 300 * 4096, 0, 3)};
  for (uint32_t i = 0; i < 10; ++i) flows.push_back(make_flow(2 + i, 3, 2, 9000, microseconds(3 + i), 6));
  TestTransportOptions transport;
  transport.window = 300;
  const RunResult result = test_run(topology, test_options(), flows, transport);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.transport.out_of_order, 0U);
  expect_conservation(result);
}

TEST(Switch, weights_share_a_link) {
  const Topology topology = two_leaves(4, 1);
  std::vector<Flow> flows{make_flow(0, 0, 2, 400 * 4096, 0, 0), make_flow(1, 1, 2, 400 * 4096, 0, 1)};
  RunOptions options = test_options();
  options.fabric.weight = {1, 3, 0, 0, 0, 0, 0, 0};
  std::vector<std::vector<TestArrival>> record(topology.hosts);
  TestTransportOptions transport;
  transport.window = 400;
  transport.record = &record;
  test_run(topology, options, flows, transport);
  int of_class_1 = 0;
  for (uint32_t i = 40; i < 440; ++i) of_class_1 += record[2][i].priority == 1 ? 1 : 0;
  EXPECT_NEAR(of_class_1, 300, 4);
}

}  // namespace
}  // namespace mroce::sim
