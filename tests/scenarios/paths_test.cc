// Planes and paths: pairing, failure, return, and ways of unequal quality.
#include <map>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

PairOptions planes(uint32_t count, uint32_t paths) {
  PairOptions options;
  options.planes = count;
  options.paths = paths;
  options.faults.rate_bps = 2500000000;
  return options;
}

const PathStats& path_of(const ConnectionStats& stats, uint8_t id) {
  return stats.paths.at(id);
}

// Keeps a constant load of WRITEs going from A to B.
class Load {
 public:
  explicit Load(Pair& pair, uint64_t depth = 16) : pair_(pair), depth_(depth) { top_up(); }
  // Runs for this long; the bytes that were completed meanwhile.
  uint64_t run(Nanos duration) {
    const uint64_t before = completed_;
    const Time end = pair_.now() + duration;
    while (pair_.now() < end) {
      pair_.run_until([&] { return take(); }, end - pair_.now());
      top_up();
    }
    return (completed_ - before) * kBytes;
  }

 private:
  static constexpr uint32_t kBytes = 65536;
  bool take() {
    const auto done = pair_.a.poll_all(pair_.qa.send_cq);
    for (const Wc& wc : done) EXPECT_EQ(wc.status, WcStatus::kSuccess);
    completed_ += done.size();
    return !done.empty();
  }
  void top_up() {
    for (; posted_ < completed_ + depth_; ++posted_) {
      ASSERT_TRUE(pair_.qa.write(posted_, {pair_.ma.sge(0, kBytes)}, pair_.mb.addr, pair_.mb.rkey));
    }
  }
  Pair& pair_;
  uint64_t depth_;
  uint64_t posted_ = 0, completed_ = 0;
};

double gbps(uint64_t bytes, Nanos duration) {
  return static_cast<double>(bytes) * 8 / static_cast<double>(duration.count());
}

TEST(Planes, pair_up_by_subnet_and_all_carry_data) {
  Pair pair(planes(4, 8));
  std::map<std::pair<uint32_t, uint8_t>, uint64_t> used;  // local port, path
  pair.network().on_sent([&](const PacketView& p) {
    if (p.from == pair.a.index() && p.is(wire::Type::kData)) ++used[{p.port, p.path}];
  });
  warm_up(pair);
  for (uint64_t i = 0; i < 10; ++i) write_and_wait(pair, i, 1 << 20);
  const ConnectionStats stats = stats_of(pair.a, pair.b);
  ASSERT_EQ(stats.paths.size(), 8u);
  for (const PathStats& path : stats.paths) {
    EXPECT_EQ(path.plane, path.id % 4);
    EXPECT_EQ(path.remote, pair.b.gid(path.port)) << "a plane joins two ports of one subnet";
    EXPECT_EQ(path.state, PathState::kActive);
    EXPECT_GT((used[{path.port, path.id}]), 100u);
  }
  EXPECT_EQ(used.size(), 8u);
}

TEST(Planes, that_only_one_side_has_are_left_out) {
  World world(1);
  EndpointOptions four, two;
  four.planes = 4;
  two.planes = 2;
  Endpoint& a = world.add_endpoint(four);
  Endpoint& b = world.add_endpoint(two);
  const Mr ma = a.make_mr(100000), mb = b.make_mr(100000);
  const Qp qa = a.make_qp(), qb = b.make_qp();
  ConnectOptions options;
  options.local_port = 1;  // and remote port 0, of another subnet: a pair that was asked for is a plane, too
  options.remote_port = 0;
  connect(qa, qb, options);
  ASSERT_TRUE(qa.write(1, {ma.sge()}, mb.addr, mb.rkey));
  EXPECT_TRUE(completes(world, qa, 1));
  EXPECT_EQ(world.network().counters().unroutable, 0u);
  for (const PathStats& path : stats_of(a, b).paths) EXPECT_LT(path.plane, 2u);
}

TEST(Paths, are_not_used_before_a_challenge_of_full_size_was_answered) {
  Pair pair;
  uint64_t probes = 0, data = 0;
  pair.network().add_filter([&](const PacketView& p) {
    if (p.path != 3 || p.from != pair.a.index()) return false;
    data += p.is(wire::Type::kData) ? 1u : 0u;
    if (p.is(wire::Type::kProbe)) {
      ++probes;
      EXPECT_GE(p.bytes.size(), 4096u + 56u);
    }
    return p.bytes.size() > 1500;  // a way that carries small packets only
  });
  for (uint64_t i = 0; i < 20; ++i) {
    write_and_wait(pair, i, 1 << 20);
    pair.run_for(millis(100));
  }
  EXPECT_GT(probes, 3u);
  EXPECT_EQ(data, 0u);
  EXPECT_EQ(path_of(stats_of(pair.a, pair.b), 3).state, PathState::kNew);
}

