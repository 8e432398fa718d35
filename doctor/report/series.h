// What happened when: rates between the samples of bundles, for charts on one time axis.
//
// Between two readings of a counter stands one step: their difference by the time between them. A counter
// that was reset has a hole there. Several counters of one canonical name are combined step by step as
// counters.toml says: parts of one thing are added, views of one thing give the greatest; the priorities of a
// port are added first. What never moves is named and gets no line. More than kMaxSteps steps are put
// together: rates of events keep their peaks, throughput and activity their mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/evidence.h"
#include "doctor/finding.h"
#include "doctor/report/gpu.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {

inline constexpr size_t kMaxSteps = 600;
inline constexpr size_t kMaxGroups = 16;  // ports and hosts with charts; the rest is named
inline constexpr size_t kMaxLines = 8;    // in one chart

struct ChartStep {
  double from_s = 0, to_s = 0;  // since Timeline::begin_ns
  double value = 0;
};

struct Series {
  std::string label;  // "received", "GPU 0"
  std::vector<ChartStep> steps;
  double peak = 0, mean = 0;
  size_t ink = 0;  // the same for the same thing in all charts
};

struct Chart {
  std::string title, unit;
  std::vector<Series> series;
};

// Of one port, or the GPUs of one host.
struct ChartGroup {
  std::string host, port, note;
  std::vector<Chart> charts;
  std::vector<std::string> still;  // that was sampled and never moved
};

struct Timeline {
  int64_t begin_ns = 0;
  double seconds = 0;
  bool own_clocks = false;  // the hosts' clocks disagree: each group begins at 0
  std::vector<ChartGroup> groups;
  std::vector<std::string> left_out;
};

// Ports that the diagnosis speaks of come first. No groups if nothing was sampled.
Timeline timeline_of(const Evidence& evidence, const Rulebook& book, const std::vector<GpuReading>& gpus,
                     const Diagnosis& diagnosis);

enum class Thin : uint8_t { kPeak, kMean };
std::vector<ChartStep> thinned(std::vector<ChartStep> steps, size_t at_most, Thin how);

}  // namespace mroce::doctor
