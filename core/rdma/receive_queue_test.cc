#include "core/rdma/receive_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "core/base/rng.h"

namespace mroce {
namespace {

// The receive that number `n` is in these tests: `n % (max + 1)` SGEs, all values derived from n.
std::vector<Sge> sges_of(uint64_t n, uint32_t max) {
  std::vector<Sge> sges;
  for (uint32_t i = 0; i < n % (max + 1); ++i) {
    sges.push_back({n * 100 + i, static_cast<uint32_t>(n + i), static_cast<uint32_t>(n ^ i)});
  }
  return sges;
}

uint64_t bytes_of(const std::vector<Sge>& sges) {
  uint64_t bytes = 0;
  for (const Sge& sge : sges) bytes += sge.length;
  return bytes;
}

template <class Queue>
Status post(Queue& queue, uint64_t n) {
  const auto sges = sges_of(n, queue.max_sge());
  return queue.post({n, sges});
}

// `at` is where entry `n` of these tests is found.
template <class Queue, class At>
void expect_entry(const Queue& queue, At at, uint64_t n) {
  const auto expected = sges_of(n, queue.max_sge());
  const auto found = queue.sges(at);
  ASSERT_EQ(queue.wr_id(at), n);
  ASSERT_EQ(queue.bytes(at), bytes_of(expected));
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].addr, expected[i].addr);
    ASSERT_EQ(found[i].length, expected[i].length);
    ASSERT_EQ(found[i].lkey, expected[i].lkey);
  }
}

TEST(ReceiveQueue, entries_keep_their_number_while_the_queue_grows_and_wraps) {
  Rng rng(1);
  ReceiveQueue rq(300, 3);
  while (rq.posted() < 5000) {
    if (rq.depth() < 300 && rng.chance(rq.posted() % 2000 < 1000 ? 0.8 : 0.4)) {
      ASSERT_TRUE(post(rq, rq.posted()).has_value());
    } else if (rq.depth() > 0) {
      rq.pop();
    }
    for (uint64_t n = rq.begin(); n != rq.posted(); n += 1 + rng.below(40)) {
      if (!rq.contains(n)) break;
      expect_entry(rq, n, n);
    }
  }
}

TEST(ReceiveQueue, is_full_at_its_capacity) {
  ReceiveQueue rq(3, 1);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(post(rq, i).has_value());
  EXPECT_EQ(post(rq, 3).error(), Errc::kQueueFull);
  EXPECT_EQ(rq.posted(), 3u) << "what is refused takes no number";
  rq.pop();
  EXPECT_TRUE(post(rq, 3).has_value());
  EXPECT_EQ(rq.begin(), 1u);
  EXPECT_EQ(rq.depth(), 3u);
  EXPECT_FALSE(rq.contains(0));
  EXPECT_TRUE(rq.contains(3));
  EXPECT_FALSE(rq.contains(4));
}

TEST(ReceiveQueue, refuses_more_sges_than_it_was_made_for) {
  ReceiveQueue rq(3, 2);
  const std::vector<Sge> three(3);
  EXPECT_EQ(rq.post({1, three}).error(), Errc::kInvalidArgument);
  EXPECT_EQ(rq.depth(), 0u);
  EXPECT_TRUE(rq.post({1, std::span(three).first(2)}).has_value());
}

TEST(ReceiveQueue, without_sges_it_takes_receives_without_a_buffer) {
  ReceiveQueue rq(20, 0);
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(rq.post({i, {}}).has_value());
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(rq.wr_id(i), i);
    EXPECT_TRUE(rq.sges(i).empty());
    EXPECT_EQ(rq.bytes(i), 0u);
  }
}

TEST(ReceiveQueue, of_no_capacity_takes_nothing) {
  ReceiveQueue rq(0, 1);
  EXPECT_EQ(rq.post({1, {}}).error(), Errc::kQueueFull);
}

