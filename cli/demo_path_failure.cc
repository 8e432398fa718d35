// mroce demo, second part: a path dies and returns while data flows.
//
// A writer of our own, because perftest prints totals only: 64 KiB WRITEs through net::Endpoint, goodput and
// the counters of each path sampled every 20 ms. Path 1 goes dark for a while: all that is sent on it is
// dropped.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "cli/demo.h"
#include "cli/device.h"
#include "cli/measure.h"
#include "cli/terminal.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kPath = 1;
constexpr double kInterval = 0.02;
constexpr double kBack = 0.8;         // of the goodput before counts as back …
constexpr size_t kBackInARow = 3;     // … when that many intervals in a row have it
constexpr double kRecoverWithin = 1;  // seconds; a finding otherwise

struct Plan {
  double down = 1.0;
  double up = 2.0;
  double end = 3.5;
};

struct Verdict {
  double before_gbps = 0;
  double worst_gbps = 0;                  // slowest interval while the path is dark
  std::optional<double> recovered_s;      // from the failure until goodput is back
  std::optional<double> dark_gbps;        // median while the path is dark, once recovered
  std::optional<double> carries_again_s;  // from the return until the path has new data
};

bool within(const Sample& sample, double from, double to) {
  return sample.at_s > from && sample.at_s <= to;
}

std::vector<double> rates(const std::vector<Sample>& samples, double from, double to) {
  std::vector<double> values;
  for (const Sample& sample : samples) {
    if (within(sample, from, to)) values.push_back(sample.gbps);
  }
  return values;
}

// From the failure to the end of the first good interval, of those that lie in the dark time as a whole.
std::optional<double> time_back(const std::vector<Sample>& samples, const Plan& plan, double wanted) {
  size_t in_a_row = 0;
  double since = 0;
  for (const Sample& sample : samples) {
    if (sample.at_s < plan.down + kInterval || sample.at_s > plan.up) continue;
    if (sample.gbps < wanted) {
      in_a_row = 0;
      continue;
    }
    if (in_a_row++ == 0) since = sample.at_s;
    if (in_a_row == kBackInARow) return since - plan.down;
  }
  return std::nullopt;
}

// Data on the returned path: a probe is no data packet and is not counted as one.
std::optional<double> time_of_new_data(const std::vector<Sample>& samples, const Plan& plan) {
  std::optional<uint64_t> dark;
  for (const Sample& sample : samples) {
    if (sample.path_sent.size() <= kPath) continue;
    const uint64_t sent = sample.path_sent[kPath];
    if (sample.at_s <= plan.up) {
      dark = sent;
    } else if (dark && sent > *dark && sample.path_state[kPath] != "FAILED") {
      return sample.at_s - plan.up;
    }
  }
  return std::nullopt;
}

Verdict judge(const std::vector<Sample>& samples, const Plan& plan) {
  Verdict verdict;
  verdict.before_gbps = median(rates(samples, plan.down / 2, plan.down));
  const auto dark = rates(samples, plan.down, plan.up);
  if (!dark.empty()) verdict.worst_gbps = *std::min_element(dark.begin(), dark.end());
  verdict.recovered_s = time_back(samples, plan, kBack * verdict.before_gbps);
  if (verdict.recovered_s)
    verdict.dark_gbps = median(rates(samples, plan.down + *verdict.recovered_s, plan.up));
  verdict.carries_again_s = time_of_new_data(samples, plan);
  return verdict;
}

// One character for each sample, from nothing to the most.
std::string bars(const std::vector<double>& values) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  std::string text;
  for (const double value : values) {
    const double share = most > 0 ? value / most : 0;
    text += kBars[static_cast<size_t>(std::clamp(share * 8 + 0.5, 0.0, 8.0))];
  }
  return text;
}

