// Errors that are not about access: lengths, local keys, states, queues that overflow.
#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

TEST(LengthError, of_a_send_that_is_longer_than_its_receive_is_told_to_both_sides) {
  for (const double loss : {0.0, 0.2}) {
    PairOptions options;
    options.faults.loss = loss;
    Pair pair(options);
    ASSERT_TRUE(pair.qb.post_recv(1, {pair.mb.sge(0, 20000)}));
    ASSERT_TRUE(pair.qb.post_recv(2, {pair.mb.sge(0, 19999)}));
    ASSERT_TRUE(pair.qb.post_recv(3, {pair.mb.sge(0, 20000)}));
    for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, 20000)}));
    EXPECT_TRUE(completes(pair, pair.qa, 1));
    EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kRemInvReqErr));
    EXPECT_TRUE(completes(pair, pair.qa, 3, WcStatus::kWrFlushErr));
    EXPECT_TRUE(receives(pair, pair.qb, 1));
    EXPECT_TRUE(receives(pair, pair.qb, 2, WcStatus::kLocLenErr));
    EXPECT_TRUE(receives(pair, pair.qb, 3, WcStatus::kWrFlushErr));
    EXPECT_EQ(pair.qb.state(), QpState::kErr);
    EXPECT_TRUE(pair.b.take_event(EventKind::kQpRequestError));
  }
}

TEST(LengthError, in_a_shared_receive_queue_takes_only_its_own_entry) {
  Pair pair;
  const SrqHandle srq = pair.b.make_srq();
  QpOptions at_b;
  at_b.srq = srq;
  const Link bad{pair.a.make_qp(), pair.b.make_qp(at_b)};
  const Link good{pair.a.make_qp(), pair.b.make_qp(at_b)};
  connect(bad.a, bad.b);
  connect(good.a, good.b);
  ASSERT_TRUE(pair.b.post_srq_recv(srq, 1, {pair.mb.sge(0, 100)}));
  ASSERT_TRUE(bad.a.send(2, {pair.ma.sge(0, 20000)}));
  EXPECT_TRUE(completes(pair, bad.a, 2, WcStatus::kRemInvReqErr));
  EXPECT_TRUE(receives(pair, bad.b, 1, WcStatus::kLocLenErr));
  ASSERT_TRUE(pair.b.post_srq_recv(srq, 3, {pair.mb.sge(0, 100)}));
  ASSERT_TRUE(good.a.send(4, {pair.ma.sge(0, 100)}));
  EXPECT_TRUE(completes(pair, good.a, 4));
  EXPECT_TRUE(receives(pair, good.b, 3));
}

TEST(LocalProtection, of_a_receive_is_told_to_both_sides) {
  for (const bool unknown : {true, false}) {
    Pair pair;
    const Mr read_only = pair.b.make_mr(10000, access::kRemoteRead);
    const Sge bad = unknown ? Sge{pair.mb.addr, 10000, pair.mb.lkey ^ 1} : read_only.sge();
    ASSERT_TRUE(pair.qb.post_recv(1, {bad}));
    ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 9000)}));
    EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kRemOpErr));
    EXPECT_TRUE(receives(pair, pair.qb, 1, WcStatus::kLocProtErr));
    EXPECT_EQ(pair.qb.state(), QpState::kErr);
  }
}

