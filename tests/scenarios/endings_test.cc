// Peers that leave, die and come back; queue pairs that are destroyed in the middle of traffic.
#include <set>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

TEST(PeerCrash, ends_outstanding_work_within_the_timeout_of_the_queue_pair) {
  Pair pair;
  warm_up(pair);
  ASSERT_TRUE(pair.qa.post_recv(9, {pair.ma.sge(0, 100)}));
  for (uint64_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(pair.qa.write(i, {pair.ma.sge(0, 500000)}, pair.mb.addr, pair.mb.rkey));
  }
  pair.run_for(micros(5));
  pair.b.crash();
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_GE(pair.now() - begin, millis(500)) << "eight tries of at least 67 ms";
  EXPECT_LE(pair.now() - begin, millis(2200)) << "at most four times that";
  for (uint64_t i = 2; i <= 4; ++i) EXPECT_TRUE(completes(pair, pair.qa, i, WcStatus::kWrFlushErr));
  EXPECT_TRUE(receives(pair, pair.qa, 9, WcStatus::kWrFlushErr));
  EXPECT_EQ(pair.qa.state(), QpState::kErr);
}

TEST(PeerCrash, without_a_timeout_ends_the_connection_after_five_seconds_of_silence) {
  PairOptions options;
  options.connection.timeout = 0;
  Pair pair(options);
  warm_up(pair);
  const Link idle = add_link(pair, {}, options.connection);
  ASSERT_TRUE(idle.a.write(1, {pair.ma.sge(0, 8)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(completes(pair, idle.a, 1));
  ASSERT_TRUE(idle.a.post_recv(7, {pair.ma.sge(0, 8)}));
  pair.b.crash();
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_GE(pair.now() - begin, millis(4900));
  EXPECT_LE(pair.now() - begin, millis(5200));
  EXPECT_TRUE(receives(pair, idle.a, 7, WcStatus::kWrFlushErr))
      << "a connection that failed takes all its streams";
  EXPECT_EQ(idle.a.state(), QpState::kErr);
  EXPECT_EQ(pair.a.look().counters().connections_failed, 1u);
}

TEST(PeerCrash, is_noticed_by_an_idle_connection_too) {
  Pair pair;
  warm_up(pair);
  ASSERT_TRUE(pair.qa.post_recv(7, {pair.ma.sge(0, 8)}));
  pair.b.crash();
  const Time begin = pair.now();
  EXPECT_TRUE(receives(pair, pair.qa, 7, WcStatus::kWrFlushErr, seconds(30)));
  EXPECT_LE(pair.now() - begin, seconds(16)) << "keepalive after 10 s, silence of 5 s";
}

TEST(ReceiverRestart, ends_old_streams_and_lets_new_ones_begin) {
  Pair pair;
  warm_up(pair);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 500000)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(micros(5));
  pair.b.restart();
  const uint64_t placed = pair.b.memory().placed_bytes;
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_EQ(pair.b.memory().placed_bytes, placed) << "no old packet reaches the new process";
  EXPECT_GT(pair.b.look().counters().drop_connection, 0u);
  const Mr fresh = pair.b.make_mr(100000);
  const Link link = add_link(pair);
  // The new process opens first, as a server that comes back: its INIT replaces the dead connection at once.
  ASSERT_TRUE(link.b.write(2, {fresh.sge(0, 1000)}, pair.ma.addr, pair.ma.rkey));
  EXPECT_TRUE(completes(pair, link.b, 2, WcStatus::kSuccess, seconds(1)));
  ASSERT_TRUE(link.a.write(3, {pair.ma.sge(0, 1000)}, fresh.addr, fresh.rkey));
  EXPECT_TRUE(completes(pair, link.a, 3, WcStatus::kSuccess, seconds(1)));
}

TEST(SenderRestart, leaves_nothing_behind_that_reaches_the_new_connection) {
  Pair pair;
  pair.network().faults().latency = micros(500);
  warm_up(pair);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 500000)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(micros(100));  // packets are on their way
  pair.a.restart();
  const Mr ma = pair.a.make_mr(100000);
  Pair::fill(pair.a.memory().bytes(ma.addr, 100000), 6);
  const Link link = add_link(pair);
  ASSERT_TRUE(link.a.write(2, {ma.sge(0, 100000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, link.a, 2));
  EXPECT_TRUE(std::ranges::equal(pair.a.memory().bytes(ma.addr, 100000), pair.bytes_b(0, 100000)));
  pair.run_for(seconds(20));
  EXPECT_TRUE(std::ranges::equal(pair.a.memory().bytes(ma.addr, 100000), pair.bytes_b(0, 100000)));
  EXPECT_EQ(open_connections(pair.b), 1u) << "the old connection has ended by silence";
  EXPECT_EQ(pair.qb.state(), QpState::kErr);
}

class Goodbye : public testing::TestWithParam<uint64_t> {};

TEST_P(Goodbye, right_after_the_last_completion_costs_the_other_side_no_error) {
  PairOptions options;
  options.seed = GetParam();
  options.faults.loss = 0.1;
  Pair pair(options);
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.qa.post_recv(100 + i, {pair.ma.sge(500000, 5000)}));
    ASSERT_TRUE(pair.qb.post_recv(100 + i, {pair.mb.sge(500000, 5000)}));
    ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, 5000)}));
    ASSERT_TRUE(pair.qb.send(i, {pair.mb.sge(0, 5000)}));
  }
  const auto a_done = pair.wait_for(pair.a, pair.qa.send_cq, 20);
  const auto a_got = pair.wait_for(pair.a, pair.qa.recv_cq, 20);
  ASSERT_EQ(a_done.size() + a_got.size(), 40u);
  // A has all that it waited for and leaves; B may still wait for acknowledgements.
  pair.qa.destroy();
  pair.a.engine().shutdown(pair.now());
  EXPECT_TRUE(pair.run_until([&] { return pair.a.look().quiescent(); }, seconds(2)));
  pair.a.crash();
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(completes(pair, pair.qb, i));
    EXPECT_TRUE(receives(pair, pair.qb, 100 + i));
  }
  pair.run_for(seconds(30));
  EXPECT_EQ(pair.qb.state(), QpState::kRts);
  EXPECT_TRUE(pair.b.look().quiescent());
  EXPECT_EQ(pair.b.look().counters().connections_failed, 0u);
}

