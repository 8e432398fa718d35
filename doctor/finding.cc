#include "doctor/finding.h"

#include <array>
#include <nlohmann/json.hpp>

namespace mroce::doctor {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 8> kLayers = {"test",    "hardware", "host",        "parameters",
                                                     "network", "library",  "application", "none"};
constexpr std::array<std::string_view, 3> kConfidences = {"low", "medium", "high"};
constexpr std::array<std::string_view, 4> kSeverities = {"invalid", "fault", "warning", "normal"};
constexpr std::array<std::string_view, 4> kOutcomes = {"healthy", "finding", "insufficient-evidence",
                                                       "invalid-test"};

template <class Words, class Enum>
std::optional<Enum> word_to(const Words& words, std::string_view word) {
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == word) return static_cast<Enum>(i);
  return std::nullopt;
}

ordered_json proof_json(const Proof& proof) {
  ordered_json out{{"file", proof.file}, {"line", proof.line}, {"counter", proof.counter}};
  out["delta"] = proof.delta ? ordered_json(*proof.delta) : ordered_json(nullptr);
  out["threshold"] = proof.threshold ? ordered_json(*proof.threshold) : ordered_json(nullptr);
  if (!proof.source.empty()) out["source"] = proof.source;
  if (!proof.host.empty()) out["host"] = proof.host;
  if (!proof.port.empty()) out["port"] = proof.port;
  if (!proof.text.empty()) out["text"] = proof.text;
  return out;
}

ordered_json finding_json(const Finding& finding) {
  ordered_json out{{"rule", finding.rule},
                   {"layer", to_string(finding.layer)},
                   {"severity", kSeverities[static_cast<size_t>(finding.severity)]},
                   {"sentence", finding.sentence},
                   {"confidence", to_string(finding.confidence)}};
  out["evidence"] = ordered_json::array();
  for (const Proof& proof : finding.evidence) out["evidence"].push_back(proof_json(proof));
  out["lowered_because"] = finding.lowered_because;
  out["next_check"] = finding.next_check;
  out["fix"] = finding.fix;
  out["source"] = finding.source;
  if (!finding.outranked_by.empty()) out["outranked_by"] = finding.outranked_by;
  return out;
}

}  // namespace

std::string_view to_string(Layer layer) {
  return kLayers[static_cast<size_t>(layer)];
}
std::string_view to_string(Confidence confidence) {
  return kConfidences[static_cast<size_t>(confidence)];
}
std::optional<Layer> layer_of(std::string_view word) {
  return word_to<decltype(kLayers), Layer>(kLayers, word);
}
std::optional<Confidence> confidence_of(std::string_view word) {
  return word_to<decltype(kConfidences), Confidence>(kConfidences, word);
}

int exit_code_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kHealthy:
      return 0;
    case Outcome::kFinding:
      return 1;
    case Outcome::kInsufficient:
      return 5;
    case Outcome::kInvalid:
      return 6;
  }
  return 4;
}

std::string to_json(const Diagnosis& diagnosis) {
  ordered_json out{{"schema", "mroce.doctor.diagnosis/1"},
                   {"verdict",
                    {{"rule", diagnosis.rule},
                     {"layer", to_string(diagnosis.layer)},
                     {"sentence", diagnosis.sentence},
                     {"confidence", to_string(diagnosis.confidence)},
                     {"outcome", kOutcomes[static_cast<size_t>(diagnosis.outcome)]}}}};
  out["findings"] = ordered_json::array();
  for (const Finding& finding : diagnosis.findings) out["findings"].push_back(finding_json(finding));
  out["missing"] = diagnosis.missing;
  out["problems"] = ordered_json::array();
  for (const NamedProblem& problem : diagnosis.problems) {
    ordered_json entry{{"file", problem.file}, {"line", problem.line}, {"reason", problem.reason}};
    if (!problem.source.empty()) entry["source"] = problem.source;
    out["problems"].push_back(std::move(entry));
  }
  out["read"] = {{"hosts", diagnosis.hosts},
                 {"ports", diagnosis.ports},
                 {"counters", diagnosis.counters},
                 {"results", diagnosis.results}};
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mroce::doctor
