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
#include "cli/recovery.h"
#include "cli/terminal.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kColumns = 68;
constexpr double kInterval = 0.02;
constexpr double kReturnWithin = 1;  // seconds; later is a finding

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

// Means of as many samples each as fit beside their names in 80 columns.
std::vector<double> thinned(const std::vector<double>& values) {
  const size_t group = std::max<size_t>(1, (values.size() + kColumns - 1) / kColumns);
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

std::string text_of(const std::vector<Sample>& samples, const Outage& outage, const Recovery& recovery) {
  std::vector<double> goodput;
  for (const Sample& sample : samples) goodput.push_back(sample.gbps);
  const auto time_text = [](const std::optional<double>& s) {
    return s ? fmt::format("after {:.0f} ms", *s * 1000) : std::string("not within this run");
  };
  return fmt::format(
      "{}\n  goodput  {}\n  path 1   {}\n"
      "  At {:.1f} s path 1 of 4 goes dark. Before: {:.1f} Gbit/s;\n"
      "  slowest {:.0f} ms: {:.1f} Gbit/s; back above {:.0f} % of before {}.\n"
      "  At {:.1f} s the path returns and carries data {}.\n",
      styled(STDOUT_FILENO, Style::kBold, "2. A path dies and returns"), bars(thinned(goodput)),
      bars(thinned(path_rate(samples, outage.path))), outage.down_s, recovery.before_gbps, kInterval * 1000,
      recovery.worst_gbps, kBackShare * 100, time_text(recovery.recovered_s), outage.up_s,
      time_text(recovery.carries_again_s));
}

ordered_json json_of(const std::vector<Sample>& samples, const Outage& outage, const Recovery& recovery) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json();
  };
  ordered_json out = {{"path", outage.path},
                      {"down_s", outage.down_s},
                      {"up_s", outage.up_s},
                      {"before_gbps", recovery.before_gbps},
                      {"worst_interval_gbps", recovery.worst_gbps},
                      {"recovered_s", or_null(recovery.recovered_s)},
                      {"carries_again_s", or_null(recovery.carries_again_s)},
                      {"interval_s", kInterval},
                      {"samples", ordered_json::array()}};
  for (const Sample& sample : samples) {
    out["samples"].push_back({{"at_s", sample.at_s}, {"gbps", sample.gbps}, {"path_sent", sample.path_sent}});
  }
  return out;
}

}  // namespace

Outcome<DemoPart> demo_path_failure(const DemoOptions& options) {
  const Outage outage = options.quick ? Outage{1, 0.6, 1.2} : Outage{1, 1.0, 2.0};
  const double end_s = options.quick ? 2.2 : 3.5;
  const auto settings = settings_with(
      {{"paths", "4", "demo"},
       {"impair", fmt::format("down={}s-{}s,path={}", outage.down_s, outage.up_s, outage.path), "demo"}});
  if (!settings) return tl::unexpected(settings.error());
  Progress progress;
  progress.show("a path dies and returns");
  const auto samples = sample_writes(*settings, end_s, kInterval);
  if (!samples) return tl::unexpected(samples.error());
  const Recovery recovery = judge_recovery(*samples, outage, kInterval);

  DemoPart part;
  part.json = json_of(*samples, outage, recovery);
  part.text = text_of(*samples, outage, recovery);
  if (!recovery.recovered_s) part.findings.push_back("goodput did not come back while the path was dark");
  if (!recovery.carries_again_s || *recovery.carries_again_s > kReturnWithin) {
    part.findings.push_back(fmt::format("the returned path carried no data within {} s", kReturnWithin));
  }
  return part;
}

}  // namespace mroce::cli
