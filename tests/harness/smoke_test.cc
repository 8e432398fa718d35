// The first thing to run when the engine changes: every operation once, over several paths, without and with
// loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/harness/pair.h"

namespace mroce::test {
namespace {

class Smoke : public testing::TestWithParam<std::tuple<double, uint32_t>> {
 protected:
  static PairOptions options() {
    PairOptions options;
    options.faults.loss = std::get<0>(GetParam());
    options.paths = std::get<1>(GetParam());
    options.planes = options.paths > 1 ? 2 : 1;
    return options;
  }
  void expect_done(const Qp& qp, CqHandle cq, uint64_t wr_id, WcOpcode opcode, uint32_t bytes) {
    const auto wc = pair.wait_for(*qp.endpoint, cq, seconds(5));
    ASSERT_TRUE(wc.has_value()) << "no completion of work request " << wr_id;
    EXPECT_EQ(wc->wr_id, wr_id);
    EXPECT_EQ(wc->status, WcStatus::kSuccess);
    EXPECT_EQ(wc->opcode, opcode);
    EXPECT_EQ(wc->byte_len, bytes);
    EXPECT_EQ(wc->qp_num, qp.number);
  }
  bool same(size_t at_a, size_t at_b, size_t length) {
    return std::ranges::equal(pair.bytes_a(at_a, length), pair.bytes_b(at_b, length));
  }

  Pair pair{options()};
};

TEST_P(Smoke, a_write_of_many_packets_lands) {
  Pair::fill(pair.bytes_a(0, 500000), 1);
  ASSERT_TRUE(pair.qa.write(7, {pair.ma.sge(0, 500000)}, pair.mb.addr, pair.mb.rkey));
  expect_done(pair.qa, pair.qa.send_cq, 7, WcOpcode::kWrite, 500000);
  EXPECT_TRUE(same(0, 0, 500000));
}

TEST_P(Smoke, an_empty_write_completes) {
  ASSERT_TRUE(pair.qa.write(7, {}, 0, 0));
  expect_done(pair.qa, pair.qa.send_cq, 7, WcOpcode::kWrite, 0);
}

TEST_P(Smoke, a_send_meets_its_receive) {
  Pair::fill(pair.bytes_a(0, 20001), 2);
  ASSERT_TRUE(pair.qb.post_recv(1, {pair.mb.sge(0, 10000), pair.mb.sge(10000, 20000)}));
  ASSERT_TRUE(pair.qa.send_imm(2, {pair.ma.sge(0, 20001)}, 0x12345678));
  expect_done(pair.qa, pair.qa.send_cq, 2, WcOpcode::kSend, 20001);
  expect_done(pair.qb, pair.qb.recv_cq, 1, WcOpcode::kRecv, 20001);
  EXPECT_TRUE(same(0, 0, 20001));
}

TEST_P(Smoke, a_send_waits_for_its_receive) {
  ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 100)}));
  pair.run_for(millis(300));
  EXPECT_FALSE(pair.a.poll(pair.qa.send_cq).has_value());
  ASSERT_TRUE(pair.qb.post_recv(1, {pair.mb.sge(0, 100)}));
  expect_done(pair.qa, pair.qa.send_cq, 2, WcOpcode::kSend, 100);
  expect_done(pair.qb, pair.qb.recv_cq, 1, WcOpcode::kRecv, 100);
}

TEST_P(Smoke, a_read_of_many_packets_brings_the_bytes) {
  Pair::fill(pair.bytes_b(1000, 300001), 3);
  ASSERT_TRUE(pair.qa.read(5, {pair.ma.sge(0, 300001)}, pair.mb.addr + 1000, pair.mb.rkey));
  expect_done(pair.qa, pair.qa.send_cq, 5, WcOpcode::kRead, 300001);
  EXPECT_TRUE(same(0, 1000, 300001));
}

