// The arithmetic of rate hints: water filling, and what a receiver tells whom.
#include "core/mroce/rate_hints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/rng.h"
#include "core/mroce/test_support.h"

namespace mroce {
namespace {

constexpr double kAll = std::numeric_limits<double>::infinity();

std::vector<double> filled(double capacity, std::vector<double> demands) {
  water_fill(capacity, demands);
  return demands;
}

TEST(WaterFill, shares_equally_among_those_that_want_all) {
  EXPECT_EQ(filled(12, {kAll, kAll, kAll}), (std::vector<double>{4, 4, 4}));
}

TEST(WaterFill, gives_what_one_leaves_to_the_others) {
  EXPECT_EQ(filled(12, {2, kAll, kAll}), (std::vector<double>{2, 5, 5}));
  EXPECT_EQ(filled(12, {kAll, 3, 1}), (std::vector<double>{8, 3, 1}));
}

TEST(WaterFill, gives_all_what_they_ask_if_it_is_enough) {
  EXPECT_EQ(filled(12, {1, 2, 3}), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(filled(12, {}), (std::vector<double>{}));
}

// Max-min: the capacity is used up unless all are content, and who is not content has no less than anybody.
TEST(WaterFill, is_max_min_fair_for_random_demands) {
  Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> demands(1 + rng.below(40));
    for (double& demand : demands) demand = rng.chance(0.3) ? kAll : rng.uniform() * 10;
    const double capacity = 1 + rng.uniform() * 100;
    const std::vector<double> shares = filled(capacity, demands);
    const double most = *std::max_element(shares.begin(), shares.end());
    bool all_content = true;
    for (size_t i = 0; i < shares.size(); ++i) {
      ASSERT_LE(shares[i], demands[i]);
      if (shares[i] < demands[i]) {
        all_content = false;
        ASSERT_NEAR(shares[i], most, 1e-9);
      }
    }
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    ASSERT_LE(sum, capacity * (1 + 1e-12));
    if (!all_content) {
      ASSERT_NEAR(sum, capacity, 1e-9 * capacity);
    }
  }
}

// ---- the receiver: §6.10, on one port of 8 Gbit/s

constexpr double kRate = 1e9;  // bytes/s
constexpr double kCapacity = 0.995 * kRate;
constexpr Nanos kInterval = micros(20);
constexpr double kCoding = 1.0 / 1024;  // what the code of a rate may be off by, §3.11

class RateHints : public ::testing::Test {
 protected:
  static void with_hints(EngineConfig& config) {
    config.rate_hints = true;
    config.ports[0].rate_bps = 8'000'000'000;
  }
  // `count` connections whose peers have a stream open towards us.
  std::vector<Connection*> senders(uint8_t count) {
    std::vector<Connection*> all;
    for (uint8_t i = 0; i < count; ++i) {
      all.push_back(&rig.open(1, {0}, static_cast<uint8_t>(2 + i)));
      rig.engine.count_stream(*all.back(), 1);
    }
    return all;
  }
  // A DATA packet arrives on port 0.
  void data(Connection& c, uint64_t backlog, uint32_t bytes = 1000, bool marked = false) {
    rig.engine.note_demand(rig.now, c, 0, ++cpsn, backlog, bytes, marked);
  }
  // All are active, and the port is no longer new to it.
  std::vector<Connection*> busy_senders(uint8_t count) {
    const auto all = senders(count);
    for (Connection* c : all) data(*c, 1000);
    rig.now += kInterval;
    return all;
  }
  // What an ACK that is built now tells it, in bytes/s.
  double hint(Connection& c) {
    RxPath path;
    path.seen = true;
    const uint64_t rate = wire::decode_rate(rig.engine.hint_for(rig.now, c, path));
    return rate == wire::kUnlimitedRate ? kAll : static_cast<double>(rate);
  }
  static void expect_rate(double rate, double expected) { EXPECT_NEAR(rate, expected, kCoding * expected); }

