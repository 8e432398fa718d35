// The states of a path and how it goes from one to another: docs/spec, "Paths".
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/mroce/test_support.h"

namespace mroce::test {
namespace {

class PathHealth : public testing::Test {
 protected:
  // RACK gave up packets that were sent `ago` before now.
  void expiry(Path& p, uint32_t overdue, Nanos ago = Nanos{0}) {
    engine.on_silent_expiry(rig.now, c, p, overdue, rig.now - ago);
  }
  void make_failed(Path& p) {
    engine.fail_path(rig.now, c, p);
    ASSERT_EQ(p.state, PathState::kFailed);
  }
  // Sends the challenge that is due and answers it, or not.
  void challenge(Path& p, bool answer) {
    rig.now = std::max(rig.now, p.probe_at);
    TxBurst burst;
    ASSERT_TRUE(engine.build_probe(rig.now, c, p, burst));
    EXPECT_EQ(burst.path, p.id);
    EXPECT_EQ(burst.total_bytes, c.full_packet()) << "it tests the full size";
    rig.now += micros(100);
    if (answer) engine.on_probe_ack(rig.now, c, {p.probe_token});
  }
  void port_status(uint32_t sequence, uint32_t mask) {
    wire::PortStatus status;
    status.sequence = sequence;
    status.mask = mask;
    engine.on_port_status(rig.now, c, status);
  }

