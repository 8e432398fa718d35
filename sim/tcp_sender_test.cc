#include "sim/tcp_sender.h"

#include <gtest/gtest.h>

#include <vector>

namespace mroce::sim {
namespace {

constexpr uint32_t kMss = 1000;
constexpr SimTime kRtt = microseconds(100);

TcpHeader ack(uint32_t segments, std::initializer_list<TcpSackBlock> blocks = {}, bool echo = false) {
  TcpHeader header;
  header.acknowledgement = segments * kMss;
  for (const TcpSackBlock& block : blocks)
    header.sack[header.blocks++] = {block.begin * kMss, block.end * kMss};
  if (echo) header.flags = TcpHeader::kEce;
  return header;
}

struct Side {
  explicit Side(TcpOptions with, uint64_t segments = 1000)
      : options(with), sender(options, kMss, segments * kMss) {
    sender.seed_rtt(kRtt);
  }
  // All that may leave now, a nanosecond apart.
  std::vector<uint64_t> send() {
    std::vector<uint64_t> out;
    while (sender.can_send()) {
      out.push_back(sender.take(now).index);
      next = std::max(next, static_cast<uint32_t>(out.back() + 1));
      now += nanos(1);
    }
    return out;
  }
  void at(SimTime time, const TcpHeader& header) {
    now = time;
    sender.on_ack(now, header);
  }
  SimTime now = 0;
  uint32_t next = 0;  // segment that was never sent
  TcpOptions options;
  TcpSender sender;
};

using List = std::vector<uint64_t>;

TEST(TcpRtt, follows_rfc_6298) {
  TcpOptions options;
  options.rto_min = 1;
  TcpRtt rtt;
  EXPECT_EQ(rtt.timeout(options), microseconds(1'000'000));
  rtt.sample(microseconds(100));
  EXPECT_EQ(rtt.smoothed, microseconds(100));
  EXPECT_EQ(rtt.variation, microseconds(50));
  EXPECT_EQ(rtt.timeout(options), microseconds(300));
  rtt.sample(microseconds(180));
  EXPECT_EQ(rtt.variation, microseconds(50) * 3 / 4 + microseconds(80) / 4);
  EXPECT_EQ(rtt.smoothed, microseconds(110));
  EXPECT_EQ(rtt.timeout(options), microseconds(110) + 4 * nanos(57'500));
  rtt.backoff = 3;
  EXPECT_EQ(rtt.timeout(options), 8 * (microseconds(110) + 4 * nanos(57'500)));
  rtt.backoff = 60;
  EXPECT_EQ(rtt.timeout(options), options.rto_max);
  rtt.sample(microseconds(180));
  EXPECT_EQ(rtt.backoff, 0u);
}

TEST(TcpSender, begins_with_ten_segments) {
  Side side({});
  EXPECT_EQ(side.send().size(), 10u);
  EXPECT_EQ(side.sender.in_flight(), 10u);
}

TEST(TcpSender, a_timeout_is_never_below_its_minimum_and_doubles) {
  TcpOptions options;
  options.tlp = false;
  Side side(options);
  side.send();
  EXPECT_EQ(side.sender.deadline(), microseconds(200'000));
  SimTime expected = microseconds(200'000);
  for (const int64_t factor : {2, 4, 8}) {
    side.now = side.sender.deadline();
    EXPECT_EQ(side.now, expected);
    side.sender.on_timer(side.now);
    EXPECT_EQ(side.send(), List{0});  // a window of one segment
    expected += microseconds(200'000) * factor;
  }
  EXPECT_EQ(side.sender.timeouts(), 3u);
  EXPECT_EQ(side.sender.congestion().threshold(), 5u * kMss);  // half of the flight, once
}

TEST(TcpSender, sends_everything_again_in_slow_start_after_a_timeout) {
  TcpOptions options;
  options.tlp = false;
  Side side(options, 10);
  side.send();
  side.now = side.sender.deadline();
  side.sender.on_timer(side.now);
  EXPECT_EQ(side.send(), List{0});
  side.at(side.now + kRtt, ack(1));
  EXPECT_EQ(side.send(), (List{1, 2}));
  side.at(side.now + kRtt, ack(3));
  EXPECT_EQ(side.send(), (List{3, 4, 5, 6}));
  side.at(side.now + kRtt, ack(7));
  EXPECT_EQ(side.send(), (List{7, 8, 9}));
  side.at(side.now + kRtt, ack(10));
  EXPECT_TRUE(side.sender.finished());
  EXPECT_EQ(side.sender.deadline(), kEndOfTime);
}

TEST(TcpSender, new_reno_sends_the_first_again_after_three_duplicates) {
  TcpOptions options;
  options.sack = false;
  Side side(options);
  side.send();
  side.at(kRtt, ack(0));
  EXPECT_EQ(side.send(), List{10});  // limited transmit: what a duplicate stands for has left the network
  side.at(kRtt + 1, ack(0));
  EXPECT_EQ(side.send(), List{11});
  EXPECT_EQ(side.sender.recoveries(), 0u);
  side.at(kRtt + 2, ack(0));
  EXPECT_EQ(side.send(), List{0});
  EXPECT_EQ(side.sender.congestion().threshold(), 6u * kMss);  // half of twelve
  EXPECT_EQ(side.sender.recoveries(), 1u);
  EXPECT_EQ(side.sender.timeouts(), 0u);
}

TEST(TcpSender, new_reno_repairs_one_loss_a_round_trip) {
  TcpOptions options;
  options.sack = false;
  Side side(options);
  side.send();  // 0 and 4 are lost
  for (int i = 0; i < 8; ++i) side.at(kRtt + i, ack(0));
  List sent = side.send();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0], 0u);
  side.at(2 * kRtt, ack(4));  // partial
  sent = side.send();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0], 4u);
  side.at(3 * kRtt, ack(10));
  EXPECT_EQ(side.sender.recoveries(), 1u);
  EXPECT_EQ(side.sender.congestion().window(), side.sender.congestion().threshold());
  EXPECT_EQ(side.sender.timeouts(), 0u);
}

TEST(TcpSender, new_reno_leaves_recovery_without_a_burst) {
  TcpOptions options;
  options.sack = false;
  Side side(options);
  side.send();
  for (int i = 0; i < 3; ++i) {
    side.at(kRtt + i, ack(0));
    side.send();
  }
  side.at(2 * kRtt, ack(side.next));  // nothing is in flight any more
  EXPECT_EQ(side.sender.congestion().window(), 2u * kMss);
  EXPECT_EQ(side.send().size(), 2u);
}

TEST(TcpSender, new_reno_answers_a_partial_acknowledgement_although_the_window_is_full) {
  TcpOptions options;
  options.sack = false;
  Side side(options);
  side.send();  // 0 and 1 are lost
  for (int i = 0; i < 3; ++i) {
    side.at(kRtt + i, ack(0));
    side.send();
  }
  side.at(2 * kRtt, ack(1));
  EXPECT_GT((side.sender.in_flight() + 1) * kMss, side.sender.congestion().window());
  EXPECT_EQ(side.send(), List{1});
}

// Duplicates for data that was sent before a timeout begin no second recovery (RFC 6582, section 3.2).
TEST(TcpSender, new_reno_does_not_recover_twice_from_one_window) {
  TcpOptions options;
  options.sack = false;
  Side side(options);
  side.send();
  side.now = side.sender.deadline();
  side.sender.on_timer(side.now);
  side.send();
  side.at(side.now + kRtt, ack(10));
  EXPECT_EQ(side.send().size(), 5u);  // slow start up to the threshold
  for (int i = 0; i < 5; ++i) side.at(side.now + kRtt + i, ack(10));
  EXPECT_EQ(side.sender.recoveries(), 0u);
}

class SackLoss : public testing::TestWithParam<bool> {};

TEST_P(SackLoss, several_losses_of_one_window_are_repaired_in_one_round_trip) {
  TcpOptions options;
  options.rack = GetParam();
  Side side(options);
  side.send();  // 0, 3 and 5 are lost
  side.at(kRtt + 1, ack(0, {{1, 2}}));
  side.at(kRtt + 2, ack(0, {{1, 3}}));
  EXPECT_EQ(side.sender.recoveries(), 0u);
  side.at(kRtt + 3, ack(0, {{4, 5}, {1, 3}}));
  EXPECT_EQ(side.sender.recoveries(), 1u);
  side.at(kRtt + 4, ack(0, {{6, 7}, {4, 5}, {1, 3}}));
  side.at(kRtt + 5, ack(0, {{6, 8}, {4, 5}, {1, 3}}));
  side.at(kRtt + 6, ack(0, {{6, 9}, {4, 5}, {1, 3}}));
  side.at(kRtt + 7, ack(0, {{6, 10}, {4, 5}, {1, 3}}));
  const List sent = side.send();
  ASSERT_GE(sent.size(), 3u);
  EXPECT_EQ((List{sent[0], sent[1], sent[2]}), (List{0, 3, 5}));
  EXPECT_EQ(side.sender.congestion().window(), 5u * kMss);
  EXPECT_EQ(side.sender.in_flight(), 5u);
  side.at(2 * kRtt + 9, ack(10));
  EXPECT_EQ(side.sender.recoveries(), 1u);
  EXPECT_EQ(side.sender.timeouts(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Tcp, SackLoss, testing::Bool(),
                         [](const auto& each) { return each.param ? "by_time" : "by_count"; });

TEST(TcpSender, counts_only_reports_above_a_gap) {
  TcpOptions options;
  options.rack = false;
  Side side(options);
  side.send();
  side.at(kRtt + 1, ack(0, {{1, 3}}));
  side.at(kRtt + 2, ack(3));
  side.at(kRtt + 3, ack(3, {{4, 6}}));
  EXPECT_EQ(side.sender.recoveries(), 0u);
  side.at(kRtt + 4, ack(3, {{4, 7}}));
  EXPECT_EQ(side.sender.recoveries(), 1u);
}

TEST(TcpSender, rack_finds_a_lost_retransmission) {
  Side side({});
  side.send();
  side.at(kRtt, ack(0, {{1, 4}}));
  EXPECT_EQ(side.send()[0], 0u);
  side.at(kRtt + microseconds(1), ack(0, {{1, 10}}));
  const List fresh = side.send();  // after the retransmission
  ASSERT_FALSE(fresh.empty());
  side.at(2 * kRtt + microseconds(2), ack(0, {{10, 11}, {1, 10}}));
  const List sent = side.send();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0], 0u);
  EXPECT_EQ(side.sender.recoveries(), 1u);
}

// Acknowledged sooner than a round trip after the retransmission: that was the original, and says nothing
// about what was sent before the retransmission.
TEST(TcpSender, rack_learns_nothing_from_a_retransmission_that_was_not_needed) {
  Side side({});
  side.send();
  side.at(kRtt, ack(0, {{1, 4}}));
  EXPECT_EQ(side.send()[0], 0u);
  side.at(side.now + nanos(10), ack(4));
  for (const uint64_t index : side.send()) EXPECT_GE(index, 10u);
}

TEST(TcpSender, rack_waits_a_quarter_round_trip_for_one_that_is_late) {
  Side side({});
  side.send();
  side.at(kRtt + nanos(1), ack(0, {{1, 2}}));
  EXPECT_TRUE(side.send().size() <= 1);
  EXPECT_EQ(side.sender.recoveries(), 0u);
  EXPECT_EQ(side.sender.deadline(), kRtt + kRtt / 4);  // since segment 0 left
  side.now = side.sender.deadline();
  side.sender.on_timer(side.now);
  EXPECT_EQ(side.sender.recoveries(), 1u);
  EXPECT_EQ(side.send()[0], 0u);
}

TEST(TcpSender, rack_takes_reordering_for_what_it_is) {
  Side side({});
  side.send();
  side.at(kRtt + nanos(1), ack(0, {{1, 2}}));
  side.at(kRtt + nanos(2), ack(2));  // the original came late
  side.at(kRtt + nanos(9), ack(2, {{3, 6}}));
  EXPECT_EQ(side.sender.recoveries(), 0u);  // three reported, but reordering is known now
  EXPECT_LT(side.sender.deadline(), 2 * kRtt);
}

// Rounds without loss until the window is eight segments, then one whose first segment is lost. How long
// after a round trip that counts as lost.
SimTime patience(Side& side) {
  while (side.sender.congestion().window() < 8 * kMss) {
    side.send();
    side.at(side.now + kRtt, ack(side.next));
  }
  const uint32_t lost = side.next;
  const SimTime sent = side.now;
  side.send();
  side.at(sent + kRtt + nanos(1), ack(lost, {{lost + 1, lost + 2}}));
  const SimTime due = side.sender.deadline();
  side.now = due;
  side.sender.on_timer(side.now);
  side.send();
  side.at(side.now + 2 * kRtt, ack(side.next));
  return due - sent - kRtt;
}

TEST(TcpSender, rack_waits_longer_after_a_spurious_retransmission_for_sixteen_recoveries) {
  TcpOptions options;
  options.tlp = false;
  Side side(options, 100'000);
  EXPECT_EQ(patience(side), kRtt / 4);
  side.at(side.now, ack(side.next, {{0, 1}}));  // segment 0 came twice
  for (int i = 0; i < 16; ++i) EXPECT_EQ(patience(side), 2 * (kRtt / 4)) << i;
  EXPECT_EQ(patience(side), kRtt / 4);
  EXPECT_EQ(side.sender.recoveries(), 18u);
  EXPECT_EQ(side.sender.timeouts(), 0u);
}

TEST(TcpSender, a_probe_that_repaired_a_loss_halves_the_window) {
  TcpOptions options;
  options.receive_window = 65'000;
  options.initial_window = 100;
  for (const bool spurious : {false, true}) {
    Side side(options);
    EXPECT_EQ(side.send().size(), 65u);
    side.now = side.sender.deadline();
    side.sender.on_timer(side.now);
    EXPECT_EQ(side.send(), List{64});
    side.at(side.now + kRtt, ack(65));
    EXPECT_EQ(side.sender.congestion().threshold(), UINT64_MAX);
    side.send();
    if (spurious) side.at(side.now, ack(65, {{64, 65}}));
    side.at(side.now + kRtt, ack(66));
    EXPECT_EQ(side.sender.congestion().threshold(), spurious ? UINT64_MAX : 64u * kMss / 2);
  }
}

TEST(TcpSender, a_probe_repeats_the_last_segment_of_a_silent_tail) {
  Side side({}, 4);
  side.send();
  const SimTime probe_at = 3 * nanos(1) + 2 * kRtt + side.options.tlp_min;
  EXPECT_EQ(side.sender.deadline(), probe_at);
  side.now = probe_at;
  side.sender.on_timer(side.now);
  EXPECT_EQ(side.send(), List{3});
  EXPECT_EQ(side.sender.probes(), 1u);
  side.at(probe_at + kRtt, ack(2, {{3, 4}}));  // 2 was lost too, and is older by far than what came
  EXPECT_EQ(side.send(), List{2});
  EXPECT_EQ(side.sender.timeouts(), 0u);
  side.at(side.now + kRtt, ack(4));
  EXPECT_TRUE(side.sender.finished());
}

// Karn's algorithm: nobody knows which of the two transmissions was acknowledged.
TEST(TcpSender, takes_no_round_trip_from_a_segment_that_was_sent_twice) {
  Side side({});
  side.send();
  const SimTime before = side.sender.rtt().smoothed;
  side.now = microseconds(200'000);
  side.sender.on_timer(side.now);
  EXPECT_EQ(side.send()[0], 0u);
  side.at(side.now + nanos(5), ack(1));
  EXPECT_EQ(side.sender.rtt().smoothed, before);
  EXPECT_EQ(side.send(), (List{1, 2}));
  side.at(side.now + nanos(5), ack(4));  // 3 was sent once, but what came with it was not
  EXPECT_EQ(side.sender.rtt().smoothed, before);
}

TEST(TcpSender, ignores_acknowledgements_of_what_it_never_sent) {
  Side side({});
  side.send();
  side.at(1, ack(11));
  side.at(2, ack(0, {{20, 30}, {9, 3}}));
  EXPECT_EQ(side.sender.in_flight(), 10u);
  TcpHeader odd = ack(0);
  odd.acknowledgement = UINT32_MAX;
  side.at(3, odd);
  EXPECT_EQ(side.sender.in_flight(), 10u);
}

TEST(TcpCongestion, grows_by_a_segment_a_window_above_the_threshold) {
  TcpCongestion congestion({}, kMss);
  congestion.on_loss(20 * kMss);
  EXPECT_EQ(congestion.window(), 10u * kMss);
  for (int i = 0; i < 9; ++i) congestion.on_acked(kMss, 10 * kMss);
  EXPECT_EQ(congestion.window(), 10u * kMss);
  congestion.on_acked(kMss, 10 * kMss);
  EXPECT_EQ(congestion.window(), 11u * kMss);
}

TEST(TcpCongestion, does_not_grow_while_something_else_limits_the_sender) {
  TcpCongestion congestion({}, kMss);
  congestion.on_acked(kMss, 5 * kMss);
  EXPECT_EQ(congestion.window(), 10u * kMss);
  congestion.on_acked(kMss, 6 * kMss);
  EXPECT_EQ(congestion.window(), 11u * kMss);
}

TEST(TcpCongestion, dctcp_cuts_by_half_of_its_estimate_once_a_window) {
  TcpOptions options;
  options.control = TcpControl::kDctcp;
  TcpCongestion congestion(options, kMss);
  congestion.on_echo(1 * kMss, 10 * kMss, kMss, false, false);  // the first window has a segment, unmarked
  EXPECT_DOUBLE_EQ(congestion.alpha(), 15.0 / 16);
  congestion.on_echo(2 * kMss, 11 * kMss, kMss, true, false);
  EXPECT_EQ(congestion.window(), 10'000u - 4687);
  congestion.on_echo(3 * kMss, 11 * kMss, kMss, true, false);
  EXPECT_EQ(congestion.window(), 10'000u - 4687);
  congestion.on_echo(10 * kMss, 12 * kMss, 7 * kMss, false, false);
  EXPECT_DOUBLE_EQ(congestion.alpha(), 15.0 / 16 + (2.0 / 9 - 15.0 / 16) / 16);
}

}  // namespace
}  // namespace mroce::sim
