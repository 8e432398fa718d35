// Lengths: nothing at all, one byte more or less than a packet, many pieces, and the largest message.
#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

TEST(ZeroLength, messages_of_every_kind_complete) {
  Pair pair;
  const Mr invalidated = pair.b.make_mr(64);
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(pair.qb.post_recv(100 + i, {}));
  // Keys and addresses of nothing are not looked at.
  ASSERT_TRUE(pair.qa.write(0, {}, 0xdead, 0xbeef));
  ASSERT_TRUE(pair.qa.write_imm(1, {}, 0xdead, 0xbeef, 11));
  ASSERT_TRUE(pair.qa.send(2, {}));
  ASSERT_TRUE(pair.qa.send_imm(3, {}, 33));
  ASSERT_TRUE(pair.qa.send_inv(4, {}, invalidated.rkey));
  ASSERT_TRUE(pair.qa.read(5, {}, 0xdead, 0xbeef));
  ASSERT_TRUE(pair.qa.send(6, {pair.ma.sge(0, 0), {1, 0, 2}}));
  for (uint64_t i = 0; i < 7; ++i) EXPECT_TRUE(completes(pair, pair.qa, i));
  std::vector<Wc> got = pair.wait_for(pair.b, pair.qb.recv_cq, 5);
  ASSERT_EQ(got.size(), 5u);
  for (const Wc& wc : got) EXPECT_EQ(wc.byte_len, 0u);
  EXPECT_EQ(got[0].imm_or_invalidated, 11u);
  EXPECT_EQ(got[2].imm_or_invalidated, 33u);
  EXPECT_EQ(got[3].imm_or_invalidated, invalidated.rkey);
  EXPECT_EQ(got[3].flags, wc_flag::kWithInv);
  EXPECT_EQ(pair.b.memory().placed_bytes, 0u);
}

TEST(ZeroLength, messages_keep_their_place_in_the_order) {
  PairOptions options;
  options.faults.loss = 0.1;
  Pair pair(options);
  for (uint64_t i = 0; i < 60; ++i) {
    if (i % 3 == 0) {
      ASSERT_TRUE(pair.qa.write(i, {}, 0, 0));
    }
    if (i % 3 == 1) {
      ASSERT_TRUE(pair.qa.write(i, {pair.ma.sge(0, 30000)}, pair.mb.addr, pair.mb.rkey));
    }
    if (i % 3 == 2) {
      ASSERT_TRUE(pair.qa.read(i, {}, 0, 0));
    }
  }
  for (uint64_t i = 0; i < 60; ++i) EXPECT_TRUE(completes(pair, pair.qa, i));
}

TEST(Sizes, around_the_payload_of_a_packet_arrive_whole) {
  Pair pair;
  warm_up(pair);
  const uint32_t mtu = stats_of(pair.a, pair.b).payload_mtu;
  ASSERT_EQ(mtu, 4096u);
  uint64_t id = 0;
  for (const uint32_t bytes :
       {1u, 7u, 8u, 9u, 256u, 257u, mtu - 1, mtu, mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1}) {
    SCOPED_TRACE(bytes);
    Pair::fill(pair.bytes_a(0, bytes), bytes);
    Pair::fill(pair.bytes_b(0, bytes + 1), 3);
    const std::byte behind = pair.bytes_b(bytes, 1)[0];
    write_and_wait(pair, ++id, bytes);
    EXPECT_TRUE(same(pair, 0, 0, bytes));
    EXPECT_EQ(pair.bytes_b(bytes, 1)[0], behind);
    ASSERT_TRUE(pair.qa.read(++id, {pair.ma.sge(100000, bytes)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(completes(pair, pair.qa, id));
    EXPECT_TRUE(same(pair, 100000, 0, bytes));
    ASSERT_TRUE(pair.qb.post_recv(id, {pair.mb.sge(200000, bytes)}));
    ASSERT_TRUE(pair.qa.send(++id, {pair.ma.sge(0, bytes)}));
    EXPECT_TRUE(completes(pair, pair.qa, id));
    EXPECT_TRUE(receives(pair, pair.qb, id - 1));
    EXPECT_TRUE(same(pair, 0, 200000, bytes));
  }
}

TEST(Sizes, of_pieces_that_fit_nothing_are_gathered_and_scattered) {
  PairOptions options;
  options.faults.jitter = micros(50);
  Pair pair(options);
  Pair::fill(pair.bytes_a(0, 60000), 3);
  ASSERT_TRUE(pair.qb.post_recv(
      1, {pair.mb.sge(5, 4095), pair.mb.sge(10000, 1), {0, 0, 0}, pair.mb.sge(20000, 30000)}));
  ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 4097), pair.ma.sge(10001, 13), pair.ma.sge(20002, 20000)}));
  EXPECT_TRUE(completes(pair, pair.qa, 2));
  EXPECT_TRUE(receives(pair, pair.qb, 1));
  std::vector<std::byte> sent, got;
  const auto append = [](std::vector<std::byte>& to, std::span<std::byte> from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(sent, pair.bytes_a(0, 4097));
  append(sent, pair.bytes_a(10001, 13));
  append(sent, pair.bytes_a(20002, 20000));
  append(got, pair.bytes_b(5, 4095));
  append(got, pair.bytes_b(10000, 1));
  append(got, pair.bytes_b(20000, 30000));
  got.resize(sent.size());
  EXPECT_TRUE(sent == got);
}

