#include "cli/recovery.h"

#include <algorithm>

namespace mroce::cli {
namespace {

std::vector<double> rates(const std::vector<Sample>& samples, double from, double to) {
  std::vector<double> values;
  for (const Sample& sample : samples) {
    if (sample.at_s > from && sample.at_s <= to) values.push_back(sample.gbps);
  }
  return values;
}

std::optional<double> time_back(const std::vector<Sample>& samples, const Outage& outage, double interval_s,
                                double wanted) {
  size_t in_a_row = 0;
  double since = 0;
  for (const Sample& sample : samples) {
    if (sample.at_s < outage.down_s + interval_s || sample.at_s > outage.up_s) continue;
    if (sample.gbps < wanted) {
      in_a_row = 0;
      continue;
    }
    if (in_a_row++ == 0) since = sample.at_s;
    if (in_a_row == kBackInARow) return since - outage.down_s;
  }
  return std::nullopt;
}

// Probes are no data packets: what is compared are data packets sent, before the return and after.
std::optional<double> time_of_new_data(const std::vector<Sample>& samples, const Outage& outage) {
  std::optional<uint64_t> dark;
  for (const Sample& sample : samples) {
    if (sample.path_sent.size() <= outage.path) continue;
    const uint64_t sent = sample.path_sent[outage.path];
    if (sample.at_s <= outage.up_s) {
      dark = sent;
    } else if (dark && sent > *dark && sample.path_state[outage.path] != "FAILED") {
      return sample.at_s - outage.up_s;
    }
  }
  return std::nullopt;
}

}  // namespace

Recovery judge_recovery(const std::vector<Sample>& samples, const Outage& outage, double interval_s) {
  Recovery recovery;
  recovery.before_gbps = median(rates(samples, outage.down_s / 2, outage.down_s));
  const auto dark = rates(samples, outage.down_s, outage.up_s);
  if (!dark.empty()) recovery.worst_gbps = *std::min_element(dark.begin(), dark.end());
  recovery.recovered_s = time_back(samples, outage, interval_s, kBackShare * recovery.before_gbps);
  recovery.carries_again_s = time_of_new_data(samples, outage);
  return recovery;
}

}  // namespace mroce::cli