TEST(LinkDown, moves_all_traffic_at_once_and_tells_the_peer) {
  Pair pair(planes(4, 4));
  warm_up(pair);
  Load load(pair);
  const uint64_t full = load.run(millis(10));
  pair.a.set_link(1, false);
  EXPECT_TRUE((pair.pump(), pair.a.take_event(EventKind::kPortError)));
  const Time down = pair.now();
  uint64_t from_a = 0, from_b = 0;
  pair.network().on_sent([&](const PacketView& p) {
    if (p.path != 1 || p.is(wire::Type::kProbe)) return;
    ++(p.from == pair.a.index() ? from_a : from_b);
  });
  const uint64_t three = load.run(millis(10));
  EXPECT_EQ(path_of(stats_of(pair.a, pair.b), 1).state, PathState::kFailed);
  EXPECT_EQ(path_of(stats_of(pair.b, pair.a), 1).state, PathState::kFailed) << "PORT_STATUS told it";
  EXPECT_EQ(from_a, 0u);
  EXPECT_LE(from_b, 4u) << "what left before PORT_STATUS arrived";
  EXPECT_GT(three, full * 6 / 10) << "three of four planes";
  EXPECT_LT(pair.now() - down, millis(20));
  pair.a.set_link(1, true);
  pair.run_until([&] { return path_of(stats_of(pair.a, pair.b), 1).state == PathState::kActive; },
                 seconds(1));
  EXPECT_TRUE(pair.a.take_event(EventKind::kPortActive));
  from_a = 0;
  load.run(millis(20));
  EXPECT_GT(from_a, 100u) << "the plane that came back carries data";
  EXPECT_EQ(path_of(stats_of(pair.b, pair.a), 1).state, PathState::kActive);
}

TEST(LinkDown, of_every_plane_and_return_before_the_silence_limit_costs_no_error) {
  Pair pair(planes(2, 4));
  warm_up(pair);
  Load load(pair);
  load.run(millis(5));
  for (uint32_t port = 0; port < 2; ++port) pair.a.set_link(port, false);
  pair.run_for(seconds(1));
  for (uint32_t port = 0; port < 2; ++port) pair.a.set_link(port, true);
  pair.run_for(millis(500));
  load.run(millis(2));
  EXPECT_GT(load.run(millis(10)), 1000000u);
  EXPECT_EQ(pair.qa.state(), QpState::kRts);
}

// The line carries more than the connection's window: what limits is the window, and no path fills its own.
PairOptions limited_by_the_connection() {
  PairOptions options = planes(1, 4);
  options.faults.rate_bps = 100000000000;
  options.faults.latency = micros(100);
  return options;
}

// The smallest share of the packets sent over a while.
double least_share(Pair& pair, Load& load) {
  const ConnectionStats before = stats_of(pair.a, pair.b);
  load.run(millis(20));
  const ConnectionStats after = stats_of(pair.a, pair.b);
  uint64_t all = 0, least = UINT64_MAX;
  for (size_t i = 0; i < after.paths.size(); ++i) {
    const uint64_t sent = after.paths[i].counters.sent - before.paths[i].counters.sent;
    all += sent;
    least = std::min(least, sent);
  }
  return static_cast<double>(least) / static_cast<double>(all);
}

TEST(Paths, that_join_late_get_their_share_where_the_window_of_the_connection_is_the_limit) {
  Pair pair(limited_by_the_connection());
  bool lost = true;
  pair.network().add_filter(
      [&](const PacketView& p) { return lost && p.path == 3 && p.is(wire::Type::kProbe); });
  Load load(pair, 32);
  load.run(millis(20));
  ASSERT_EQ(path_of(stats_of(pair.a, pair.b), 3).state, PathState::kNew);
  lost = false;
  for (int i = 0; i < 100 && path_of(stats_of(pair.a, pair.b), 3).state == PathState::kNew; ++i)
    load.run(millis(1));
  EXPECT_GT(least_share(pair, load), 0.2);
}

TEST(Paths, that_come_back_get_their_share_where_the_window_of_the_connection_is_the_limit) {
  Pair pair(limited_by_the_connection());
  warm_up(pair);
  bool dead = true;
  pair.network().add_filter([&](const PacketView& p) { return dead && p.path == 1; });
  Load load(pair, 32);
  load.run(millis(50));
  ASSERT_EQ(path_of(stats_of(pair.a, pair.b), 1).state, PathState::kFailed);
  dead = false;
  const auto state = [&] { return path_of(stats_of(pair.a, pair.b), 1).state; };
  for (int i = 0; i < 500 && state() == PathState::kFailed; ++i) load.run(millis(1));
  EXPECT_GT(least_share(pair, load), 0.2);
}