  Rig rig;
  Engine::Impl& engine = rig.engine;
  Connection& c = rig.open(4, {0, 1});
  Path& p = c.paths[1];
};

// ---- silence

TEST_F(PathHealth, fewer_than_eight_overdue_packets_are_no_reason_for_suspicion) {
  for (int i = 0; i < 7; ++i) expiry(p, 1);
  EXPECT_EQ(p.state, PathState::kActive);
  expiry(p, 1);
  EXPECT_EQ(p.state, PathState::kSuspect);
}

TEST_F(PathHealth, one_expiry_of_eight_packets_makes_a_suspect) {
  expiry(p, 8);
  EXPECT_EQ(p.state, PathState::kSuspect);
}

TEST_F(PathHealth, an_acknowledgement_begins_the_count_anew) {
  for (int i = 0; i < 20; ++i) {
    expiry(p, 7);
    engine.note_alive(rig.now, c, p);
  }
  EXPECT_EQ(p.state, PathState::kActive);
}

TEST_F(PathHealth, a_suspect_fails_when_three_packets_that_tested_it_are_silent) {
  expiry(p, 8);
  expiry(p, 1);
  expiry(p, 1);
  EXPECT_EQ(p.state, PathState::kSuspect);
  expiry(p, 1);
  EXPECT_EQ(p.state, PathState::kFailed);
  EXPECT_EQ(p.counters.failures, 1u);
}

TEST_F(PathHealth, what_was_sent_before_a_path_was_suspect_does_not_fail_it) {
  expiry(p, 8);
  rig.now += millis(1);
  for (int i = 0; i < 10; ++i) expiry(p, 20, millis(2));
  EXPECT_EQ(p.state, PathState::kSuspect);
}

TEST_F(PathHealth, a_suspect_that_answers_is_active_again) {
  expiry(p, 8);
  engine.note_alive(rig.now, c, p);
  EXPECT_EQ(p.state, PathState::kActive);
  EXPECT_EQ(p.overdue_since_ack, 0u);
  expiry(p, 7);
  EXPECT_EQ(p.state, PathState::kActive) << "the count began anew";
}

TEST_F(PathHealth, the_last_usable_path_never_fails_by_silence) {
  for (Path& other : c.paths) {
    if (&other != &p) make_failed(other);
  }
  for (int i = 0; i < 10; ++i) expiry(p, 100);
  EXPECT_EQ(p.state, PathState::kSuspect);
  EXPECT_TRUE(p.usable());
}

TEST_F(PathHealth, a_suspect_keeps_at_most_one_packet_in_flight) {
  expiry(p, 8);
  p.inflight = 0;
  EXPECT_EQ(engine.path_room(p, engine.cc_max(c)), 1u);
  p.inflight = 1;
  EXPECT_EQ(engine.path_room(p, engine.cc_max(c)), 0u);
}

TEST_F(PathHealth, what_waits_on_a_suspect_may_go_by_any_path) {
  p.rtx.push(1);
  p.rtx.push(2);
  expiry(p, 8);
  EXPECT_TRUE(p.rtx.empty());
  EXPECT_EQ(c.rtx.size(), 2u);
}

// ---- failing

TEST_F(PathHealth, a_failed_path_gives_everything_to_the_others) {
  rig.fly(c, p, 20);
  rig.fly(c, c.paths[0], 3);
  const uint64_t waiting = rig.fly(c, p);
  engine.lose(rig.now, c, p, waiting);
  ASSERT_EQ(p.rtx.size(), 1u);
  make_failed(p);
  EXPECT_EQ(p.inflight, 0u);
  EXPECT_EQ(p.inflight_bytes, 0u);
  EXPECT_EQ(c.inflight_bytes, 3000u);
  EXPECT_TRUE(p.rtx.empty());
  EXPECT_EQ(c.rtx.size(), 21u);
  for (uint64_t pseq = p.sent.begin(); pseq != p.sent.end(); ++pseq) {
    EXPECT_EQ(p.sent[pseq].state, SentPacket::State::kLost);
  }
  EXPECT_FALSE(p.usable());
  EXPECT_EQ(engine.path_room(p, engine.cc_max(c)), 0u);
}

TEST_F(PathHealth, a_failed_path_begins_a_new_epoch_and_is_challenged_in_ten_milliseconds) {
  p.epoch = 255;
  p.reorder_threshold = 17;
  const uint64_t next = p.sent.end();
  make_failed(p);
  EXPECT_EQ(p.epoch, 0u);
  EXPECT_EQ(p.reorder_threshold, 0u);
  EXPECT_EQ(p.probe_at, rig.now + millis(10));
  EXPECT_EQ(p.sent.end(), next) << "its numbers go on";
  EXPECT_EQ(p.counters.entropy_changes, 1u);
}

TEST_F(PathHealth, a_path_fails_once) {
  make_failed(p);
  engine.fail_path(rig.now, c, p);
  EXPECT_EQ(p.counters.failures, 1u);
  EXPECT_EQ(p.epoch, 1u);
}

TEST_F(PathHealth, a_denied_path_stays_denied) {
  p.state = PathState::kDenied;
  engine.fail_path(rig.now, c, p);
  EXPECT_EQ(p.state, PathState::kDenied);
  EXPECT_EQ(p.epoch, 0u);
}

TEST_F(PathHealth, the_loss_of_the_last_packet_in_flight_stops_the_timer) {
  rig.fly(c, p, 1);
  EXPECT_NE(c.pto_from, kNever);
  make_failed(p);
  EXPECT_EQ(c.pto_from, kNever);
}

// ---- coming back

TEST_F(PathHealth, three_answers_in_a_row_bring_a_failed_path_back) {
  make_failed(p);
  challenge(p, true);
  challenge(p, true);
  EXPECT_EQ(p.state, PathState::kFailed);
  challenge(p, true);
  EXPECT_EQ(p.state, PathState::kActive);
  EXPECT_EQ(p.counters.recoveries, 1u);
  EXPECT_EQ(p.probe_at, kNever);
}

TEST_F(PathHealth, an_unanswered_challenge_makes_the_count_start_again) {
  make_failed(p);
  challenge(p, true);
  challenge(p, true);
  challenge(p, false);
  challenge(p, true);
  challenge(p, true);
  EXPECT_EQ(p.state, PathState::kFailed);
  challenge(p, true);
  EXPECT_EQ(p.state, PathState::kActive);
}

TEST_F(PathHealth, unanswered_challenges_of_a_failed_path_come_more_and_more_rarely) {
  make_failed(p);
  challenge(p, false);
  for (const int64_t interval : {10, 20, 40, 80, 160, 200, 200}) {
    const Time sent = p.probe_sent;
    EXPECT_EQ(p.probe_at - sent, millis(interval));
    challenge(p, false);
    EXPECT_EQ(p.probe_sent - sent, millis(interval));
  }
  challenge(p, true);
  EXPECT_EQ(p.probe_at, rig.now) << "it lives: the next one follows at once";
}

TEST_F(PathHealth, answers_that_take_longer_than_the_first_interval_count_in_a_row) {
  make_failed(p);
  challenge(p, false);  // after 10 ms the next one goes out, with 20 ms to be answered
  const auto answer_after = [&](Nanos delay) {
    TxBurst burst;
    rig.now = std::max(rig.now, p.probe_at);
    ASSERT_TRUE(engine.build_probe(rig.now, c, p, burst));
    ASSERT_LT(delay, p.probe_at - rig.now) << "no other challenge replaces this one before its answer";
    rig.now += delay;
    engine.on_probe_ack(rig.now, c, {p.probe_token});
  };
  for (int i = 0; i < 3; ++i) answer_after(millis(15));
  EXPECT_EQ(p.state, PathState::kActive);
}

TEST_F(PathHealth, an_answer_with_another_token_is_ignored) {
  make_failed(p);
  for (int i = 0; i < 5; ++i) {
    challenge(p, false);
    engine.on_probe_ack(rig.now, c, {p.probe_token ^ 1});
  }
  EXPECT_EQ(p.state, PathState::kFailed);
  EXPECT_EQ(p.probes_answered, 0u);
}

TEST_F(PathHealth, an_answer_counts_once) {
  make_failed(p);
  challenge(p, true);
  const wire::ProbeAck again{p.probe_token};
  for (int i = 0; i < 5; ++i) engine.on_probe_ack(rig.now, c, again);
  EXPECT_EQ(p.probes_answered, 1u);
  EXPECT_EQ(p.state, PathState::kFailed);
}

TEST_F(PathHealth, a_path_that_returns_has_half_of_the_others_window_and_no_samples) {
  c.paths[0].cc.cwnd = 40;
  c.paths[2].cc.cwnd = 60;
  c.paths[3].cc.cwnd = 80;
  p.rtt.sample(millis(3));
  p.cc.slow_start = false;
  make_failed(p);
  for (int i = 0; i < 3; ++i) challenge(p, true);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 30);
  EXPECT_TRUE(p.cc.slow_start);
  EXPECT_FALSE(p.rtt.valid);
}

TEST_F(PathHealth, a_path_that_returns_has_at_least_two_packets) {
  for (Path& other : c.paths) other.cc.cwnd = 1;
  make_failed(p);
  for (int i = 0; i < 3; ++i) challenge(p, true);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, 2);
}

