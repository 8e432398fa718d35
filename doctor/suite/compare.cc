#include "doctor/suite/compare.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mroce::doctor {
namespace {

using nlohmann::ordered_json;

constexpr double kQuietest = 0.03, kUnrepeated = 0.15;
constexpr double kFactor = 2, kDeviations = 4;
constexpr double kGib = 1024.0 * 1024 * 1024;

double threshold_of(const Metric& before, const Metric& now) {
  const double noise = std::hypot(before.relative_range(), now.relative_range());
  const bool unrepeated = before.values.size() < 2 || now.values.size() < 2;
  return std::max(noise, unrepeated ? kUnrepeated : kQuietest);
}

MetricChange metric_change(const std::string& test, const Metric& before, const Metric& now) {
  MetricChange out{test, now.name, now.unit, before.median(), now.median()};
  out.threshold = threshold_of(before, now);
  if (out.before <= 0) return out;
  out.relative = (out.now - out.before) / out.before;
  if (std::fabs(out.relative) > out.threshold)
    out.change = (out.relative > 0) == now.more_is_better ? Change::kBetter : Change::kWorse;
  return out;
}

std::optional<double> per_gib(double delta, double payload) {
  if (payload <= 0) return std::nullopt;
  return delta / payload * kGib;
}

// More, or fewer, than the same process would count by chance.
bool has_shifted(const CounterShift& shift, double payload_before, double payload_now) {
  if (shift.before <= 0 && shift.now <= 0) return false;
  // What there would be now at the old rate; of runs whose length is not known, the same number.
  const double scale = payload_before > 0 && payload_now > 0 ? payload_now / payload_before : 1;
  const double expected = shift.before * scale;
  if (std::fabs(shift.now - expected) <= kDeviations * std::sqrt(expected + shift.now)) return shift.is_new;
  return shift.now >= kFactor * expected || shift.now * kFactor <= expected;
}

const MovedCounter* partner(const TestResult& test, const MovedCounter& counter) {
  for (const MovedCounter& each : test.counters)
    if (each.host == counter.host && each.port == counter.port && each.canonical == counter.canonical &&
        each.vendor_name == counter.vendor_name)
      return &each;
  return nullptr;
}

void counters(const TestResult& before, const TestResult& now, std::vector<CounterShift>& out) {
  const auto add = [&](const MovedCounter& of, double old_delta, double new_delta) {
    CounterShift shift{now.name, of.host, of.port, of.name(), of.unit, old_delta, new_delta};
    shift.before_per_gib = per_gib(old_delta, before.payload_bytes);
    shift.now_per_gib = per_gib(new_delta, now.payload_bytes);
    shift.is_new = old_delta == 0 && new_delta > 0;
    if (has_shifted(shift, before.payload_bytes, now.payload_bytes)) out.push_back(std::move(shift));
  };
  for (const MovedCounter& counter : now.counters) {
    if (counter.reset) continue;
    const MovedCounter* old = partner(before, counter);
    if (old == nullptr || !old->reset) add(counter, old == nullptr ? 0 : old->delta, counter.delta);
  }
  for (const MovedCounter& counter : before.counters)
    if (!counter.reset && partner(now, counter) == nullptr) add(counter, counter.delta, 0);
}

void tests(const SuiteResults& baseline, const TestResult& now, Comparison& out) {
  const auto old = std::find_if(baseline.tests.begin(), baseline.tests.end(),
                                [&](const TestResult& test) { return test.name == now.name; });
  if (old == baseline.tests.end()) {
    out.remarks.push_back(now.name + " is not in the baseline");
    return;
  }
  const auto reason = [](const TestResult& test) {
    return test.skipped.empty() ? test.failed : test.skipped;
  };
  if (const std::string then = reason(*old), today = reason(now); then.empty() != today.empty())
    out.remarks.push_back(now.name + (today.empty() ? " has a result now, and had none: " + then
                                                    : " had a result, and has none now: " + today));
  for (const Metric& metric : now.metrics)
    for (const Metric& before : old->metrics)
      if (before.name == metric.name && before.unit == metric.unit)
        out.metrics.push_back(metric_change(now.name, before, metric));
  if (reason(*old).empty() && reason(now).empty()) counters(*old, now, out.counters);
}

void settings(const std::string& place, const SettingsOfPlace& before, const SettingsOfPlace& now,
              std::vector<SettingShift>& out) {
  for (const auto& [name, value] : now) {
    const auto old = before.find(name);
    if (old == before.end())
      out.push_back({place, name, "", value});
    else if (old->second != value)
      out.push_back({place, name, old->second, value});
  }
  for (const auto& [name, value] : before)
    if (now.find(name) == now.end()) out.push_back({place, name, value, ""});
}

// Of a host that is missing altogether, its ports need not be named as well.
bool is_news(const SuiteResults& where_not, const std::string& place) {
  const size_t blank = place.find(' ');
  return blank == std::string::npos || where_not.settings.count(place.substr(0, blank)) > 0;
}

const char* word_of(Change change) {
  return change == Change::kSame ? "same" : change == Change::kBetter ? "better" : "worse";
}

}  // namespace

bool Comparison::worse() const {
  return std::any_of(metrics.begin(), metrics.end(),
                     [](const MetricChange& metric) { return metric.change == Change::kWorse; });
}

Comparison compare(const SuiteResults& baseline, const SuiteResults& now) {
  Comparison out;
  out.baseline_started = baseline.started;
  for (const TestResult& test : now.tests) tests(baseline, test, out);
  settings("suite", baseline.parameters, now.parameters, out.settings);
  for (const auto& [place, values] : now.settings) {
    const auto old = baseline.settings.find(place);
    if (old != baseline.settings.end())
      settings(place, old->second, values, out.settings);
    else if (is_news(baseline, place))
      out.remarks.push_back(place + " is not in the baseline");
  }
  for (const auto& [place, values] : baseline.settings)
    if (now.settings.find(place) == now.settings.end() && is_news(now, place))
      out.remarks.push_back(place + " is in the baseline only");
  return out;
}

std::string to_json(const Comparison& comparison) {
  ordered_json out{{"baseline_started", comparison.baseline_started}, {"worse", comparison.worse()}};
  out["metrics"] = ordered_json::array();
  for (const MetricChange& each : comparison.metrics)
    out["metrics"].push_back({{"test", each.test},
                              {"metric", each.metric},
                              {"unit", each.unit},
                              {"before", each.before},
                              {"now", each.now},
                              {"relative", each.relative},
                              {"threshold", each.threshold},
                              {"change", word_of(each.change)}});
  out["counters"] = ordered_json::array();
  for (const CounterShift& each : comparison.counters) {
    ordered_json entry{{"test", each.test},    {"host", each.host}, {"port", each.port},
                       {"counter", each.name}, {"unit", each.unit}, {"before", each.before},
                       {"now", each.now},      {"new", each.is_new}};
    if (each.before_per_gib) entry["before_per_gib"] = *each.before_per_gib;
    if (each.now_per_gib) entry["now_per_gib"] = *each.now_per_gib;
    out["counters"].push_back(std::move(entry));
  }
  out["settings"] = ordered_json::array();
  for (const SettingShift& each : comparison.settings)
    out["settings"].push_back(
        {{"place", each.place}, {"name", each.name}, {"before", each.before}, {"now", each.now}});
  out["remarks"] = comparison.remarks;
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mroce::doctor
