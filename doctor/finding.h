// What the doctor says: findings with their evidence, and one verdict. The JSON form is an interface that
// scripts rely on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mroce::doctor {

// In the order of the page and of the JSON form. "none" is for the verdicts healthy and
// insufficient-evidence.
enum class Layer : uint8_t { kTest, kHardware, kHost, kParameters, kNetwork, kLibrary, kApplication, kNone };
enum class Confidence : uint8_t { kLow, kMedium, kHigh };

std::string_view to_string(Layer layer);
std::string_view to_string(Confidence confidence);
std::optional<Layer> layer_of(std::string_view word);
std::optional<Confidence> confidence_of(std::string_view word);

// One reading that speaks for (or, in a contradiction, against) the finding.
struct Proof {
  std::string file, source;  // source: inside of a bundle, else empty
  uint32_t line = 0;
  std::string host, port;
  std::string counter;          // as printed; or the name of a setting, a metric, an event
  std::optional<double> delta;  // or the value of what is no counter
  std::string text;             // of what is no number
  std::optional<double> threshold;
};

enum class Severity : uint8_t {
  kInvalid,  // the test itself: nothing else is scored
  kFault,    // explains a slow or failing job
  kWarning,  // worth knowing, may or may not matter
  kNormal,   // looks alarming and is not
};

struct Finding {
  std::string rule;
  Layer layer = Layer::kNone;
  Severity severity = Severity::kFault;
  Confidence confidence = Confidence::kLow;
  std::string sentence;
  std::vector<Proof> evidence;
  std::vector<std::string> lowered_because;  // contradictions and what was not there
  std::string next_check, fix, source;
  std::string outranked_by;  // the rule of the finding that causes this one, or empty
};

enum class Outcome : uint8_t { kHealthy, kFinding, kInsufficient, kInvalid };

struct NamedProblem {
  std::string file, source;
  uint32_t line = 0;
  std::string reason;
};

struct Diagnosis {
  Outcome outcome = Outcome::kInsufficient;
  std::string rule;  // of the verdict: of a finding, or "healthy", or "insufficient-evidence"
  Layer layer = Layer::kNone;
  Confidence confidence = Confidence::kLow;
  std::string sentence;
  std::vector<Finding> findings;     // the verdict's first, then by rank
  std::vector<std::string> missing;  // what to collect, most useful first
  std::vector<NamedProblem> problems;
  size_t hosts = 0, ports = 0, counters = 0, results = 0;
};

// Schema "mroce.doctor.diagnosis/1".
std::string to_json(const Diagnosis& diagnosis);
int exit_code_of(Outcome outcome);  // 0, 1, 5, 6

}  // namespace mroce::doctor
