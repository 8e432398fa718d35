// Names of metrics, from names and units of the vendor map.
#include <algorithm>
#include <array>
#include <map>

#include "doctor/export/openmetrics.h"

namespace mroce::doctor {
namespace {

struct UnitChange {
  std::string_view from, suffix;  // suffix: what a canonical name of this unit ends in
  std::string_view to;
  double factor;
};
constexpr std::array kUnits = {UnitChange{"us", "_us", "seconds", 1e-6},
                               UnitChange{"s", "_s", "seconds", 1},
                               UnitChange{"%", "_pct", "ratio", 0.01},
                               UnitChange{"bits", "_bits", "bytes", 0.125},
                               UnitChange{"?", "", "", 1},
                               UnitChange{"", "", "", 1}};

MetricFamily counter_family(const Canonical& canonical, bool gauge) {
  MetricFamily out;
  out.kind = gauge ? MetricKind::kGauge : MetricKind::kCounter;
  out.canonical = canonical.name;
  std::string name = canonical.name;
  out.unit = canonical.unit;
  for (const UnitChange& change : kUnits) {
    if (canonical.unit != change.from) continue;
    // Repaired bits are a number of events, not an amount of data.
    if (change.to == "bytes" && !name.ends_with(change.suffix)) break;
    out.unit = std::string(change.to);
    out.factor = change.factor;
    if (name.ends_with(change.suffix)) name.resize(name.size() - change.suffix.size());
    break;
  }
  if (!out.unit.empty() && !name.ends_with("_" + out.unit)) name += "_" + out.unit;
  out.name = "mroce_doctor_" + name;
  out.help = canonical.sentence + (canonical.combine == Combine::kSum
                                       ? " (series of one port are parts: add them)"
                                       : " (series of one port and priority are views of the same: take the "
                                         "greatest)");
  return out;
}

const std::vector<MetricFamily>& other_families() {
  static const std::vector<MetricFamily> kFamilies = {
      {"mroce_doctor_port", MetricKind::kInfo, "", "what the port is: vendor, driver, firmware, link layer",
       "", 1},
      {"mroce_doctor_exporter", MetricKind::kInfo, "", "version of the exporter", "", 1},
      {"mroce_doctor_read_duration_seconds", MetricKind::kGauge, "seconds", "how long the last reading took",
       "", 1},
      {"mroce_doctor_input_problems", MetricKind::kGauge, "",
       "places that could not be read, or not in whole", "", 1},
      {"mroce_doctor_last_reading_timestamp_seconds", MetricKind::kGauge, "seconds",
       "when the host's counters were last read, since 1970", "", 1},
      {"mroce_doctor_link_up", MetricKind::kGauge, "",
       "1 if the port is active or the interface up, else 0; absent if unknown", "", 1},
      {"mroce_doctor_link_rate_bytes_per_second", MetricKind::kGauge, "", "rate of the link", "", 1},
      {"mroce_doctor_pfc_enabled", MetricKind::kGauge, "",
       "1 if priority flow control is on for the priority, else 0; absent if unknown", "", 1},
      {"mroce_doctor_gpu_busy_ratio", MetricKind::kGauge, "ratio", "part of the time in which the GPU worked",
       "", 1},
      {"mroce_doctor_gpu_power_watts", MetricKind::kGauge, "watts", "power that the GPU draws", "", 1},
      {"mroce_doctor_gpu_clock_hertz", MetricKind::kGauge, "hertz", "clock of the GPU's multiprocessors", "",
       1},
      {"mroce_doctor_gpu_temperature_celsius", MetricKind::kGauge, "celsius", "temperature of the GPU", "",
       1},
  };
  return kFamilies;
}

}  // namespace

std::string MetricFamily::sample_name() const {
  switch (kind) {
    case MetricKind::kCounter:
      return name + "_total";
    case MetricKind::kInfo:
      return name + "_info";
    case MetricKind::kGauge:
      break;
  }
  return name;
}

std::vector<MetricFamily> metric_families(const VendorMap& vendors) {
  std::map<std::string, std::pair<size_t, size_t>> kinds;  // canonical → counters, gauges
  for (const VendorName& name : vendors.names())
    ++(name.kind == CounterKind::kGauge ? kinds[name.canonical].second : kinds[name.canonical].first);
  std::vector<MetricFamily> out = other_families();
  for (const auto& [name, canonical] : vendors.canonicals()) {
    if (name == "IGNORE") continue;
    const auto [counters, gauges] = kinds[name];
    out.push_back(counter_family(canonical, gauges > 0 && counters == 0));
  }
  std::sort(out.begin(), out.end(),
            [](const MetricFamily& a, const MetricFamily& b) { return a.name < b.name; });
  return out;
}

}  // namespace mroce::doctor
