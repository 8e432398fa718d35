// The arithmetic of docs/spec, "Reliability": probe timeout, RACK, gap rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/mroce/test_support.h"

namespace mroce::test {
namespace {

class Recovery : public testing::Test {
 protected:
  // A block as the peer would send it: everything of `arrived` within the vector.
  static wire::PathBlock block(uint8_t path, const std::set<uint64_t>& arrived) {
    wire::PathBlock result;
    result.path = path;
    const uint64_t largest = *arrived.rbegin();
    result.largest = static_cast<uint32_t>(largest);
    for (const uint64_t pseq : arrived) {
      const uint64_t distance = largest - pseq;
      if (distance < wire::kVectorBits) result.vector[distance / 64] |= 1ULL << (distance % 64);
    }
    result.rx_count = static_cast<uint32_t>(arrived.size());
    return result;
  }
  void acknowledge(const std::vector<wire::PathBlock>& blocks, uint64_t cack) {
    wire::Ack ack;
    ack.cack = static_cast<uint32_t>(cack);
    ack.cpsn_limit = static_cast<uint32_t>(cack + 4096);
    for (const auto& each : blocks) ack.blocks[ack.nblocks++] = each;
    engine.on_ack(rig.now, c, ack);
  }
  void acknowledge(const Path& path, const std::set<uint64_t>& arrived) {
    acknowledge({block(path.id, arrived)}, c.peer_cack);
  }
  static uint64_t count(const Path& path, SentPacket::State state) {
    uint64_t n = 0;
    for (uint64_t i = path.sent.begin(); i != path.sent.end(); ++i)
      n += path.sent[i].state == state ? 1u : 0u;
    return n;
  }
  void set_rtt(RttEstimator& rtt, Nanos srtt, Nanos var) {
    rtt.valid = true;
    rtt.srtt = rtt.min = srtt;
    rtt.var = var;
  }