INSTANTIATE_TEST_SUITE_P(at_ten_percent_loss, Goodbye, testing::Range<uint64_t>(1, 21));

TEST(GoodbyeOf, both_sides_at_once_ends_quietly) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    PairOptions options;
    options.seed = seed;
    options.faults.loss = 0.3;
    Pair pair(options);
    write_and_wait(pair, 1, 10000);
    pair.a.engine().shutdown(pair.now());
    pair.b.engine().shutdown(pair.now());
    EXPECT_TRUE(
        pair.run_until([&] { return pair.a.look().quiescent() && pair.b.look().quiescent(); }, seconds(3)));
    EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, seconds(1)));
  }
}

// Both have a half of the other to stop, so that both begin to close at the same time.
void use_both_directions(Pair& pair) {
  write_and_wait(pair, 1, 10000);
  ASSERT_TRUE(pair.qb.write(2, {pair.mb.sge(0, 10000)}, pair.ma.addr, pair.ma.rkey));
  ASSERT_TRUE(completes(pair, pair.qb, 2));
  pair.run_for(millis(10));
}

// Each side gets the other's CLOSE while it waits for the answer to its own, and must answer before it goes.
TEST(GoodbyeOf, both_sides_at_once_is_answered_by_both) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    PairOptions options;
    options.seed = seed;
    Pair pair(options);
    use_both_directions(pair);
    uint32_t answers[2] = {0, 0};
    pair.network().on_sent([&](const PacketView& p) {
      if (p.is(wire::Type::kCloseAck)) ++answers[p.from == pair.a.index() ? 0 : 1];
    });
    pair.a.engine().shutdown(pair.now());
    pair.b.engine().shutdown(pair.now());
    EXPECT_TRUE(
        pair.run_until([&] { return pair.a.look().quiescent() && pair.b.look().quiescent(); }, millis(100)));
    pair.run_for(millis(100));
    EXPECT_EQ(answers[0], 1u);
    EXPECT_EQ(answers[1], 1u);
  }
}

TEST(GoodbyeOf, both_sides_at_once_keeps_nobody_waiting_when_one_close_is_lost) {
  Pair pair;
  use_both_directions(pair);
  pair.network().add_filter(
      [&](const PacketView& p) { return p.is(wire::Type::kClose) && p.from == pair.a.index(); });
  pair.a.engine().shutdown(pair.now());
  pair.b.engine().shutdown(pair.now());
  EXPECT_TRUE(pair.run_until([&] { return pair.b.look().quiescent(); }, millis(100)))
      << "A answers B's CLOSE although B never saw A's";
}