TEST(LocalProtection, of_what_is_to_be_sent_leaves_the_peer_alone) {
  Pair pair;
  const Link other = add_link(pair);
  write_and_wait(pair, 1, 1000);
  const Sge bad{pair.ma.addr + pair.ma.length - 20000, 20001, pair.ma.lkey};
  ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(0, 60000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.write(3, {pair.ma.sge(0, 8000), bad}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.write(4, {pair.ma.sge(0, 8000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 2));
  EXPECT_TRUE(completes(pair, pair.qa, 3, WcStatus::kLocProtErr));
  EXPECT_TRUE(completes(pair, pair.qa, 4, WcStatus::kWrFlushErr));
  pair.run_for(millis(20));
  EXPECT_EQ(pair.qb.state(), QpState::kRts) << "its half was only closed";
  ASSERT_TRUE(other.a.write(5, {pair.ma.sge(0, 60000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, other.a, 5));
}

TEST(LocalProtection, of_the_sink_of_a_read_or_atomic_is_a_local_error) {
  for (const bool atomic : {false, true}) {
    Pair pair;
    const Mr read_only = pair.a.make_mr(10000, access::kRemoteRead);
    ASSERT_TRUE(atomic ? pair.qa.fetch_add(1, read_only.sge(0, 8), pair.mb.addr, pair.mb.rkey, 1)
                       : pair.qa.read(1, {read_only.sge()}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kLocProtErr));
    EXPECT_EQ(pair.qa.state(), QpState::kErr);
  }
}

TEST(SendInvalidateError, of_a_key_that_does_not_exist_is_told_to_both_sides) {
  Pair pair;
  ASSERT_TRUE(pair.qb.post_recv(1, {pair.mb.sge(0, 100)}));
  ASSERT_TRUE(pair.qa.send_inv(2, {pair.ma.sge(0, 100)}, pair.mb.rkey ^ 1));
  EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kRemOpErr));
  EXPECT_TRUE(receives(pair, pair.qb, 1, WcStatus::kLocProtErr));
}

// ---- acknowledgements that tell about errors get lost

class LostVerdict : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(times, LostVerdict, testing::Values(1, 2, 5, 20));

TEST_P(LostVerdict, a_nak_that_is_lost_changes_nothing_about_the_status) {
  Pair pair;
  warm_up(pair);
  int lost = 0;
  pair.network().add_filter([&](const PacketView& p) {
    return p.ack() != nullptr && p.ack()->nnaks != 0 && lost < GetParam() && ++lost != 0;
  });
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey ^ 1));
  ASSERT_TRUE(pair.qa.write(3, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kRemAccessErr));
  EXPECT_TRUE(completes(pair, pair.qa, 3, WcStatus::kWrFlushErr));
  EXPECT_GE(lost, 1);
}

TEST_P(LostVerdict, a_stop_that_is_lost_is_sent_again) {
  Pair pair;
  warm_up(pair);
  int lost = 0;
  pair.network().add_filter([&](const PacketView& p) {
    const bool verdict = p.is(wire::DataOp::kStreamStop) || (p.ack() != nullptr && p.ack()->nnaks != 0);
    return verdict && lost < GetParam() && ++lost != 0;
  });
  ASSERT_TRUE(pair.qa.read(1, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.read(2, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey ^ 1));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kRemAccessErr));
  EXPECT_EQ(lost, GetParam());
}

// ---- states

TEST(ErrorState, flushes_what_is_outstanding_and_what_is_posted_later) {
  Pair pair;
  warm_up(pair);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, 100)}, 0));  // unsignaled, no receive: outstanding
    ASSERT_TRUE(pair.qa.post_recv(10 + i, {pair.ma.sge(0, 100)}));
  }
  pair.run_for(millis(5));
  ASSERT_TRUE(pair.qa.to_error());
  ASSERT_TRUE(pair.qa.send(5, {pair.ma.sge(0, 100)}));
  ASSERT_TRUE(pair.qa.post_recv(15, {pair.ma.sge(0, 100)}));
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(completes(pair, pair.qa, i, WcStatus::kWrFlushErr));
    EXPECT_TRUE(receives(pair, pair.qa, 10 + i, WcStatus::kWrFlushErr));
  }
}

TEST(ErrorState, of_the_requester_makes_late_responses_harmless) {
  PairOptions options;
  options.faults.rate_bps = 1000000000;
  Pair pair(options);
  warm_up(pair);
  const Link other = add_link(pair);
  const Mr sink = pair.a.make_mr(1 << 20);
  ASSERT_TRUE(pair.qa.read(1, {sink.sge()}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.run_until([&] { return pair.a.memory().placed_bytes > 100000; }));
  ASSERT_TRUE(pair.qa.to_error());
  ASSERT_TRUE(pair.a.engine().dereg_mr(sink.lkey));
  pair.a.memory().free(sink.addr);  // a late placement would be an access outside any block
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kWrFlushErr));
  ASSERT_TRUE(other.a.read(2, {pair.ma.sge(0, 100000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, other.a, 2));
  EXPECT_EQ(pair.qb.state(), QpState::kRts);
}

TEST(ErrorState, of_the_responder_ends_a_read_in_its_middle) {
  PairOptions options;
  options.faults.rate_bps = 1000000000;
  Pair pair(options);
  warm_up(pair);
  ASSERT_TRUE(pair.qa.read(1, {pair.ma.sge()}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.run_until([&] { return pair.a.memory().placed_bytes > 100000; }));
  ASSERT_TRUE(pair.qb.to_error());
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_EQ(pair.qa.state(), QpState::kErr);
}

TEST(SendQueueDrain, waits_for_what_has_begun_and_holds_the_rest) {
  PairOptions options;
  options.qp.user = 5;
  Pair pair(options);
  warm_up(pair);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 1 << 20)}, pair.mb.addr, pair.mb.rkey));
  pair.pump();
  QpAttr attr;
  attr.state = QpState::kSqd;
  ASSERT_TRUE(pair.qa.modify(attr, qp_mask::kState | qp_mask::kEnSqdAsyncNotify));
  ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_FALSE(pair.a.take_event(EventKind::kSqDrained));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  pair.run_for(millis(1));
  EXPECT_TRUE(pair.a.take_event(EventKind::kSqDrained, 5));
  EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, seconds(3)));
  EXPECT_FALSE(pair.a.take_event(EventKind::kSqDrained)) << "told once";
  attr.state = QpState::kRts;
  ASSERT_TRUE(pair.qa.modify(attr, qp_mask::kState));
  EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kSuccess, millis(10)));
}

