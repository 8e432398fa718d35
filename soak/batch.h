// Batch: runs of one seed after another until the time or the number is used up, or one fails. Every
// twentieth is repeated and must draw and send the same. A failing run is made smaller.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "soak/apart.h"
#include "soak/report.h"

namespace mroce::soak {

struct BatchPlan {
  uint64_t seed = 1;
  uint64_t runs = 0;        // 0: no limit
  double seconds = 0;       // 0: no limit; a run that has begun is finished
  bool keep_going = false;  // after a violation; nothing is made smaller then
  double minimise_seconds = 120;
  std::vector<std::string> settings;  // NAME=VALUE, after drawing
  ApartOptions how;
  std::function<double()> elapsed;  // seconds; called from the beginning on
  std::function<void(const SoakReport&, uint64_t seed)> before_run;
  std::function<void(const RunOptions&, const RunResult&)> after_failure;
  std::function<void(uint64_t tries)> while_minimising;
};

// The options of a run in this batch; an error is a sentence.
tl::expected<RunOptions, std::string> options_of(const BatchPlan& plan, uint64_t seed);

tl::expected<SoakReport, std::string> run_batch(const BatchPlan& plan);

}  // namespace mroce::soak