TEST(GoodbyeOf, a_peer_that_is_gone_takes_bounded_time) {
  Pair pair;
  write_and_wait(pair, 1, 10000);
  pair.b.crash();
  pair.a.engine().shutdown(pair.now());
  EXPECT_TRUE(pair.run_until([&] { return pair.a.look().quiescent(); }, millis(1400)))
      << "300 ms to drain, one second of CLOSE";
}

TEST(GoodbyeOf, a_peer_with_work_still_outstanding_fails_that_work) {
  Pair pair;
  warm_up(pair);
  ASSERT_TRUE(pair.qb.send(5, {pair.mb.sge(0, 100)}));  // A posts no receive
  pair.run_for(millis(10));
  pair.a.engine().shutdown(pair.now());
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qb, 5, WcStatus::kRetryExcErr));
  EXPECT_LT(pair.now() - begin, seconds(4));
}

// ---- queue pairs

// One end of a link goes and is made anew, over and over, while both directions are full of traffic.
class Recreation : public testing::TestWithParam<std::tuple<uint64_t, bool>> {};

TEST_P(Recreation, with_traffic_in_flight_lets_no_old_packet_reach_the_new_queue_pair) {
  const auto [seed, new_side_is_b] = GetParam();
  PairOptions options;
  options.seed = seed;
  options.faults.loss = 0.05;
  options.faults.jitter = micros(100);
  Pair pair(options);
  std::set<uint32_t> numbers;
  for (uint64_t round = 0; round < 8; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Link link = add_link(pair);
    EXPECT_TRUE(numbers.insert(link.a.number).second);
    // Old traffic goes to the first half of the memory, and may go wrong.
    Mr old_a = pair.a.make_mr(65536), old_b = pair.b.make_mr(65536);
    for (uint64_t i = 0; i < 10; ++i) {
      ASSERT_TRUE(link.a.post_recv(i, {old_a.sge()}));
      ASSERT_TRUE(link.b.post_recv(i, {old_b.sge()}));
      ASSERT_TRUE(link.a.send(i, {pair.ma.sge(0, 60000)}));
      ASSERT_TRUE(link.b.send(i, {pair.mb.sge(0, 60000)}));
    }
    pair.run_for(micros(static_cast<int64_t>(100 + 50 * round)));
    (new_side_is_b ? link.b : link.a).destroy();
    ASSERT_TRUE(pair.a.engine().dereg_mr(old_a.lkey));
    ASSERT_TRUE(pair.b.engine().dereg_mr(old_b.lkey));
    Pair::fill(pair.a.memory().bytes(old_a.addr, 65536), 1000 + round);
    Pair::fill(pair.b.memory().bytes(old_b.addr, 65536), 1000 + round);
    // The new ones must get exactly their own.
    Link fresh = add_link(pair);
    Pair::fill(pair.bytes_a(100000, 50000), 2000 + round);
    ASSERT_TRUE(fresh.b.post_recv(77, {pair.mb.sge(100000, 50000)}));
    ASSERT_TRUE(fresh.a.send(78, {pair.ma.sge(100000, 50000)}));
    EXPECT_TRUE(completes(pair, fresh.a, 78));
    EXPECT_TRUE(receives(pair, fresh.b, 77));
    EXPECT_TRUE(same(pair, 100000, 100000, 50000));
    std::vector<std::byte> expected(65536);
    Pair::fill(expected, 1000 + round);
    EXPECT_TRUE(std::ranges::equal(expected, pair.a.memory().bytes(old_a.addr, 65536)));
    EXPECT_TRUE(std::ranges::equal(expected, pair.b.memory().bytes(old_b.addr, 65536)));
    EXPECT_FALSE(pair.b.poll(fresh.b.recv_cq).has_value());
    (new_side_is_b ? link.a : link.b).destroy();
  }
  write_and_wait(pair, 5, 100000);
}

INSTANTIATE_TEST_SUITE_P(of_a_queue_pair, Recreation,
                         testing::Combine(testing::Range<uint64_t>(1, 6), testing::Bool()));

TEST(Destruction, of_the_peer_ends_outstanding_work_after_one_try) {
  Pair pair;
  warm_up(pair);
  ASSERT_TRUE(pair.qa.send(1, {pair.ma.sge(0, 100)}));  // no receive is posted
  ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(0, 500000)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(micros(30));
  pair.qb.destroy();
  const Time begin = pair.now();
  const auto first = pair.wait_for(pair.a, pair.qa.send_cq, seconds(5));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->status, WcStatus::kRetryExcErr);
  EXPECT_GE(pair.now() - begin, millis(125));
  EXPECT_LT(pair.now() - begin, seconds(3));
}

