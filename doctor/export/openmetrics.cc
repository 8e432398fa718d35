#include "doctor/export/openmetrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "doctor/escape.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxLabelBytes = 256;
constexpr size_t kMaxSeries = 200'000;

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Empty values are left out: to Prometheus they are the same as absent ones.
std::string text_of(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels)
    if (!value.empty())
      out += fmt::format("{}{}=\"{}\"", out.empty() ? "{" : ",", name, escaped_label(value));
  return out.empty() ? out : out + "}";
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::fabs(value) < 1e17) return fmt::format("{:.0f}", value);
  return fmt::format("{}", value);
}

// Samples by family; one value for one set of labels, as two would make the whole text invalid.
class Collected {
 public:
  void add(std::string_view family, const Labels& labels, double value) {
    if (series_ >= kMaxSeries) return;
    auto& samples = families_[std::string(family)];
    if (samples.emplace(text_of(labels), value).second) ++series_;
  }
  const std::map<std::string, double>* of(const std::string& family) const {
    const auto found = families_.find(family);
    return found == families_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, std::map<std::string, double>> families_;
  size_t series_ = 0;
};

Labels labels_of(const Host& host, const Port& port) {
  return {{"host", host.name},
          {"device", port.device},
          {"port", port.device.empty() ? "" : std::to_string(port.number)},
          {"netdev", port.netdev}};
}

std::string setting_of(const Port& port, std::string_view name) {
  const Setting* setting = last_setting(port.settings, name);
  return setting == nullptr ? "" : setting->text;
}

void add_link(const Host& host, const Port& port, Collected& into) {
  const Labels labels = labels_of(host, port);
  const std::string state = lowered(setting_of(port, "link.state"));
  const std::string netdev_state = setting_of(port, "netdev.operstate");
  if (!state.empty())
    into.add("mroce_doctor_link_up", labels, state == "active" ? 1 : 0);
  else if (netdev_state == "up" || netdev_state == "down" || netdev_state == "lowerlayerdown")
    into.add("mroce_doctor_link_up", labels, netdev_state == "up" ? 1 : 0);
  if (const auto gbps = real_number(setting_of(port, "link.rate_gbps")))
    into.add("mroce_doctor_link_rate_bytes_per_second", labels, *gbps * 1e9 / 8);
  const std::string pfc = setting_of(port, "pfc.enabled");
  if (pfc.empty()) return;
  for (char priority = '0'; priority <= '7'; ++priority) {
    Labels one = labels;
    one.emplace_back("priority", std::string(1, priority));
    into.add("mroce_doctor_pfc_enabled", one, pfc.find(priority) != std::string::npos ? 1 : 0);
  }
}

void add_port(const Host& host, const Port& port,
              const std::map<std::string_view, const MetricFamily*>& by_canonical, Collected& into) {
  Labels about = labels_of(host, port);
  about.insert(about.end(), {{"vendor", port.vendor},
                             {"driver", setting_of(port, "driver.name")},
                             {"driver_version", setting_of(port, "driver.version")},
                             {"firmware", setting_of(port, "firmware")},
                             {"link_layer", setting_of(port, "link.layer")}});
  into.add("mroce_doctor_port", about, 1);
  add_link(host, port, into);
  for (const Counter& counter : port.counters) {
    const auto family = by_canonical.find(counter.canonical);
    if (family == by_canonical.end() || counter.readings.empty()) continue;
    // Another kind than the family's would be read wrongly.
    if ((counter.kind == CounterKind::kGauge) != (family->second->kind == MetricKind::kGauge)) continue;
    Labels labels = labels_of(host, port);
    labels.insert(labels.end(), {{"priority", counter.priority < 0 ? "" : std::to_string(counter.priority)},
                                 {"vendor_name", counter.vendor_name},
                                 {"source", counter.from}});
    const double value = static_cast<double>(counter.readings.back().value) * counter.scale;
    into.add(family->second->name, labels, value * family->second->factor);
  }
}

void add_last_times(const Evidence& evidence, Collected& into) {
  for (const Host& host : evidence.hosts) {
    int64_t last = 0;
    for (const Port& port : host.ports)
      for (const Counter& counter : port.counters)
        for (const Reading& reading : counter.readings) last = std::max(last, reading.time_ns);
    if (last > 0)
      into.add("mroce_doctor_last_reading_timestamp_seconds", {{"host", host.name}},
               static_cast<double>(last) / 1e9);
  }
}

void add_gpus(const std::vector<GpuReading>& readings, Collected& into) {
  std::map<std::pair<std::string, std::string>, const GpuReading*> last;
  for (const GpuReading& reading : readings) {
    const GpuReading*& known = last[{reading.host, reading.gpu}];
    if (known == nullptr || known->time_ns <= reading.time_ns) known = &reading;
  }
  for (const auto& [key, reading] : last) {
    const Labels labels = {{"host", key.first}, {"gpu", key.second}};
    if (reading->busy_pct) into.add("mroce_doctor_gpu_busy_ratio", labels, *reading->busy_pct / 100);
    if (reading->power_w) into.add("mroce_doctor_gpu_power_watts", labels, *reading->power_w);
    if (reading->clock_mhz) into.add("mroce_doctor_gpu_clock_hertz", labels, *reading->clock_mhz * 1e6);
    if (reading->temperature_c)
      into.add("mroce_doctor_gpu_temperature_celsius", labels, *reading->temperature_c);
  }
}

std::string help_text(std::string_view help, MetricFormat format) {
  std::string out;
  for (const char c : clean_text(help, 1000)) {
    if (c == '\\' || (c == '"' && format == MetricFormat::kOpenMetrics)) out += '\\';
    out += c;
  }
  return out;
}

std::string header_of(const MetricFamily& family, MetricFormat format) {
  static constexpr std::string_view kTypes[] = {"counter", "gauge", "info"};
  const bool open = format == MetricFormat::kOpenMetrics;
  const std::string name = open ? family.name : family.sample_name();
  const std::string_view type =
      !open && family.kind == MetricKind::kInfo ? "gauge" : kTypes[static_cast<size_t>(family.kind)];
  std::string out = fmt::format("# TYPE {} {}\n", name, type);
  if (open && !family.unit.empty()) out += fmt::format("# UNIT {} {}\n", name, family.unit);
  return out + fmt::format("# HELP {} {}\n", name, help_text(family.help, format));
}

}  // namespace

