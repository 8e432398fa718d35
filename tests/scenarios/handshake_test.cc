// How connections and streams begin, whatever is lost, and how they do not.
#include <optional>
#include <set>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

using wire::DataOp;
using wire::Type;

// Both directions carry a WRITE and a SEND.
void exchange(Pair& pair, Nanos limit = seconds(10)) {
  ASSERT_TRUE(pair.qa.post_recv(11, {pair.ma.sge(200000, 100)}));
  ASSERT_TRUE(pair.qb.post_recv(12, {pair.mb.sge(200000, 100)}));
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 20000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 100)}));
  ASSERT_TRUE(pair.qb.write(3, {pair.mb.sge(100000, 20000)}, pair.ma.addr + 100000, pair.ma.rkey));
  ASSERT_TRUE(pair.qb.send(4, {pair.mb.sge(100000, 100)}));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kSuccess, limit));
  EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kSuccess, limit));
  EXPECT_TRUE(completes(pair, pair.qb, 3, WcStatus::kSuccess, limit));
  EXPECT_TRUE(completes(pair, pair.qb, 4, WcStatus::kSuccess, limit));
  EXPECT_TRUE(receives(pair, pair.qb, 12, WcStatus::kSuccess, limit));
  EXPECT_TRUE(receives(pair, pair.qa, 11, WcStatus::kSuccess, limit));
  EXPECT_TRUE(same(pair, 0, 0, 20000));
  EXPECT_TRUE(same(pair, 100000, 100000, 20000));
}

void fill_both(Pair& pair) {
  Pair::fill(pair.bytes_a(0, 20000), 1);
  Pair::fill(pair.bytes_b(100000, 20000), 2);
}

TEST(Handshake, takes_one_round_trip_before_data_and_one_for_the_stream) {
  PairOptions options;
  options.faults.latency = millis(1);
  Pair pair(options);
  const Nanos took = write_and_wait(pair, 1, 100);
  // INIT, INIT_ACK, OPEN, ACCEPT, WRITE, ACK: three round trips and the delays of two acknowledgements.
  EXPECT_GE(took, millis(6));
  EXPECT_LT(took, millis(6) + micros(300));
}

TEST(Handshake, survives_the_loss_of_any_one_of_its_packets) {
  for (uint64_t n = 0; n < 34; ++n) {
    SCOPED_TRACE("datagram " + std::to_string(n));
    Pair pair;
    fill_both(pair);
    pair.network().drop_nth(n, [](const PacketView&) { return true; });
    exchange(pair, seconds(1));
    EXPECT_EQ(pair.network().counters().filtered, 1u);
    EXPECT_EQ(open_connections(pair.a), 1u);
    EXPECT_EQ(open_connections(pair.b), 1u);
  }
}

TEST(Handshake, survives_the_loss_of_the_first_n_packets) {
  for (uint64_t n = 1; n < 12; ++n) {
    SCOPED_TRACE(std::to_string(n) + " datagrams");
    Pair pair;
    fill_both(pair);
    pair.network().add_filter([left = n](const PacketView&) mutable { return left != 0 && left-- != 0; });
    exchange(pair, seconds(4));
  }
}

class LostHandshake : public testing::TestWithParam<Type> {};

TEST_P(LostHandshake, is_repeated_until_it_arrives) {
  Pair pair;
  uint32_t lost = 0;
  pair.network().add_filter([&](const PacketView& p) { return p.is(GetParam()) && lost < 3 && ++lost != 0; });
  const Nanos took = write_and_wait(pair, 1, 100);
  EXPECT_EQ(lost, 3u);
  EXPECT_GT(took, millis(60)) << "10, 20, 40 ms between repetitions";
  EXPECT_LT(took, millis(200));
}

INSTANTIATE_TEST_SUITE_P(first_three, LostHandshake, testing::Values(Type::kInit, Type::kInitAck),
                         [](const auto& param) { return param.param == Type::kInit ? "INIT" : "INIT_ACK"; });

