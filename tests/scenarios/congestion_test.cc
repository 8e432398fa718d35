// What is congestion and what is not, seen from outside: windows in the statistics, packets in flight on the
// wire.
#include <map>
#include <memory>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

constexpr uint64_t kFullPacket = 4096 + 60;
constexpr uint64_t kInitialWindow = 32 * kFullPacket;

void transfer(Pair& pair, uint64_t megabytes) {
  for (uint64_t i = 0; i < megabytes; ++i) {
    EXPECT_TRUE(pair.qa.write(i, {pair.ma.sge(0, 1 << 20)}, pair.mb.addr, pair.mb.rkey));
  }
  for (uint64_t i = 0; i < megabytes; ++i) EXPECT_TRUE(completes(pair, pair.qa, i));
}

PairOptions with_faults(const Faults& faults, bool ecn = true) {
  PairOptions options;
  options.faults = faults;
  options.tweak = [ecn](EngineConfig& config) { config.ecn = ecn; };
  return options;
}

TEST(CongestionMarks, shrink_the_window_of_their_own_path_only) {
  Pair pair;
  warm_up(pair);
  pair.network().faults(pair.a.index(), pair.b.index(), 1).ce = 0.5;
  transfer(pair, 20);
  const ConnectionStats stats = stats_of(pair.a, pair.b);
  for (const PathStats& path : stats.paths) {
    if (path.id == 1) {
      EXPECT_LT(path.cwnd_bytes, kInitialWindow / 3);
      EXPECT_GT(path.counters.ce_marked, 10u);
    } else {
      EXPECT_GE(path.cwnd_bytes, kInitialWindow - kFullPacket);
      EXPECT_EQ(path.counters.ce_marked, 0u);
    }
  }
  EXPECT_EQ(stats.counters.retransmissions, 0u);
}

TEST(CongestionMarks, are_counted_exactly_although_acknowledgements_are_lost) {
  Faults faults;
  faults.ce = 0.3;
  Pair pair(with_faults(faults));
  uint64_t sent = 0;
  pair.network().on_sent(
      [&](const PacketView& p) { sent += p.from == pair.a.index() && p.is(wire::Type::kData) ? 1u : 0u; });
  pair.network().add_filter(
      [rng = Rng(5)](const PacketView& p) mutable { return p.is(wire::Type::kAck) && rng.chance(0.3); });
  transfer(pair, 4);
  const uint64_t marked = pair.network().counters().marked;
  pair.network().clear_filters();
  pair.network().faults().ce = 0;
  for (uint64_t i = 0; i < 40; ++i) write_and_wait(pair, i, 65536);  // news of every path
  pair.run_for(millis(20));
  uint64_t reported = 0, ce = 0;
  for (const PathStats& path : stats_of(pair.a, pair.b).paths) {
    reported += path.counters.rx_reported;
    ce += path.counters.ce_marked;
  }
  EXPECT_EQ(reported, sent);
  EXPECT_GT(marked, 100u);
  EXPECT_EQ(ce, marked - (stats_of(pair.b, pair.a).paths.empty() ? 0 : [&] {
                  uint64_t other = 0;  // of what B sent
                  for (const PathStats& path : stats_of(pair.b, pair.a).paths)
                    other += path.counters.ce_marked;
                  return other;
                }()));
}

TEST(RandomLosses, without_marks_or_delay_do_not_shrink_a_window) {
  Faults faults;
  faults.loss = 0.05;
  Pair pair(with_faults(faults));
  transfer(pair, 20);
  const ConnectionStats stats = stats_of(pair.a, pair.b);
  EXPECT_GT(stats.counters.lost, 100u);
  // Growth is bounded by the connection's window, so that the start is also about the end.
  for (const PathStats& path : stats.paths) EXPECT_GE(path.cwnd_bytes, kInitialWindow / 2);
}

TEST(RandomLosses, with_queueing_delay_shrink_the_window) {
  Faults faults;
  faults.rate_bps = 200000000;
  faults.queue_bytes = 65536;  // 2.6 ms; all windows together are far more
  Pair pair(with_faults(faults));
  transfer(pair, 8);
  const ConnectionStats first = stats_of(pair.a, pair.b);
  for (const PathStats& path : first.paths) EXPECT_LT(path.cwnd_bytes, kInitialWindow);
  transfer(pair, 8);
  const ConnectionStats second = stats_of(pair.a, pair.b);
  const uint64_t lost = second.counters.lost - first.counters.lost;
  const uint64_t sent = second.counters.data_packets_sent - first.counters.data_packets_sent;
  EXPECT_LT(lost, sent / 10) << "the queue is no longer overrun all the time";
}

TEST(RandomLosses, of_forty_percent_without_any_mark_count_as_congestion) {
  Faults faults;
  faults.loss = 0.4;
  Pair pair(with_faults(faults));
  transfer(pair, 8);
  uint64_t sum = 0;
  for (const PathStats& path : stats_of(pair.a, pair.b).paths) sum += path.cwnd_bytes;
  EXPECT_LT(sum, 4 * kInitialWindow);
}