TEST_F(PathHealth, a_path_that_returns_alone_has_the_initial_window) {
  for (Path& other : c.paths) make_failed(other);
  for (int i = 0; i < 3; ++i) challenge(p, true);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, engine.config.initial_window);
}

TEST_F(PathHealth, a_path_that_returns_takes_no_more_than_its_turn) {
  c.paths[0].spread_bytes = 9000;
  c.paths[2].spread_bytes = 7000;
  c.paths[3].spread_bytes = 8000;
  p.spread_bytes = 100;
  make_failed(p);
  for (int i = 0; i < 3; ++i) challenge(p, true);
  EXPECT_EQ(p.spread_bytes, 7000u);
}

// ---- new paths

TEST_F(PathHealth, a_new_path_is_used_after_one_answer_which_is_its_first_sample) {
  p.state = PathState::kNew;
  p.probe_at = rig.now;
  p.rtt = RttEstimator{};
  challenge(p, true);
  EXPECT_EQ(p.state, PathState::kActive);
  EXPECT_EQ(p.rtt.srtt, micros(100));
  EXPECT_EQ(p.counters.recoveries, 0u);
  EXPECT_DOUBLE_EQ(p.cc.cwnd, engine.config.initial_window);
}

TEST_F(PathHealth, a_new_path_that_never_answers_is_asked_every_two_seconds_in_the_end) {
  p.state = PathState::kNew;
  p.probe_at = rig.now;
  challenge(p, false);
  EXPECT_EQ(p.probe_at - p.probe_sent, millis(2));
  for (int i = 0; i < 15; ++i) challenge(p, false);
  EXPECT_EQ(p.probe_at - p.probe_sent, seconds(2));
}

