// Many streams, one queue of receives.
#include <map>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

struct Shared {
  SrqHandle srq;
  CqHandle cq;  // of all receives
  std::vector<Link> links;
};

// `count` links whose B ends share one queue of `entries` receives.
Shared share(Pair& pair, uint32_t count, uint32_t entries, uint32_t limit = 0) {
  Shared shared;
  shared.srq = pair.b.make_srq(entries, 4, limit, 42);
  shared.cq = pair.b.make_cq(65536);
  for (uint32_t i = 0; i < count; ++i) {
    QpOptions at_b;
    at_b.srq = shared.srq;
    at_b.recv_cq = shared.cq;
    at_b.send_cq = shared.cq;
    at_b.user = i;
    Link link{pair.a.make_qp(), pair.b.make_qp(at_b)};
    connect(link.a, link.b);
    shared.links.push_back(link);
  }
  return shared;
}

// The bytes of message `number` of stream `stream`.
uint64_t salt(uint64_t stream, uint64_t number) {
  return stream * 100003 + number;
}

// Every stream sends `messages` of `bytes`; the application reposts each receive as it completes. Checks
// order within each stream and the contents.
void run_all(Pair& pair, Shared& shared, uint32_t entries, uint64_t messages, uint32_t bytes) {
  const Mr receive = pair.b.make_mr(size_t{entries} * bytes);
  const Mr source = pair.a.make_mr(shared.links.size() * messages * bytes);
  std::map<uint32_t, uint64_t> stream_of, next;
  for (uint32_t i = 0; i < entries; ++i) {
    ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {receive.sge(i * bytes, bytes)}));
  }
  for (uint64_t s = 0; s < shared.links.size(); ++s) {
    stream_of[shared.links[s].b.number] = s;
    for (uint64_t n = 0; n < messages; ++n) {
      const auto at = static_cast<uint32_t>((s * messages + n) * bytes);
      Pair::fill(pair.a.memory().bytes(source.addr + at, bytes), salt(s, n));
      ASSERT_TRUE(shared.links[s].a.send(n, {source.sge(at, bytes)}));
    }
  }
  std::vector<std::byte> expected(bytes);
  for (uint64_t got = 0; got < shared.links.size() * messages; ++got) {
    const auto wc = pair.wait_for(pair.b, shared.cq, seconds(20));
    ASSERT_TRUE(wc.has_value()) << "stuck after " << got;
    ASSERT_EQ(wc->status, WcStatus::kSuccess);
    const uint64_t s = stream_of.at(wc->qp_num);
    Pair::fill(expected, salt(s, next[wc->qp_num]++));
    ASSERT_TRUE(std::ranges::equal(expected, pair.b.memory().bytes(receive.addr + wc->wr_id * bytes, bytes)))
        << "message " << next[wc->qp_num] - 1 << " of stream " << s;
    ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, wc->wr_id,
                                     {receive.sge(static_cast<uint32_t>(wc->wr_id) * bytes, bytes)}));
  }
  for (const Link& link : shared.links) {
    for (uint64_t n = 0; n < messages; ++n) ASSERT_TRUE(completes(pair, link.a, n));
  }
  EXPECT_EQ(pair.b.look().counters().naks_sent, 0u);
}

class SharedQueue : public testing::TestWithParam<double> {};

TEST_P(SharedQueue, of_sixteen_entries_serves_eight_streams_in_order) {
  PairOptions options;
  options.faults.loss = GetParam();
  options.faults.jitter = GetParam() > 0 ? micros(50) : Nanos{0};
  Pair pair(options);
  Shared shared = share(pair, 8, 16);
  run_all(pair, shared, 16, 40, 9000);
}

TEST_P(SharedQueue, of_eight_entries_serves_two_hundred_queue_pairs_without_deadlock) {
  PairOptions options;
  options.faults.loss = GetParam();
  Pair pair(options);
  Shared shared = share(pair, 200, 8);
  run_all(pair, shared, 8, 4, 5000);
}

TEST_P(SharedQueue, of_a_single_entry_still_serves_everybody) {
  PairOptions options;
  options.faults.loss = GetParam();
  Pair pair(options);
  Shared shared = share(pair, 5, 1);
  run_all(pair, shared, 1, 5, 10000);
}

INSTANTIATE_TEST_SUITE_P(srq, SharedQueue, testing::Values(0.0, 0.05),
                         [](const auto& param) { return param.param == 0 ? "lossless" : "lossy"; });

TEST(SharedQueueOf, nothing_holds_senders_until_receives_are_posted) {
  Pair pair;
  Shared shared = share(pair, 3, 16);
  for (const Link& link : shared.links) ASSERT_TRUE(link.a.send(1, {pair.ma.sge(0, 100)}));
  EXPECT_TRUE(is_quiet(pair, pair.b, shared.cq, seconds(2)));
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {pair.mb.sge(0, 100)}));
  for (const Link& link : shared.links)
    EXPECT_TRUE(completes(pair, link.a, 1, WcStatus::kSuccess, millis(50)));
}

TEST(SharedQueueOf, an_idle_stream_gives_its_credits_to_the_busy_one) {
  Pair pair;
  Shared shared = share(pair, 2, 64);
  for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {pair.mb.sge(0, 100)}));
  // Both open; the first then stays silent.
  ASSERT_TRUE(shared.links[0].a.send(100, {pair.ma.sge(0, 100)}));
  EXPECT_TRUE(completes(pair, shared.links[0].a, 100));
  for (uint64_t i = 0; i < 63; ++i) ASSERT_TRUE(shared.links[1].a.send(i, {pair.ma.sge(0, 100)}));
  for (uint64_t i = 0; i < 63; ++i)
    EXPECT_TRUE(completes(pair, shared.links[1].a, i)) << "all entries are used";
}

