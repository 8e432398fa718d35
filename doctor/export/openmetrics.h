// Counters as metrics, with one name for one meaning, whoever made the adapter.
//
// Each canonical name of counters.toml is a metric family: "mroce_doctor_" + the name + its unit, in base
// units (microseconds become seconds, percents ratios). Counters are exported as they were last read: totals
// since the driver was loaded, of which Prometheus takes rates. Labels: host, device, port, netdev, priority,
// vendor_name (as the driver prints it) and source (ethtool, hw_counters, …), as one event may be seen from
// several sides: take the maximum over vendor_name and source, not the sum, unless the help says "parts".
// A counter that the vendor map does not have is not exported, so that the number of series is bounded.
//
// Formats: OpenMetrics 1.0 (github.com/prometheus/OpenMetrics), and the older text format 0.0.4, which
// node_exporter's textfile collector and promtool read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/evidence.h"
#include "doctor/report/gpu.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {

enum class MetricKind : uint8_t { kCounter, kGauge, kInfo };
enum class MetricFormat : uint8_t { kOpenMetrics, kText };

struct MetricFamily {
  std::string name;  // without _total and _info
  MetricKind kind = MetricKind::kGauge;
  std::string unit;  // the end of the name, or empty
  std::string help;
  std::string canonical;  // what it is made of; empty for those that are no counters of the vendor map
  double factor = 1;      // from the unit of the canonical name
  std::string sample_name() const;
};

// Every family that there can be, sorted by name.
std::vector<MetricFamily> metric_families(const VendorMap& vendors);

struct Exposed {
  const Evidence* evidence = nullptr;
  const std::vector<GpuReading>* gpus = nullptr;
};
// What is about the exporter itself.
struct ExporterState {
  std::string version;
  double read_seconds = 0;  // how long the last reading took
};

std::string expose(const std::vector<Exposed>& all, const Rulebook& book, const ExporterState& state,
                   MetricFormat format);
std::string_view content_type_of(MetricFormat format);

std::string escaped_label(std::string_view value);

}  // namespace mroce::doctor