  test::Rig rig{with_hints};
  uint64_t cpsn = 1;
};

TEST_F(RateHints, are_not_given_unless_asked_for_nor_for_a_port_of_unknown_rate) {
  for (const bool told_to : {false, true}) {
    test::Rig other([&](EngineConfig& config) {
      with_hints(config);
      config.rate_hints = told_to;
      config.ports[0].rate_bps = told_to ? 0 : 8'000'000'000;
    });
    Connection& c = other.open(1);
    other.engine.note_demand(other.now, c, 0, 1, 100, 1000, false);
    EXPECT_EQ(other.engine.hint_for(other.now, c, RxPath{}), 0);
  }
}

TEST_F(RateHints, one_sender_alone_is_not_limited) {
  const auto all = busy_senders(1);
  EXPECT_EQ(hint(*all[0]), kAll);
}

TEST_F(RateHints, active_senders_have_equal_shares_of_the_capacity_and_no_more) {
  const auto all = busy_senders(4);
  double sum = 0;
  for (Connection* c : all) {
    expect_rate(hint(*c), kCapacity / 4);
    sum += hint(*c);
  }
  EXPECT_LE(sum, kCapacity);
}

TEST_F(RateHints, who_is_first_on_an_idle_port_is_told_what_it_may_begin_with) {
  const auto all = senders(5);
  data(*all[0], 1000);
  expect_rate(hint(*all[0]), kCapacity / 5);
  rig.now += kInterval - Nanos{1};
  expect_rate(hint(*all[0]), kCapacity / 5);
  rig.now += Nanos{1};
  EXPECT_EQ(hint(*all[0]), kAll) << "nobody else has shown up";
}

TEST_F(RateHints, a_sender_that_is_not_active_may_begin_with_its_part_of_all_who_might) {
  auto all = senders(1);
  EXPECT_EQ(hint(*all[0]), kAll);
  all.push_back(&rig.open(1, {0}, 9));
  EXPECT_EQ(hint(*all[0]), kAll) << "the second has no stream open towards us";
  rig.engine.count_stream(*all[1], 1);
  expect_rate(hint(*all[0]), kCapacity / 2);
  rig.engine.count_stream(*all[1], 1);  // another stream of the same connection
  expect_rate(hint(*all[0]), kCapacity / 2);
  rig.engine.count_stream(*all[1], -2);
  EXPECT_EQ(hint(*all[0]), kAll);
}

TEST_F(RateHints, an_older_packet_that_comes_late_changes_nothing) {
  const auto all = busy_senders(2);
  rig.engine.note_demand(rig.now, *all[0], 0, 0, 0, 1000, false);  // would end its demand
  expect_rate(hint(*all[1]), kCapacity / 2);
  data(*all[0], 0);
  EXPECT_EQ(hint(*all[1]), kAll);
  rig.engine.note_demand(rig.now, *all[0], 0, 0, 1000, 1000, false);  // would renew it
  EXPECT_EQ(hint(*all[1]), kAll);
}

TEST_F(RateHints, who_has_no_more_to_send_leaves_its_share_to_the_others) {
  const auto all = busy_senders(3);
  expect_rate(hint(*all[1]), kCapacity / 3);
  data(*all[0], 0);
  expect_rate(hint(*all[1]), kCapacity / 2);
  expect_rate(hint(*all[2]), kCapacity / 2);
  expect_rate(hint(*all[0]), kCapacity / 3);  // to begin with
}

TEST_F(RateHints, who_falls_silent_leaves_after_a_while) {
  const auto all = senders(2);
  for (Connection* c : all) data(*c, 1000);
  expect_rate(hint(*all[0]), kCapacity / 2);
  const double four_packets_ns = 4e9 * all[0]->full_packet() / (kCapacity / 2);
  rig.now += kInterval + Nanos{static_cast<int64_t>(four_packets_ns)} - Nanos{10};
  data(*all[0], 1000, 0);
  expect_rate(hint(*all[0]), kCapacity / 2);
  rig.now += kInterval;
  data(*all[0], 1000, 0);
  EXPECT_EQ(hint(*all[0]), kAll);
}

TEST_F(RateHints, who_ends_or_fails_leaves_its_port) {
  const auto all = busy_senders(2);
  expect_rate(hint(*all[0]), kCapacity / 2);
  rig.engine.leave_ports(*all[1]);
  EXPECT_EQ(hint(*all[0]), kAll);
}

TEST_F(RateHints, a_small_backlog_asks_for_what_sends_it_in_an_interval) {
  const auto all = senders(2);
  data(*all[0], 2);
  data(*all[1], 1000);
  rig.now += kInterval;
  const double asked = 2 * all[0]->full_packet() / 20e-6;
  expect_rate(hint(*all[0]), asked);
  expect_rate(hint(*all[1]), kCapacity - asked);
}

TEST_F(RateHints, who_used_less_than_its_share_gets_a_tenth_more_than_it_used) {
  const auto all = busy_senders(2);
  expect_rate(hint(*all[0]), kCapacity / 2);
  data(*all[0], 1000, 20'000);
  rig.now += micros(80);  // 100 us since they became active: longer than 32 packets take
  data(*all[0], 1000, 0);
  data(*all[1], 1000, 49'750);
  const double asked = 1.1 * 20'000 / 100e-6;
  expect_rate(hint(*all[0]), asked);
  expect_rate(hint(*all[1]), kCapacity - asked);
}

TEST_F(RateHints, who_used_nearly_nothing_keeps_an_eighth_of_the_equal_share_to_grow_from) {
  const auto all = busy_senders(2);
  expect_rate(hint(*all[0]), kCapacity / 2);
  rig.now += micros(80);
  data(*all[0], 1000, 100);
  data(*all[1], 1000, 49'750);
  expect_rate(hint(*all[0]), kCapacity / 16);
  expect_rate(hint(*all[1]), kCapacity * 15 / 16);
}

TEST_F(RateHints, marks_take_away_up_to_a_fifth_of_the_capacity) {
  const auto all = busy_senders(2);
  for (int i = 1; i <= 100; ++i) {
    data(*all[0], 1000, 10'000, true);
    data(*all[1], 1000, 10'000, true);
    rig.now += kInterval;
    const double hinted = hint(*all[1]);
    // Of the first interval the two packets that made them active were without a mark.
    if (i == 1) expect_rate(hinted, kCapacity / 2 * (1 - 0.2 / 8 / 2));
    if (i == 100) expect_rate(hinted, kCapacity / 2 * 0.8);
  }
}

TEST_F(RateHints, shares_stay_for_an_interval_unless_somebody_comes_or_goes) {
  const auto all = busy_senders(2);
  expect_rate(hint(*all[0]), kCapacity / 2);
  data(*all[1], 2);  // a small backlog now
  rig.now += kInterval - Nanos{1};
  data(*all[0], 1000);
  expect_rate(hint(*all[0]), kCapacity / 2);
  rig.now += Nanos{1};
  expect_rate(hint(*all[0]), kCapacity - 2 * all[1]->full_packet() / 20e-6);
}

TEST_F(RateHints, idle_senders_hear_of_another_figure_if_it_is_off_by_more_than_a_quarter) {
  auto all = senders(8);
  all[0]->rx_paths.resize(1);
  RxPath& path = all[0]->rx_paths[0];
  path.seen = true;
  expect_rate(hint(*all[0]), kCapacity / 8);
  const auto told = [&](uint8_t host, int change) {
    path.news = false;
    all[0]->ack_at = kNever;
    if (change > 0) all.push_back(&rig.open(1, {0}, host));
    rig.engine.count_stream(*all.back(), change);
    EXPECT_EQ(path.news, all[0]->ack_at != kNever);
    return path.news;
  };
  EXPECT_FALSE(told(100, 1));  // 9
  EXPECT_FALSE(told(101, 1));  // 10: just a quarter less
  EXPECT_TRUE(told(102, 1));   // 11
  expect_rate(hint(*all[0]), kCapacity / 11);
  EXPECT_FALSE(told(0, -1));  // 10
  all.pop_back();
  EXPECT_FALSE(told(0, -1));  // 9
  all.pop_back();
  EXPECT_TRUE(told(0, -1));  // 8
  data(*all[0], 1000);
  all.pop_back();
  EXPECT_FALSE(told(0, -1)) << "an active one is told by its next acknowledgement";
}

// ---- the sender

constexpr double kExact = 1u << 27;  // bytes/s, a rate with a code of its own

class HintedSender : public ::testing::Test {
 protected:
  static void with_hints(EngineConfig& config) { config.rate_hints = true; }

  void tell(double rate) {
    const auto value = rate == kAll ? wire::kUnlimitedRate : static_cast<uint64_t>(rate);
    rig.engine.on_hint(c, c.paths[0], wire::encode_rate(value));
  }
  // When the next packet may go, at the earliest; kNever if that is not a question of time.
  Time allowed_at() {
    Time later = kNever;
    return rig.engine.hint_allows(rig.now, c, 0, later) ? rig.now : later;
  }
  // A packet of `bytes` goes out now.
  void send(uint32_t bytes) {
    rig.engine.note_paced(rig.now, c, 0, bytes);
    hint.inflight_bytes += bytes;
  }
  Nanos time_of(uint32_t bytes, double rate) const {
    return Nanos{static_cast<int64_t>(1e9 * (bytes + rig.engine.config.link_overhead) / rate)};
  }

  test::Rig rig{with_hints};
  Connection& c = rig.open(1);
  PlaneHint& hint = c.hints[0];
};

TEST_F(HintedSender, ignores_a_rate_of_zero) {
  rig.engine.on_hint(c, c.paths[0], 0);
  EXPECT_FALSE(hint.limited);
  tell(1e8);
  EXPECT_TRUE(hint.limited);
  rig.engine.on_hint(c, c.paths[0], 0);
  EXPECT_TRUE(hint.limited) << "none is not unlimited";
  EXPECT_NEAR(hint.rate, 1e8, 1e8 * kCoding);
  tell(kAll);
  EXPECT_FALSE(hint.limited);
}

TEST_F(HintedSender, that_is_not_told_to_obey_does_not) {
  test::Rig other;
  Connection& deaf = other.open(1);
  other.engine.on_hint(deaf, deaf.paths[0], wire::encode_rate(1'000'000));
  EXPECT_FALSE(deaf.hints[0].limited);
}

TEST_F(HintedSender, of_no_limit_waits_for_nothing) {
  tell(kAll);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(allowed_at(), rig.now);
    send(1000);
  }
}

TEST_F(HintedSender, has_one_and_a_half_times_rate_and_round_trip_under_way_at_most) {
  c.rtt.sample(micros(100));
  c.rtt.sample(micros(300));  // the least counts
  tell(kExact);
  ASSERT_EQ(hint.rate, kExact);
  hint.next_send = rig.now;
  const uint64_t most = 20'132;  // of 20,132.66
  hint.inflight_bytes = most - c.full_packet();
  EXPECT_EQ(allowed_at(), rig.now);
  hint.inflight_bytes += 1;
  EXPECT_EQ(allowed_at(), kNever) << "until an acknowledgement comes";
}

TEST_F(HintedSender, has_one_packet_under_way_at_any_rate) {
  c.rtt.sample(micros(10));
  tell(1000);
  hint.next_send = rig.now;
  EXPECT_EQ(allowed_at(), rig.now);
  hint.inflight_bytes = 1;
  EXPECT_EQ(allowed_at(), kNever);
}

TEST_F(HintedSender, sends_each_packet_when_the_one_before_it_has_had_its_time) {
  c.rtt.sample(millis(10));
  tell(kExact);
  hint.next_send = rig.now;
  for (const uint32_t bytes : {1000u, 50u, 1080u}) {
    ASSERT_EQ(allowed_at(), rig.now);
    send(bytes);
    const Time next = rig.now + time_of(bytes, kExact);
    EXPECT_EQ(allowed_at(), next);
    rig.now = next - Nanos{1};
    EXPECT_EQ(allowed_at(), next);
    rig.now = next;
  }
}

TEST_F(HintedSender, does_not_catch_up_on_what_it_missed) {
  c.rtt.sample(millis(10));
  tell(kExact);
  hint.next_send = rig.now;
  send(1000);
  rig.now += millis(1);  // time for a hundred packets
  ASSERT_EQ(allowed_at(), rig.now);
  send(1000);
  EXPECT_EQ(allowed_at(), rig.now + time_of(1000, kExact));
}

TEST_F(HintedSender, waits_for_a_random_part_of_one_packets_time_before_it_begins) {
  c.rtt.sample(micros(10));
  tell(kExact);
  const Nanos gap{static_cast<int64_t>(1e9 * c.full_packet() / kExact)};
  Nanos least = seconds(1);
  Nanos most{0};
  for (int i = 0; i < 100; ++i) {
    rig.now += millis(1);  // nothing is in flight, and nothing was sent for long
    const Nanos wait = allowed_at() - rig.now;
    least = std::min(least, wait);
    most = std::max(most, wait);
    rig.now += wait;
    ASSERT_EQ(allowed_at(), rig.now) << "it waits once";
    send(1000);
    hint.inflight_bytes = 0;
  }
  EXPECT_GE(least, Nanos{0});
  EXPECT_LT(least, gap / 10);
  EXPECT_GT(most, gap * 9 / 10);
  EXPECT_LT(most, gap);
}

TEST_F(HintedSender, tells_how_many_packets_of_the_next_messages_wait) {
  QueuePair& qp = rig.make_qp();
  rig.open_stream(c, qp);
  EXPECT_EQ(rig.engine.backlog_of(c, qp), 0u);
  const auto post = [&](Opcode opcode, uint32_t length) {
    const Sge sge{4096, length, 0};
    SendWr wr;
    wr.opcode = opcode;
    wr.sges = {&sge, 1};
    ASSERT_TRUE(rig.engine.post_send(rig.now, qp, wr).has_value());
  };
  post(Opcode::kWrite, 3 * c.payload_mtu);
  EXPECT_EQ(rig.engine.backlog_of(c, qp), 3u);
  post(Opcode::kWrite, 3 * c.payload_mtu + 1);
  EXPECT_EQ(rig.engine.backlog_of(c, qp), 7u);
  post(Opcode::kRead, 3 * c.payload_mtu);
  EXPECT_EQ(rig.engine.backlog_of(c, qp), 8u) << "the answer is the peer's backlog";
  post(Opcode::kWrite, 0);
  EXPECT_EQ(rig.engine.backlog_of(c, qp), 9u) << "an empty message is a packet";
}

}  // namespace
}  // namespace mroce