TEST(SilentPlane, fails_within_milliseconds_and_returns_within_a_second) {
  Pair pair(planes(4, 4));
  warm_up(pair);
  Load load(pair);
  const uint64_t full = load.run(millis(20));
  const Time died = pair.now();
  pair.a.set_link(2, false, false);  // the cable is cut and nobody tells
  while (path_of(stats_of(pair.a, pair.b), 2).state != PathState::kFailed && pair.now() < died + millis(50)) {
    load.run(micros(250));
  }
  const Nanos noticed = pair.now() - died;
  const uint64_t three = load.run(millis(20));
  std::printf("  full %.2f Gbit/s, failed after %.0f us, then %.2f Gbit/s\n", gbps(full, millis(20)),
              us(noticed), gbps(three, millis(20)));
  EXPECT_LT(noticed, millis(20));
  EXPECT_GT(three, full * 65 / 100);
  pair.run_for(seconds(1));
  pair.a.set_link(2, true, false);
  const Time healed = pair.now();
  while (path_of(stats_of(pair.a, pair.b), 2).state != PathState::kActive &&
         pair.now() < healed + seconds(2)) {
    load.run(millis(1));
    pair.run_for(millis(10));
  }
  EXPECT_LT(pair.now() - healed, seconds(1));
  load.run(millis(20));
  EXPECT_GT(load.run(millis(20)), full * 9 / 10);
  EXPECT_EQ(pair.qa.state(), QpState::kRts);
}

TEST(SilentPath, in_the_middle_of_a_message_costs_no_more_than_a_few_milliseconds) {
  for (uint8_t path = 0; path < 4; ++path) {
    SCOPED_TRACE("path " + std::to_string(path));
    Pair pair(planes(1, 4));
    warm_up(pair);
    const Nanos ideal = write_and_wait(pair, 1, 1 << 20);
    pair.network().drop_path_between(path, pair.now() + ideal / 2, pair.now() + seconds(100));
    Pair::fill(pair.bytes_a(0, 1 << 20), path);
    const Nanos took = write_and_wait(pair, 2, 1 << 20);
    EXPECT_LT(took, ideal + millis(12));
    EXPECT_TRUE(same(pair, 0, 0, 1 << 20));
    for (uint64_t i = 3; i < 20; ++i) write_and_wait(pair, i, 1 << 20);
    EXPECT_EQ(path_of(stats_of(pair.a, pair.b), path).state, PathState::kFailed);
  }
}

TEST(SilentPath, of_acknowledgements_only_is_left_for_another) {
  Pair pair;
  warm_up(pair);
  pair.network().faults(pair.b.index(), pair.a.index(), 0).cut = true;
  for (uint64_t i = 0; i < 30; ++i) write_and_wait(pair, i, 100000);
  const Time begin = pair.now();
  for (uint64_t i = 0; i < 10; ++i) write_and_wait(pair, i, 100000);
  EXPECT_LT(pair.now() - begin, millis(10)) << "acknowledgements have found another way";
}

TEST(SilentPath, comes_back_only_after_three_answers_in_a_row) {
  Pair pair(planes(1, 4));
  warm_up(pair);
  Load load(pair);
  bool dead = true;
  uint64_t answers = 0;
  uint64_t asked = 0;
  uint64_t pass_every = 3;  // of probes on path 1, the third of each three is lost
  pair.network().add_filter([&](const PacketView& p) {
    if (p.path != 1 || p.from != pair.a.index()) return false;
    if (dead) return true;
    if (!p.is(wire::Type::kProbe)) return false;
    const bool lost = pass_every != 0 && ++asked % pass_every == 0;
    answers += lost ? 0u : 1u;
    return lost;
  });
  load.run(millis(50));
  ASSERT_EQ(path_of(stats_of(pair.a, pair.b), 1).state, PathState::kFailed);
  dead = false;
  pair.run_for(seconds(1));
  EXPECT_GE(answers, 6u);
  EXPECT_EQ(path_of(stats_of(pair.a, pair.b), 1).state, PathState::kFailed) << "never three in a row";
  pass_every = 0;
  pair.run_for(millis(900));
  EXPECT_EQ(path_of(stats_of(pair.a, pair.b), 1).state, PathState::kActive);
  EXPECT_GE(path_of(stats_of(pair.a, pair.b), 1).counters.entropy_changes, 1u);
}