// Means of as many samples each as give about 70 values.
std::vector<double> thinned(const std::vector<double>& values) {
  const size_t group = std::max<size_t>(1, (values.size() + 69) / 70);
  std::vector<double> means;
  for (size_t i = 0; i < values.size(); i += group) {
    const size_t end = std::min(i + group, values.size());
    double sum = 0;
    for (size_t j = i; j < end; ++j) sum += values[j];
    means.push_back(sum / static_cast<double>(end - i));
  }
  return means;
}

std::vector<double> path_rate(const std::vector<Sample>& samples, size_t path) {
  std::vector<double> values;
  uint64_t last = 0;
  for (const Sample& sample : samples) {
    const uint64_t sent = path < sample.path_sent.size() ? sample.path_sent[path] : 0;
    values.push_back(static_cast<double>(sent - std::min(last, sent)));
    last = sent;
  }
  return values;
}

std::string text_of(const std::vector<Sample>& samples, const Plan& plan, const Verdict& verdict) {
  std::vector<double> goodput;
  for (const Sample& sample : samples) goodput.push_back(sample.gbps);
  const auto time_text = [](const std::optional<double>& s) {
    return s ? fmt::format("after {:.0f} ms", *s * 1000) : std::string("not within this run");
  };
  return fmt::format(
      "{}\n  goodput  {}\n  path 1   {}\n"
      "  At {:.1f} s path 1 of 4 goes dark. Before: {:.1f} Gbit/s; slowest {:.0f} ms: {:.1f} Gbit/s;\n"
      "  back above {:.0f} % of before {}. At {:.1f} s the path returns and carries data {}.\n",
      styled(STDOUT_FILENO, Style::kBold, "2. A path dies and returns"), bars(thinned(goodput)),
      bars(thinned(path_rate(samples, kPath))), plan.down, verdict.before_gbps, kInterval * 1000,
      verdict.worst_gbps, kBack * 100, time_text(verdict.recovered_s), plan.up,
      time_text(verdict.carries_again_s));
}

ordered_json json_of(const std::vector<Sample>& samples, const Plan& plan, const Verdict& verdict) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json();
  };
  ordered_json out = {{"path", kPath},
                      {"down_s", plan.down},
                      {"up_s", plan.up},
                      {"before_gbps", verdict.before_gbps},
                      {"worst_interval_gbps", verdict.worst_gbps},
                      {"dark_gbps", or_null(verdict.dark_gbps)},
                      {"recovered_s", or_null(verdict.recovered_s)},
                      {"carries_again_s", or_null(verdict.carries_again_s)},
                      {"interval_s", kInterval},
                      {"samples", ordered_json::array()}};
  for (const Sample& sample : samples) {
    out["samples"].push_back({{"at_s", sample.at_s}, {"gbps", sample.gbps}, {"path_sent", sample.path_sent}});
  }
  return out;
}

}  // namespace

Outcome<DemoPart> demo_path_failure(const DemoOptions& options) {
  const Plan plan = options.quick ? Plan{0.6, 1.2, 2.2} : Plan{};
  const auto settings =
      settings_with({{"paths", "4", "demo"},
                     {"impair", fmt::format("down={}s-{}s,path={}", plan.down, plan.up, kPath), "demo"}});
  if (!settings) return tl::unexpected(settings.error());
  Progress progress;
  progress.show("a path dies and returns");
  const auto samples = sample_writes(*settings, plan.end, kInterval);
  if (!samples) return tl::unexpected(samples.error());
  const Verdict verdict = judge(*samples, plan);

  DemoPart part;
  part.json = json_of(*samples, plan, verdict);
  part.text = text_of(*samples, plan, verdict);
  if (!verdict.recovered_s) part.findings.push_back("goodput did not come back while the path was dark");
  if (!verdict.carries_again_s || *verdict.carries_again_s > kRecoverWithin) {
    part.findings.push_back(fmt::format("the returned path carried no data within {} s", kRecoverWithin));
  }
  return part;
}

}  // namespace mroce::cli