class LostControl : public testing::TestWithParam<std::pair<const char*, DataOp>> {};

TEST_P(LostControl, is_sent_again) {
  Pair pair;
  fill_both(pair);
  uint32_t lost = 0;
  pair.network().add_filter(
      [&](const PacketView& p) { return p.is(GetParam().second) && lost < 3 && ++lost != 0; });
  exchange(pair, seconds(2));
  EXPECT_GE(lost, 3u);
}

INSTANTIATE_TEST_SUITE_P(stream, LostControl,
                         testing::Values(std::pair{"OPEN", DataOp::kStreamOpen},
                                         std::pair{"ACCEPT", DataOp::kStreamAccept}),
                         [](const auto& param) { return param.param.first; });

TEST(Handshake, of_both_ends_at_once_gives_one_connection) {
  std::set<bool> lower_is_a;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PairOptions options;
    options.seed = seed;
    options.faults.loss = seed % 3 == 0 ? 0.2 : 0;
    options.faults.jitter = seed % 2 == 0 ? micros(30) : Nanos{0};
    Pair pair(options);
    fill_both(pair);
    lower_is_a.insert(pair.a.look().config().endpoint_id < pair.b.look().config().endpoint_id);
    exchange(pair, seconds(3));
    pair.run_for(seconds(20));
    EXPECT_EQ(open_connections(pair.a), 1u);
    EXPECT_EQ(open_connections(pair.b), 1u);
    EXPECT_EQ(pair.a.look().connection_stats().size(), 1u) << "nor is there a dead one";
  }
  EXPECT_EQ(lower_is_a.size(), 2u) << "both cases were met";
}

TEST(Handshake, to_oneself_works_between_two_queue_pairs) {
  World world(1);
  Endpoint& a = world.add_endpoint();
  const Mr m = a.make_mr(100000);
  Pair::fill(a.memory().bytes(m.addr, 40000), 4);
  const Qp one = a.make_qp();
  const Qp two = a.make_qp();
  connect(one, two);
  ASSERT_TRUE(two.post_recv(5, {m.sge(90000, 100)}));
  ASSERT_TRUE(one.write(1, {m.sge(0, 40000)}, m.addr + 50000, m.rkey));
  ASSERT_TRUE(one.send(2, {m.sge(0, 100)}));
  ASSERT_TRUE(two.read(3, {m.sge(95000, 1000)}, m.addr, m.rkey));
  EXPECT_TRUE(completes(world, one, 1));
  EXPECT_TRUE(completes(world, one, 2));
  EXPECT_TRUE(receives(world, two, 5));
  EXPECT_TRUE(completes(world, two, 3));
  EXPECT_TRUE(std::ranges::equal(a.memory().bytes(m.addr, 40000), a.memory().bytes(m.addr + 50000, 40000)));
}

TEST(Handshake, of_a_queue_pair_with_itself_works) {
  World world(2);
  world.network().faults().loss = 0.05;
  Endpoint& a = world.add_endpoint();
  const Mr m = a.make_mr(100000);
  Pair::fill(a.memory().bytes(m.addr, 40000), 4);
  const Qp qp = a.make_qp();
  ConnectOptions options;
  ASSERT_TRUE(qp.to_init(options));
  ASSERT_TRUE(qp.to_rtr(qp, options));
  ASSERT_TRUE(qp.to_rts(options));
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(qp.post_recv(100 + i, {m.sge(90000, 1000)}));
    ASSERT_TRUE(qp.write(i, {m.sge(0, 40000)}, m.addr + 50000, m.rkey));
    ASSERT_TRUE(qp.send(50 + i, {m.sge(0, 1000)}));
  }
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(completes(world, qp, i));
    EXPECT_TRUE(completes(world, qp, 50 + i));
    EXPECT_TRUE(receives(world, qp, 100 + i));
  }
  EXPECT_TRUE(std::ranges::equal(a.memory().bytes(m.addr, 40000), a.memory().bytes(m.addr + 50000, 40000)));
}

