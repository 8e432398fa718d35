// What a program may rely on: completions imply that everything before is placed, the last byte of a WRITE is
// the last to be seen, a fence holds, a READ does not overtake.
#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

PairOptions stormy(uint64_t seed) {
  PairOptions options;
  options.seed = seed;
  options.faults.loss = 0.08;
  options.faults.jitter = micros(60);
  options.faults.duplicate = 0.05;
  return options;
}

// One packet of A's traffic is lost at its first transmission.
void lose_first(Pair& pair, wire::DataOp op, uint32_t offset, uint64_t nth_message = 0) {
  pair.network().drop_nth(nth_message, [op, offset](const PacketView& p) {
    return p.is(op) && p.data()->offset == offset && !p.is_retransmission();
  });
}

class Order : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(in_a_storm, Order, testing::Range<uint64_t>(1, 6));

TEST_P(Order, a_receive_completion_implies_that_all_earlier_writes_are_placed) {
  Pair pair(stormy(GetParam()));
  const auto round_trip = [&](uint64_t round, bool with_write_imm) {
    Pair::fill(pair.bytes_a(0, 120000), round);
    ASSERT_TRUE(pair.qb.post_recv(round, {pair.mb.sge(500000, 1000)}));
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey, 0));
    ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(50000, 30000)}, pair.mb.addr + 50000, pair.mb.rkey, 0));
    if (with_write_imm) {
      ASSERT_TRUE(pair.qa.write_imm(3, {pair.ma.sge(80000, 40000)}, pair.mb.addr + 80000, pair.mb.rkey,
                                    static_cast<uint32_t>(round)));
    } else {
      ASSERT_TRUE(pair.qa.send(3, {pair.ma.sge(0, 1000)}));
    }
    const auto wc = pair.wait_for(pair.b, pair.qb.recv_cq);
    ASSERT_TRUE(wc.has_value());
    EXPECT_EQ(wc->wr_id, round);
    EXPECT_TRUE(same(pair, 0, 0, with_write_imm ? 120000 : 80000)) << "at the moment of the completion";
    if (with_write_imm) {
      EXPECT_EQ(wc->opcode, WcOpcode::kRecvWriteImm);
      EXPECT_EQ(wc->imm_or_invalidated, static_cast<uint32_t>(round));
      EXPECT_EQ(wc->byte_len, 40000u);
    }
    EXPECT_TRUE(completes(pair, pair.qa, 3));
  };
  for (uint64_t round = 0; round < 10; ++round) round_trip(round, round % 2 == 1);
}

TEST_P(Order, immediates_arrive_in_the_order_of_posting) {
  Pair pair(stormy(GetParam()));
  for (uint32_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(pair.qb.post_recv(i, {pair.mb.sge(500000, 30000)}));
    const uint32_t bytes = (60 - i) * 400;
    if (i % 2 == 0) {
      ASSERT_TRUE(pair.qa.write_imm(i, {pair.ma.sge(0, bytes)}, pair.mb.addr, pair.mb.rkey, 1000 + i));
    } else {
      ASSERT_TRUE(pair.qa.send_imm(i, {pair.ma.sge(0, bytes)}, 1000 + i));
    }
  }
  for (uint32_t i = 0; i < 60; ++i) {
    const auto wc = pair.wait_for(pair.b, pair.qb.recv_cq);
    ASSERT_TRUE(wc.has_value());
    EXPECT_EQ(wc->wr_id, i);
    EXPECT_EQ(wc->imm_or_invalidated, 1000 + i);
    EXPECT_EQ(wc->flags & wc_flag::kWithImm, wc_flag::kWithImm);
    EXPECT_EQ(wc->byte_len, (60 - i) * 400);
  }
}

TEST_P(Order, sends_out_of_order_land_in_their_own_receives) {
  Pair pair(stormy(GetParam()));
  for (uint32_t i = 0; i < 50; ++i) {
    Pair::fill(pair.bytes_a(i * 10000, 10000), i);
    ASSERT_TRUE(pair.qb.post_recv(i, {pair.mb.sge(i * 10000, 3000), pair.mb.sge(i * 10000 + 3000, 7000)}));
    ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(i * 10000, 10000)}));
  }
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(receives(pair, pair.qb, i));
    EXPECT_TRUE(completes(pair, pair.qa, i));
  }
  EXPECT_TRUE(same(pair, 0, 0, 500000));
}

