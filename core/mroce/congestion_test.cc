// The rules of docs/spec, "Congestion control".
#include <gtest/gtest.h>

#include <string>

#include "core/mroce/test_support.h"

namespace mroce::test {
namespace {

class Congestion : public testing::Test {
 protected:
  // As if `packets` in flight had just been acknowledged, with the window full before.
  void acked(uint32_t packets) {
    p.inflight = static_cast<uint32_t>(p.cc.cwnd);
    engine.cc_on_acked(c, p, packets);
  }
  void round(uint32_t sent, uint32_t lost, uint32_t ce = 0) {
    p.cc.round_sent = sent;
    for (uint32_t i = 0; i < lost; ++i) engine.cc_on_lost(p);
    p.cc.round_ce = ce;
    rig.now += millis(10);
    engine.cc_round_end(rig.now, c, p);
  }
  void begin_with(double cwnd, bool slow_start = false) {
    p.cc = CongestionState{};
    p.cc.cwnd = cwnd;
    p.cc.slow_start = slow_start;
  }

  Rig rig;
  Engine::Impl& engine = rig.engine;
  Connection& c = rig.open(4);
  Path& p = c.paths[1];
};

TEST_F(Congestion, a_path_begins_with_the_initial_window_in_slow_start) {
  for (const Path& path : c.paths) {
    EXPECT_EQ(path.cc.cwnd, rig.engine.config.initial_window);
    EXPECT_TRUE(path.cc.slow_start);
  }
}

TEST_F(Congestion, slow_start_grows_by_what_was_acknowledged) {
  begin_with(32, true);
  acked(10);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 42);
  acked(42);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 84) << "doubles in a round trip";
}

TEST_F(Congestion, avoidance_grows_by_one_packet_in_a_round_trip) {
  begin_with(50);
  for (int i = 0; i < 50; ++i) acked(1);
  EXPECT_NEAR(p.cc.cwnd, 51, 0.02);
}

TEST_F(Congestion, all_paths_together_grow_by_eight_packets_in_a_round_trip) {
  Connection& wide = c;
  engine.make_paths(rig.now, wide, 32);
  Path& path = wide.paths[7];
  path.cc = CongestionState{};
  path.cc.cwnd = 20;
  path.cc.slow_start = false;
  path.inflight = 20;
  engine.cc_on_acked(wide, path, 20);
  EXPECT_DOUBLE_EQ(path.cc.cwnd, 20 + 8.0 / 32);
}

TEST_F(Congestion, a_window_that_is_not_used_does_not_grow) {
  begin_with(40, true);
  p.inflight = 9;
  engine.cc_on_acked(c, p, 10);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 40) << "19 of 40";
  p.inflight = 10;
  engine.cc_on_acked(c, p, 10);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 50) << "20 of 40";
}

// Where the connection's window is the limit no path fills its own: one that joined late would stay small.
TEST_F(Congestion, a_window_below_the_mean_of_the_usable_paths_grows_up_to_it_whatever_was_used) {
  for (Path& path : c.paths) {
    path.state = PathState::kActive;
    path.cc.cwnd = 100;
  }
  c.paths[3].state = PathState::kFailed;  // does not count
  c.paths[3].cc.cwnd = 1000;
  begin_with(40, true);
  round(10, 0);
  p.inflight = 0;
  engine.cc_on_acked(c, p, 10);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 50) << "in slow start by what was acknowledged";
  for (int i = 0; i < 10; ++i) engine.cc_on_acked(c, p, 12);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 80) << "not beyond the mean of 40, 100 and 100";
  engine.cc_on_acked(c, p, 10);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 80);
  begin_with(40);
  round(10, 0);
  engine.cc_on_acked(c, p, 10);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 40.25) << "else as additive increase";
}

TEST_F(Congestion, the_window_ends_at_that_of_the_connection) {
  const double most = engine.cc_max(c);
  EXPECT_DOUBLE_EQ(most, static_cast<double>(1 << 20) / c.full_packet());
  begin_with(most - 3, true);
  acked(100);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, most);
  begin_with(most);
  acked(100);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, most);
}