TEST(SharedQueueOf, an_idle_stream_is_asked_again_if_the_question_for_its_credits_is_lost) {
  Pair pair;
  Shared shared = share(pair, 2, 64);
  for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {pair.mb.sge(0, 100)}));
  ASSERT_TRUE(shared.links[0].a.send(100, {pair.ma.sge(0, 100)}));
  EXPECT_TRUE(completes(pair, shared.links[0].a, 100));
  uint32_t lost = 0;
  pair.network().add_filter([&](const PacketView& p) {
    return p.ack() != nullptr && p.ack()->nreclaims != 0 && lost < 2 && ++lost != 0;
  });
  for (uint64_t i = 0; i < 63; ++i) ASSERT_TRUE(shared.links[1].a.send(i, {pair.ma.sge(0, 100)}));
  for (uint64_t i = 0; i < 63; ++i) EXPECT_TRUE(completes(pair, shared.links[1].a, i));
  EXPECT_EQ(lost, 2u);
}

TEST(SharedQueueOf, a_destroyed_stream_returns_what_it_held) {
  Pair pair;
  Shared shared = share(pair, 2, 4);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {pair.mb.sge(0, 100000)}));
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(shared.links[0].a.send(i, {pair.ma.sge(0, 100000)}));
  // The first packet of each message is lost: all four receives are bound and none completes.
  pair.network().add_filter(
      [](const PacketView& p) { return p.is(wire::DataOp::kSend) && p.data()->offset == 0; });
  pair.run_for(millis(20));
  shared.links[0].b.destroy();
  pair.network().clear_filters();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(shared.links[1].a.send(i, {pair.ma.sge(0, 100)}));
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(completes(pair, shared.links[1].a, i));
}

TEST(SharedQueueOf, fewer_entries_than_the_limit_raises_the_event_once) {
  Pair pair;
  Shared shared = share(pair, 1, 16, 3);
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {pair.mb.sge(0, 100)}));
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(shared.links[0].a.send(i, {pair.ma.sge(0, 100)}));
    EXPECT_TRUE(completes(pair, shared.links[0].a, i));
  }
  EXPECT_FALSE(pair.b.take_event(EventKind::kSrqLimitReached)) << "three are left";
  for (uint64_t i = 2; i < 4; ++i) {
    ASSERT_TRUE(shared.links[0].a.send(i, {pair.ma.sge(0, 100)}));
    EXPECT_TRUE(completes(pair, shared.links[0].a, i));
  }
  EXPECT_TRUE(pair.b.take_event(EventKind::kSrqLimitReached, 42));
  EXPECT_FALSE(pair.b.take_event(EventKind::kSrqLimitReached));
}

TEST(SharedQueueOf, a_limit_that_is_armed_again_raises_the_event_again) {
  Pair pair;
  Shared shared = share(pair, 1, 16, 3);
  const auto post = [&](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {pair.mb.sge(0, 100)}));
  };
  const auto consume = [&](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(shared.links[0].a.send(i, {pair.ma.sge(0, 100)}));
      EXPECT_TRUE(completes(pair, shared.links[0].a, i));
    }
  };
  post(4);
  consume(2);
  EXPECT_TRUE(pair.b.take_event(EventKind::kSrqLimitReached, 42));
  EXPECT_EQ(pair.b.engine().query_srq(shared.srq)->limit, 0u) << "disarmed";
  post(4);
  consume(5);
  EXPECT_FALSE(pair.b.take_event(EventKind::kSrqLimitReached));
  post(5);
  ASSERT_TRUE(pair.b.engine().modify_srq(shared.srq, std::nullopt, 4));
  consume(2);
  EXPECT_FALSE(pair.b.take_event(EventKind::kSrqLimitReached)) << "four are left";
  consume(1);
  EXPECT_TRUE(pair.b.take_event(EventKind::kSrqLimitReached, 42));
}

TEST(SharedQueueOf, fewer_places_serves_its_streams_as_before) {
  Pair pair;
  Shared shared = share(pair, 3, 64);
  for (uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {pair.mb.sge(0, 100)}));
  EXPECT_FALSE(pair.b.engine().modify_srq(shared.srq, 5, std::nullopt));
  ASSERT_TRUE(pair.b.engine().modify_srq(shared.srq, 6, std::nullopt));
  for (uint64_t round = 0; round < 10; ++round) {
    for (const Link& link : shared.links) {
      ASSERT_TRUE(link.a.send(round, {pair.ma.sge(0, 100)}));
      EXPECT_TRUE(completes(pair, link.a, round));
      ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, round, {pair.mb.sge(0, 100)}));
    }
    EXPECT_FALSE(pair.b.post_srq_recv(shared.srq, round, {pair.mb.sge(0, 100)})) << "six are posted";
  }
}

TEST(SharedQueueOf, a_failed_queue_pair_says_when_it_takes_no_more) {
  Pair pair;
  Shared shared = share(pair, 2, 16);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(pair.b.post_srq_recv(shared.srq, i, {pair.mb.sge(0, 100)}));
  ASSERT_TRUE(shared.links[0].a.send(1, {pair.ma.sge(0, 100)}));
  EXPECT_TRUE(completes(pair, shared.links[0].a, 1));
  ASSERT_TRUE(shared.links[0].b.to_error());
  pair.run_for(millis(5));
  EXPECT_TRUE(pair.b.take_event(EventKind::kQpLastWqeReached, 0));
  for (uint64_t i = 0; i < 7; ++i) ASSERT_TRUE(shared.links[1].a.send(i, {pair.ma.sge(0, 100)}));
  for (uint64_t i = 0; i < 7; ++i) EXPECT_TRUE(completes(pair, shared.links[1].a, i));
}

}  // namespace
}  // namespace mroce::test
