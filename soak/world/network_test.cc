#include <gtest/gtest.h>

#include "soak/world/world.h"

namespace mroce::soak {
namespace {

// Two endpoints with a queue pair each, and WRITEs from one to the other.
struct Two : World {
  explicit Two(EndpointOptions of_a = {}) : World(1), a(add_endpoint(std::move(of_a))), b(add_endpoint()) {
    ma = a.make_mr(1 << 20);
    mb = b.make_mr(1 << 20);
    qa = a.make_qp();
    qb = b.make_qp();
    connect(qa, qb);
  }
  bool write(uint32_t bytes = 100000, Nanos limit = seconds(5)) {
    const bool posted = qa.write(1, {ma.sge(0, bytes)}, mb.addr, mb.rkey).has_value();
    const auto wc = wait_for(a, qa.send_cq, limit);
    return posted && wc && wc->status == WcStatus::kSuccess;
  }
  uint64_t times(FaultKind kind) { return network().tally().of(kind); }
  Spell from_a_to_b(FaultKind kind, Nanos length) {
    Spell spell;
    spell.kind = kind;
    spell.from = now();
    spell.until = now() + length;
    spell.sender = 0;
    spell.receiver = 1;
    return spell;
  }

  Endpoint& a;
  Endpoint& b;
  Mr ma, mb;
  Qp qa, qb;
};

TEST(Spells, a_cut_in_one_direction_delays_until_it_ends) {
  Two two;
  two.network().add_spell(two.from_a_to_b(FaultKind::kCut, millis(300)));
  const Time begin = two.now();
  EXPECT_TRUE(two.write());
  EXPECT_GE(two.now() - begin, millis(300));
  EXPECT_GT(two.times(FaultKind::kCut), 0u);
}

TEST(Spells, the_other_direction_is_not_touched) {
  Two two;
  ASSERT_TRUE(two.write());
  Spell spell = two.from_a_to_b(FaultKind::kCut, seconds(1));
  std::swap(spell.sender, spell.receiver);
  two.network().add_spell(spell);
  ASSERT_TRUE(two.qa.write(2, {two.ma.sge(0, 8)}, two.mb.addr, two.mb.rkey));
  two.run_for(micros(100));
  EXPECT_EQ(two.times(FaultKind::kCut), 1u) << "only the acknowledgement is lost";
}

TEST(Spells, clogged_ways_are_slow_and_count_what_they_hold_up) {
  Two two;
  ASSERT_TRUE(two.write());
  Spell spell = two.from_a_to_b(FaultKind::kClog, seconds(1));
  spell.rate_bps = 1000000;
  two.network().add_spell(spell);
  const Time begin = two.now();
  EXPECT_TRUE(two.write(20000));
  EXPECT_GE(two.now() - begin, millis(90)) << "half of it waits in front of the rate";
  EXPECT_GT(two.times(FaultKind::kClog), 4u);
}

TEST(Spells, each_kind_of_damage_is_counted_and_survived) {
  for (const FaultKind kind : {FaultKind::kLoss, FaultKind::kReorder, FaultKind::kDuplicate,
                               FaultKind::kCorrupt, FaultKind::kTruncate}) {
    Two two;
    Spell spell = two.from_a_to_b(kind, seconds(60));
    spell.share = 0.3;
    spell.delay = micros(200);
    two.network().add_spell(spell);
    EXPECT_TRUE(two.write(1 << 20, seconds(20))) << name_of(kind);
    EXPECT_GT(two.times(kind), 10u) << name_of(kind);
  }
}

TEST(Ports, all_that_leaves_a_port_shares_its_rate) {
  Two two;
  ASSERT_TRUE(two.write());
  two.network().set_port_rate(two.a.gid(), 100000000, 1 << 20, 0);
  const Time begin = two.now();
  EXPECT_TRUE(two.write(500000));
  EXPECT_GE(two.now() - begin, millis(40));
}

TEST(Clocks, endpoints_need_not_agree_on_the_time) {
  EndpointOptions ahead;
  ahead.clock_ahead = seconds(100000);
  Two two(ahead);
  EXPECT_TRUE(two.write());
  EXPECT_EQ(two.a.now() - two.b.now(), seconds(100000));
}

TEST(Clocks, a_jump_does_no_harm) {
  Two two;
  ASSERT_TRUE(two.write());
  ASSERT_TRUE(two.qa.write(2, {two.ma.sge(0, 500000)}, two.mb.addr, two.mb.rkey));
  two.pump();
  two.a.jump_clock(seconds(2));
  const auto wc = two.wait_for(two.a, two.qa.send_cq);
  ASSERT_TRUE(wc.has_value());
  EXPECT_EQ(wc->status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace mroce::soak
