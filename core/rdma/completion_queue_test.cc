#include "core/rdma/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <vector>

#include "core/base/rng.h"

namespace mroce {
namespace {

Wc wc(uint64_t wr_id, uint32_t qp_num = 2, WcStatus status = WcStatus::kSuccess) {
  Wc completion;
  completion.wr_id = wr_id;
  completion.qp_num = qp_num;
  completion.status = status;
  return completion;
}

std::vector<uint64_t> drain(CompletionQueue& cq) {
  std::vector<uint64_t> ids;
  std::array<Wc, 3> some;
  while (const uint32_t count = cq.poll(some)) {
    for (uint32_t i = 0; i < count; ++i) ids.push_back(some[i].wr_id);
  }
  return ids;
}

TEST(CompletionQueue, gives_completions_in_order_and_no_more_than_asked_for) {
  CompletionQueue cq(10, 77);
  EXPECT_EQ(cq.user(), 77u);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_FALSE(cq.push(wc(i), true)) << "nobody armed it";
  EXPECT_EQ(cq.depth(), 5u);
  std::array<Wc, 2> two;
  ASSERT_EQ(cq.poll(two), 2u);
  EXPECT_EQ(two[0].wr_id, 0u);
  EXPECT_EQ(two[1].wr_id, 1u);
  EXPECT_EQ(cq.poll({}), 0u);
  EXPECT_EQ(drain(cq), (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_EQ(cq.poll(two), 0u);
}

TEST(CompletionQueue, a_completion_keeps_all_its_fields) {
  CompletionQueue cq(1, 0);
  const Wc in{1, WcStatus::kRemAccessErr, WcOpcode::kRecvWriteImm, 2, 3, 4, 5, wc_flag::kWithImm};
  EXPECT_FALSE(cq.push(in, false));
  std::array<Wc, 1> out;
  ASSERT_EQ(cq.poll(out), 1u);
  EXPECT_EQ(out[0].wr_id, 1u);
  EXPECT_EQ(out[0].status, WcStatus::kRemAccessErr);
  EXPECT_EQ(out[0].opcode, WcOpcode::kRecvWriteImm);
  EXPECT_EQ(out[0].byte_len, 2u);
  EXPECT_EQ(out[0].imm_or_invalidated, 3u);
  EXPECT_EQ(out[0].qp_num, 4u);
  EXPECT_EQ(out[0].src_qp, 5u);
  EXPECT_EQ(out[0].flags, wc_flag::kWithImm);
}

TEST(CompletionQueue, a_completion_too_many_is_lost_and_remembered) {
  CompletionQueue cq(2, 0);
  cq.arm(false);
  EXPECT_TRUE(cq.push(wc(1), false));
  EXPECT_FALSE(cq.push(wc(2), false));
  EXPECT_FALSE(cq.overflowed());
  cq.arm(false);
  EXPECT_FALSE(cq.push(wc(3), false)) << "what is dropped notifies nobody";
  EXPECT_TRUE(cq.overflowed());
  EXPECT_EQ(drain(cq), (std::vector<uint64_t>{1, 2}));
  EXPECT_TRUE(cq.overflowed());
}

TEST(CompletionQueue, an_armed_notification_fires_once) {
  CompletionQueue cq(10, 0);
  cq.arm(false);
  EXPECT_TRUE(cq.push(wc(1), false));
  EXPECT_FALSE(cq.push(wc(2), true));
  cq.arm(false);
  EXPECT_TRUE(cq.push(wc(3), false)) << "completions that were there before do not count, the next one does";
}

TEST(CompletionQueue, armed_for_solicited_ones_it_ignores_the_others) {
  CompletionQueue cq(10, 0);
  cq.arm(true);
  EXPECT_FALSE(cq.push(wc(1), false));
  EXPECT_TRUE(cq.push(wc(2), true));
  EXPECT_FALSE(cq.push(wc(3), true));
}

TEST(CompletionQueue, a_failure_counts_as_solicited) {
  CompletionQueue cq(10, 0);
  cq.arm(true);
  EXPECT_TRUE(cq.push(wc(1, 2, WcStatus::kWrFlushErr), false));
}

TEST(CompletionQueue, the_wider_of_two_arms_holds) {
  CompletionQueue cq(10, 0);
  cq.arm(false);
  cq.arm(true);
  EXPECT_TRUE(cq.push(wc(1), false));
  cq.arm(true);
  cq.arm(false);
  EXPECT_TRUE(cq.push(wc(2), false));
}

TEST(CompletionQueue, purge_drops_one_queue_pair_and_keeps_the_order_of_the_others) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    CompletionQueue cq(100, 0);
    std::deque<Wc> model;
    for (uint64_t i = rng.below(20); i > 0; --i) {  // moves the ring's start
      EXPECT_FALSE(cq.push(wc(i), false));
      std::array<Wc, 1> one;
      ASSERT_EQ(cq.poll(one), 1u);
    }
    for (uint64_t i = rng.below(40); i > 0; --i) {
      const Wc completion = wc(rng.next(), static_cast<uint32_t>(rng.below(3)));
      EXPECT_FALSE(cq.push(completion, false));
      if (completion.qp_num != 1) model.push_back(completion);
    }
    cq.purge(1);
    ASSERT_EQ(cq.depth(), model.size());
    std::vector<uint64_t> expected;
    for (const Wc& completion : model) expected.push_back(completion.wr_id);
    ASSERT_EQ(drain(cq), expected);
  }
}

TEST(CompletionQueue, resize_refuses_less_than_it_holds) {
  CompletionQueue cq(2, 0);
  EXPECT_FALSE(cq.push(wc(1), false));
  EXPECT_FALSE(cq.push(wc(2), false));
  EXPECT_EQ(cq.resize(1).error(), Errc::kInvalidArgument);
  EXPECT_EQ(cq.resize(0).error(), Errc::kInvalidArgument);
  EXPECT_EQ(cq.capacity(), 2u);
  ASSERT_TRUE(cq.resize(3).has_value());
  EXPECT_FALSE(cq.push(wc(3), false));
  EXPECT_FALSE(cq.overflowed());
  ASSERT_TRUE(cq.resize(3).has_value());
  EXPECT_EQ(drain(cq), (std::vector<uint64_t>{1, 2, 3}));
  ASSERT_TRUE(cq.resize(1).has_value());
}

}  // namespace
}  // namespace mroce
