#include "sim/workload_generators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/workload_replay.h"

namespace mroce::sim {
namespace {

TEST(Generators, a_permutation_has_each_host_once_on_each_side_and_no_fixed_point) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const uint32_t hosts = 2 + 3 * seed;
    const auto workload = make_permutation(hosts, 1000, seed);
    ASSERT_TRUE(workload);
    std::set<uint32_t> sources, destinations;
    for (const Flow& flow : workload->flows) {
      EXPECT_NE(flow.source, flow.destination);
      sources.insert(flow.source);
      destinations.insert(flow.destination);
    }
    EXPECT_EQ(workload->flows.size(), hosts);
    EXPECT_EQ(sources.size(), hosts);
    EXPECT_EQ(destinations.size(), hosts);
  }
}

TEST(Generators, the_seed_alone_decides_a_permutation) {
  const auto to = [](uint64_t seed) {
    std::vector<uint32_t> out;
    const auto workload = make_permutation(64, 1, seed);
    for (const Flow& flow : workload->flows) out.push_back(flow.destination);
    return out;
  };
  EXPECT_EQ(to(1), to(1));
  EXPECT_NE(to(1), to(2));
}

TEST(Generators, incast_spreads_its_senders) {
  const auto workload = make_incast(128, 64, 2'097'152);
  ASSERT_TRUE(workload);
  ASSERT_EQ(workload->flows.size(), 64u);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(workload->flows[i].source, 1 + 127 * i / 64);
    EXPECT_EQ(workload->flows[i].destination, 0u);
  }
  const auto all = make_incast(9, 8, 1, 5);
  std::set<uint32_t> sources;
  for (const Flow& flow : all->flows) sources.insert(flow.source);
  EXPECT_EQ(sources.size(), 8u);
  EXPECT_FALSE(sources.contains(5));
}

uint32_t most_at_once(const Workload& workload, uint32_t host) {
  std::vector<std::pair<SimTime, int>> steps;
  for (const Flow& flow : workload.flows) {
    if (flow.source != host) continue;
    steps.emplace_back(flow.started, 1);
    steps.emplace_back(flow.finished, -1);
  }
  std::sort(steps.begin(), steps.end());
  int now = 0, most = 0;
  for (const auto& [at, change] : steps) most = std::max(most, now += change);
  return static_cast<uint32_t>(most);
}

TEST(Generators, all_to_all_keeps_to_its_window_and_starts_every_flow) {
  for (const uint32_t window : {0U, 1U, 3U, 20U}) {
    auto workload = make_all_to_all(9, 1000, window);
    ASSERT_TRUE(workload);
    WorkloadReplay replay(*workload);
    std::set<std::pair<uint32_t, uint32_t>> pairs;
    for (const Flow& flow : workload->flows) {
      EXPECT_NE(flow.finished, kEndOfTime);
      pairs.insert({flow.source, flow.destination});
    }
    EXPECT_EQ(pairs.size(), 72u);
    for (uint32_t host = 0; host < 9; ++host) {
      EXPECT_EQ(most_at_once(*workload, host), window == 0 || window > 8 ? 8u : window);
    }
  }
}

TEST(Generators, ring_all_reduce_moves_each_byte_twice_around_less_one_step_each) {
  for (const uint32_t channels : {1U, 2U, 3U}) {
    for (const uint32_t hosts : {2U, 3U, 8U}) {
      const uint64_t bytes = 100'003;
      auto workload = make_ring_all_reduce(hosts, {.bytes = bytes, .channels = channels, .ranks = {}});
      ASSERT_TRUE(workload);
      EXPECT_EQ(workload->flows.size(), size_t{2} * (hosts - 1) * hosts * channels);
      EXPECT_EQ(workload->bytes(), 2 * (hosts - 1) * bytes);
      WorkloadReplay replay(*workload);
      for (const Flow& flow : workload->flows) EXPECT_NE(flow.finished, kEndOfTime);
    }
  }
}

TEST(Generators, a_step_of_a_ring_waits_for_what_it_passes_on) {
  auto workload = make_ring_all_reduce(4, {.bytes = 4000, .channels = 1, .ranks = {3, 1, 0, 2}});
  ASSERT_TRUE(workload);
  WorkloadReplay replay(*workload);
  // Equal chunks and no delay: each step lasts as long as a chunk, on all ranks at once.
  ASSERT_EQ(workload->groups.size(), 6u);
  for (uint32_t step = 0; step < 6; ++step) {
    const FlowGroup& group = workload->groups[step];
    EXPECT_EQ(group.name, "channel 0 step " + std::to_string(step));
    for (uint32_t i = group.first; i < group.first + group.count; ++i) {
      EXPECT_EQ(workload->flows[i].started, SimTime{1000} * step);
    }
  }
  EXPECT_EQ(workload->flows[0].source, 3u);
  EXPECT_EQ(workload->flows[0].destination, 1u);
  EXPECT_EQ(workload->flows[3].source, 2u);
  EXPECT_EQ(workload->flows[3].destination, 3u);
}

// A rank passes on the chunk that it has just received: with chunks of different sizes, sizes travel.
TEST(Generators, chunks_keep_their_size_on_their_way_round) {
  const auto workload = make_ring_all_reduce(4, {.bytes = 4001, .channels = 1, .ranks = {}});
  for (uint32_t step = 1; step < 6; ++step) {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(workload->flows[step * 4 + rank].bytes,
                workload->flows[(step - 1) * 4 + (rank + 3) % 4].bytes);
    }
  }
}

TEST(Generators, refuse_what_cannot_be) {
  EXPECT_FALSE(make_permutation(1, 1, 1));
  EXPECT_FALSE(make_permutation(kMaxWorkloadHosts + 1, 1, 1));
  EXPECT_FALSE(make_permutation(4, 0, 1));
  EXPECT_FALSE(make_permutation(4, kMaxFlowBytes + 1, 1));
  EXPECT_FALSE(make_incast(4, 4, 1));
  EXPECT_FALSE(make_incast(4, 0, 1));
  EXPECT_FALSE(make_incast(4, 2, 1, 4));
  EXPECT_FALSE(make_single_flow(4, 1, 1, 1));
  EXPECT_FALSE(make_single_flow(4, 4, 1, 1));
  EXPECT_FALSE(make_all_to_all(0, 1));
  EXPECT_FALSE(make_all_to_all(1 << 19, 1));
  EXPECT_FALSE(make_ring_all_reduce(1, {.bytes = 10, .channels = 1, .ranks = {}}));
  EXPECT_FALSE(make_ring_all_reduce(4, {.bytes = 3, .channels = 1, .ranks = {}}));
  EXPECT_FALSE(make_ring_all_reduce(4, {.bytes = 30, .channels = 0, .ranks = {}}));
  EXPECT_FALSE(make_ring_all_reduce(4, {.bytes = 1 << 30, .channels = UINT32_MAX, .ranks = {}}));
  EXPECT_FALSE(make_ring_all_reduce(4, {.bytes = 30, .channels = 1, .ranks = {0, 1, 0}}));
  EXPECT_FALSE(make_ring_all_reduce(4, {.bytes = 30, .channels = 1, .ranks = {0, 4}}));
  EXPECT_FALSE(make_ring_all_reduce(1 << 20, {.bytes = 1 << 30, .channels = 1, .ranks = {}}));
}

}  // namespace
}  // namespace mroce::sim
