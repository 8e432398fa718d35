// Receives that are posted late, and the messages about them that get lost.
#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

PairOptions with_rnr_retry(uint8_t rnr_retry, uint8_t timer = 12) {
  PairOptions options;
  options.connection.rnr_retry = rnr_retry;
  options.connection.min_rnr_timer = timer;
  return options;
}

TEST(Rnr, retry_seven_waits_for_ever) {
  Pair pair(with_rnr_retry(7));
  ASSERT_TRUE(pair.qa.send(1, {pair.ma.sge(0, 10000)}));
  EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, seconds(300)));
  ASSERT_TRUE(pair.qb.post_recv(2, {pair.mb.sge(0, 10000)}));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_TRUE(receives(pair, pair.qb, 2));
  EXPECT_LT(pair.now() - begin, micros(300)) << "the credit goes out at once";
}

TEST(Rnr, retry_zero_fails_as_soon_as_the_peer_says_that_there_is_no_receive) {
  Pair pair(with_rnr_retry(0));
  warm_up(pair);
  ASSERT_TRUE(pair.qa.send(1, {pair.ma.sge(0, 100)}));
  ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 100)}));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRnrRetryExcErr));
  EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kWrFlushErr));
  EXPECT_LT(pair.now() - begin, millis(2));
}

TEST(Rnr, finite_retries_last_as_long_as_so_many_timers) {
  Pair pair(with_rnr_retry(3, 20));  // 10.24 ms each
  warm_up(pair);
  ASSERT_TRUE(pair.qa.send(1, {pair.ma.sge(0, 100)}));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRnrRetryExcErr));
  EXPECT_GE(pair.now() - begin, micros(3 * 10240));
  EXPECT_LT(pair.now() - begin, micros(3 * 10240) + millis(5));
}

TEST(Rnr, a_receive_within_the_retries_is_in_time) {
  Pair pair(with_rnr_retry(3, 20));
  warm_up(pair);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, 100)}));
    pair.run_for(millis(25));
    ASSERT_TRUE(pair.qb.post_recv(i, {pair.mb.sge(0, 100)}));
    EXPECT_TRUE(completes(pair, pair.qa, i)) << "each new credit starts the count again";
  }
}

TEST(Rnr, earlier_work_completes_before_the_failure) {
  Pair pair(with_rnr_retry(1));
  warm_up(pair);
  ASSERT_TRUE(pair.qb.post_recv(9, {pair.mb.sge(0, 60000)}));
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 200000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 60000)}));
  ASSERT_TRUE(pair.qa.send(3, {pair.ma.sge(0, 100)}));
  ASSERT_TRUE(pair.qa.write(4, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_TRUE(completes(pair, pair.qa, 2));
  EXPECT_TRUE(completes(pair, pair.qa, 3, WcStatus::kRnrRetryExcErr));
  EXPECT_TRUE(completes(pair, pair.qa, 4, WcStatus::kWrFlushErr));
}

TEST(Rnr, the_failure_waits_for_earlier_work_that_takes_longer) {
  PairOptions options;
  options.connection.rnr_retry = 1;
  Pair pair(options);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(completes(pair, pair.qa, 1));
  const Time until = pair.now() + millis(100);
  pair.network().add_filter(
      [until](const PacketView& packet) { return packet.at < until && packet.is(wire::DataOp::kReadResp); });
  ASSERT_TRUE(pair.qa.read(2, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.send(3, {pair.ma.sge(0, 100)}));
  EXPECT_TRUE(completes(pair, pair.qa, 2));
  EXPECT_GE(pair.now(), until);
  EXPECT_TRUE(completes(pair, pair.qa, 3, WcStatus::kRnrRetryExcErr));
}

TEST(Rnr, a_write_with_immediate_waits_for_a_receive_like_a_send) {
  Pair pair;
  warm_up(pair);
  ASSERT_TRUE(pair.qa.write_imm(1, {pair.ma.sge(0, 20000)}, pair.mb.addr, pair.mb.rkey, 5));
  EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, millis(200)));
  ASSERT_TRUE(pair.qb.post_recv(2, {}));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_TRUE(receives(pair, pair.qb, 2));
}