  Rig rig;
  Engine::Impl& engine = rig.engine;
  Connection& c = rig.open(2);
  Path& p = c.paths[0];
  Path& q = c.paths[1];
};

// ---- PTO

TEST_F(Recovery, the_timeout_without_any_sample_is_ten_milliseconds) {
  c.rtt = RttEstimator{};
  EXPECT_EQ(engine.pto(c), millis(10));
}

TEST_F(Recovery, the_first_timeout_leaves_out_the_variance) {
  set_rtt(c.rtt, millis(4), millis(3));
  EXPECT_EQ(engine.pto(c), millis(8) + engine.config.ack_delay);
  c.pto_count = 1;
  EXPECT_EQ(engine.pto(c), millis(14) + engine.config.ack_delay);
}

TEST_F(Recovery, the_timeout_has_bounds) {
  set_rtt(c.rtt, micros(1), Nanos{0});
  EXPECT_EQ(engine.pto(c), engine.config.pto_min);
  set_rtt(c.rtt, seconds(3), seconds(1));
  EXPECT_EQ(engine.pto(c), engine.config.pto_max);
}

TEST_F(Recovery, the_wait_doubles_with_each_expiry_up_to_its_bound) {
  set_rtt(c.rtt, millis(2), Nanos{0});
  c.last_heard = c.progressed = rig.now;
  rig.fly(c, p);
  p.rtt = RttEstimator{};
  c.paths_touched = true;
  const Nanos base = millis(4) + engine.config.ack_delay;
  for (uint32_t n = 0; n < 12; ++n) {
    c.pto_count = n;
    c.pto_from = rig.now;
    const Nanos expected = std::min<Nanos>(base * (1 << std::min(n, 10u)), engine.config.pto_max);
    EXPECT_EQ(engine.deadline(c) - rig.now, expected) << n;
  }
}

TEST_F(Recovery, the_first_timeout_declares_nothing_lost_and_the_second_does) {
  set_rtt(c.rtt, millis(2), Nanos{0});
  rig.fly(c, p, 5);
  rig.now += millis(50);
  engine.on_pto(rig.now, c);
  EXPECT_TRUE(c.tlp_wanted);
  EXPECT_EQ(p.inflight, 5u);
  c.tlp_wanted = false;
  rig.now += millis(50);
  rig.fly(c, p, 2);  // too young
  engine.on_pto(rig.now, c);
  EXPECT_EQ(p.inflight, 2u);
  EXPECT_EQ(c.rtx.size(), 5u);
  EXPECT_EQ(c.inflight_bytes, 2000u);
}

TEST_F(Recovery, any_progress_makes_timeouts_short_again) {
  c.pto_count = 5;
  const uint64_t pseq = rig.fly(c, p);
  rig.fly(c, p);
  rig.now += micros(100);
  acknowledge(p, {pseq});
  EXPECT_EQ(c.pto_count, 0u);
  EXPECT_EQ(c.pto_from, rig.now);
  acknowledge(p, {pseq, pseq + 1});
  EXPECT_EQ(c.pto_from, kNever) << "nothing is in flight";
}

// ---- RACK

TEST_F(Recovery, nothing_is_overdue_before_something_later_is_acknowledged) {
  set_rtt(p.rtt, millis(1), micros(100));
  rig.fly(c, p);
  EXPECT_EQ(engine.rack_deadline(c, p), kNever);
  const Nanos later = std::max<Nanos>(micros(250), engine.config.reo_min);
  c.last_sent_acked = rig.now + later;
  EXPECT_EQ(engine.rack_deadline(c, p), kNever);
  c.last_sent_acked = rig.now + later + Nanos{1};
  EXPECT_EQ(engine.rack_deadline(c, p), rig.now + micros(1250) + micros(200) + engine.config.reo_min);
}

TEST_F(Recovery, a_path_without_samples_uses_those_of_the_connection) {
  p.rtt = RttEstimator{};
  rig.fly(c, p);
  c.last_sent_acked = rig.now + seconds(1);
  c.rtt = RttEstimator{};
  EXPECT_EQ(engine.rack_deadline(c, p), kNever);
  set_rtt(c.rtt, millis(2), Nanos{0});
  EXPECT_EQ(engine.rack_deadline(c, p), rig.now + micros(2500) + engine.config.reo_min);
}

TEST_F(Recovery, what_is_overdue_is_lost_and_what_is_not_stays) {
  set_rtt(p.rtt, millis(1), Nanos{0});
  rig.fly(c, p, 3);
  const Time first = rig.now;
  rig.now += micros(600);
  rig.fly(c, p, 2);
  c.last_sent_acked = rig.now;
  EXPECT_FALSE(engine.detect_overdue(first + micros(1449), c, p));
  EXPECT_TRUE(engine.detect_overdue(first + micros(1450), c, p));
  EXPECT_EQ(p.inflight, 2u);
  EXPECT_EQ(p.overdue_since_ack, 3u);
}

// ---- gap rule

TEST_F(Recovery, a_hole_below_what_arrived_is_lost_at_once) {
  const uint64_t first = rig.fly(c, p);
  rig.fly(c, p, 4);
  acknowledge(p, {first, first + 2, first + 4});
  EXPECT_EQ(c.counters.lost, 2u);
  EXPECT_EQ(p.inflight, 0u);
  EXPECT_EQ(p.rtx.size(), 2u);
}

TEST_F(Recovery, a_hole_is_not_lost_within_the_reorder_threshold) {
  p.reorder_threshold = 2;
  const uint64_t first = rig.fly(c, p);
  rig.fly(c, p, 9);
  acknowledge(p, {first + 2});
  EXPECT_EQ(c.counters.lost, 0u);
  acknowledge(p, {first + 3});
  EXPECT_EQ(c.counters.lost, 1u) << "only the one that is three behind";
}

TEST_F(Recovery, transmissions_of_another_epoch_are_not_compared) {
  const uint64_t old = rig.fly(c, p);
  ++p.epoch;
  const uint64_t fresh = rig.fly(c, p);
  acknowledge(p, {fresh});
  EXPECT_EQ(c.counters.lost, 0u);
  EXPECT_EQ(p.sent[old].state, SentPacket::State::kFlying);
}

TEST_F(Recovery, a_loss_that_was_none_raises_the_threshold) {
  const uint64_t first = rig.fly(c, p);
  rig.fly(c, p, 9);
  acknowledge(p, {first + 5});
  EXPECT_EQ(c.counters.lost, 5u);
  acknowledge(p, {first + 1, first + 5});
  EXPECT_EQ(c.counters.spurious, 1u);
  EXPECT_EQ(p.reorder_threshold, 4u) << "it was four behind";
}

// ---- forgery and repetition

TEST_F(Recovery, an_acknowledgement_of_what_was_not_sent_changes_nothing) {
  const uint64_t first = rig.fly(c, p);
  acknowledge(p, {first + 1});
  EXPECT_EQ(engine.counters.drop_forged_ack, 1u);
  acknowledge({}, c.tx.end() + 1);
  EXPECT_EQ(engine.counters.drop_forged_ack, 2u);
  EXPECT_EQ(p.inflight, 1u);
  EXPECT_EQ(c.tx.size(), 1u);
}

TEST_F(Recovery, an_acknowledgement_twice_is_once) {
  const uint64_t first = rig.fly(c, p);
  rig.fly(c, p, 3);
  for (int i = 0; i < 3; ++i) acknowledge(p, {first, first + 1});
  EXPECT_EQ(p.counters.acked, 2u);
  EXPECT_EQ(p.inflight, 2u);
  EXPECT_EQ(c.tx.size(), 2u);
}

// Two paths that lose and reorder, acknowledgements that get lost: the counts of what is in flight agree with
// the transmissions at all times, each packet is accepted, and only what was lost goes out twice (but for
// what the rules gave up too early).
TEST_F(Recovery, brings_everything_across_a_random_network) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Rig other;
    Connection& conn = other.open(2);
    std::array<std::set<uint64_t>, 2> arrived;
    std::set<uint64_t> accepted;  // CPSNs
    uint64_t cack = conn.first_cpsn;
    const uint64_t end = conn.first_cpsn + 500;
    for (int step = 0; step < 20000 && cack != end; ++step) {
      other.now += micros(static_cast<int64_t>(rng.below(100)));
      Path& path = conn.paths[rng.below(2)];
      uint64_t cpsn = UINT64_MAX;
      if (!other.engine.pop_waiting(conn, path.rtx, 100000, cpsn) &&
          !other.engine.pop_waiting(conn, conn.rtx, 100000, cpsn) && conn.tx.end() != end &&
          path.inflight < 30) {
        cpsn = conn.tx.end();
        conn.tx.push(TxPacket{});
      }
      if (cpsn != UINT64_MAX) {
        other.engine.note_sent(other.now, conn, path, cpsn, 1000);
        if (!rng.chance(0.1)) {
          arrived[path.id].insert(path.sent.end() - 1);
          accepted.insert(cpsn);
          while (accepted.contains(cack)) ++cack;
        }
      }
      if (rng.chance(0.3)) {
        wire::Ack ack;
        ack.cack = static_cast<uint32_t>(cack);
        ack.cpsn_limit = static_cast<uint32_t>(cack + 4096);
        for (uint8_t i = 0; i < 2; ++i) {
          if (!arrived[i].empty()) ack.blocks[ack.nblocks++] = block(i, arrived[i]);
        }
        other.engine.on_ack(other.now, conn, ack);
      }
      for (Path& each : conn.paths) other.engine.detect_overdue(other.now, conn, each);
      if (rng.chance(0.01)) {
        other.now += millis(100);
        other.engine.on_pto(other.now, conn);
      }
      uint64_t bytes = 0;
      for (const Path& each : conn.paths) {
        ASSERT_EQ(each.inflight, count(each, SentPacket::State::kFlying));
        ASSERT_EQ(each.inflight_bytes, 1000u * each.inflight);
        bytes += each.inflight_bytes;
      }
      ASSERT_EQ(conn.inflight_bytes, bytes);
      ASSERT_EQ(engine.counters.drop_forged_ack, 0u);
    }
    EXPECT_EQ(cack, end);
    EXPECT_GT(conn.counters.retransmissions, 20u);
  }
}

}  // namespace
}  // namespace mroce::test
