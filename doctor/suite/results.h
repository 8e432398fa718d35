// What a run of the suite found, and its file: schema "mroce.doctor.suite/1".
//
//   { "schema": "mroce.doctor.suite/1", "writer": "mroce 0.1.0", "started": "2026-01-31T12:00:00Z",
//     "parameters": { "hosts": "A,B", "size": "65536", … },
//     "settings": { "A": { "kernel": "6.1.0" }, "A mlx5_0/1": { "firmware": "…", "mtu.active": "4096" } },
//     "tests": [ { "name": "single",
//                  "metrics": [ { "name": "goodput", "unit": "Gbit/s", "better": "more", "median": …, "min":
//                  …,
//                                 "max": …, "values": [ … ] } ],
//                  "payload_bytes": …,
//                  "counters": [ { "host": "A", "port": "mlx5_0/1", "canonical": "out_of_sequence",
//                                  "vendor_name": "out_of_sequence", "unit": "packets", "delta": 12 } ],
//                  "commands": [ "…" ],
//                  "verdict": { "rule": …, "layer": …, "sentence": …, "confidence": … } },
//                { "name": "incast", "skipped": "N:1 takes three hosts or more" },
//                { "name": "multi", "failed": "…" } ],
//     "remarks": [ … ],
//     "diagnosis": { … as of analyze --json … },
//     "comparison": { … with the baseline, if there is one: compare.h … } }
//
// All that is compared is in it; bundles are not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace mroce::doctor {

inline constexpr std::string_view kSuiteSchema = "mroce.doctor.suite/1";

struct Metric {
  std::string name, unit;
  bool more_is_better = true;
  std::vector<double> values;  // one for each repetition
  double median() const;
  double least() const;
  double most() const;
  double relative_range() const;  // (most - least) / median
};

struct MovedCounter {
  std::string host, port, canonical, vendor_name, unit;
  double delta = 0;
  bool reset = false;  // went back: there is no delta
  const std::string& name() const { return canonical.empty() ? vendor_name : canonical; }
};

struct TestVerdict {
  std::string rule, layer, sentence, confidence;
};

struct TestResult {
  std::string name;
  std::string skipped, failed;  // why, or empty
  std::vector<Metric> metrics;
  double payload_bytes = 0;  // of all flows and repetitions, as far as the programs say it
  std::vector<MovedCounter> counters;
  std::vector<std::string> commands;  // of the first repetition
  std::optional<TestVerdict> verdict;
  Metric& metric(std::string_view name, std::string_view unit, bool more_is_better);  // found or added
};

using SettingsOfPlace = std::map<std::string, std::string>;

struct SuiteResults {
  std::string writer, started;
  std::map<std::string, std::string> parameters;
  std::map<std::string, SettingsOfPlace> settings;  // of "HOST" and of "HOST PORT"
  std::vector<TestResult> tests;
  std::vector<std::string> remarks;
  std::string diagnosis;   // JSON
  std::string comparison;  // JSON of compare.h, if there is a baseline
};

std::string to_json(const SuiteResults& results);
// Of a file, which is not trusted. An error is a sentence.
tl::expected<SuiteResults, std::string> read_suite_results(std::string_view text);

}  // namespace mroce::doctor
