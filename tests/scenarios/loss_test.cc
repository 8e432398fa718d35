// Random and chosen losses: what they cost, and that they cost no more than time.
#include <algorithm>
#include <array>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

PairOptions on_slow_links(double loss, uint64_t seed = 1) {
  PairOptions options;
  options.seed = seed;
  options.faults.loss = loss;
  options.faults.rate_bps = 2500000000;  // of each path: 10 Gbit/s over four
  options.memory_bytes = 1 << 20;
  return options;
}

// Bytes a second of eight megabytes in messages of 256 KiB, sixteen outstanding.
double goodput(PairOptions options) {
  Pair pair(std::move(options));
  warm_up(pair);
  constexpr uint32_t kMessage = 1 << 18;
  constexpr uint64_t kMessages = 32;
  const Time begin = pair.now();
  for (uint64_t i = 0; i < kMessages; ++i) {
    const uint32_t at = kMessage * (i % 4);
    EXPECT_TRUE(pair.qa.write(i, {pair.ma.sge(at, kMessage)}, pair.mb.addr + at, pair.mb.rkey));
  }
  for (uint64_t i = 0; i < kMessages; ++i) EXPECT_TRUE(completes(pair, pair.qa, i));
  return kMessage * kMessages / (static_cast<double>((pair.now() - begin).count()) / 1e9);
}

struct LossCase {
  const char* name;
  double loss;
  double floor;  // share of the loss-free goodput
};

class RandomLoss : public testing::TestWithParam<LossCase> {};

TEST_P(RandomLoss, keeps_its_share_of_the_loss_free_goodput) {
  const double ideal = goodput(on_slow_links(0));
  constexpr size_t kRuns = 15;  // one run is short: whether its last packets are lost decides much of it
  std::array<double, kRuns> shares;
  for (size_t i = 0; i < kRuns; ++i) shares[i] = goodput(on_slow_links(GetParam().loss, i + 1)) / ideal;
  std::sort(shares.begin(), shares.end());
  const double median = shares[kRuns / 2];
  RecordProperty("share", std::to_string(median));
  std::printf("  goodput at %s loss: %.3f of the loss-free %.2f Gbit/s\n", GetParam().name, median,
              ideal * 8 / 1e9);
  EXPECT_GT(median, GetParam().floor);
}

INSTANTIATE_TEST_SUITE_P(both_ways, RandomLoss,
                         testing::Values(LossCase{"one_percent", 0.01, 0.95},
                                         LossCase{"ten_percent", 0.1, 0.9},
                                         LossCase{"twenty_percent", 0.2, 0.75}),
                         [](const auto& param) { return param.param.name; });

TEST(Loss, of_acknowledgements_alone_sends_little_again_because_they_repeat_what_they_said) {
  Pair pair(on_slow_links(0));
  warm_up(pair);
  pair.network().faults(1, 0).loss = 0.3;
  for (uint64_t i = 0; i < 200; ++i) write_and_wait(pair, i, 65536);
  const ConnectionStats stats = stats_of(pair.a, pair.b);
  std::printf("  %llu of %llu sent again, %llu given up\n",
              static_cast<unsigned long long>(stats.counters.retransmissions),
              static_cast<unsigned long long>(stats.counters.data_packets_sent),
              static_cast<unsigned long long>(stats.counters.lost));
  EXPECT_LT(stats.counters.lost * 35, stats.counters.data_packets_sent);
  for (const PathStats& path : stats.paths) {
    EXPECT_EQ(path.counters.failures, 0u);
    EXPECT_GT(path.counters.sent, stats.counters.data_packets_sent / 6) << "path " << uint32_t{path.id};
  }
}