TEST_F(Congestion, a_cut_is_by_the_share_of_marks) {
  begin_with(100, true);
  engine.cc_on_ce(rig.now, p, 5, 10);
  // alpha = 1/4 x 1/2
  EXPECT_DOUBLE_EQ(p.cc.alpha, 0.125);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100 * (1 - 0.125 / 2));
  EXPECT_FALSE(p.cc.slow_start);
  EXPECT_TRUE(p.cc.ecn_seen);
  EXPECT_EQ(p.cc.cut_at, rig.now);
}

TEST_F(Congestion, cuts_come_at_most_once_in_a_round_trip) {
  begin_with(100);
  p.rtt.sample(micros(500));
  engine.cc_on_ce(rig.now, p, 10, 10);
  const double after = p.cc.cwnd;
  rig.now += micros(499);
  engine.cc_on_ce(rig.now, p, 10, 10);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, after);
  EXPECT_DOUBLE_EQ(p.cc.alpha, 0.25);
  EXPECT_EQ(p.cc.round_ce, 20u) << "counted for the round all the same";
  rig.now += micros(1);
  engine.cc_on_ce(rig.now, p, 10, 10);
  EXPECT_DOUBLE_EQ(p.cc.alpha, 0.25 * 0.75 + 0.25);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, after * (1 - p.cc.alpha / 2));
}

// DCTCP: alpha comes to the share of marks, so that cwnd shrinks by half of that share in each round trip.
TEST_F(Congestion, constant_marks_cut_by_half_of_their_share) {
  for (const uint32_t ce : {1u, 3u, 10u}) {
    SCOPED_TRACE(std::to_string(ce) + " of 10");
    begin_with(1e6);
    double before = 0;
    for (int i = 0; i < 60; ++i) {
      before = p.cc.cwnd = 1e6;
      rig.now += millis(1);
      engine.cc_on_ce(rig.now, p, ce, 10);
    }
    EXPECT_NEAR(p.cc.cwnd / before, 1 - ce / 20.0, 1e-6);
  }
}

TEST_F(Congestion, no_cut_goes_below_one_packet) {
  begin_with(1.2);
  for (int i = 0; i < 100; ++i) {
    rig.now += millis(1);
    engine.cc_on_ce(rig.now, p, 10, 10);
    ASSERT_GE(p.cc.cwnd, 1.0);
  }
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 1.0);
  round(20, 10, 5);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 1.0);
}

TEST_F(Congestion, marks_on_one_path_leave_the_others_alone) {
  engine.cc_on_ce(rig.now, p, 10, 10);
  for (const Path& path : c.paths) {
    EXPECT_EQ(path.cc.cwnd == rig.engine.config.initial_window, path.id != p.id);
  }
}

TEST_F(Congestion, loss_alone_is_not_congestion) {
  begin_with(100, true);
  for (int i = 0; i < 50; ++i) round(100, 30);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100);
  EXPECT_TRUE(p.cc.slow_start);
}

TEST_F(Congestion, loss_in_a_round_with_marks_halves) {
  begin_with(100, true);
  round(100, 1, 1);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 50);
  EXPECT_FALSE(p.cc.slow_start);
}

TEST_F(Congestion, marks_without_loss_are_not_judged_at_the_end_of_the_round) {
  begin_with(100, true);
  round(100, 0, 50);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100);
}

TEST_F(Congestion, loss_on_a_path_that_queues_halves) {
  begin_with(100);
  p.rtt.valid = true;
  p.rtt.min = millis(4);
  p.rtt.srtt = millis(6);
  round(100, 1);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100) << "2 ms of queueing: not above half of the least round trip";
  p.rtt.srtt = millis(6) + Nanos{1};
  round(100, 1);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 50);
  p.rtt.min = micros(100);
  p.rtt.srtt = micros(1100);
  round(100, 1);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 50) << "nor above one millisecond";
  p.rtt.srtt = micros(1101);
  round(100, 1);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 25);
}

TEST_F(Congestion, heavy_loss_in_two_rounds_running_halves_where_no_mark_was_ever_seen) {
  begin_with(100);
  round(100, 31);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100);
  round(100, 31);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 50);
  round(100, 31);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 50) << "counting begins again";
  round(100, 31);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 25);
}

