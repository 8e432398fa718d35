#include "core/mroce/path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/wire/codec.h"

namespace mroce {
namespace {

// ---- RxPath

std::vector<uint64_t> bits(const RxPath& path) {
  std::vector<uint64_t> set;
  for (uint64_t distance = 0; distance < wire::kVectorBits && distance <= path.largest; ++distance) {
    if ((path.vector[distance / 64] >> (distance % 64) & 1) != 0) set.push_back(path.largest - distance);
  }
  std::ranges::reverse(set);
  return set;
}

TEST(RxPath, knows_nothing_at_first) {
  const RxPath path;
  EXPECT_FALSE(path.seen);
  EXPECT_FALSE(path.is_set(0));
  EXPECT_FALSE(path.is_set(1));
}

TEST(RxPath, a_number_means_the_one_nearest_to_the_highest_or_to_the_first_announced) {
  RxPath path;
  constexpr uint64_t kFirst = 0x5'ffff'fff0;
  EXPECT_EQ(path.expand(0xffff'fff0, kFirst), kFirst);
  EXPECT_EQ(path.expand(3, kFirst), 0x6'0000'0003u);
  EXPECT_EQ(path.expand(0xffff'ff00, kFirst), 0x5'ffff'ff00u);
  path.note(0x9'0000'0010, true);
  EXPECT_EQ(path.expand(3, kFirst), 0x9'0000'0003u);
  EXPECT_EQ(path.expand(0xffff'fff0, kFirst), 0x8'ffff'fff0u);
}

TEST(RxPath, the_first_packet_leaves_no_gap_whatever_its_number) {
  for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{300}, uint64_t{0xffffffff}}) {
    RxPath path;
    EXPECT_FALSE(path.note(first, true));
    EXPECT_TRUE(path.seen);
    EXPECT_EQ(path.largest, first);
    EXPECT_EQ(bits(path), std::vector{first});
  }
}

TEST(RxPath, packets_in_order_leave_no_gap) {
  RxPath path;
  for (uint64_t pseq = 100; pseq < 1000; ++pseq) EXPECT_FALSE(path.note(pseq, true)) << pseq;
  EXPECT_EQ(path.largest, 999u);
  EXPECT_EQ(path.vector, (std::array<uint64_t, 4>{~0ULL, ~0ULL, ~0ULL, ~0ULL}));
  EXPECT_TRUE(path.is_set(744));
  EXPECT_FALSE(path.is_set(743)) << "256 below the largest: out of the vector";
  EXPECT_FALSE(path.is_set(1000));
}

TEST(RxPath, a_hole_is_told_when_it_opens_and_when_it_fills) {
  RxPath path;
  path.note(10, true);
  EXPECT_TRUE(path.note(13, true));
  EXPECT_EQ(bits(path), (std::vector<uint64_t>{10, 13}));
  EXPECT_FALSE(path.note(14, true)) << "no new one just below it";
  EXPECT_TRUE(path.note(11, true));
  EXPECT_TRUE(path.note(12, true));
  EXPECT_EQ(bits(path), (std::vector<uint64_t>{10, 11, 12, 13, 14}));
  EXPECT_EQ(path.largest, 14u);
}

TEST(RxPath, a_duplicate_changes_nothing) {
  RxPath path;
  for (const uint64_t pseq : {5u, 7u, 9u}) path.note(pseq, true);
  const auto before = path.vector;
  for (const uint64_t pseq : {5u, 7u, 9u}) path.note(pseq, true);
  EXPECT_EQ(path.vector, before);
  EXPECT_EQ(path.largest, 9u);
}

TEST(RxPath, a_refused_packet_moves_the_window_and_leaves_its_bit_clear) {
  RxPath path;
  path.note(20, true);
  EXPECT_FALSE(path.note(21, false));
  EXPECT_EQ(path.largest, 21u);
  EXPECT_FALSE(path.is_set(21));
  EXPECT_TRUE(path.is_set(20));
  path.note(21, false);
  EXPECT_FALSE(path.is_set(21));
  path.note(21, true);
  EXPECT_TRUE(path.is_set(21));
}

TEST(RxPath, keeps_what_is_within_a_jump_of_any_length_up_to_the_vector) {
  for (uint64_t jump = 1; jump <= 300; ++jump) {
    RxPath path;
    for (uint64_t pseq = 1000; pseq < 1256; ++pseq) path.note(pseq, pseq % 3 != 0);
    path.note(1255 + jump, true);
    for (uint64_t pseq = 1000; pseq <= 1255 + jump; ++pseq) {
      const bool within = 1255 + jump - pseq < wire::kVectorBits;
      const bool was_set = pseq < 1256 ? pseq % 3 != 0 : pseq == 1255 + jump;
      ASSERT_EQ(path.is_set(pseq), within && was_set) << "jump " << jump << " pseq " << pseq;
    }
  }
}

TEST(RxPath, what_lies_below_the_vector_is_ignored) {
  RxPath path;
  path.note(1000, true);
  const auto before = path.vector;
  EXPECT_FALSE(path.note(1000 - 256, true));
  EXPECT_FALSE(path.note(0, true));
  EXPECT_EQ(path.vector, before);
  EXPECT_TRUE(path.note(1000 - 255, true)) << "the last bit";
  EXPECT_EQ(path.vector[3], 1ULL << 63);
}

// The wire has the low 32 bits; the window goes on.
TEST(RxPath, goes_over_the_wrap_of_the_number_on_the_wire) {
  RxPath path;
  const uint64_t start = 0xffffff80;
  path.note(start, true);
  for (uint64_t i = 1; i < 256; ++i) {
    const auto on_wire = static_cast<uint32_t>(start + i);
    const uint64_t pseq = wire::expand32(on_wire, path.largest);
    ASSERT_EQ(pseq, start + i);
    EXPECT_FALSE(path.note(pseq, true)) << i;
  }
  EXPECT_EQ(path.largest, 0x10000007fULL);
  EXPECT_EQ(static_cast<uint32_t>(path.largest), 0x7fu);
  EXPECT_TRUE(path.is_set(start));
  // One from before the wrap comes late.
  EXPECT_EQ(wire::expand32(0xfffffff0, path.largest), 0xfffffff0ULL);
}

TEST(RxPath, agrees_with_a_plain_map_of_what_arrived) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    RxPath path;
    std::map<uint64_t, bool> arrived;  // accepted
    uint64_t largest = 0xfffffe00 + rng.below(1024);
    for (int i = 0; i < 2000; ++i) {
      uint64_t pseq = largest + 1;
      if (rng.chance(0.3)) pseq = largest - rng.below(320);
      if (rng.chance(0.1)) pseq = largest + rng.between(2, 100);
      if (rng.chance(0.005)) pseq = largest + rng.between(200, 3000);
      const bool accepted = rng.chance(0.9);
      const bool first = arrived.empty();
      const bool gap = path.note(pseq, accepted);
      const bool below = !first && pseq <= largest;
      const bool expected = first ? false : below ? largest - pseq < wire::kVectorBits : pseq > largest + 1;
      ASSERT_EQ(gap, expected) << "pseq " << pseq << " largest " << largest;
      if (first || pseq > largest) largest = pseq;
      if (largest - pseq < wire::kVectorBits) arrived[pseq] = arrived[pseq] || accepted;
      ASSERT_EQ(path.largest, largest);
      for (uint64_t distance = 0; distance < wire::kVectorBits; ++distance) {
        const auto it = arrived.find(largest - distance);
        ASSERT_EQ(path.is_set(largest - distance), it != arrived.end() && it->second) << distance;
      }
    }
  }
}

// ---- RttEstimator

TEST(RttEstimator, begins_with_the_first_sample_and_half_of_it_as_variance) {
  RttEstimator rtt;
  EXPECT_FALSE(rtt.valid);
  rtt.sample(micros(100));
  EXPECT_TRUE(rtt.valid);
  EXPECT_EQ(rtt.srtt, micros(100));
  EXPECT_EQ(rtt.var, micros(50));
  EXPECT_EQ(rtt.min, micros(100));
}

// RFC 6298, (2.3): RTTVAR first, with the SRTT from before.
TEST(RttEstimator, follows_a_known_sequence) {
  RttEstimator rtt;
  struct Step {
    int64_t sample, srtt, var, min;
  };
  for (const Step& step : {Step{800, 800, 400, 800}, Step{1600, 900, 500, 800}, Step{100, 800, 575, 100},
                           Step{800, 800, 432, 100}, Step{0, 701, 523, 1}}) {
    rtt.sample(Nanos{step.sample});
    EXPECT_NEAR(static_cast<double>(rtt.srtt.count()), static_cast<double>(step.srtt), 1);
    EXPECT_NEAR(static_cast<double>(rtt.var.count()), static_cast<double>(step.var), 1);
    EXPECT_EQ(rtt.min.count(), step.min);
  }
}

TEST(RttEstimator, takes_no_sample_below_one_nanosecond) {
  for (const int64_t sample : {int64_t{0}, int64_t{-1}, int64_t{-1000000}}) {
    RttEstimator rtt;
    rtt.sample(Nanos{sample});
    EXPECT_EQ(rtt.srtt, Nanos{1});
    EXPECT_EQ(rtt.min, Nanos{1});
    rtt.sample(micros(100));
    rtt.sample(Nanos{sample});
    EXPECT_GE(rtt.srtt, Nanos{0});
    EXPECT_GE(rtt.var, Nanos{0});
  }
}

TEST(RttEstimator, of_a_constant_round_trip_loses_its_variance) {
  RttEstimator rtt;
  for (int i = 0; i < 100; ++i) rtt.sample(micros(250));
  EXPECT_EQ(rtt.srtt, micros(250));
  EXPECT_LT(rtt.var, micros(1));
}

TEST(RttEstimator, agrees_with_rfc_6298_in_floating_point) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    RttEstimator rtt;
    double srtt = 0, var = 0, least = 0;
    for (int i = 0; i < 500; ++i) {
      const int64_t sample = static_cast<int64_t>(rng.between(1000, rng.chance(0.1) ? 50000000 : 500000));
      const double r = static_cast<double>(sample);
      if (i == 0) {
        srtt = least = r;
        var = r / 2;
      } else {
        var = 0.75 * var + 0.25 * std::fabs(srtt - r);
        srtt = 0.875 * srtt + 0.125 * r;
        least = std::min(least, r);
      }
      rtt.sample(Nanos{sample});
      // Integers are cut off by less than one in each step: gains of 1/8 and 1/4 keep the sum below eight.
      ASSERT_NEAR(static_cast<double>(rtt.srtt.count()), srtt, 8);
      ASSERT_NEAR(static_cast<double>(rtt.var.count()), var, 16);
      ASSERT_EQ(static_cast<double>(rtt.min.count()), least);
    }
  }
}

// ---- Path

TEST(Path, is_usable_in_three_states_and_only_with_both_links_up) {
  const std::map<PathState, bool> expected{{PathState::kNew, false},     {PathState::kActive, true},
                                           {PathState::kSuspect, true},  {PathState::kFailed, false},
                                           {PathState::kDegraded, true}, {PathState::kDenied, false}};
  for (const auto& [state, usable] : expected) {
    SCOPED_TRACE(std::string(name_of(state)));
    Path p;
    p.state = state;
    EXPECT_EQ(p.usable(), usable);
    p.link_up = false;
    EXPECT_FALSE(p.usable());
    p.link_up = true;
    p.peer_up = false;
    EXPECT_FALSE(p.usable());
  }
}

}  // namespace
}  // namespace mroce