TEST(Sizes, of_inline_data_are_copied_at_once) {
  PairOptions options;
  options.faults.loss = 0.3;
  Pair pair(options);
  for (uint32_t bytes : {1u, 100u, 256u}) {
    Pair::fill(pair.bytes_a(0, bytes), bytes);
    const std::vector<std::byte> original(pair.bytes_a(0, bytes).begin(), pair.bytes_a(0, bytes).end());
    // Keys of inline data are not looked at, and the memory may be used again as soon as it is posted.
    ASSERT_TRUE(pair.qa.write(bytes, {{pair.ma.addr, bytes, 0xbad}}, pair.mb.addr, pair.mb.rkey,
                              send_flag::kSignaled | send_flag::kInline));
    Pair::fill(pair.bytes_a(0, bytes), 999);
    EXPECT_TRUE(completes(pair, pair.qa, bytes));
    EXPECT_TRUE(std::ranges::equal(original, pair.bytes_b(0, bytes)));
  }
  const std::vector<Sge> too_long{{pair.ma.addr, 257, 0}};
  SendWr wr;
  wr.flags = send_flag::kInline;
  wr.opcode = Opcode::kSend;
  wr.sges = too_long;
  EXPECT_EQ(pair.qa.post(wr).error(), Errc::kInvalidArgument);
}

TEST(Sizes, up_to_two_gigabytes_are_accepted_and_not_a_byte_more) {
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  // Nobody answers, so nothing is fetched from this region, which has no memory behind it.
  ASSERT_TRUE(pair.qa.to_init());
  ASSERT_TRUE(pair.qa.to_rtr(pair.qb));
  ASSERT_TRUE(pair.qa.to_rts());
  const MrInfo huge =
      pair.a.engine().reg_mr(pair.a.pd(), 1ULL << 40, 1ULL << 33, 1ULL << 40, access::kAll).value();
  const auto piece = [&](uint64_t bytes) { return Sge{1ULL << 40, static_cast<uint32_t>(bytes), huge.lkey}; };
  EXPECT_TRUE(pair.qa.write(1, {piece(0x80000000)}, 0, 1));
  EXPECT_TRUE(pair.qa.read(2, {piece(0x7fffffff), piece(1)}, 0, 1));
  EXPECT_EQ(pair.qa.write(3, {piece(0x80000001)}, 0, 1).error(), Errc::kInvalidArgument);
  EXPECT_EQ(pair.qa.send(4, {piece(0x80000000), piece(1)}).error(), Errc::kInvalidArgument);
  EXPECT_EQ(
      pair.qa.send(5, {piece(0xffffffff), piece(0xffffffff), piece(0xffffffff), piece(0xffffffff)}).error(),
      Errc::kInvalidArgument);
}

TEST(Sizes, of_work_requests_that_make_no_sense_are_refused) {
  Pair pair;
  EXPECT_EQ(pair.qa.send(1, std::vector<Sge>(5, pair.ma.sge(0, 8))).error(), Errc::kInvalidArgument)
      << "4 SGEs";
  EXPECT_EQ(pair.qa.fetch_add(1, pair.ma.sge(0, 16), pair.mb.addr, pair.mb.rkey, 1).error(),
            Errc::kInvalidArgument);
  EXPECT_EQ(pair.qa.read(1, {pair.ma.sge(0, 8)}, pair.mb.addr, pair.mb.rkey, send_flag::kInline).error(),
            Errc::kInvalidArgument);
  EXPECT_EQ(pair.qb.post_recv(1, std::vector<Sge>(5, pair.mb.sge(0, 8))).error(), Errc::kInvalidArgument);
  const Qp reset = pair.a.make_qp();
  EXPECT_EQ(reset.send(1, {}).error(), Errc::kBadState);
  EXPECT_EQ(reset.post_recv(1, {}).error(), Errc::kBadState);
}

TEST(Sizes, of_the_queues_are_kept) {
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  QpOptions small;
  small.cap = {3, 2, 1, 1, 0};
  const Qp qp = pair.a.make_qp(small);
  ASSERT_TRUE(qp.to_init());
  for (uint64_t i = 0; i < 2; ++i) EXPECT_TRUE(qp.post_recv(i, {}));
  EXPECT_EQ(qp.post_recv(2, {}).error(), Errc::kQueueFull);
  ASSERT_TRUE(qp.to_rtr(pair.qb));
  ASSERT_TRUE(qp.to_rts());
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(qp.send(i, {}));
  EXPECT_EQ(qp.send(3, {}).error(), Errc::kQueueFull);
}

TEST(Sizes, of_the_message_window_do_not_stop_small_messages) {
  PairOptions options;
  options.qp.cap.max_send_wr = 8192;
  options.faults.loss = 0.01;
  Pair pair(options);
  for (uint64_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(pair.qa.write(i, {pair.ma.sge(0, 8)}, pair.mb.addr, pair.mb.rkey,
                              i == 4999 ? send_flag::kSignaled : 0));
  }
  EXPECT_TRUE(completes(pair, pair.qa, 4999));
}

}  // namespace
}  // namespace mroce::test