TEST_F(Congestion, heavy_loss_must_be_in_consecutive_rounds_of_enough_packets) {
  begin_with(100);
  for (int i = 0; i < 10; ++i) {
    round(100, 31);
    round(100, 0);
  }
  for (int i = 0; i < 10; ++i) {
    round(100, 31);
    round(100, 30);
  }
  for (int i = 0; i < 10; ++i) round(7, 7);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100);
}

TEST_F(Congestion, heavy_loss_says_nothing_where_marks_are_seen) {
  begin_with(100);
  p.cc.ecn_seen = true;
  for (int i = 0; i < 10; ++i) round(100, 60);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100);
}

TEST_F(Congestion, a_round_ends_at_the_next_number) {
  rig.fly(c, p, 5);
  round(5, 2, 1);
  EXPECT_EQ(p.cc.round_end, p.sent.end());
  EXPECT_EQ(p.cc.round_sent + p.cc.round_lost + p.cc.round_ce, 0u);
}

TEST_F(Congestion, a_cut_for_loss_that_was_none_is_undone) {
  begin_with(100);
  round(100, 1, 1);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 50);
  engine.cc_on_spurious(p);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100);
  engine.cc_on_spurious(p);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100) << "once";
}

TEST_F(Congestion, a_loss_that_was_none_does_not_count_in_its_round) {
  begin_with(100);
  engine.cc_on_lost(p);
  engine.cc_on_spurious(p);
  round(100, 0, 10);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 100);
  engine.cc_on_spurious(p);
  EXPECT_EQ(p.cc.round_lost, 0u) << "not below none";
}

TEST_F(Congestion, a_cut_that_marks_followed_is_not_undone) {
  begin_with(100);
  round(100, 1, 1);
  rig.now += millis(10);
  engine.cc_on_ce(rig.now, p, 10, 10);
  const double cut = p.cc.cwnd;
  engine.cc_on_spurious(p);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, cut);
}

TEST_F(Congestion, the_undo_never_shrinks_a_window_that_has_grown_past_it) {
  begin_with(100);
  round(100, 1, 1);
  p.cc.cwnd = 150;
  engine.cc_on_spurious(p);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 150);
}

TEST_F(Congestion, the_reorder_threshold_shrinks_by_one_in_64_clean_rounds) {
  begin_with(100);
  p.clean_rounds = 0;
  p.reorder_threshold = 2;
  for (int i = 0; i < 63; ++i) round(10, 0);
  EXPECT_EQ(p.reorder_threshold, 2u);
  round(10, 0);
  EXPECT_EQ(p.reorder_threshold, 1u);
  for (int i = 0; i < 63; ++i) round(10, 0);
  round(10, 1);
  EXPECT_EQ(p.reorder_threshold, 1u) << "a round with losses begins the count anew";
  for (int i = 0; i < 64 * 3; ++i) round(10, 0);
  EXPECT_EQ(p.reorder_threshold, 0u);
}

// Whatever comes in whatever order, the window stays between one packet and that of the connection.
TEST_F(Congestion, the_window_stays_within_its_bounds) {
  Rng rng(9);
  for (int i = 0; i < 20000; ++i) {
    rig.now += micros(static_cast<int64_t>(rng.below(300)));
    switch (rng.below(6)) {
      case 0:
        p.rtt.sample(micros(static_cast<int64_t>(rng.between(10, 5000))));
        break;
      case 1: {
        const auto rx = static_cast<uint32_t>(rng.between(1, 64));
        engine.cc_on_ce(rig.now, p, static_cast<uint32_t>(rng.between(1, rx)), rx);
        break;
      }
      case 2:
        engine.cc_on_spurious(p);
        break;
      case 3:
        round(static_cast<uint32_t>(rng.below(100)), static_cast<uint32_t>(rng.below(50)),
              static_cast<uint32_t>(rng.below(2)));
        break;
      default:
        acked(static_cast<uint32_t>(rng.between(1, 64)));
        break;
    }
    ASSERT_GE(p.cc.cwnd, 1.0);
    ASSERT_LE(p.cc.cwnd, engine.cc_max(c));
    ASSERT_GE(p.cc.alpha, 0.0);
    ASSERT_LE(p.cc.alpha, 1.0);
  }
}

}  // namespace
}  // namespace mroce::test
