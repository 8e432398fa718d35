#include "doctor/suite/results.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "doctor/lenient_json.h"

namespace mroce::doctor {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxEntries = 100'000;  // of any list in a file

ordered_json metric_json(const Metric& metric) {
  return {{"name", metric.name},
          {"unit", metric.unit},
          {"better", metric.more_is_better ? "more" : "less"},
          {"median", metric.median()},
          {"min", metric.least()},
          {"max", metric.most()},
          {"values", metric.values}};
}

ordered_json counter_json(const MovedCounter& counter) {
  ordered_json out{{"host", counter.host}, {"port", counter.port}, {"canonical", nullptr}};
  if (!counter.canonical.empty()) out["canonical"] = counter.canonical;
  out["vendor_name"] = counter.vendor_name;
  if (!counter.unit.empty()) out["unit"] = counter.unit;
  if (counter.reset)
    out["reset"] = true;
  else
    out["delta"] = counter.delta;
  return out;
}

ordered_json test_json(const TestResult& test) {
  ordered_json out{{"name", test.name}};
  if (!test.skipped.empty()) out["skipped"] = test.skipped;
  if (!test.failed.empty()) out["failed"] = test.failed;
  if (!test.skipped.empty()) return out;
  out["metrics"] = ordered_json::array();
  for (const Metric& metric : test.metrics)
    if (!metric.values.empty()) out["metrics"].push_back(metric_json(metric));
  out["payload_bytes"] = test.payload_bytes;
  out["counters"] = ordered_json::array();
  for (const MovedCounter& counter : test.counters) out["counters"].push_back(counter_json(counter));
  out["commands"] = test.commands;
  if (test.verdict)
    out["verdict"] = {{"rule", test.verdict->rule},
                      {"layer", test.verdict->layer},
                      {"sentence", test.verdict->sentence},
                      {"confidence", test.verdict->confidence}};
  return out;
}

const std::vector<JsonValue>& items_of(const JsonValue& value, std::string_view name) {
  static const std::vector<JsonValue> kNone;
  const JsonValue* found = value.find(name);
  return found != nullptr && found->is_array() && found->items.size() <= kMaxEntries ? found->items : kNone;
}

std::map<std::string, std::string> words_at(const JsonValue* value) {
  std::map<std::string, std::string> out;
  if (value == nullptr || !value->is_object()) return out;
  for (size_t i = 0; i < value->items.size() && i < value->names.size(); ++i)
    out[value->names[i]] = value->items[i].text;
  return out;
}

TestResult test_of(const JsonValue& value) {
  TestResult out;
  out.name = value.string_at("name");
  out.skipped = value.string_at("skipped");
  out.failed = value.string_at("failed");
  out.payload_bytes = std::max(0.0, value.number_at("payload_bytes").value_or(0));
  for (const JsonValue& item : items_of(value, "metrics")) {
    Metric metric{item.string_at("name"), item.string_at("unit"), item.string_at("better") != "less", {}};
    for (const JsonValue& each : items_of(item, "values"))
      if (const auto number = each.number(); number && std::isfinite(*number))
        metric.values.push_back(*number);
    if (!metric.values.empty()) out.metrics.push_back(std::move(metric));
  }
  for (const JsonValue& item : items_of(value, "counters")) {
    MovedCounter counter{item.string_at("host"), item.string_at("port"), "", item.string_at("vendor_name"),
                         item.string_at("unit")};
    const JsonValue* canonical = item.find("canonical");
    if (canonical != nullptr && canonical->kind == JsonValue::Kind::kString)
      counter.canonical = canonical->text;
    counter.delta = item.number_at("delta").value_or(0);
    counter.reset = item.string_at("reset") == "true";
    out.counters.push_back(std::move(counter));
  }
  return out;
}

}  // namespace

double Metric::median() const {
  if (values.empty()) return 0;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Metric::least() const {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

double Metric::most() const {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double Metric::relative_range() const {
  const double middle = median();
  return middle > 0 ? (most() - least()) / middle : 0;
}

Metric& TestResult::metric(std::string_view metric_name, std::string_view unit, bool more_is_better) {
  for (Metric& each : metrics)
    if (each.name == metric_name) return each;
  return metrics.emplace_back(Metric{std::string(metric_name), std::string(unit), more_is_better, {}});
}

std::string to_json(const SuiteResults& results) {
  ordered_json out{{"schema", kSuiteSchema},
                   {"writer", results.writer},
                   {"started", results.started},
                   {"parameters", results.parameters},
                   {"settings", results.settings}};
  out["tests"] = ordered_json::array();
  for (const TestResult& test : results.tests) out["tests"].push_back(test_json(test));
  out["remarks"] = results.remarks;
  for (const auto& [name, text] :
       {std::pair<const char*, const std::string*>{"diagnosis", &results.diagnosis},
        {"comparison", &results.comparison}}) {
    auto value = ordered_json::parse(*text, nullptr, false);
    if (!value.is_discarded()) out[name] = std::move(value);
  }
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

tl::expected<SuiteResults, std::string> read_suite_results(std::string_view text) {
  const JsonReading reading = read_json(text);
  const JsonValue& value = reading.value;
  if (!value.is_object()) return tl::unexpected<std::string>("no results of the suite: not a JSON object");
  const std::string schema = value.string_at("schema");
  if (schema != kSuiteSchema)
    return tl::unexpected("no results of the suite that this version knows: the schema is \"" +
                          schema.substr(0, 60) + "\"");
  if (!reading.problem.empty())
    return tl::unexpected("line " + std::to_string(reading.problem_line) + ": " + reading.problem);
  SuiteResults out;
  out.writer = value.string_at("writer");
  out.started = value.string_at("started");
  out.parameters = words_at(value.find("parameters"));
  if (const JsonValue* settings = value.find("settings"); settings != nullptr && settings->is_object())
    for (size_t i = 0; i < settings->items.size() && i < settings->names.size(); ++i)
      out.settings[settings->names[i]] = words_at(&settings->items[i]);
  for (const JsonValue& item : items_of(value, "tests")) out.tests.push_back(test_of(item));
  return out;
}

}  // namespace mroce::doctor