TEST(ProbeTimeout, backs_off_to_its_maximum_and_does_not_flood) {
  PairOptions options;
  options.connection.timeout = 0;
  Pair pair(options);
  warm_up(pair);
  std::vector<Time> sent;
  pair.network().add_filter([&](const PacketView& p) {
    if (p.from == pair.a.index() && p.is(wire::Type::kData)) sent.push_back(p.at);
    return true;
  });
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(seconds(2));
  ASSERT_GE(sent.size(), 8u);
  EXPECT_LE(sent.size(), 40u);
  Nanos last{0};
  for (size_t i = 1; i < sent.size() && sent[i] - sent[0] < millis(200); ++i) {
    const Nanos gap = sent[i] - sent[i - 1];
    EXPECT_GE(gap, last) << "gap " << i;
    EXPECT_GE(gap, millis(1));
    last = gap;
  }
  for (size_t i = 1; i < sent.size(); ++i) EXPECT_LE(sent[i] - sent[i - 1], millis(101));
  EXPECT_GE(last, millis(60)) << "doubled each time";
}

TEST(ProbeTimeout, of_a_whole_window_gives_the_window_back) {
  PairOptions options;
  options.connection.timeout = 0;
  Pair pair(options);
  warm_up(pair);
  pair.network().drop_between(pair.now(), pair.now() + millis(700));
  const Nanos took = write_and_wait(pair, 1, 1 << 20);
  EXPECT_LT(took, millis(700) + millis(120));
}

// ---- the receiving host

// The most that A ever had unacknowledged during one megabyte, in bytes of packets.
uint64_t most_in_flight(Pair& pair) {
  struct Watch {
    std::map<uint32_t, size_t> open;
    uint64_t most = 0;
    bool active = true;
  };
  const auto watch = std::make_shared<Watch>();  // the network keeps the watcher
  pair.network().on_sent([watch, &pair](const PacketView& p) {
    if (!watch->active) return;
    auto& open = watch->open;
    if (p.from == pair.a.index() && p.data() != nullptr) open[p.data()->cpsn] = p.bytes.size();
    if (p.from == pair.b.index() && p.ack() != nullptr)
      std::erase_if(open,
                    [&](const auto& each) { return static_cast<int32_t>(each.first - p.ack()->cack) < 0; });
    uint64_t bytes = 0;
    for (const auto& [cpsn, size] : open) bytes += size;
    watch->most = std::max(watch->most, bytes);
  });
  write_and_wait(pair, 77, 1 << 20);
  watch->active = false;
  return watch->most;
}

TEST(HostPenalty, of_an_overflowing_receiver_shrinks_the_window_of_the_sender_and_passes) {
  Faults faults;
  faults.latency = micros(100);
  Pair pair(with_faults(faults));
  warm_up(pair);
  const uint64_t before = most_in_flight(pair);
  for (int i = 0; i < 8; ++i) {
    pair.b.engine().on_receive_overflow(pair.now(), 100);
    pair.run_for(micros(1100));
  }
  write_and_wait(pair, 1, 100);  // an acknowledgement brings the penalty
  const uint64_t during = most_in_flight(pair);
  EXPECT_LT(during, before / 3);
  EXPECT_EQ(pair.b.look().counters().socket_overflows, 800u);
  pair.run_for(seconds(1));
  write_and_wait(pair, 2, 100);
  EXPECT_GT(most_in_flight(pair), before * 9 / 10);
}

TEST(HostPenalty, of_a_slow_reader_keeps_its_losses_small) {
  World world(1);
  EndpointOptions slow;
  slow.read_rate_bps = 1000000000;
  slow.read_buffer_bytes = 200000;
  Endpoint& a = world.add_endpoint();
  Endpoint& b = world.add_endpoint(slow);
  const Mr ma = a.make_mr(1 << 20), mb = b.make_mr(1 << 20);
  const Qp qa = a.make_qp(), qb = b.make_qp();
  connect(qa, qb);
  const Time begin = world.now();
  for (uint64_t i = 0; i < 16; ++i) ASSERT_TRUE(qa.write(i, {ma.sge()}, mb.addr, mb.rkey));
  for (uint64_t i = 0; i < 16; ++i) EXPECT_TRUE(completes(world, qa, i));
  const double share = 16.0 * (1 << 20) * 8 / static_cast<double>((world.now() - begin).count());
  const auto counters = stats_of(a, b).counters;
  std::printf("  a reader of 1 Gbit/s with 200 kB of buffer gets %.2f Gbit/s, %.1f %% sent again\n", share,
              100.0 * static_cast<double>(counters.retransmissions) /
                  static_cast<double>(counters.data_packets_sent));
  EXPECT_GT(share, 0.6);
  EXPECT_LT(counters.retransmissions, counters.data_packets_sent / 4);
}

TEST(ReceiveBuffer, of_the_peer_bounds_what_is_in_flight) {
  PairOptions options;
  options.faults.latency = micros(100);
  options.tweak = [](EngineConfig& config) { config.receive_buffer_bytes = 100000; };
  Pair pair(options);
  warm_up(pair);
  EXPECT_LE(most_in_flight(pair), 50000u + 5000u) << "half of the buffer";
}

}  // namespace
}  // namespace mroce::test
