// What a sampled flow says about a path that went dark for a while.
#pragma once

#include <optional>
#include <vector>

#include "cli/measure.h"

namespace mroce::cli {

struct Outage {
  size_t path = 1;
  double down_s = 1.0;
  double up_s = 2.0;
};

struct Recovery {
  double before_gbps = 0;                 // median of the second half of the time before
  double worst_gbps = 0;                  // slowest interval while the path was dark
  std::optional<double> recovered_s;      // from the failure until goodput was back
  std::optional<double> carries_again_s;  // from the return until the path had new data
};

// Goodput counts as back when it has 80 % of before in three intervals in a row; only intervals that lie in
// the dark time as a whole count, and the time runs to the end of the first good one.
inline constexpr double kBackShare = 0.8;
inline constexpr size_t kBackInARow = 3;

Recovery judge_recovery(const std::vector<Sample>& samples, const Outage& outage, double interval_s);

}  // namespace mroce::cli
