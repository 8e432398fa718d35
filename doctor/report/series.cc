#include "doctor/report/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "doctor/delta.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr double kHole = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMinTimes = 3;  // start and end alone make one step, and no course

// One line of a chart: the first of the alternatives that moved, else the first that was sampled.
struct LineSpec {
  const char* label;
  std::vector<const char*> canonicals;
  double factor;  // from the canonical unit per second
};
struct ChartSpec {
  const char *title, *unit;
  Thin thin;
  std::vector<LineSpec> lines;
};

const std::vector<ChartSpec>& chart_specs() {
  static const std::vector<ChartSpec> kSpecs = {
      {"Throughput",
       "Gb/s",
       Thin::kMean,
       {{"sent", {"rdma_tx_bytes", "payload_tx_bytes", "tx_bytes", "prio_tx_bytes"}, 8e-9},
        {"received", {"rdma_rx_bytes", "payload_rx_bytes", "rx_bytes", "prio_rx_bytes"}, 8e-9}}},
      {"Time stopped by pause",
       "% of time",
       Thin::kPeak,
       {{"pause sent", {"tx_pause_us"}, 1e-4}, {"pause received", {"rx_pause_us"}, 1e-4}}},
      {"Pause frames",
       "frames/s",
       Thin::kPeak,
       {{"sent", {"tx_pause_frames"}, 1},
        {"received", {"rx_pause_frames"}, 1},
        {"802.3x, both directions", {"global_pause"}, 1}}},
      {"CNP",
       "packets/s",
       Thin::kPeak,
       {{"sent", {"cnp_sent"}, 1}, {"received", {"cnp_received"}, 1}, {"ignored", {"cnp_ignored"}, 1}}},
      {"ECN marks", "packets/s", Thin::kPeak, {{"received with a mark", {"ecn_marked"}, 1}}},
      {"Retransmissions",
       "per second",
       Thin::kPeak,
       {{"sent again", {"retransmits"}, 1},
        {"sent again, adaptively", {"adaptive_retrans"}, 1},
        {"out of sequence", {"out_of_sequence"}, 1},
        {"NAKs for a gap", {"nak_seq"}, 1},
        {"timeouts", {"timeout"}, 1},
        {"declared lost", {"lost"}, 1}}},
      {"Drops",
       "packets/s",
       Thin::kPeak,
       {{"on arrival", {"rx_discard"}, 1},
        {"before sending", {"tx_discard"}, 1},
        {"no receive posted", {"out_of_buffer"}, 1}}},
  };
  return kSpecs;
}

using Times = std::vector<int64_t>;

