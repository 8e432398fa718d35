// What of a stream that has ended may still be on its way, and must not touch what comes after it.
#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

using wire::DataOp;
using wire::Type;

// A responder whose requester has left fills the numbers of its unfinished responses with VOIDs. These name
// no message: the number of a response is no message number of the stream that goes the other way.
TEST(VoidedResponse, takes_no_message_of_the_other_direction_back) {
  Pair pair;
  uint32_t bodies = 0, voids = 0, held_back = 0;
  pair.network().add_filter([&](const PacketView& p) {
    if (p.from != pair.b.index()) return false;
    if (p.is(DataOp::kReadResp)) return true;
    if (p.is(DataOp::kVoid)) {
      if (bodies < 2) return true;
      ++voids;
    }
    if (!p.is(DataOp::kSend)) return false;
    if ((p.header()->flags & wire::flag::kLast) != 0 && voids == 0) return ++held_back != 0;
    ++bodies;
    return false;
  });
  // The first response of B has the number 0, as its first message has.
  ASSERT_TRUE(pair.qa.read(1, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(millis(3));
  ASSERT_TRUE(pair.qa.to_reset());
  connect_one(pair.qa, pair.qb);
  pair.run_for(millis(3));
  const uint32_t packet = stats_of(pair.a, pair.b).payload_mtu;
  Pair::fill(pair.bytes_b(500000, 3 * packet), 5);
  ASSERT_TRUE(pair.qa.post_recv(2, {pair.ma.sge(500000, 3 * packet)}));
  ASSERT_TRUE(pair.qb.send(3, {pair.mb.sge(500000, 3 * packet)}));
  EXPECT_TRUE(receives(pair, pair.qa, 2));
  EXPECT_TRUE(completes(pair, pair.qb, 3));
  EXPECT_TRUE(same(pair, 500000, 500000, 3 * packet));
  EXPECT_GE(bodies, 2u);
  EXPECT_GT(voids, 0u) << "a VOID came while the message was half there";
  EXPECT_GT(held_back, 0u);
}

TEST(Open, that_was_never_sent_becomes_a_close_without_its_starting_number) {
  Pair pair;
  uint32_t closes = 0;
  pair.network().on_sent([&](const PacketView& p) {
    EXPECT_FALSE(p.is(DataOp::kStreamOpen));
    if (!p.is(DataOp::kStreamClose)) return;
    ++closes;
    EXPECT_EQ(p.data()->msn, 0u);
    EXPECT_EQ(p.stream_control()->sq_psn, 0u);
    EXPECT_EQ(p.stream_control()->incarnation, 1u);
  });
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.to_reset());
  pair.run_for(millis(5));
  EXPECT_EQ(closes, 2u);
}

// CLOSE overtakes OPEN; the OPEN then opens a half that nobody will ever use. The ACCEPT finds its sender
// still waiting for the CLOSE to be accepted: it must close what the peer has just opened.
TEST(Accept, that_arrives_while_its_half_is_closing_is_answered_by_a_close) {
  Pair pair;
  warm_up(pair);
  const Link link = add_link(pair);
  std::vector<std::byte> open;
  bool delivered = false, accepted = false;
  uint32_t closes = 0;
  pair.network().add_filter([&](const PacketView& p) {
    if (p.from == pair.b.index()) {
      accepted = accepted || p.is(DataOp::kStreamAccept);
      return p.is(Type::kAck) && !accepted;  // A does not learn that its CLOSE arrived
    }
    if (p.is(DataOp::kStreamOpen) && open.empty()) {
      open.assign(p.bytes.begin(), p.bytes.end());
      return true;
    }
    closes += p.is(DataOp::kStreamClose) && !p.is_retransmission() ? 1u : 0u;
    // Whatever fills the number of the OPEN stays away, too, until the OPEN itself is there.
    return !delivered && (p.is(DataOp::kStreamOpen) || p.is(DataOp::kVoid));
  });
  ASSERT_TRUE(link.a.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(micros(30));
  ASSERT_FALSE(open.empty());
  ASSERT_TRUE(link.a.to_error());
  pair.run_for(micros(100));
  ASSERT_EQ(closes, 1u);
  const uint32_t before = stats_of(pair.b, pair.a).streams;
  delivered = true;
  pair.network().inject(pair.a.index(), pair.b.index(), open, Nanos{0});
  pair.run_for(micros(5));
  EXPECT_EQ(stats_of(pair.b, pair.a).streams, before + 1) << "the OPEN came behind the CLOSE";
  pair.run_for(seconds(1));
  EXPECT_TRUE(accepted);
  EXPECT_EQ(closes, 2u);
  EXPECT_EQ(stats_of(pair.b, pair.a).streams, before) << "nothing stays open that nobody will close";
  EXPECT_EQ(link.b.state(), QpState::kRts);
  write_and_wait(pair, 2, 10000);
}

// A message whose packets the peer has all accepted, but which it could not finish when its turn came. STOP
// says so; that everything was accepted must not turn it into a success.
TEST(RefusedMessage, that_the_peer_had_in_custody_is_no_success) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PairOptions options;
    options.seed = seed;
    Pair pair(options);
    warm_up(pair);
    bool first_lost = false, again = false, stopped = false;
    pair.network().add_filter([&](const PacketView& p) {
      if (p.from == pair.a.index()) {
        if (p.is(DataOp::kWrite) && !first_lost) return first_lost = true;
        again = again || p.is(DataOp::kWrite);
        return false;
      }
      stopped = stopped || p.is(DataOp::kStreamStop);
      // The verdict overtakes the acknowledgement of the message in front.
      return p.is(Type::kAck) && again && !stopped;
    });
    ASSERT_TRUE(pair.qb.post_recv(9, {pair.mb.sge(0, 1000)}));
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
    ASSERT_TRUE(pair.qa.send_inv(2, {pair.ma.sge(0, 100)}, 0xbad0bad));
    EXPECT_TRUE(completes(pair, pair.qa, 1));
    EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kRemOpErr));
    EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, millis(100)));
    EXPECT_EQ(pair.qa.state(), QpState::kErr);
    EXPECT_TRUE(first_lost && again && stopped);
  }
}

// The requester waits for a receive, with few retries, behind a WRITE that the peer has in part. The peer's
// queue pair ends. Nobody is waited for any more: what becomes due while the end of the peer is outlived must
// neither shorten that nor turn the WRITE into a success.
TEST(StoppedHalf, waits_for_no_receive_and_completes_nothing_that_was_not_finished) {
  PairOptions options;
  options.connection.rnr_retry = 1;
  Pair pair(options);
  warm_up(pair);
  bool held_up = false, stopped = false;
  pair.network().add_filter([&](const PacketView& p) {
    stopped = stopped || p.is(DataOp::kStreamStop);
    const bool body = p.is(DataOp::kWrite) && p.data()->offset == 0;
    held_up = held_up || body;
    return body;
  });
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 10000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 100)}));
  pair.run_for(micros(300));  // the peer has said that there is no receive
  ASSERT_TRUE(pair.qb.to_error());
  const Time begin = pair.now();
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_GE(pair.now() - begin, millis(100)) << "one try of the queue pair";
  EXPECT_TRUE(completes(pair, pair.qa, 2, WcStatus::kWrFlushErr));
  EXPECT_TRUE(held_up && stopped);
}

}  // namespace
}  // namespace mroce::test