TEST_P(Order, the_tail_of_a_write_is_the_last_to_be_stored) {
  Pair pair(stormy(GetParam()));
  Pair::fill(pair.bytes_a(0, 400000), 3);
  std::vector<bool> placed(400000);
  uint64_t tails = 0;
  bool early = false;
  pair.b.memory().on_place = [&](const Placement& placement, std::span<const std::byte>) {
    const size_t begin = placement.addr - pair.mb.addr;
    if (placement.tail) {
      ++tails;
      for (size_t i = 0; i < begin; ++i) early = early || !placed[i];
    }
    for (size_t i = 0; i < placement.length; ++i) placed[begin + i] = true;
  };
  for (uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.qa.write(i, {pair.ma.sge(i * 20000, 20000)}, pair.mb.addr + i * 20000, pair.mb.rkey));
  }
  for (uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(completes(pair, pair.qa, i));
  EXPECT_EQ(tails, 20u);
  EXPECT_FALSE(early) << "a tail was visible before something that comes before it";
  EXPECT_TRUE(same(pair, 0, 0, 400000));
}

TEST_P(Order, a_flag_written_after_the_data_is_seen_after_the_data) {
  Pair pair(stormy(GetParam()));
  const uint64_t flag = pair.mb.addr + 900000;
  uint64_t flags = 0;
  pair.b.memory().on_place = [&](const Placement& placement, std::span<const std::byte>) {
    if (placement.addr != flag) return;
    ++flags;
    EXPECT_TRUE(same(pair, 0, 0, 65536)) << "flag " << flags;
  };
  for (uint64_t round = 0; round < 20; ++round) {
    Pair::fill(pair.bytes_a(0, 65536), round);
    pair.a.memory().set_word(pair.ma.addr + 900000, round + 1);
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 65536)}, pair.mb.addr, pair.mb.rkey, 0));
    ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(900000, 8)}, flag, pair.mb.rkey));
    // A program that polls the flag and nothing else.
    ASSERT_TRUE(pair.run_until([&] { return pair.b.memory().word(flag) == round + 1; }));
    EXPECT_TRUE(completes(pair, pair.qa, 2));
  }
  EXPECT_EQ(flags, 20u);
}

TEST(OrderOf, a_held_tail_is_acknowledged_at_once_and_seen_later) {
  Pair pair;
  warm_up(pair);
  lose_first(pair, wire::DataOp::kWrite, 0);
  std::vector<Placement> order;
  pair.b.memory().on_place = [&](const Placement& p, std::span<const std::byte>) { order.push_back(p); };
  write_and_wait(pair, 1, 3 * 4096);
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0].addr, pair.mb.addr + 4096);
  EXPECT_EQ(order[1].addr, pair.mb.addr);
  EXPECT_EQ(order[2].addr, pair.mb.addr + 8192);
  EXPECT_TRUE(order[2].tail);
  pair.run_for(millis(5));
  EXPECT_EQ(stats_of(pair.a, pair.b).counters.retransmissions, 1u) << "the tail itself is not sent again";
}

TEST(OrderOf, a_relaxed_queue_pair_stores_the_tail_as_it_comes) {
  PairOptions options;
  options.qp.relaxed = true;
  Pair pair(options);
  warm_up(pair);
  lose_first(pair, wire::DataOp::kWrite, 0);
  std::vector<Placement> order;
  pair.b.memory().on_place = [&](const Placement& p, std::span<const std::byte>) { order.push_back(p); };
  write_and_wait(pair, 1, 3 * 4096);
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[1].addr, pair.mb.addr + 8192);
  EXPECT_TRUE(order[1].tail);
  EXPECT_EQ(order[2].addr, pair.mb.addr);
}

TEST(OrderOf, the_room_for_held_tails_is_bounded_and_what_does_not_fit_comes_again) {
  PairOptions options;
  options.tweak = [](EngineConfig& config) { config.held_bytes = 20000; };
  Pair pair(options);
  warm_up(pair);
  Pair::fill(pair.bytes_a(0, 400000), 3);
  lose_first(pair, wire::DataOp::kWrite, 0);
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.qa.write(i, {pair.ma.sge(i * 4000, 4000)}, pair.mb.addr + i * 4000, pair.mb.rkey));
  }
  for (uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(completes(pair, pair.qa, i));
  EXPECT_TRUE(same(pair, 0, 0, 400000));
  EXPECT_GT(pair.b.look().counters().drop_held_full, 10u);
}

// ---- READ and fence