TEST(Loss, the_tail_of_small_messages_at_ten_percent_stays_within_a_few_probe_timeouts) {
  Pair pair(on_slow_links(0.1));
  warm_up(pair);
  std::vector<Nanos> times;
  for (uint64_t i = 0; i < 200; ++i) times.push_back(write_and_wait(pair, i, 65536));
  std::ranges::sort(times);
  std::printf("  64 KiB at 10 %%: p50 %.0f us, p90 %.0f us, p99 %.0f us, max %.0f us\n", us(times[100]),
              us(times[180]), us(times[198]), us(times[199]));
  EXPECT_LT(times[100], millis(2));
  EXPECT_LT(times[198], millis(8));
  EXPECT_LT(times[199], millis(20));
}

TEST(Loss, the_tail_of_large_messages_at_one_percent_stays_near_the_ideal) {
  std::vector<Nanos> times;
  Pair pair(on_slow_links(0.01));
  warm_up(pair);
  for (uint64_t i = 0; i < 40; ++i) times.push_back(write_and_wait(pair, i, 1 << 20));
  std::ranges::sort(times);
  const Nanos ideal{int64_t{1 << 20} * 8 / 10};  // at 10 Gbit/s
  std::printf("  1 MiB at 1 %%: p50 %.0f us, p90 %.0f us, max %.0f us, ideal %.0f us\n", us(times[20]),
              us(times[36]), us(times[39]), us(ideal));
  EXPECT_LT(times[20], ideal * 3 / 2);
  EXPECT_LT(times[39], ideal * 4);
}

TEST(Loss, exactly_the_missing_packet_is_sent_again) {
  Pair pair;
  warm_up(pair);
  pair.network().drop_nth(20, [](const PacketView& p) { return p.is(wire::DataOp::kWrite); });
  Pair::fill(pair.bytes_a(0, 500000), 5);
  write_and_wait(pair, 1, 500000);
  EXPECT_TRUE(same(pair, 0, 0, 500000));
  pair.run_for(millis(100));
  EXPECT_EQ(stats_of(pair.a, pair.b).counters.lost, 1u);
  EXPECT_EQ(stats_of(pair.a, pair.b).counters.retransmissions, 1u);
  EXPECT_EQ(pair.b.look().counters().duplicates, 0u);
}

TEST(Loss, a_retransmission_that_is_lost_too_is_sent_again) {
  Pair pair;
  warm_up(pair);
  uint32_t victim = 0;
  uint32_t dropped = 0;
  uint64_t seen = 0;
  pair.network().add_filter([&](const PacketView& p) {
    if (!p.is(wire::DataOp::kWrite)) return false;
    if (seen++ == 20) victim = p.data()->cpsn;
    return seen > 20 && p.data()->cpsn == victim && dropped++ < 3;
  });
  write_and_wait(pair, 1, 500000);
  EXPECT_EQ(dropped, 4u) << "three times lost, then through";
  EXPECT_EQ(stats_of(pair.a, pair.b).counters.retransmissions, 3u);
}

TEST(Loss, a_lost_last_packet_is_repeated_after_one_probe_timeout) {
  Pair pair;
  warm_up(pair);
  pair.network().drop_nth(0, [](const PacketView& p) {
    return p.is(wire::DataOp::kWrite) && (p.header()->flags & wire::flag::kLast) != 0;
  });
  const Nanos took = write_and_wait(pair, 1, 65536);
  EXPECT_GT(took, micros(900)) << "the packet was not lost";
  EXPECT_LT(took, micros(1300)) << "pto_min is 1 ms";
  EXPECT_EQ(stats_of(pair.a, pair.b).counters.ptos, 1u);
}

TEST(Loss, the_probe_of_a_lost_tail_takes_another_path) {
  Pair pair;
  warm_up(pair);
  std::vector<uint8_t> paths;
  pair.network().add_filter([&](const PacketView& p) {
    if (!p.is(wire::DataOp::kWrite)) return false;
    paths.push_back(p.path);
    return paths.size() == 1;
  });
  write_and_wait(pair, 1, 100);
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_NE(paths[0], paths[1]);
}