TEST_F(PathHealth, a_new_path_is_asked_again_after_four_round_trips) {
  c.rtt.sample(millis(1));
  p.state = PathState::kNew;
  p.probe_at = rig.now;
  challenge(p, false);
  EXPECT_EQ(p.probe_at - p.probe_sent, millis(4));
}

TEST_F(PathHealth, a_new_path_is_asked_again_after_ten_ms_even_if_the_handshake_took_long) {
  c.rtt.sample(millis(100));
  p.state = PathState::kNew;
  p.probe_at = rig.now;
  challenge(p, false);
  EXPECT_EQ(p.probe_at - p.probe_sent, millis(10));
}

TEST_F(PathHealth, a_new_path_that_fails_stays_new) {
  p.state = PathState::kNew;
  engine.fail_path(rig.now, c, p);
  EXPECT_EQ(p.state, PathState::kNew);
  EXPECT_EQ(p.counters.failures, 0u);
}

// ---- lossy paths

class LossyPaths : public PathHealth {
 protected:
  LossyPaths() { engine.config.degraded_paths = true; }
  void round(Path& path, uint32_t sent, uint32_t lost) {
    path.cc.round_sent = sent;
    path.cc.round_lost = lost;
    engine.judge_loss(rig.now, c, path);
  }
  void random_round(Path& path, uint32_t sent, double loss) {
    uint32_t lost = 0;
    for (uint32_t i = 0; i < sent; ++i) lost += rng.chance(loss) ? 1 : 0;
    round(path, sent, lost);
  }
  Rng rng{20261130};
};

TEST_F(LossyPaths, the_estimate_is_the_mean_of_the_last_thousand_packets) {
  round(p, 10, 5);
  EXPECT_DOUBLE_EQ(p.loss, 0.5);
  round(p, 30, 1);
  EXPECT_DOUBLE_EQ(p.loss, 6.0 / 40);
  for (int i = 0; i < 300; ++i) round(p, 40, 2);
  EXPECT_NEAR(p.loss, 0.05, 0.001);
}

TEST_F(LossyPaths, one_that_loses_far_more_than_the_others_is_used_last) {
  for (int i = 0; i < 20 && p.state == PathState::kActive; ++i) {
    for (Path& path : c.paths) random_round(path, 16, &path == &p ? 0.3 : 0.01);
  }
  for (const Path& path : c.paths) {
    EXPECT_EQ(path.state, &path == &p ? PathState::kDegraded : PathState::kActive);
  }
}

TEST_F(LossyPaths, none_is_degraded_where_all_lose_alike_whatever_their_age) {
  for (const double loss : {0.001, 0.01, 0.1, 0.3}) {
    for (Path& path : c.paths) path.loss = path.judged_packets = 0;
    for (int i = 0; i < 20000; ++i) {
      Path& path = c.paths[rng.below(c.paths.size())];
      if (rng.below(100) == 0) path.loss = path.judged_packets = 0;  // it began anew
      random_round(path, 1 + static_cast<uint32_t>(rng.below(60)), loss);
      ASSERT_EQ(path.state, PathState::kActive) << "loss " << loss << ", round " << i;
    }
  }
}

TEST_F(LossyPaths, alone_it_is_not_judged) {
  for (int i = 0; i < 100; ++i) random_round(p, 16, 0.5);
  EXPECT_EQ(p.state, PathState::kActive) << "nothing is known of the others";
}

TEST_F(LossyPaths, one_that_stays_bad_takes_another_way_after_eight_rounds) {
  for (Path& path : c.paths) round(path, 1000, &path == &p ? 300 : 0);
  ASSERT_EQ(p.state, PathState::kDegraded);
  const auto [entropy, epoch] = std::pair(p.entropy, p.epoch);
  for (int i = 0; i < 7; ++i) round(p, 10, 5);
  EXPECT_EQ(p.state, PathState::kDegraded);
  round(p, 10, 5);
  EXPECT_EQ(p.state, PathState::kActive);
  EXPECT_NE(p.entropy, entropy);
  EXPECT_EQ(p.epoch, epoch + 1);
  EXPECT_EQ(p.judged_packets, 0u) << "the other way is judged anew";
  EXPECT_EQ(p.degraded_until, kNever);
}