TEST(SendQueueDrain, of_an_idle_queue_is_reported_at_once) {
  Pair pair;
  warm_up(pair);
  QpAttr attr;
  attr.state = QpState::kSqd;
  ASSERT_TRUE(pair.qa.modify(attr, qp_mask::kState | qp_mask::kEnSqdAsyncNotify));
  pair.pump();
  EXPECT_TRUE(pair.a.take_event(EventKind::kSqDrained));
}

// ---- completion queues

TEST(CompletionQueueOverflow, is_reported_once_ends_its_queue_pairs_and_breaks_nothing_else) {
  Pair pair;
  QpOptions small;
  small.send_cq = pair.a.make_cq(4, 1234);
  const Qp idle = pair.a.make_qp(small);
  const Qp qp = pair.a.make_qp(small);
  const Qp peer = pair.b.make_qp();
  connect(qp, peer);
  for (uint64_t i = 0; i < 10; ++i)
    ASSERT_TRUE(qp.write(i, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(millis(20));
  EXPECT_TRUE(pair.a.take_event(EventKind::kCqError, 1234));
  EXPECT_FALSE(pair.a.take_event(EventKind::kCqError));
  EXPECT_TRUE(pair.a.take_event(EventKind::kQpFatal));
  EXPECT_FALSE(pair.a.take_event(EventKind::kQpFatal)) << "the other one has done nothing yet";
  EXPECT_EQ(qp.state(), QpState::kErr);
  EXPECT_EQ(idle.state(), QpState::kReset);
  EXPECT_EQ(pair.a.poll_all(small.send_cq).size(), 4u);
  write_and_wait(pair, 50, 1000);
}

TEST(CompletionEvents, are_raised_once_for_each_arming) {
  Pair pair;
  QpOptions options;
  options.send_cq = pair.a.make_cq(64, 1);
  options.recv_cq = pair.a.make_cq(64, 2);
  const Qp qp = pair.a.make_qp(options);
  const Qp peer = pair.b.make_qp();
  connect(qp, peer);
  ASSERT_TRUE(qp.write(1, {pair.ma.sge(0, 8)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(millis(20));
  EXPECT_FALSE(pair.a.take_event(EventKind::kCompletion)) << "not armed";
  ASSERT_TRUE(pair.a.engine().arm_cq(options.send_cq, false));
  for (uint64_t i = 2; i < 5; ++i) ASSERT_TRUE(qp.write(i, {pair.ma.sge(0, 8)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(millis(20));
  EXPECT_TRUE(pair.a.take_event(EventKind::kCompletion, 1));
  EXPECT_FALSE(pair.a.take_event(EventKind::kCompletion)) << "once";
  // Solicited only: the plain message says nothing, the solicited one does.
  ASSERT_TRUE(pair.a.engine().arm_cq(options.recv_cq, true));
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(qp.post_recv(i, {pair.ma.sge(0, 8)}));
  ASSERT_TRUE(peer.send(1, {pair.mb.sge(0, 8)}));
  pair.run_for(millis(5));
  EXPECT_FALSE(pair.a.take_event(EventKind::kCompletion));
  ASSERT_TRUE(peer.send(2, {pair.mb.sge(0, 8)}, send_flag::kSignaled | send_flag::kSolicited));
  pair.run_for(millis(5));
  EXPECT_TRUE(pair.a.take_event(EventKind::kCompletion, 2));
}

TEST(Completions, of_unsignaled_work_are_silent_unless_it_fails) {
  Pair pair;
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.qa.write(i, {pair.ma.sge(0, 8)}, pair.mb.addr, pair.mb.rkey, 0));
  }
  EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, millis(50)));
  ASSERT_TRUE(pair.qa.write(11, {pair.ma.sge(0, 8)}, pair.mb.addr, pair.mb.rkey ^ 1, 0));
  EXPECT_TRUE(completes(pair, pair.qa, 11, WcStatus::kRemAccessErr));
}

}  // namespace
}  // namespace mroce::test