TEST(Handshake, a_way_that_swallows_large_packets_gets_small_ones) {
  Pair pair;
  pair.network().add_filter([](const PacketView& p) { return p.bytes.size() > 1472; });
  fill_both(pair);
  exchange(pair, seconds(3));
  EXPECT_LE(stats_of(pair.a, pair.b).payload_mtu, 1408u);
  EXPECT_EQ(stats_of(pair.a, pair.b).payload_mtu, stats_of(pair.b, pair.a).payload_mtu);
}

TEST(Handshake, finds_another_way_if_that_of_the_first_packets_swallows_everything) {
  for (const bool from_a : {true, false}) {
    SCOPED_TRACE(from_a ? "INIT" : "INIT_ACK");
    Pair pair;
    std::optional<uint16_t> dead;  // the first source port of that side: a dead way through the fabric
    pair.network().add_filter([&](const PacketView& p) {
      if ((p.from == pair.a.index()) != from_a) return false;
      if (!dead) dead = p.entropy;
      return p.entropy == *dead;
    });
    fill_both(pair);
    exchange(pair, seconds(1));
    EXPECT_EQ(open_connections(pair.a), 1u);
    EXPECT_EQ(open_connections(pair.b), 1u);
  }
}

TEST(Handshake, takes_the_smaller_limits_of_both_sides) {
  World world(3);
  Endpoint& a = world.add_endpoint(tweaked([](EngineConfig& config) {
    config.max_payload = 2048;
    config.cpsn_window = 1024;
    config.max_paths = 8;
  }));
  Endpoint& b = world.add_endpoint(tweaked([](EngineConfig& config) {
    config.cpsn_window = 256;
    config.max_paths = 3;
  }));
  const Mr ma = a.make_mr(1 << 20), mb = b.make_mr(1 << 20);
  const Qp qa = a.make_qp(), qb = b.make_qp();
  connect(qa, qb);
  int64_t highest = -1, lowest_open = -1;
  uint64_t most_open = 0;
  world.network().on_sent([&](const PacketView& p) {
    if (p.from == a.index() && p.data() != nullptr) highest = std::max<int64_t>(highest, p.data()->cpsn);
    if (p.from == b.index() && p.ack() != nullptr) lowest_open = p.ack()->cack;
    if (lowest_open >= 0) most_open = std::max(most_open, static_cast<uint64_t>(highest - lowest_open + 1));
  });
  ASSERT_TRUE(qa.write(1, {ma.sge()}, mb.addr, mb.rkey));
  EXPECT_TRUE(completes(world, qa, 1));
  for (const auto& [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    EXPECT_EQ(stats_of(*from, *to).payload_mtu, 2048u);
    EXPECT_EQ(stats_of(*from, *to).paths.size(), 3u);
  }
  EXPECT_LE(most_open, 256u);
  EXPECT_GT(most_open, 64u);
}

TEST(Handshake, with_nobody_there_ends_by_the_timeout_of_the_queue_pair) {
  Pair pair;
  pair.b.crash();
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kWrFlushErr));
  EXPECT_LE(pair.now() - begin, millis(2200)) << "eight tries of 268 ms";
  EXPECT_EQ(pair.qa.state(), QpState::kErr);
}

TEST(Handshake, with_nobody_there_and_no_timeout_ends_after_five_seconds) {
  PairOptions options;
  options.connection.timeout = 0;
  Pair pair(options);
  pair.b.crash();
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_GE(pair.now() - begin, seconds(5));
  EXPECT_LE(pair.now() - begin, millis(5300));
  EXPECT_EQ(pair.a.look().counters().connections_failed, 1u);
  EXPECT_TRUE(pair.a.look().quiescent());
}

}  // namespace
}  // namespace mroce::test