TEST_F(LossyPaths, one_that_gets_no_traffic_takes_another_way_after_20_ms) {
  for (Path& path : c.paths) round(path, 1000, &path == &p ? 300 : 0);
  ASSERT_EQ(p.state, PathState::kDegraded);
  EXPECT_LE(engine.deadline(c), rig.now + millis(20));
  engine.look_for_overdue(rig.now, c);  // as each acknowledgement does
  EXPECT_LE(engine.deadline(c), rig.now + millis(20));
  engine.fire(rig.now + millis(20) - Nanos{1}, c);
  EXPECT_EQ(p.state, PathState::kDegraded);
  engine.fire(rig.now + millis(20), c);
  EXPECT_EQ(p.state, PathState::kActive);
  EXPECT_EQ(p.counters.entropy_changes, 1u);
}

TEST_F(LossyPaths, one_that_heals_is_active_again) {
  for (Path& path : c.paths) round(path, 1000, &path == &p ? 30 : 0);
  ASSERT_EQ(p.state, PathState::kDegraded);
  for (int i = 0; i < 6; ++i) round(p, 300, 0);
  EXPECT_EQ(p.state, PathState::kActive);
  EXPECT_EQ(p.counters.entropy_changes, 0u) << "by the same way";
}

TEST_F(LossyPaths, silence_ends_that_state_as_any_other) {
  for (Path& path : c.paths) round(path, 1000, &path == &p ? 300 : 0);
  ASSERT_EQ(p.state, PathState::kDegraded);
  make_failed(p);
  EXPECT_EQ(p.degraded_until, kNever);
  EXPECT_EQ(p.judged_packets, 0u);
}

// ---- links

TEST_F(PathHealth, a_link_that_goes_fails_its_paths_and_no_others) {
  engine.on_link(rig.now, 1, false);
  for (const Path& path : c.paths) {
    EXPECT_EQ(path.state, path.port == 1 ? PathState::kFailed : PathState::kActive);
    EXPECT_EQ(path.usable(), path.port != 1);
  }
  EXPECT_EQ(c.port_status_repeats, 8u);
  EXPECT_EQ(c.port_status_sequence, 1u);
}

TEST_F(PathHealth, a_link_that_returns_has_its_paths_challenged_at_once) {
  engine.on_link(rig.now, 1, false);
  TxBurst burst;
  EXPECT_FALSE(engine.build_probe(rig.now, c, p, burst)) << "not while it is down";
  EXPECT_EQ(p.probe_at, kNever);
  rig.now += seconds(1);
  engine.on_link(rig.now, 1, true);
  EXPECT_EQ(p.probe_at, rig.now);
  EXPECT_EQ(p.state, PathState::kFailed);
  for (int i = 0; i < 3; ++i) challenge(p, true);
  EXPECT_TRUE(p.usable());
  EXPECT_EQ(c.port_status_sequence, 2u);
}

TEST_F(PathHealth, the_same_news_about_a_link_is_no_news) {
  engine.on_link(rig.now, 1, true);
  engine.on_link(rig.now, 99, false);
  EXPECT_EQ(c.port_status_sequence, 0u);
  EXPECT_TRUE(engine.events.empty());
}

TEST_F(PathHealth, a_connection_without_another_plane_keeps_its_paths_when_the_link_goes) {
  Rig alone;
  Connection& single = alone.open(4, {0});
  ASSERT_EQ(single.planes, 1u);
  alone.engine.on_link(alone.now, 0, false);
  for (const Path& path : single.paths) {
    EXPECT_EQ(path.state, PathState::kActive);
    EXPECT_FALSE(path.usable());
  }
  alone.engine.on_link(alone.now, 0, true);
  for (const Path& path : single.paths) EXPECT_TRUE(path.usable());
}

// ---- what the peer says of its links