TEST(Rnr, work_without_receives_on_another_stream_is_not_held_up) {
  Pair pair;
  warm_up(pair);
  const Link other = add_link(pair);
  ASSERT_TRUE(pair.qa.send(1, {pair.ma.sge(0, 100)}));
  pair.run_for(millis(10));
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(other.a.write(i, {pair.ma.sge(0, 100000)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(completes(pair, other.a, i, WcStatus::kSuccess, millis(20)));
  }
}

TEST(Credit, one_receive_at_a_time_moves_one_message_at_a_time) {
  PairOptions options;
  options.faults.loss = 0.05;
  Pair pair(options);
  for (uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, 9000)}));
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(pair.qb.post_recv(i, {pair.mb.sge(0, 9000)}));
    EXPECT_TRUE(receives(pair, pair.qb, i));
    EXPECT_TRUE(completes(pair, pair.qa, i));
  }
  EXPECT_EQ(pair.b.look().counters().naks_sent, 0u) << "credits are kept: no message came without a receive";
}

TEST(Credit, an_update_that_is_lost_is_asked_for_again) {
  Pair pair;
  warm_up(pair);
  ASSERT_TRUE(pair.qa.send(1, {pair.ma.sge(0, 100)}));
  pair.run_for(millis(2));
  uint32_t lost = 0;
  pair.network().add_filter([&](const PacketView& p) {
    return p.ack() != nullptr && p.ack()->ncredits != 0 && lost < 4 && ++lost != 0;
  });
  ASSERT_TRUE(pair.qb.post_recv(2, {pair.mb.sge(0, 100)}));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_EQ(lost, 4u);
  EXPECT_LT(pair.now() - begin, millis(110)) << "the question is repeated at most 100 ms apart";
}

TEST(Credit, every_acknowledgement_with_an_update_may_be_lost_for_a_second) {
  Pair pair;
  warm_up(pair);
  const Time end = pair.now() + seconds(1);
  pair.network().add_filter(
      [end](const PacketView& p) { return p.at < end && p.ack() != nullptr && p.ack()->ncredits != 0; });
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, 100)}));
    ASSERT_TRUE(pair.qb.post_recv(i, {pair.mb.sge(0, 100)}));
  }
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(completes(pair, pair.qa, i));
  EXPECT_LT(pair.now(), end + millis(250));
}

TEST(Credit, a_question_that_is_lost_is_repeated) {
  for (const uint64_t n : {0u, 1u, 2u, 3u}) {
    SCOPED_TRACE(std::to_string(n) + " lost");
    Pair pair;
    warm_up(pair);
    uint64_t lost = 0;
    pair.network().add_filter([&lost, n](const PacketView& p) {
      return (p.is(wire::DataOp::kStreamBlocked) || p.is(wire::Type::kProbe)) && lost < n && ++lost != 0;
    });
    ASSERT_TRUE(pair.qa.send(1, {pair.ma.sge(0, 100)}));
    pair.run_for(micros(500));
    ASSERT_TRUE(pair.qb.post_recv(2, {pair.mb.sge(0, 100)}));
    EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kSuccess, millis(200)));
  }
}

TEST(Credit, receives_that_are_posted_before_the_connection_count) {
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  ASSERT_TRUE(pair.qb.to_init());
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(pair.qb.post_recv(i, {pair.mb.sge(0, 100)}));
  ASSERT_TRUE(pair.qb.to_rtr(pair.qa));
  ASSERT_TRUE(pair.qa.to_init());
  ASSERT_TRUE(pair.qa.to_rtr(pair.qb));
  ASSERT_TRUE(pair.qa.to_rts());
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, 100)}));
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(completes(pair, pair.qa, i));
    EXPECT_TRUE(receives(pair, pair.qb, i));
  }
}

}  // namespace
}  // namespace mroce::test
