// A connection that has nothing to do: silent, small, and still there.
#include <map>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

TEST(Idle, connection_sends_nothing_but_a_keepalive_every_ten_seconds) {
  Pair pair;
  write_and_wait(pair, 1, 1 << 20);
  ASSERT_TRUE(pair.qb.write(2, {pair.mb.sge(0, 100000)}, pair.ma.addr, pair.ma.rkey));
  EXPECT_TRUE(completes(pair, pair.qb, 2));
  pair.run_for(millis(100));
  const uint64_t settled = pair.network().counters().sent;
  pair.run_for(seconds(9));
  EXPECT_EQ(pair.network().counters().sent, settled) << "no acknowledgement of acknowledgements, no probes";
  std::map<wire::Type, uint64_t> seen;
  pair.network().on_sent([&](const PacketView& p) { ++seen[p.header()->type]; });
  pair.run_for(seconds(100));
  EXPECT_GE(seen[wire::Type::kProbe], 9u);
  EXPECT_LE(seen[wire::Type::kProbe], 20u) << "one of each side";
  EXPECT_EQ(seen[wire::Type::kProbeAck], seen[wire::Type::kProbe]);
  EXPECT_LE(seen[wire::Type::kAck], seen[wire::Type::kProbe]);
  EXPECT_EQ(seen.size(), 3u) << "and nothing else";
}

TEST(Idle, connection_survives_lost_keepalives) {
  PairOptions options;
  options.faults.loss = 0.3;
  Pair pair(options);
  write_and_wait(pair, 1, 100000);
  pair.run_for(seconds(300));
  EXPECT_EQ(pair.a.look().counters().connections_failed, 0u);
  EXPECT_EQ(pair.b.look().counters().connections_failed, 0u);
  write_and_wait(pair, 2, 100000);
}

TEST(Idle, connection_holds_at_most_64_kib_after_any_load) {
  PairOptions options;
  options.paths = 32;
  options.faults.loss = 0.02;
  options.faults.jitter = micros(200);
  Pair pair(options);
  std::vector<Link> links;
  for (int i = 0; i < 20; ++i) links.push_back(add_link(pair));
  for (const Link& link : links) {
    for (uint64_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(link.a.write(i, {pair.ma.sge(0, 100000)}, pair.mb.addr, pair.mb.rkey));
      ASSERT_TRUE(link.b.read(i, {pair.mb.sge(0, 100000)}, pair.ma.addr, pair.ma.rkey));
    }
  }
  for (const Link& link : links) {
    for (uint64_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(completes(pair, link.a, i));
      ASSERT_TRUE(completes(pair, link.b, i));
    }
  }
  const uint64_t loaded = stats_of(pair.a, pair.b).memory_bytes;
  pair.run_for(seconds(30));
  const uint64_t a = stats_of(pair.a, pair.b).memory_bytes;
  const uint64_t b = stats_of(pair.b, pair.a).memory_bytes;
  std::printf("  a connection of 32 paths: %llu bytes after load, idle %llu and %llu bytes\n",
              static_cast<unsigned long long>(loaded), static_cast<unsigned long long>(a),
              static_cast<unsigned long long>(b));
  EXPECT_LE(a, 65536u);
  EXPECT_LE(b, 65536u);
  EXPECT_GT(loaded, a) << "there was something to give back";
  ASSERT_TRUE(links[3].a.write(1, {pair.ma.sge(0, 100000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, links[3].a, 1)) << "and it grows again";
}

TEST(Idle, connection_that_only_answers_keepalives_gives_its_memory_back_too) {
  PairOptions options;
  options.paths = 32;
  options.faults.loss = 0.02;
  options.tweak = [first = std::make_shared<bool>(true)](EngineConfig& config) {
    if (std::exchange(*first, false)) config.keepalive = seconds(3);  // of A: B never has to ask
  };
  Pair pair(options);
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.qb.write(i, {pair.mb.sge()}, pair.ma.addr, pair.ma.rkey));
  }
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(completes(pair, pair.qb, i));
  EXPECT_GT(stats_of(pair.b, pair.a).memory_bytes, 65536u);
  pair.run_for(seconds(60));
  EXPECT_LE(stats_of(pair.b, pair.a).memory_bytes, 65536u);
}

TEST(Idle, fresh_connection_holds_a_few_kilobytes) {
  Pair pair;
  warm_up(pair);
  pair.run_for(seconds(15));
  const uint64_t bytes = stats_of(pair.a, pair.b).memory_bytes;
  std::printf("  a connection of 4 paths that has sent 64 bytes: %llu bytes\n",
              static_cast<unsigned long long>(bytes));
  EXPECT_LE(bytes, 16384u);
}

TEST(Idle, queue_pairs_that_are_not_connected_send_nothing) {
  Pair pair;
  for (int i = 0; i < 50; ++i) add_link(pair);
  pair.run_for(seconds(100));
  EXPECT_EQ(pair.network().counters().sent, 0u) << "the connection is made by the first work request";
}

}  // namespace
}  // namespace mroce::test
