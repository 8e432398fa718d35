// What changed since the baseline, and whether it is more than noise.
//
// Figures. The medians of the repetitions are compared. The threshold is the root of the sum of the squares
// of both relative ranges (most − least): with three repetitions a range is about 1.7 standard deviations and
// a median's error 0.7, so the threshold is about 2.5 standard deviations of the difference. It is 3 % at
// least, as no machine is quieter from month to month, and 15 % at least if either side has a single
// repetition and so no range at all.
//
// Counters. Deltas are counted per GiB of payload, so that runs of different length compare. One that moves
// now and did not then is new; one that moved then too has changed if the rate has doubled or halved and the
// difference is more than four times what counting alone would give.
//
// Settings. All that differ: driver, firmware, MTU, and so on, and the parameters of the suite itself.
#pragma once

#include <string>
#include <vector>

#include "doctor/suite/results.h"

namespace mroce::doctor {

enum class Change : uint8_t { kSame, kBetter, kWorse };

struct MetricChange {
  std::string test, metric, unit;
  double before = 0, now = 0;
  double relative = 0, threshold = 0;  // shares of `before`
  Change change = Change::kSame;
};

struct CounterShift {
  std::string test, host, port, name, unit;
  double before = 0, now = 0;                             // deltas
  std::optional<double> before_per_gib{}, now_per_gib{};  // if the payload is known
  bool is_new = false;
};

struct SettingShift {
  std::string place, name, before, now;  // place: "suite" for its parameters
};

struct Comparison {
  std::string baseline_started;
  std::vector<MetricChange> metrics;
  std::vector<CounterShift> counters;
  std::vector<SettingShift> settings;
  std::vector<std::string> remarks;
  bool worse() const;
};

Comparison compare(const SuiteResults& baseline, const SuiteResults& now);
std::string to_json(const Comparison& comparison);

}  // namespace mroce::doctor