TEST(SilentPath, comes_back_even_if_answers_take_longer_than_the_first_interval) {
  PairOptions options = planes(1, 2);
  options.faults.latency = millis(8);
  Pair pair(options);
  warm_up(pair);
  bool dead = true;
  pair.network().add_filter([&](const PacketView& packet) { return dead && packet.path == 1; });
  Load load(pair);
  load.run(millis(500));
  ASSERT_EQ(path_of(stats_of(pair.a, pair.b), 1).state, PathState::kFailed);
  dead = false;
  pair.run_for(seconds(1));
  EXPECT_EQ(path_of(stats_of(pair.a, pair.b), 1).state, PathState::kActive);
}

// ---- unequal ways

TEST(SlowPath, at_a_tenth_of_the_rate_costs_its_own_share_only) {
  for (const uint64_t mark_above : {0u, 20000u}) {
    PairOptions options = planes(1, 4);
    options.faults.queue_bytes = 1 << 17;
    options.faults.ce_above_bytes = mark_above;
    Pair pair(options);
    warm_up(pair);
    Load load(pair, 128);
    load.run(millis(10));
    const double full = gbps(load.run(millis(10)), millis(10));
    pair.network().faults(pair.a.index(), pair.b.index(), 2).rate_bps = 250000000;
    load.run(millis(20));
    const double slowed = gbps(load.run(millis(20)), millis(20));
    std::printf("  %s: %.2f Gbit/s, with one path at a tenth %.2f Gbit/s (ideal %.2f)\n",
                mark_above == 0 ? "without marks" : "with marks", full, slowed, full * 0.775);
    EXPECT_GT(slowed, full * 0.775 * (mark_above == 0 ? 0.5 : 0.8));
  }
}

TEST(LossyPath, that_loses_thirty_percent_costs_little) {
  Pair pair(planes(1, 4));
  warm_up(pair);
  Load load(pair);
  load.run(millis(20));
  const double full = gbps(load.run(millis(20)), millis(20));
  pair.network().faults(pair.a.index(), pair.b.index(), 2).loss = 0.3;
  load.run(millis(20));
  const double lossy = gbps(load.run(millis(30)), millis(30));
  std::printf("  %.2f Gbit/s, with 30 %% loss on one of four paths %.2f Gbit/s\n", full, lossy);
  EXPECT_GT(lossy, full * 0.7);
}

TEST(Reordering, inside_a_path_raises_the_threshold_until_hardly_anything_is_sent_twice) {
  PairOptions options = planes(1, 1);
  options.faults.reorder = 0.1;
  options.faults.reorder_delay = micros(5);
  options.faults.rate_bps = 10000000000;
  Pair pair(options);
  warm_up(pair);
  Load load(pair);
  load.run(millis(5));
  const auto first = stats_of(pair.a, pair.b).counters;
  load.run(millis(20));
  const auto second = stats_of(pair.a, pair.b).counters;
  const uint64_t packets = second.data_packets_sent - first.data_packets_sent;
  std::printf("  spurious: %llu in the first %llu packets, %llu in the next %llu\n",
              static_cast<unsigned long long>(first.spurious),
              static_cast<unsigned long long>(first.data_packets_sent),
              static_cast<unsigned long long>(second.spurious - first.spurious),
              static_cast<unsigned long long>(packets));
  EXPECT_GT(first.spurious, 0u) << "there was something to learn";
  EXPECT_LT(second.spurious - first.spurious, packets / 100) << "a tenth of all packets is late";
}

TEST(Reordering, that_ends_lets_the_threshold_come_down_again) {
  PairOptions options = planes(1, 1);
  options.faults.reorder = 0.2;
  options.faults.reorder_delay = micros(30);
  Pair pair(options);
  warm_up(pair);
  {
    Load load(pair);
    load.run(millis(20));
  }
  pair.network().faults().reorder = 0;
  pair.run_for(millis(20));
  pair.a.poll_all(pair.qa.send_cq);
  // A single loss in the middle: found by the gap rule only if the threshold is small again.
  const auto time_with_one_loss = [&] {
    pair.network().clear_filters();
    pair.network().drop_nth(6, [](const PacketView& p) { return p.is(wire::DataOp::kWrite); });
    return write_and_wait(pair, 1, 8 * 4096);
  };
  const Nanos before = time_with_one_loss();
  for (uint64_t i = 0; i < 3000; ++i) write_and_wait(pair, i, 4096);
  const Nanos after = time_with_one_loss();
  EXPECT_GT(before, micros(900)) << "the high threshold leaves it to the probe timeout";
  EXPECT_LT(after, micros(300));
}

}  // namespace
}  // namespace mroce::test