TEST_F(PathHealth, a_port_that_the_peer_calls_down_fails_the_paths_to_it) {
  port_status(1, 0b01);
  for (const Path& path : c.paths) {
    EXPECT_EQ(path.state, path.to.ip == Rig::address(1, 2) ? PathState::kFailed : PathState::kActive);
  }
  port_status(2, 0b11);
  EXPECT_EQ(p.probe_at, rig.now);
  for (int i = 0; i < 3; ++i) challenge(p, true);
  EXPECT_TRUE(p.usable());
}

TEST_F(PathHealth, old_news_of_the_peers_links_does_not_count) {
  port_status(5, 0b11);
  port_status(5, 0b00);
  port_status(4, 0b00);
  port_status(0xfffffff0, 0b00);
  for (const Path& path : c.paths) EXPECT_TRUE(path.usable());
  port_status(6, 0b01);
  EXPECT_FALSE(p.usable());
}

TEST_F(PathHealth, numbers_of_link_news_wrap) {
  port_status(0xffffffff, 0b01);
  EXPECT_FALSE(p.peer_up);
  port_status(0, 0b11);
  EXPECT_TRUE(p.peer_up);
  port_status(0xffffffff, 0b01);
  EXPECT_TRUE(p.peer_up);
}

// Bit i is the i-th port of the peer's INIT, which may name them in another order than our planes.
TEST_F(PathHealth, bits_of_link_news_follow_the_order_of_the_peers_init) {
  Rig other;
  Connection& turned = other.open(4, {0, 3, 2, 1});
  ASSERT_EQ(turned.planes, 4u);
  wire::PortStatus status;
  status.sequence = 1;
  status.mask = 0b1101;  // all but its second, plane 3
  other.engine.on_port_status(other.now, turned, status);
  for (const Path& path : turned.paths) {
    EXPECT_EQ(path.peer_up, path.to.ip != Rig::address(3, 2)) << "path " << int{path.id};
  }
}

// ---- all of it at random

TEST_F(PathHealth, whatever_happens_numbers_and_states_agree) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Rig chaos;
    Connection& conn = chaos.open(6, {0, 1, 2});
    uint32_t sequence = 0;
    for (int step = 0; step < 500; ++step) {
      chaos.now += micros(static_cast<int64_t>(rng.below(20000)));
      Path& path = conn.paths[rng.below(conn.paths.size())];
      TxBurst burst;
      switch (rng.below(8)) {
        case 0:
          if (path.usable()) chaos.fly(conn, path, static_cast<int>(rng.below(20)));
          break;
        case 1:
          chaos.engine.on_silent_expiry(chaos.now, conn, path, static_cast<uint32_t>(rng.below(10)),
                                        chaos.now);
          break;
        case 2:
          if (path.usable()) chaos.engine.note_alive(chaos.now, conn, path);
          break;
        case 3:
          chaos.engine.on_link(chaos.now, static_cast<uint32_t>(rng.below(3)), rng.chance(0.6));
          break;
        case 4: {
          wire::PortStatus status;
          status.sequence = ++sequence;
          status.mask = static_cast<uint32_t>(rng.below(8));
          chaos.engine.on_port_status(chaos.now, conn, status);
          break;
        }
        default:
          if (chaos.now < path.probe_at || !chaos.engine.build_probe(chaos.now, conn, path, burst)) break;
          if (rng.chance(0.7)) chaos.engine.on_probe_ack(chaos.now, conn, {path.probe_token});
          break;
      }
      uint64_t bytes = 0;
      for (const Path& each : conn.paths) {
        uint32_t flying = 0;
        for (uint64_t i = each.sent.begin(); i != each.sent.end(); ++i) {
          flying += each.sent[i].state == SentPacket::State::kFlying ? 1u : 0u;
        }
        ASSERT_EQ(each.inflight, flying);
        bytes += each.inflight_bytes;
        ASSERT_TRUE(each.state != PathState::kFailed || (each.inflight == 0 && each.rtx.empty()));
        ASSERT_GE(each.cc.cwnd, 1.0);
        // A failed path whose links are up is asked sooner or later.
        const bool asked = each.probe_at != kNever;
        ASSERT_TRUE(each.state != PathState::kFailed || !each.link_up || !each.peer_up || asked);
      }
      ASSERT_EQ(conn.inflight_bytes, bytes);
    }
  }
}

}  // namespace
}  // namespace mroce::test
