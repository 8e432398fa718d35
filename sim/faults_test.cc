#include "sim/faults.h"

#include <gtest/gtest.h>

#include "sim/fat_tree.h"
#include "sim/test_run.h"

namespace mroce::sim {
namespace {

constexpr uint64_t kRate = 400'000'000'000;

Topology two_leaves(uint32_t spines, uint32_t planes = 1) {
  LeafSpineSpec spec;
  spec.leaves = 2;
  spec.hosts_per_leaf = 4;
  spec.spines = spines;
  spec.planes = planes;
  return make_leaf_spine(spec).value();
}

TestTransportOptions resending() {
  TestTransportOptions transport;
  transport.window = 64;
  transport.resend_after = microseconds(50);
  return transport;
}

// Not inlined: GCC 12 then warns of a free that does not happen.
[[gnu::noinline]] std::string error_of(const Topology& topology, std::string_view name) {
  const auto links = find_links(topology, name);
  return links ? std::string() : links.error();
}

TEST(Faults, names_mean_links_in_both_directions) {
  const Topology topology = two_leaves(2, 2);
  const auto names = [&](std::string_view name) {
    std::vector<std::string> out;
    const std::vector<uint32_t> links = find_links(topology, name).value();
    for (const uint32_t link : links) out.push_back(topology.link_name(link));
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("host 3 port 1"), (Names{"host 3 -> leaf 0 plane 1", "leaf 0 plane 1 -> host 3"}));
  EXPECT_EQ(names("spine 1 leaf 0 plane 0"),
            (Names{"leaf 0 plane 0 -> spine 1 plane 0", "spine 1 plane 0 -> leaf 0 plane 0"}));
  EXPECT_EQ(names("leaf 0 spine 1").size(), 4U);
  EXPECT_EQ(names("spine 0 plane 1").size(), 4U);
  EXPECT_EQ(names("plane 1").size(), (8U + 4U) * 2);
}

TEST(Faults, names_that_mean_nothing_are_errors) {
  const Topology topology = two_leaves(2);
  const auto error = [&](std::string_view name) { return error_of(topology, name); };
  EXPECT_EQ(error(""), "'' names no link; say for example \"leaf 2 spine 1\"");
  EXPECT_EQ(error("leaf"), "'leaf' names no link; say for example \"leaf 2 spine 1\"");
  EXPECT_EQ(error("leaf x"), "'x' in 'leaf x' is not a number");
  EXPECT_EQ(error("leaf 99999999999"), "'99999999999' in 'leaf 99999999999' is not a number");
  EXPECT_EQ(error("tree 1"),
            "'tree' in 'tree 1' is not understood; known are at most two of host, leaf, aggregation, "
            "spine, core, "
            "border, switch, and plane or port");
  EXPECT_EQ(error("leaf 0 spine 7"), "no link of this topology is called 'leaf 0 spine 7'");
  EXPECT_EQ(error("host 0 host 1"), "no link of this topology is called 'host 0 host 1'");
}

TEST(Faults, a_link_loses_what_is_on_it_and_what_is_sent_while_it_is_down) {
  const Topology topology = two_leaves(1);
  std::vector<Flow> flows{make_flow(0, 0, 7, 100 * 4096)};
  FaultPlan faults;
  // Packets start on the spine's link at 83.2 ns * (n + 3) + 2 us, and take 83.2 ns + 1 us.
  add_outage(faults, find_links(topology, "leaf 1 spine 0").value(), microseconds(5), microseconds(6));
  TestTransportOptions transport;
  transport.window = transport.ack_every = 100;
  const RunResult result = test_run(topology, test_options(), flows, transport, nullptr, faults);
  // Started after 5 us - 1.0832 us and up to 6 us: 2.0832 us of packets, one each 83.2 ns.
  EXPECT_GE(result.fabric.lost, 25U);
  EXPECT_LE(result.fabric.lost, 26U);
  EXPECT_FALSE(result.complete);
  expect_conservation(result);
}

TEST(Faults, a_dead_way_is_avoided_after_the_time_to_reroute) {
  const Topology topology = two_leaves(2);
  for (const bool reroute : {false, true}) {
    std::vector<Flow> flows;
    for (uint32_t i = 0; i < 16; ++i) flows.push_back(make_flow(i, i % 4, 4 + i / 4, 200 * 4096));
    FaultPlan faults;
    add_outage(faults, find_links(topology, "leaf 0 spine 0").value(), microseconds(10), kEndOfTime);
    add_outage(faults, find_links(topology, "leaf 1 spine 0").value(), microseconds(10), kEndOfTime);
    RunOptions options = test_options();
    options.limit = microseconds(10'000);
    if (reroute) options.fabric.reroute_after = microseconds(20);
    const RunResult result = test_run(topology, options, flows, resending(), nullptr, faults);
    EXPECT_EQ(result.complete, reroute) << result.trouble;
    EXPECT_GT(result.fabric.lost, 0U);
  }
}

TEST(Faults, a_flapping_link_loses_again_and_again_and_the_flow_ends) {
  const Topology topology = two_leaves(1);
  FaultPlan faults;
  const auto links = find_links(topology, "leaf 1 spine 0").value();
  ASSERT_TRUE(
      add_flapping(faults, links, microseconds(10), microseconds(2000), microseconds(100), microseconds(20)));
  EXPECT_EQ(faults.size(), 20U * 2 * links.size());
  std::vector<Flow> flows{make_flow(0, 0, 7, 5000 * 4096)};
  const RunResult result = test_run(topology, test_options(), flows, resending(), nullptr, faults);
  EXPECT_TRUE(result.complete);
  EXPECT_GE(result.transport.timeouts, 5U);
  EXPECT_FALSE(add_flapping(faults, links, 0, microseconds(10), microseconds(5), microseconds(5)));
  EXPECT_FALSE(add_flapping(faults, links, 0, kEndOfTime, microseconds(5), microseconds(1)));
  EXPECT_FALSE(add_flapping(faults, std::vector<uint32_t>(1000, 0), 0, kEndOfTime, 2, 1));
}

TEST(Faults, a_port_at_a_tenth_of_its_rate_takes_ten_times_as_long) {
  const Topology topology = two_leaves(1);
  std::vector<Flow> flows{make_flow(0, 0, 7, 1000 * 4096)};
  FaultPlan faults;
  add_rate(faults, find_links(topology, "leaf 1 spine 0").value(), 0, 0.1);
  TestTransportOptions transport;
  transport.window = 1000;
  test_run(topology, test_options(), flows, transport, nullptr, faults);
  const SimTime fast = serialisation(4160, kRate);
  EXPECT_EQ(flows[0].received, 4 * microseconds(1) + 3 * fast + 1000 * serialisation(4160, kRate / 10));
}

TEST(Faults, a_rate_that_changes_under_a_queue_counts_for_what_has_not_started) {
  const Topology topology = two_leaves(1);
  std::vector<Flow> flows{make_flow(0, 0, 3, 100 * 4096), make_flow(1, 1, 3, 100 * 4096)};
  FaultPlan faults;
  add_rate(faults, find_links(topology, "host 3").value(), microseconds(5), 0.5);
  TestTransportOptions transport;
  transport.window = 1000;
  const RunResult result = test_run(topology, test_options(), flows, transport, nullptr, faults);
  EXPECT_TRUE(result.complete);
  // The port to host 3 begins at 1.0832 us and sends a packet each 83.2 ns; 47 have ended before 5 us, one is
  // on.
  const SimTime fast = serialisation(4160, kRate);
  const SimTime begin = microseconds(1) + fast;
  const SimTime fast_packets = (microseconds(5) - begin + fast - 1) / fast;
  const SimTime expected = begin + fast_packets * fast + (200 - fast_packets) * 2 * fast + microseconds(1);
  EXPECT_EQ(std::max(flows[0].received, flows[1].received), expected);
}

TEST(Faults, random_loss_has_its_probability) {
  const Topology topology = two_leaves(1);
  FaultPlan faults;
  add_loss(faults, {topology.switches[2].first_link + 1}, 0, 0.1);  // spine 0 -> leaf 1
  std::vector<Flow> flows{make_flow(0, 0, 7, 10'000 * 4096)};
  TestTransportOptions transport;
  transport.window = 10'000;
  const RunResult result = test_run(topology, test_options(), flows, transport, nullptr, faults);
  EXPECT_NEAR(static_cast<double>(result.fabric.lost), 1000, 120);  // 4 sigma
  expect_conservation(result);
}

TEST(Faults, bursts_lose_a_share_of_the_time_in_the_bad_state) {
  const Topology topology = two_leaves(1);
  FaultPlan faults;
  add_burst_loss(faults, {topology.switches[2].first_link + 1}, 0, 0.01, 0.09, 1);  // bad a tenth of the time
  std::vector<Flow> flows{make_flow(0, 0, 7, 20'000 * 4096)};
  std::vector<std::vector<TestArrival>> record(topology.hosts);
  TestTransportOptions transport;
  transport.window = 20'000;
  transport.record = &record;
  const RunResult result = test_run(topology, test_options(), flows, transport, nullptr, faults);
  EXPECT_NEAR(static_cast<double>(result.fabric.lost), 2000, 600);
  // Gaps of more than a packet time between arrivals: about 200 bursts, not 2000 single losses.
  int gaps = 0;
  const auto& arrivals = record[7];
  for (size_t i = 1; i < arrivals.size(); ++i)
    gaps += arrivals[i].at - arrivals[i - 1].at > serialisation(4160, kRate);
  EXPECT_GT(gaps, 120);
  EXPECT_LT(gaps, 280);
}

TEST(Faults, a_plane_goes_down_and_the_others_do_not_notice) {
  const Topology topology = two_leaves(2, 4);
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 4; ++i) flows.push_back(make_flow(i, 0, 7, 100 * 4096));  // flow i uses port i
  FaultPlan faults;
  add_outage(faults, find_links(topology, "plane 2").value(), 0, kEndOfTime);
  TestTransportOptions transport;
  transport.window = 100;
  const RunResult result = test_run(topology, test_options(), flows, transport, nullptr, faults);
  EXPECT_EQ(result.flows_finished, 3U);
  EXPECT_EQ(result.first_unfinished, 2U);
}

}  // namespace
}  // namespace mroce::sim