TEST(ReadOrder, a_read_waits_for_the_writes_before_it) {
  for (uint32_t lost = 0; lost < 5; ++lost) {
    SCOPED_TRACE("lost packet " + std::to_string(lost));
    Pair pair;
    warm_up(pair);
    Pair::fill(pair.bytes_a(0, 20000), 8);
    lose_first(pair, wire::DataOp::kWrite, lost * 4096);
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 20000)}, pair.mb.addr, pair.mb.rkey));
    ASSERT_TRUE(pair.qa.read(2, {pair.ma.sge(100000, 20000)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(completes(pair, pair.qa, 1));
    EXPECT_TRUE(completes(pair, pair.qa, 2));
    EXPECT_TRUE(std::ranges::equal(pair.bytes_a(0, 20000), pair.bytes_a(100000, 20000)));
    EXPECT_EQ(pair.network().counters().filtered, 1u);
  }
}

TEST(ReadOrder, an_atomic_waits_for_the_writes_before_it) {
  Pair pair;
  warm_up(pair);
  pair.a.memory().set_word(pair.ma.addr + 12288, 41);
  lose_first(pair, wire::DataOp::kWrite, 12288);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 12296)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.fetch_add(2, pair.ma.sge(20000, 8), pair.mb.addr + 12288, pair.mb.rkey, 1));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_TRUE(completes(pair, pair.qa, 2));
  EXPECT_EQ(pair.a.memory().word(pair.ma.addr + 20000), 41u);
  EXPECT_EQ(pair.b.memory().word(pair.mb.addr + 12288), 42u);
}

// A READ whose response takes long, then a WRITE to the same place. True if the WRITE left before all of the
// response was there.
bool write_overtakes_read(uint32_t flags) {
  Pair pair;
  warm_up(pair);
  Pair::fill(pair.bytes_b(0, 60000), 1);
  Pair::fill(pair.bytes_a(100000, 60000), 2);
  const std::vector<std::byte> old(pair.bytes_b(0, 60000).begin(), pair.bytes_b(0, 60000).end());
  bool overtook = false;
  lose_first(pair, wire::DataOp::kReadResp, 4096 * 7);
  const uint64_t done = pair.a.memory().placed_bytes + 60000;
  pair.network().on_sent([&](const PacketView& p) {
    overtook = overtook || (p.is(wire::DataOp::kWrite) && pair.a.memory().placed_bytes < done);
  });
  EXPECT_TRUE(pair.qa.read(1, {pair.ma.sge(0, 60000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(pair.qa.write(2, {pair.ma.sge(100000, 60000)}, pair.mb.addr, pair.mb.rkey,
                            send_flag::kSignaled | flags));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  if (flags != 0) {
    EXPECT_TRUE(std::ranges::equal(old, pair.bytes_a(0, 60000)));
  }
  EXPECT_TRUE(completes(pair, pair.qa, 2));
  EXPECT_TRUE(same(pair, 100000, 0, 60000));
  return overtook;
}

TEST(ReadOrder, a_fence_holds_the_write_until_the_read_is_done) {
  EXPECT_FALSE(write_overtakes_read(send_flag::kFence));
}

TEST(ReadOrder, without_a_fence_the_write_may_overtake) {
  EXPECT_TRUE(write_overtakes_read(0)) << "so the test above can fail";
}

TEST(ReadOrder, no_more_reads_are_outstanding_than_both_sides_agreed) {
  PairOptions options;
  options.connection.max_rd_atomic = 8;
  options.connection.max_dest_rd_atomic = 3;
  options.faults.loss = 0.05;
  Pair pair(options);
  Pair::fill(pair.bytes_b(0, 500000), 1);
  uint32_t requested = 0, answered = 0, most = 0;
  std::vector<uint32_t> received(50);
  pair.a.memory().on_place = [&](const Placement& p, std::span<const std::byte>) {
    uint32_t& bytes = received.at((p.addr - pair.ma.addr) / 10000);
    bytes += p.length;
    answered += bytes == 10000 ? 1u : 0u;
  };
  pair.network().on_sent([&](const PacketView& p) {
    requested += p.is(wire::DataOp::kReadReq) && !p.is_retransmission() ? 1u : 0u;
    most = std::max(most, requested - answered);
  });
  for (uint32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(pair.qa.read(i, {pair.ma.sge(i * 10000, 10000)}, pair.mb.addr + i * 10000, pair.mb.rkey));
  }
  for (uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(completes(pair, pair.qa, i));
  EXPECT_TRUE(same(pair, 0, 0, 500000));
  EXPECT_EQ(most, 3u);
}

TEST(ReadOrder, reads_that_the_peer_does_not_take_at_all_fail) {
  PairOptions options;
  options.connection.max_dest_rd_atomic = 0;
  Pair pair(options);
  ASSERT_TRUE(pair.qa.read(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRemInvReqErr));
}

TEST(ReadOrder, responses_do_not_wait_for_requests_that_have_no_credit) {
  Pair pair;
  warm_up(pair);
  Pair::fill(pair.bytes_b(0, 100000), 1);
  ASSERT_TRUE(pair.qb.send(1, {pair.mb.sge(0, 100)}));  // A posts no receive for it
  pair.run_for(millis(5));
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.qa.read(i, {pair.ma.sge(0, 100000)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(completes(pair, pair.qa, i, WcStatus::kSuccess, millis(5)));
  }
}

}  // namespace
}  // namespace mroce::test