// ibv_srq_pingpong posts more than it waits for and leaves: an adapter would try for half a second, and what
// else completes in that time must not come behind an error.
TEST(Destruction, of_the_peer_leaves_time_for_what_completes_on_other_queue_pairs) {
  Pair pair;
  warm_up(pair);
  Link other = add_link(pair);
  ASSERT_TRUE(pair.qa.send(1, {pair.ma.sge(0, 100)}));  // no receive is posted
  pair.run_for(micros(30));
  pair.qb.destroy();
  pair.run_for(millis(2));
  ASSERT_TRUE(other.a.write(2, {pair.ma.sge(0, 500000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, other.a, 2));
  EXPECT_FALSE(pair.a.poll(pair.qa.send_cq).has_value());
  ASSERT_TRUE(pair.qa.send(3, {pair.ma.sge(0, 100)})) << "as on an adapter that is still trying";
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_TRUE(completes(pair, pair.qa, 3, WcStatus::kWrFlushErr));
}

TEST(Destruction, of_both_ends_within_that_time_is_nobodys_error) {
  Pair pair;
  warm_up(pair);
  Link link = add_link(pair);
  ASSERT_TRUE(link.a.send(1, {pair.ma.sge(0, 100)}));
  pair.run_for(micros(30));
  link.b.destroy();
  pair.run_for(millis(2));
  ASSERT_TRUE(link.a.to_error());
  EXPECT_TRUE(completes(pair, link.a, 1, WcStatus::kWrFlushErr));
  link.a.destroy();
  pair.run_for(seconds(1));
  write_and_wait(pair, 5, 100000);
}

TEST(Destruction, a_stream_number_rests_until_its_farewell_has_arrived) {
  Pair pair;
  warm_up(pair);
  const Link link = add_link(pair);
  ASSERT_TRUE(link.a.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(completes(pair, link.a, 1));
  const uint32_t number = link.a.number;
  pair.network().cut_link(pair.a.index(), 0, true);
  link.a.destroy();
  QpInit init;
  init.pd = pair.a.pd();
  init.send_cq = init.recv_cq = pair.a.make_cq();
  init.cap = {1, 1, 1, 1, 0};
  Engine& engine = pair.a.engine();
  const auto comes_round = [&] {  // all numbers once
    bool seen = false;
    for (uint32_t i = 0; i < 65519; ++i) {
      const QpHandle qp = engine.create_qp(init).value();
      seen = seen || engine.qp_num(qp) == number;
      EXPECT_TRUE(engine.destroy_qp(pair.now(), qp).has_value());
    }
    return seen;
  };
  EXPECT_FALSE(comes_round());
  pair.network().cut_link(pair.a.index(), 0, false);
  pair.run_for(millis(500));
  EXPECT_TRUE(comes_round());
}

TEST(Reset, and_a_new_connection_of_the_same_queue_pairs_starts_clean) {
  PairOptions options;
  options.faults.loss = 0.1;
  Pair pair(options);
  for (uint64_t round = 0; round < 6; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    for (uint64_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(pair.qb.post_recv(i, {pair.mb.sge(0, 50000)}));
      ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, 50000)}));
    }
    EXPECT_TRUE(completes(pair, pair.qa, 0));
    ASSERT_TRUE(pair.qa.to_reset());
    ASSERT_TRUE(pair.qb.to_reset());
    EXPECT_FALSE(pair.a.poll(pair.qa.send_cq).has_value()) << "RESET takes completions back";
    EXPECT_FALSE(pair.b.poll(pair.qb.recv_cq).has_value());
    Pair::fill(pair.bytes_a(0, 50000), round);
    ConnectOptions connection;
    connection.sq_psn = connection.rq_psn = static_cast<uint32_t>(round);
    connect(pair.qa, pair.qb, connection);
    ASSERT_TRUE(pair.qb.post_recv(50, {pair.mb.sge(100000, 50000)}));
    ASSERT_TRUE(pair.qa.send(51, {pair.ma.sge(0, 50000)}));
    EXPECT_TRUE(completes(pair, pair.qa, 51));
    EXPECT_TRUE(receives(pair, pair.qb, 50));
    EXPECT_TRUE(same(pair, 0, 100000, 50000));
    ASSERT_TRUE(pair.qa.to_reset());
    ASSERT_TRUE(pair.qb.to_reset());
    connect(pair.qa, pair.qb, connection);
  }
}

}  // namespace
}  // namespace mroce::test