TEST(Loss, lost_acknowledgements_alone_cost_no_retransmission_storm) {
  Pair pair;
  warm_up(pair);
  pair.network().add_filter(
      [rng = Rng(3)](const PacketView& p) mutable { return p.is(wire::Type::kAck) && rng.chance(0.1); });
  for (uint64_t i = 0; i < 20; ++i) write_and_wait(pair, i, 262144);
  const auto counters = stats_of(pair.a, pair.b).counters;
  // The vector and CACK of the next acknowledgement repeat what a lost one said; only tails need a probe.
  EXPECT_LT(counters.retransmissions, 60u);
  EXPECT_EQ(pair.b.memory().placed_bytes, 20u * 262144 + 64);
}

TEST(Loss, acknowledgements_that_are_lost_for_a_while_are_made_good) {
  Pair pair;
  warm_up(pair);
  const Time end = pair.now() + millis(200);
  pair.network().add_filter(
      [&pair, end](const PacketView& p) { return p.from == pair.b.index() && p.at < end; });
  const Nanos took = write_and_wait(pair, 1, 1 << 20);
  EXPECT_GT(took, millis(100));
  EXPECT_LT(took, millis(200) + millis(150)) << "pto_max is 100 ms";
  EXPECT_EQ(pair.b.memory().placed_bytes, (1u << 20) + 64) << "placed once, however often it came";
}

TEST(Loss, a_second_in_which_everything_is_lost_costs_time_and_no_path) {
  Pair pair;
  warm_up(pair);
  Pair::fill(pair.bytes_a(0, 1 << 20), 9);
  pair.network().drop_between(pair.now() + micros(40), pair.now() + seconds(1));
  const Nanos took = write_and_wait(pair, 1, 1 << 20);
  EXPECT_GT(took, seconds(1));
  EXPECT_LT(took, seconds(1) + millis(150));
  EXPECT_TRUE(same(pair, 0, 0, 1 << 20));
  for (const PathStats& path : stats_of(pair.a, pair.b).paths) {
    EXPECT_EQ(path.counters.failures, 0u) << "silence everywhere proves nothing about a path";
  }
  EXPECT_EQ(pair.qa.state(), QpState::kRts);
}

TEST(Loss, corrupted_datagrams_are_dropped_and_made_good) {
  PairOptions options;
  options.faults.corrupt = 0.05;
  Pair pair(options);
  Pair::fill(pair.bytes_a(0, 1 << 20), 11);
  write_and_wait(pair, 1, 1 << 20);
  EXPECT_TRUE(same(pair, 0, 0, 1 << 20));
  EXPECT_GT(pair.b.look().counters().drop_crc, 3u);
}

TEST(Loss, a_way_that_suddenly_swallows_all_large_packets_ends_in_an_error_and_not_in_silence) {
  Pair pair;
  warm_up(pair);
  pair.network().add_filter([](const PacketView& p) { return p.bytes.size() > 1500; });
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100000)}, pair.mb.addr, pair.mb.rkey));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr, seconds(20)));
  EXPECT_LE(pair.now() - begin, millis(5300)) << "although the peer answers every probe";
}

TEST(Loss, burst_losses_in_both_directions_do_not_break_a_bidirectional_stream) {
  PairOptions options;
  options.faults.burst_loss = 0.002;
  options.faults.burst_length = micros(300);
  options.faults.jitter = micros(3);
  options.faults.duplicate = 0.01;
  Pair pair(options);
  Pair::fill(pair.bytes_a(0, 500000), 1);
  Pair::fill(pair.bytes_b(500000, 500000), 2);
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.qa.write(i, {pair.ma.sge(0, 500000)}, pair.mb.addr, pair.mb.rkey));
    ASSERT_TRUE(pair.qb.write(i, {pair.mb.sge(500000, 500000)}, pair.ma.addr + 500000, pair.ma.rkey));
  }
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(completes(pair, pair.qa, i));
    EXPECT_TRUE(completes(pair, pair.qb, i));
  }
  EXPECT_TRUE(same(pair, 0, 0, 1000000));
}

}  // namespace
}  // namespace mroce::test