Times times_of(const Port& port) {
  Times out;
  for (const Counter& counter : port.counters)
    for (const Reading& reading : counter.readings)
      if (reading.time_ns > 0) out.push_back(reading.time_ns);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

double growth(const Counter& counter, uint64_t old, uint64_t now) {
  const CounterStep step = step_between(old, now, counter.width);
  return step.state == DeltaState::kReset ? kHole : static_cast<double>(step.by);
}

// Rate by step between two of `times`; holes where the counter was not read.
std::vector<double> rates_of(const Counter& counter, const Times& times) {
  std::vector<double> out(times.size() - 1, kHole);
  std::vector<const Reading*> readings;
  for (const Reading& reading : counter.readings)
    if (reading.time_ns > 0) readings.push_back(&reading);
  std::stable_sort(readings.begin(), readings.end(),
                   [](const Reading* a, const Reading* b) { return a->time_ns < b->time_ns; });
  for (size_t i = 1; i < readings.size(); ++i) {
    const int64_t from = readings[i - 1]->time_ns, to = readings[i]->time_ns;
    if (to == from) continue;
    const double seconds = (static_cast<double>(to) - static_cast<double>(from)) / 1e9;
    const double rate = growth(counter, readings[i - 1]->value, readings[i]->value) * counter.scale / seconds;
    for (auto at = std::lower_bound(times.begin(), times.end(), from); at != times.end() && *at < to; ++at)
      out[static_cast<size_t>(at - times.begin())] = rate;
  }
  return out;
}

void combine(std::vector<double>& into, const std::vector<double>& other, bool sum) {
  if (into.empty()) {
    into = other;
    return;
  }
  for (size_t i = 0; i < into.size(); ++i) {
    if (std::isnan(other[i])) continue;
    into[i] = std::isnan(into[i]) ? other[i] : sum ? into[i] + other[i] : std::max(into[i], other[i]);
  }
}

std::vector<double> rates_of(const Port& port, std::string_view canonical, const Times& times,
                             const Rulebook& book) {
  std::map<std::string, std::vector<double>> names;  // with the priority's digit taken out
  for (const Counter& counter : port.counters) {
    if (counter.canonical != canonical || counter.kind != CounterKind::kCounter ||
        counter.readings.size() < 2)
      continue;
    std::string name = counter.from + " " + counter.vendor_name;
    bool unison = false;
    if (counter.priority >= 0) {
      name.erase(std::remove(name.begin(), name.end(), static_cast<char>('0' + counter.priority)),
                 name.end());
      for (const VendorMatch& match : book.vendors.find(port.vendor, counter.from, counter.vendor_name))
        unison = unison || match.entry->unison;
    }
    combine(names[name], rates_of(counter, times), !unison);
  }
  const Canonical* meaning = book.vendors.canonical(canonical);
  const bool sum = meaning != nullptr && meaning->combine == Combine::kSum;
  std::vector<double> out;
  for (const auto& [name, rates] : names) combine(out, rates, sum);
  return out;
}

bool moved(const std::vector<double>& rates) {
  return std::any_of(rates.begin(), rates.end(), [](double r) { return r > 0; });
}

void measure(Series& series) {
  double area = 0, time = 0;
  for (const ChartStep& step : series.steps) {
    series.peak = std::max(series.peak, step.value);
    area += step.value * (step.to_s - step.from_s);
    time += step.to_s - step.from_s;
  }
  series.mean = time > 0 ? area / time : 0;
}

double seconds_between(int64_t from, int64_t to) {
  return (static_cast<double>(to) - static_cast<double>(from)) / 1e9;
}

Series series_of(std::string label, const std::vector<double>& rates, const Times& times, int64_t begin,
                 double factor, Thin thin) {
  Series out;
  out.label = std::move(label);
  for (size_t i = 0; i < rates.size(); ++i)
    if (!std::isnan(rates[i]))
      out.steps.push_back(
          {seconds_between(begin, times[i]), seconds_between(begin, times[i + 1]), rates[i] * factor});
  measure(out);
  out.steps = thinned(std::move(out.steps), kMaxSteps, thin);
  return out;
}

void add_chart(ChartGroup& group, const ChartSpec& spec, const Port& port, const Times& times, int64_t begin,
               const Rulebook& book) {
  Chart chart{spec.title, spec.unit, {}};
  for (size_t ink = 0; ink < spec.lines.size(); ++ink) {
    const LineSpec& line = spec.lines[ink];
    std::vector<double> chosen;
    for (const char* canonical : line.canonicals) {
      auto rates = rates_of(port, canonical, times, book);
      if (rates.empty() || (!chosen.empty() && !moved(rates))) continue;
      chosen = std::move(rates);
      if (moved(chosen)) break;
    }
    if (chosen.empty()) continue;
    if (!moved(chosen)) {
      group.still.push_back(lowered(spec.title) + ": " + line.label);
      continue;
    }
    chart.series.push_back(series_of(line.label, chosen, times, begin, line.factor, spec.thin));
    chart.series.back().ink = ink;
  }
  if (!chart.series.empty()) group.charts.push_back(std::move(chart));
}

ChartGroup port_group(const Host& host, const Port& port, const Times& times, int64_t begin,
                      const Rulebook& book) {
  ChartGroup group;
  group.host = host.name;
  group.port = port.name();
  if (!port.netdev.empty() && port.netdev != group.port) group.note = port.netdev;
  if (const Setting* rate = last_setting(port.settings, "link.rate_gbps"))
    if (const auto gbps = real_number(rate->text))
      group.note += fmt::format("{}link {:g} Gb/s", group.note.empty() ? "" : ", ", *gbps);
  for (const ChartSpec& spec : chart_specs()) add_chart(group, spec, port, times, begin, book);
  return group;
}

// A reading says what was so in the time since the one before it.
ChartGroup gpu_group(const std::string& host, const std::vector<const GpuReading*>& readings, int64_t begin) {
  ChartGroup group;
  group.host = host;
  group.port = "GPUs";
  struct Quantity {
    const char *title, *unit;
    std::optional<double> GpuReading::*value;
  };
  static constexpr std::array kQuantities = {Quantity{"GPU activity", "% of time", &GpuReading::busy_pct},
                                             Quantity{"GPU power", "W", &GpuReading::power_w}};
  for (const Quantity& quantity : kQuantities) {
    std::map<std::string, std::vector<const GpuReading*>> by_gpu;
    for (const GpuReading* reading : readings)
      if (reading->*quantity.value) by_gpu[reading->gpu].push_back(reading);
    Chart chart{quantity.title, quantity.unit, {}};
    for (auto& [gpu, list] : by_gpu) {
      std::stable_sort(list.begin(), list.end(),
                       [](const GpuReading* a, const GpuReading* b) { return a->time_ns < b->time_ns; });
      Times times;
      std::vector<double> values;
      for (const GpuReading* reading : list) {
        if (!times.empty() && times.back() == reading->time_ns) continue;
        if (!times.empty()) values.push_back(*(reading->*quantity.value));
        times.push_back(reading->time_ns);
      }
      if (times.size() < kMinTimes) continue;
      if (chart.series.size() == kMaxLines) {
        group.still.push_back("further GPUs are not drawn: " + gpu);
        continue;
      }
      chart.series.push_back(series_of("GPU " + gpu, values, times, begin, 1, Thin::kMean));
      chart.series.back().ink = chart.series.size() - 1;
    }
    if (!chart.series.empty()) group.charts.push_back(std::move(chart));
  }
  return group;
}

struct Candidate {
  const Host* host = nullptr;
  const Port* port = nullptr;           // or
  std::vector<const GpuReading*> gpus;  // of the host
  std::string host_name, name;
  Times times;
  int rank = 0;
};

int rank_of(const Diagnosis& diagnosis, const std::string& host, const std::string& port) {
  for (size_t i = 0; i < diagnosis.findings.size(); ++i)
    for (const Proof& proof : diagnosis.findings[i].evidence)
      if (proof.host == host && (port.empty() || proof.port.empty() || proof.port == port))
        return static_cast<int>(i);
  return std::numeric_limits<int>::max();
}

std::vector<Candidate> candidates_of(const Evidence& evidence, const std::vector<GpuReading>& gpus,
                                     const Diagnosis& diagnosis) {
  std::vector<Candidate> out;
  for (const Host& host : evidence.hosts)
    for (const Port& port : host.ports) {
      Candidate one{&host,
                    &port,
                    {},
                    host.name,
                    port.name(),
                    times_of(port),
                    rank_of(diagnosis, host.name, port.name())};
      if (one.times.size() >= kMinTimes) out.push_back(std::move(one));
    }
  std::map<std::string, std::vector<const GpuReading*>> by_host;
  for (const GpuReading& reading : gpus)
    if (reading.time_ns > 0) by_host[reading.host].push_back(&reading);
  for (auto& [host, readings] : by_host) {
    Candidate gpu;
    for (const GpuReading* reading : readings) gpu.times.push_back(reading->time_ns);
    std::sort(gpu.times.begin(), gpu.times.end());
    gpu.times.erase(std::unique(gpu.times.begin(), gpu.times.end()), gpu.times.end());
    gpu.gpus = std::move(readings);
    gpu.host_name = host;
    gpu.name = "GPUs";
    gpu.rank = rank_of(diagnosis, host, "");
    if (gpu.times.size() >= kMinTimes) out.push_back(std::move(gpu));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
  return out;
}

// All on the wall clock, unless that would leave most of the axis empty.
void set_axis(Timeline& timeline, const std::vector<Candidate>& candidates) {
  double longest = 0;
  int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
  for (const Candidate& one : candidates) {
    longest = std::max(longest, seconds_between(one.times.front(), one.times.back()));
    first = std::min(first, one.times.front());
    last = std::max(last, one.times.back());
  }
  constexpr double kMostlyEmpty = 10;
  timeline.own_clocks = seconds_between(first, last) > kMostlyEmpty * longest;
  timeline.begin_ns = first;
  timeline.seconds = timeline.own_clocks ? longest : seconds_between(first, last);
}

}  // namespace

std::vector<ChartStep> thinned(std::vector<ChartStep> steps, size_t at_most, Thin how) {
  if (steps.size() <= at_most || at_most == 0) return steps;
  const double begin = steps.front().from_s,
               width = (steps.back().to_s - begin) / static_cast<double>(at_most);
  std::vector<ChartStep> out;
  double area = 0, time = 0;
  size_t bucket = at_most;  // none yet
  for (const ChartStep& step : steps) {
    const auto at =
        static_cast<size_t>(std::clamp((step.from_s - begin) / width, 0.0, static_cast<double>(at_most - 1)));
    if (at != bucket) {
      out.push_back(step);
      bucket = at;
      area = time = 0;
    }
    area += step.value * (step.to_s - step.from_s);
    time += step.to_s - step.from_s;
    out.back().to_s = step.to_s;
    out.back().value = how == Thin::kPeak ? std::max(out.back().value, step.value)
                       : time > 0         ? area / time
                                          : step.value;
  }
  return out;
}

Timeline timeline_of(const Evidence& evidence, const Rulebook& book, const std::vector<GpuReading>& gpus,
                     const Diagnosis& diagnosis) {
  Timeline out;
  const auto candidates = candidates_of(evidence, gpus, diagnosis);
  if (candidates.empty()) return out;
  set_axis(out, candidates);
  for (const Candidate& one : candidates) {
    const int64_t begin = out.own_clocks ? one.times.front() : out.begin_ns;
    if (out.groups.size() == kMaxGroups) {
      out.left_out.push_back(one.host_name + " " + one.name);
      continue;
    }
    ChartGroup group = one.port == nullptr ? gpu_group(one.host_name, one.gpus, begin)
                                           : port_group(*one.host, *one.port, one.times, begin, book);
    if (!group.charts.empty() || !group.still.empty()) out.groups.push_back(std::move(group));
  }
  return out;
}

}  // namespace mroce::doctor