TEST(ReceiveQueue, flush_hands_out_everything_in_order_and_numbering_goes_on) {
  ReceiveQueue rq(10, 1);
  for (uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(post(rq, i).has_value());
  rq.pop();
  std::vector<uint64_t> flushed;
  rq.flush([&](uint64_t wr_id) { flushed.push_back(wr_id); });
  EXPECT_EQ(flushed, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(rq.depth(), 0u);
  EXPECT_EQ(rq.begin(), 6u);
  EXPECT_EQ(rq.posted(), 6u);
}

TEST(ReceiveQueue, counts_the_bytes_of_a_receive_above_four_gigabytes) {
  ReceiveQueue rq(1, 2);
  const std::vector<Sge> huge = {{0, 0xffffffff, 1}, {0, 0xffffffff, 1}};
  ASSERT_TRUE(rq.post({1, huge}).has_value());
  EXPECT_EQ(rq.bytes(0), 0x1'fffffffeu);
}

constexpr PdHandle kPd{3};

TEST(SharedReceiveQueue, hands_entries_out_in_the_order_of_posting_and_takes_them_back_in_any) {
  Rng rng(2);
  SharedReceiveQueue srq(kPd, 100, 3, 0, 9);
  std::deque<uint64_t> waiting;
  std::vector<std::pair<uint32_t, uint64_t>> taken;
  for (uint64_t n = 0; n < 20000; ++n) {
    switch (rng.below(3)) {
      case 0: {
        const auto status = post(srq, n);
        ASSERT_EQ(status.has_value(), waiting.size() + taken.size() < 100);
        if (status) waiting.push_back(n);
        break;
      }
      case 1: {
        const auto id = srq.take();
        ASSERT_EQ(id.has_value(), !waiting.empty());
        if (!id) break;
        taken.emplace_back(*id, waiting.front());
        waiting.pop_front();
        break;
      }
      default:
        if (taken.empty() || rng.chance(0.2)) break;
        const size_t index = rng.below(taken.size());
        srq.release(taken[index].first);
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(index));
    }
    ASSERT_EQ(srq.posted(), waiting.size());
    ASSERT_EQ(srq.in_use(), waiting.size() + taken.size());
    for (const auto& [id, number] : taken) expect_entry(srq, id, number);
  }
}

TEST(SharedReceiveQueue, a_taken_entry_occupies_its_place_until_it_is_released) {
  SharedReceiveQueue srq(kPd, 2, 1, 0, 0);
  ASSERT_TRUE(post(srq, 0).has_value());
  ASSERT_TRUE(post(srq, 1).has_value());
  const auto id = srq.take();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(srq.posted(), 1u);
  EXPECT_EQ(post(srq, 2).error(), Errc::kQueueFull);
  srq.release(*id);
  EXPECT_TRUE(post(srq, 2).has_value());
}

TEST(SharedReceiveQueue, refuses_more_sges_than_it_was_made_for) {
  SharedReceiveQueue srq(kPd, 2, 1, 0, 0);
  const std::vector<Sge> two(2);
  EXPECT_EQ(srq.post({1, two}).error(), Errc::kInvalidArgument);
  EXPECT_EQ(srq.posted(), 0u);
}

TEST(SharedReceiveQueue, the_limit_fires_once_when_fewer_are_posted_and_can_be_armed_again) {
  SharedReceiveQueue srq(kPd, 10, 1, 0, 0);
  for (uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(post(srq, n).has_value());
  EXPECT_FALSE(srq.check_limit()) << "disarmed";
  ASSERT_TRUE(srq.modify(srq.max_wr(), 3).has_value());
  EXPECT_FALSE(srq.check_limit());
  ASSERT_TRUE(srq.take().has_value());
  EXPECT_FALSE(srq.check_limit()) << "three are not fewer than three";
  ASSERT_TRUE(srq.take().has_value());
  EXPECT_TRUE(srq.check_limit());
  EXPECT_EQ(srq.limit(), 0u);
  EXPECT_FALSE(srq.check_limit());
  ASSERT_TRUE(srq.modify(srq.max_wr(), 3).has_value());
  EXPECT_TRUE(srq.check_limit()) << "armed while it is below already";
}

TEST(SharedReceiveQueue, can_be_created_with_an_armed_limit) {
  SharedReceiveQueue srq(kPd, 10, 1, 2, 0);
  EXPECT_EQ(srq.limit(), 2u);
  EXPECT_TRUE(srq.check_limit());
}

TEST(SharedReceiveQueue, the_limit_may_not_exceed_the_size) {
  SharedReceiveQueue srq(kPd, 4, 1, 0, 0);
  EXPECT_EQ(srq.modify(srq.max_wr(), 5).error(), Errc::kInvalidArgument);
  ASSERT_TRUE(srq.modify(srq.max_wr(), 4).has_value());
  EXPECT_EQ(srq.modify(3, srq.limit()).error(), Errc::kInvalidArgument);
}

TEST(SharedReceiveQueue, resize_refuses_less_than_what_is_in_use) {
  SharedReceiveQueue srq(kPd, 4, 2, 0, 0);
  for (uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(post(srq, n).has_value());
  const auto id = srq.take();
  EXPECT_EQ(srq.modify(2, srq.limit()).error(), Errc::kInvalidArgument);
  EXPECT_EQ(srq.modify(0, srq.limit()).error(), Errc::kInvalidArgument);
  ASSERT_TRUE(srq.modify(3, srq.limit()).has_value());
  EXPECT_EQ(post(srq, 3).error(), Errc::kQueueFull);
  ASSERT_TRUE(srq.modify(5, srq.limit()).has_value());
  EXPECT_TRUE(post(srq, 3).has_value());
  EXPECT_TRUE(post(srq, 4).has_value());
  EXPECT_EQ(srq.max_wr(), 5u);
  expect_entry(srq, *id, 0);
  for (uint64_t n = 1; n < 5; ++n) expect_entry(srq, *srq.take(), n);
}

}  // namespace
}  // namespace mroce
