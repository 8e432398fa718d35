// PFC, headroom, slow receivers, credits, deadlock.

#include <gtest/gtest.h>

#include "sim/hpcc_topology.h"
#include "sim/test_run.h"

namespace mroce::sim {
namespace {

Topology two_leaves() {
  LeafSpineSpec spec;
  spec.leaves = 2;
  spec.spines = 2;
  return make_leaf_spine(spec).value();
}

// Hosts of both leaves send to host 0.
std::vector<Flow> incast(uint32_t senders = 15, uint64_t bytes = 400'000) {
  std::vector<Flow> flows;
  for (uint32_t i = 1; i <= senders; ++i) flows.push_back(make_flow(i, i, 0, bytes));
  return flows;
}

RunOptions pfc_options() {
  RunOptions options = test_options();
  options.fabric.pfc.classes = 1;
  options.fabric.pfc.xoff_bytes = 50'000;
  options.fabric.pfc.xon_gap_bytes = 8'320;
  return options;
}

TestTransportOptions wide_open() {
  TestTransportOptions transport;
  transport.window = 1000;
  return transport;
}

uint64_t drops(const RunResult& result, DropReason reason) {
  uint64_t sum = 0;
  for (const SwitchCounters& c : result.switches) sum += c.drops[static_cast<size_t>(reason)];
  return sum;
}

TEST(Lossless, a_class_with_enough_headroom_never_drops) {
  for (const bool dynamic : {false, true}) {
    RunOptions options = pfc_options();
    options.fabric.queue_bytes = 10'000;  // does not bind a lossless class
    if (dynamic) {
      options.fabric.pfc.xoff_bytes = 0;
      options.fabric.shared.bytes = 600'000;
    }
    std::vector<Flow> flows = incast();
    const RunResult result = test_run(two_leaves(), options, flows, wide_open());
    EXPECT_TRUE(result.complete) << result.trouble;
    EXPECT_EQ(result.fabric.switch_drops, 0U);
    EXPECT_GT(result.pauses_sent, 20U);
    EXPECT_GT(result.paused_time, 0);
    expect_conservation(result);
    // The receiver's link was never idle once it was busy: 15 times 98 packets, the last ends a little later.
    const SimTime bound =
        15 * (97 * serialisation(4160, 400'000'000'000) + serialisation(2752, 400'000'000'000));
    SimTime last = 0;
    for (const Flow& flow : flows) last = std::max(last, flow.received);
    EXPECT_GE(last, bound);
    EXPECT_LE(last, bound + microseconds(5));
  }
}

TEST(Lossless, a_cut_headroom_drops) {
  RunOptions options = pfc_options();
  options.fabric.pfc.headroom_bytes = 20'000;  // a link of 1 us each way needs 100,000 and more
  std::vector<Flow> flows = incast();
  const RunResult result = test_run(two_leaves(), options, flows, wide_open());
  EXPECT_FALSE(result.complete);
  EXPECT_GT(drops(result, DropReason::headroom), 0U);
  EXPECT_EQ(drops(result, DropReason::headroom), result.fabric.switch_drops);
  expect_conservation(result);
}

TEST(Lossless, the_computed_headroom_is_needed_almost_whole) {
  RunOptions options = pfc_options();
  std::vector<Flow> flows = incast();
  options.fabric.pfc.headroom_bytes = 112'480;  // 100,000 flying, and three packets
  EXPECT_EQ(test_run(two_leaves(), options, flows, wide_open()).fabric.switch_drops, 0U);
  options.fabric.pfc.headroom_bytes = 92'000;
  EXPECT_GT(test_run(two_leaves(), options, flows, wide_open()).fabric.switch_drops, 0U);
}

TEST(Lossless, a_slow_receiver_pauses_its_leaf_and_the_pause_spreads) {
  RunOptions options = pfc_options();
  options.fabric.nic.receive_bps = 100'000'000'000;
  options.fabric.nic.receive_buffer = 400'000;
  options.fabric.nic.receive_xoff = 100'000;
  std::vector<Flow> flows{make_flow(0, 15, 0, 4'000'000), make_flow(1, 14, 1, 400'000, microseconds(100))};
  const Topology topology = two_leaves();
  const RunResult result = test_run(topology, options, flows, wide_open());
  EXPECT_TRUE(result.complete) << result.trouble;
  EXPECT_EQ(result.fabric.switch_drops + result.fabric.receiver_drops, 0U);
  EXPECT_GT(result.switches[0].paused_time, microseconds(50)) << "leaf of the receiver";
  EXPECT_GT(result.switches[0].pauses_sent, 0U);
  EXPECT_GT(result.switches[1].pauses_sent, 0U) << "leaf of the sender pauses the sender's host";
  // 977 packets at 100 Gbit/s.
  EXPECT_GE(flows[0].received, 976 * serialisation(4160, 100'000'000'000));
  expect_conservation(result);
}

TEST(Lossless, a_slow_receiver_without_pause_drops) {
  RunOptions options = test_options();
  options.fabric.nic.receive_bps = 100'000'000'000;
  options.fabric.nic.receive_buffer = 100'000;
  std::vector<Flow> flows{make_flow(0, 15, 0, 4'000'000)};
  const RunResult result = test_run(two_leaves(), options, flows, wide_open());
  EXPECT_GT(result.fabric.receiver_drops, 100U);
  EXPECT_FALSE(result.complete);
}

TEST(Lossless, other_classes_pass_a_paused_one) {
  RunOptions options = pfc_options();
  std::vector<Flow> flows = incast(14);
  flows.push_back(make_flow(99, 15, 1, 4096, microseconds(30), 2));
  TestTransportOptions transport = wide_open();
  const RunResult result = test_run(two_leaves(), options, flows, transport);
  EXPECT_TRUE(result.complete);
  EXPECT_LT(flows.back().received - flows.back().start, microseconds(6));
}

TEST(Lossless, credits_never_drop_and_bound_every_buffer) {
  RunOptions options = test_options();
  options.fabric.credit.buffer_bytes = 120'000;
  std::vector<Flow> flows = incast();
  const Topology topology = two_leaves();
  const RunResult result = test_run(topology, options, flows, wide_open());
  EXPECT_TRUE(result.complete) << result.trouble;
  EXPECT_EQ(result.fabric.switch_drops, 0U);
  EXPECT_EQ(result.pauses_sent, 0U);
  for (size_t i = 0; i < result.switches.size(); ++i) {
    EXPECT_LE(result.switches[i].max_buffered, topology.switches[i].ports * 120'000ULL);
  }
  expect_conservation(result);
}

TEST(Lossless, a_link_with_little_credit_runs_at_credit_per_round_trip) {
  RunOptions options = test_options();
  options.fabric.credit.buffer_bytes = 4 * 4160;
  std::vector<Flow> flows{make_flow(0, 15, 0, 4096 * 1000)};
  const RunResult result = test_run(two_leaves(), options, flows, wide_open());
  EXPECT_TRUE(result.complete);
  // Credit of a packet comes back after: it arrived (83.2 ns + 1 us), was sent on (83.2 ns), and 1 us.
  const SimTime cycle = 2 * microseconds(1) + 2 * serialisation(4160, 400'000'000'000);
  EXPECT_NEAR(static_cast<double>(flows[0].received), 250.0 * static_cast<double>(cycle),
              static_cast<double>(4 * cycle));
}

// Five switches in a ring, a host at each; every host sends two switches onwards.
std::string ring() {
  std::string text = "10 5 10\n5 6 7 8 9\n";
  for (int i = 0; i < 5; ++i) text += fmt::format("{} {} 400Gbps 1us 0\n", i, 5 + i);
  for (int i = 0; i < 5; ++i) text += fmt::format("{} {} 100Gbps 1us 0\n", 5 + i, 5 + (i + 1) % 5);
  return text;
}

TEST(Lossless, a_circle_of_pauses_is_reported_as_a_deadlock) {
  const Topology topology = parse_hpcc_topology("ring", ring()).value();
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 5; ++i) flows.push_back(make_flow(i, i, (i + 2) % 5, 4'000'000));
  RunOptions options = pfc_options();
  const RunResult result = test_run(topology, options, flows, wide_open());
  EXPECT_FALSE(result.complete);
  EXPECT_TRUE(result.deadlock);
  EXPECT_NE(result.trouble.find("deadlock: 5 links wait for each other in a circle: "), std::string::npos)
      << result.trouble;
  expect_conservation(result);
  // Without pauses there is nothing to wait for.
  options.fabric.pfc = {};
  EXPECT_FALSE(test_run(topology, options, flows, wide_open()).deadlock);
}

}  // namespace
}  // namespace mroce::sim
