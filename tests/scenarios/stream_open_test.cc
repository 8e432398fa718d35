// A stream opens only towards a queue pair that is ready and means this peer.
#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

PairOptions unconnected() {
  PairOptions options;
  options.connect = false;
  return options;
}

void to_rts(const Qp& qp, const Qp& peer, const ConnectOptions& options = {}) {
  ASSERT_TRUE(qp.to_init(options));
  ASSERT_TRUE(qp.to_rtr(peer, options));
  ASSERT_TRUE(qp.to_rts(options));
}

struct Controls {
  explicit Controls(Network& network) {
    network.on_sent([this](const PacketView& p) {
      opens += p.is(wire::DataOp::kStreamOpen) && !p.is_retransmission() ? 1u : 0u;
      if (p.is(wire::DataOp::kStreamRefuse) && !p.is_retransmission()) {
        ++refusals;
        reason = p.stream_control()->reason;
      }
      const bool data = p.data() != nullptr && !wire::is_stream_control(p.data()->op);
      messages += data ? 1u : 0u;
    });
  }
  uint32_t opens = 0, refusals = 0, messages = 0;
  wire::StopReason reason = wire::StopReason::kNone;
};

TEST(StreamOpen, is_refused_while_the_peer_is_not_ready_and_then_succeeds) {
  for (const bool in_init : {false, true}) {
    Pair pair(unconnected());
    Controls seen(pair.network());
    to_rts(pair.qa, pair.qb);
    if (in_init) {
      ASSERT_TRUE(pair.qb.to_init());
    }
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 9000)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, millis(300)));
    EXPECT_GE(seen.refusals, 2u);
    EXPECT_EQ(seen.reason, wire::StopReason::kNotReady);
    EXPECT_EQ(seen.messages, 0u) << "no data before ACCEPT";
    if (!in_init) {
      ASSERT_TRUE(pair.qb.to_init());
    }
    ASSERT_TRUE(pair.qb.to_rtr(pair.qa));
    EXPECT_TRUE(completes(pair, pair.qa, 1));
    EXPECT_TRUE(pair.b.take_event(EventKind::kCommEstablished)) << "the first packet came in RTR";
    EXPECT_FALSE(pair.b.take_event(EventKind::kCommEstablished)) << "told once";
  }
}

TEST(StreamOpen, to_a_peer_that_never_becomes_ready_uses_up_the_retries) {
  Pair pair(unconnected());
  Controls seen(pair.network());
  ConnectOptions options;
  options.retry_cnt = 3;
  to_rts(pair.qa, pair.qb, options);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.post_recv(2, {pair.ma.sge(0, 100)}));
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_TRUE(receives(pair, pair.qa, 2, WcStatus::kWrFlushErr));
  EXPECT_EQ(seen.opens, 4u) << "one and three retries";
  EXPECT_LT(pair.now() - begin, seconds(2));
}

TEST(StreamOpen, without_a_timeout_is_tried_for_ever) {
  Pair pair(unconnected());
  ConnectOptions options;
  options.timeout = 0;
  options.retry_cnt = 0;
  to_rts(pair.qa, pair.qb, options);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, seconds(60)));
  ASSERT_TRUE(pair.qb.to_init());
  ASSERT_TRUE(pair.qb.to_rtr(pair.qa));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kSuccess, seconds(1)));
}

TEST(StreamOpen, with_another_starting_psn_is_refused) {
  Pair pair(unconnected());
  Controls seen(pair.network());
  ConnectOptions options;
  options.retry_cnt = 1;
  to_rts(pair.qa, pair.qb, options);
  options.rq_psn ^= 1;
  to_rts(pair.qb, pair.qa, options);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_EQ(seen.reason, wire::StopReason::kMismatch);
  EXPECT_EQ(seen.messages, 0u);
  EXPECT_EQ(pair.b.memory().placed_bytes, 0u);
}

TEST(StreamOpen, from_a_queue_pair_that_the_peer_does_not_mean_is_refused) {
  Pair pair(unconnected());
  Controls seen(pair.network());
  ConnectOptions options;
  options.retry_cnt = 1;
  const Qp other = pair.a.make_qp();
  to_rts(pair.qa, pair.qb, options);
  to_rts(pair.qb, other, options);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_EQ(seen.reason, wire::StopReason::kMismatch);
}

TEST(StreamOpen, to_a_number_that_nobody_has_is_refused) {
  Pair pair(unconnected());
  Controls seen(pair.network());
  ConnectOptions options;
  options.retry_cnt = 1;
  Qp nobody = pair.qb;
  nobody.number = (pair.qb.number + 1000) & 0xffff;
  to_rts(pair.qa, nobody, options);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_EQ(seen.reason, wire::StopReason::kGone);
}

TEST(StreamOpen, that_fails_leaves_the_other_streams_of_the_connection_alone) {
  Pair pair;
  ConnectOptions options;
  options.retry_cnt = 0;
  const Qp lost = pair.a.make_qp();
  const Qp deaf = pair.b.make_qp();
  to_rts(lost, deaf, options);
  ASSERT_TRUE(lost.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, lost, 1, WcStatus::kRetryExcErr));
  write_and_wait(pair, 5, 100000);
  EXPECT_EQ(open_connections(pair.a), 1u);
}

}  // namespace
}  // namespace mroce::test