std::string escaped_label(std::string_view value) {
  std::string out;
  for (const char c : clean_text(value, kMaxLabelBytes)) {  // has no line ends any more
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string_view content_type_of(MetricFormat format) {
  return format == MetricFormat::kOpenMetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                              : "text/plain; version=0.0.4; charset=utf-8";
}

std::string expose(const std::vector<Exposed>& all, const Rulebook& book, const ExporterState& state,
                   MetricFormat format) {
  const auto families = metric_families(book.vendors);
  std::map<std::string_view, const MetricFamily*> by_canonical;
  for (const MetricFamily& family : families)
    if (!family.canonical.empty()) by_canonical[family.canonical] = &family;
  Collected collected;
  size_t problems = 0;
  for (const Exposed& one : all) {
    if (one.gpus != nullptr) add_gpus(*one.gpus, collected);
    if (one.evidence == nullptr) continue;
    for (const Host& host : one.evidence->hosts)
      for (const Port& port : host.ports) add_port(host, port, by_canonical, collected);
    add_last_times(*one.evidence, collected);
    problems += one.evidence->problems.size();
  }
  collected.add("mroce_doctor_exporter", {{"version", state.version}}, 1);
  collected.add("mroce_doctor_read_duration_seconds", {}, state.read_seconds);
  collected.add("mroce_doctor_input_problems", {}, static_cast<double>(problems));
  std::string out;
  for (const MetricFamily& family : families) {
    const auto* samples = collected.of(family.name);
    if (samples == nullptr) continue;
    out += header_of(family, format);
    for (const auto& [labels, value] : *samples)
      out += fmt::format("{}{} {}\n", family.sample_name(), labels, value_text(value));
  }
  if (format == MetricFormat::kOpenMetrics) out += "# EOF\n";
  return out;
}

}  // namespace mroce::doctor
