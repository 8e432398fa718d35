#include "sim/tcp_receiver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "core/base/rng.h"

namespace mroce::sim {
namespace {

constexpr uint32_t kMss = 1000;

TcpOptions quiet() {
  TcpOptions options;
  options.quick_acks = 0;
  return options;
}

struct Side {
  explicit Side(TcpOptions with) : options(with), receiver(options) {}
  TcpReceiver::Arrival segment(uint32_t index, SimTime now = 0, bool fin = false) {
    return receiver.on_segment(now, options, index * kMss, kMss, fin);
  }
  TcpHeader acknowledge() {
    TcpHeader header;
    receiver.acknowledge(options, header);
    return header;
  }
  TcpOptions options;
  TcpReceiver receiver;
};

TEST(TcpReceiver, acknowledges_every_second_segment_or_after_forty_milliseconds) {
  Side side(quiet());
  EXPECT_FALSE(side.segment(0, 5).acknowledge);
  EXPECT_EQ(side.receiver.deadline(), 5 + microseconds(40'000));
  EXPECT_TRUE(side.segment(1, 7).acknowledge);
  EXPECT_EQ(side.acknowledge().acknowledgement, 2 * kMss);
  EXPECT_EQ(side.receiver.deadline(), kEndOfTime);
  EXPECT_FALSE(side.segment(2, 9).acknowledge);
}

TEST(TcpReceiver, acknowledges_the_first_segments_at_once) {
  TcpOptions options;
  options.quick_acks = 3;
  Side side(options);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(side.segment(i).acknowledge);
    side.acknowledge();
  }
  EXPECT_FALSE(side.segment(3).acknowledge);
}

TEST(TcpReceiver, acknowledges_gaps_their_filling_and_the_end_at_once) {
  Side side(quiet());
  const auto early = side.segment(1);
  EXPECT_TRUE(early.acknowledge && early.out_of_order);
  side.acknowledge();
  const auto filling = side.segment(0);
  EXPECT_TRUE(filling.acknowledge);
  EXPECT_EQ(filling.delivered, 2 * kMss);
  side.acknowledge();
  const auto end = side.segment(2, 0, true);
  EXPECT_TRUE(end.acknowledge && end.complete);
  side.acknowledge();
  const auto again = side.segment(2, 0, true);
  EXPECT_TRUE(again.acknowledge && again.duplicate);
  EXPECT_FALSE(again.complete);
}

TEST(TcpReceiver, reports_the_latest_range_first_and_duplicates_before_it) {
  Side side(quiet());
  for (const uint32_t i : {2U, 5U, 8U, 11U}) side.segment(i);
  TcpHeader header = side.acknowledge();
  ASSERT_EQ(header.blocks, 3);
  EXPECT_EQ(header.sack[0].begin, 11 * kMss);
  EXPECT_EQ(header.sack[0].end, 12 * kMss);
  EXPECT_EQ(header.sack[1].begin, 8 * kMss);
  EXPECT_EQ(header.sack[2].begin, 5 * kMss);
  side.segment(3);
  header = side.acknowledge();
  EXPECT_EQ(header.sack[0].begin, 2 * kMss);
  EXPECT_EQ(header.sack[0].end, 4 * kMss);
  EXPECT_EQ(header.sack[1].begin, 11 * kMss);
  side.segment(5);  // again
  header = side.acknowledge();
  ASSERT_EQ(header.blocks, 3);
  EXPECT_EQ(header.sack[0].begin, 5 * kMss);
  EXPECT_EQ(header.sack[0].end, 6 * kMss);
  EXPECT_EQ(header.sack[1].begin, 2 * kMss);
  EXPECT_EQ(side.acknowledge().sack[0].begin, 2 * kMss);  // told once
}

TEST(TcpReceiver, reports_ranges_that_became_one_once) {
  Side side(quiet());
  for (const uint32_t i : {2U, 4U, 8U, 3U}) side.segment(i);
  const TcpHeader header = side.acknowledge();
  ASSERT_EQ(header.blocks, 2);
  EXPECT_EQ(header.sack[0].begin, 2 * kMss);
  EXPECT_EQ(header.sack[0].end, 5 * kMss);
  EXPECT_EQ(header.sack[1].begin, 8 * kMss);
}

TEST(TcpReceiver, dctcp_acknowledges_what_came_before_when_marks_change) {
  TcpOptions options = quiet();
  options.control = TcpControl::kDctcp;
  Side side(options);
  const auto arrive = [&](uint32_t i, bool marked) {
    std::vector<std::pair<uint32_t, bool>> acks;
    const auto note = [&](const TcpHeader& header) {
      acks.emplace_back(header.acknowledgement / kMss, (header.flags & TcpHeader::kEce) != 0);
    };
    if (side.receiver.mark_changes(marked)) note(side.acknowledge());
    side.receiver.set_mark(marked);
    if (side.segment(i).acknowledge) note(side.acknowledge());
    return acks;
  };
  using Acks = std::vector<std::pair<uint32_t, bool>>;
  EXPECT_EQ(arrive(0, false), Acks{});
  EXPECT_EQ(arrive(1, true), (Acks{{1, false}}));
  EXPECT_EQ(arrive(2, true), (Acks{{3, true}}));
  EXPECT_EQ(arrive(3, false), Acks{});  // nothing is unacknowledged
  EXPECT_EQ(arrive(4, false), (Acks{{5, false}}));
}

// Segments in any order, any number of times, against a set; sequence numbers wrap.
TEST(TcpReceiver, delivers_each_byte_once_and_in_order_whatever_the_order_of_arrival) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    Side side(quiet());
    const auto count = static_cast<uint32_t>(rng.between(1, 120));
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    for (uint32_t i = 0; i < count; ++i) order.push_back(static_cast<uint32_t>(rng.below(count)));
    for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
    std::set<uint32_t> have;
    uint64_t delivered = 0;
    int completions = 0;
    for (const uint32_t index : order) {
      const auto arrival = side.segment(index, 0, index == count - 1);
      EXPECT_EQ(arrival.duplicate, !have.insert(index).second);
      delivered += arrival.delivered;
      completions += arrival.complete ? 1 : 0;
      uint32_t in_order = 0;
      while (have.contains(in_order)) ++in_order;
      ASSERT_EQ(delivered, uint64_t{in_order} * kMss) << "seed " << seed;
      const TcpHeader header = side.acknowledge();
      EXPECT_EQ(header.acknowledgement, in_order * kMss);
      for (uint32_t b = 0; b < header.blocks; ++b) {
        for (uint32_t at = header.sack[b].begin; at < header.sack[b].end; at += kMss)
          EXPECT_TRUE(have.contains(at / kMss)) << "seed " << seed;
      }
    }
    EXPECT_EQ(completions, 1);
  }
}

TEST(TcpReceiver, goes_on_beyond_four_gigabytes) {
  TcpOptions options = quiet();
  TcpReceiver receiver(options);
  constexpr uint32_t kBig = 1 << 30;
  for (uint64_t i = 0; i < 9; ++i) {
    const auto arrival = receiver.on_segment(0, options, static_cast<uint32_t>(i * kBig), kBig, i == 8);
    EXPECT_EQ(arrival.delivered, kBig);
    EXPECT_EQ(arrival.complete, i == 8);
  }
  EXPECT_EQ(receiver.next(), uint64_t{9} * kBig);
}

}  // namespace
}  // namespace mroce::sim
