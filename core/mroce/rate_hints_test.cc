// The arithmetic of rate hints: water filling, and what a receiver tells whom.
#include "core/mroce/rate_hints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/rng.h"

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

}  // namespace
}  // namespace mroce