TEST_P(Smoke, atomics_execute_once_in_order) {
  pair.b.memory().set_word(pair.mb.addr, 100);
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(
        pair.qa.fetch_add(i, pair.ma.sge(static_cast<uint32_t>(8 * i), 8), pair.mb.addr, pair.mb.rkey, 3));
  }
  ASSERT_TRUE(pair.qa.compare_swap(50, pair.ma.sge(400, 8), pair.mb.addr, pair.mb.rkey, 250, 77));
  ASSERT_TRUE(pair.qa.compare_swap(51, pair.ma.sge(408, 8), pair.mb.addr, pair.mb.rkey, 250, 78));
  for (uint64_t i = 0; i < 52; ++i) {
    expect_done(pair.qa, pair.qa.send_cq, i, i < 50 ? WcOpcode::kFetchAdd : WcOpcode::kCompareSwap, 8);
  }
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(pair.a.memory().word(pair.ma.addr + 8 * i), 100 + 3 * i);
  EXPECT_EQ(pair.a.memory().word(pair.ma.addr + 400), 250u);
  EXPECT_EQ(pair.a.memory().word(pair.ma.addr + 408), 77u);
  EXPECT_EQ(pair.b.memory().word(pair.mb.addr), 77u);
  EXPECT_EQ(pair.b.memory().atomics, 52u);
}

TEST_P(Smoke, many_messages_in_both_directions_complete_in_order) {
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(pair.qa.post_recv(1000 + i, {pair.ma.sge(500000, 5000)}));
    ASSERT_TRUE(pair.qb.post_recv(1000 + i, {pair.mb.sge(500000, 5000)}));
    ASSERT_TRUE(pair.qa.send(i, {pair.ma.sge(0, static_cast<uint32_t>(25 * i))}));
    ASSERT_TRUE(pair.qb.send(i, {pair.mb.sge(0, static_cast<uint32_t>(25 * i))}));
  }
  for (uint64_t i = 0; i < 200; ++i) {
    const auto bytes = static_cast<uint32_t>(25 * i);
    expect_done(pair.qa, pair.qa.send_cq, i, WcOpcode::kSend, bytes);
    expect_done(pair.qb, pair.qb.send_cq, i, WcOpcode::kSend, bytes);
    expect_done(pair.qa, pair.qa.recv_cq, 1000 + i, WcOpcode::kRecv, bytes);
    expect_done(pair.qb, pair.qb.recv_cq, 1000 + i, WcOpcode::kRecv, bytes);
  }
}

TEST_P(Smoke, an_orderly_end_leaves_nothing_open) {
  ASSERT_TRUE(pair.qa.write(7, {pair.ma.sge(0, 5000)}, pair.mb.addr, pair.mb.rkey));
  expect_done(pair.qa, pair.qa.send_cq, 7, WcOpcode::kWrite, 5000);
  pair.qa.destroy();
  pair.a.engine().shutdown(pair.now());
  EXPECT_TRUE(pair.run_until([&] { return pair.a.look().quiescent(); }, seconds(3)));
  EXPECT_TRUE(pair.run_until([&] { return pair.b.look().quiescent(); }, seconds(3)));
  EXPECT_EQ(pair.qb.state(), QpState::kRts);
}

INSTANTIATE_TEST_SUITE_P(all, Smoke, testing::Combine(testing::Values(0.0, 0.1), testing::Values(1u, 4u)),
                         [](const auto& param) {
                           return std::to_string(std::get<1>(param.param)) + "_paths_" +
                                  (std::get<0>(param.param) == 0 ? "lossless" : "lossy");
                         });

TEST(Harness, a_run_is_determined_by_its_seed) {
  const auto run = [](uint64_t seed) {
    PairOptions options;
    options.seed = seed;
    options.faults.loss = 0.05;
    options.faults.jitter = micros(20);
    Pair pair(options);
    EXPECT_TRUE(pair.qa.write(7, {pair.ma.sge(0, 300000)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(pair.wait_for(pair.a, pair.qa.send_cq).has_value());
    return pair.network().packet_hash();
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

}  // namespace
}  // namespace mroce::test
