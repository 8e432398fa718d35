// Rules, thresholds and the vendors' vocabularies: data, compiled into the binary from data/*.toml.
//
// A rule (data/rules.toml):
//   [[rule]]
//   id = "pfc-storm"              number = 36              # in the order of evaluation
//   stage = "flow-control"        layer = "hardware"       severity = "fault"      confidence = "high"
//   when = "any(port, d(pause_storm) > 0)"                 # expression.h
//   needs = ["ethtool-delta"]                              # what to collect if `when` cannot be decided
//   sentence = "{host} {port} sends pause without end…"    # {names} are facts where `when` became true
//   lower = [{ when = "hosts < 2", to = "medium", because = "only one end was captured" }]
//   outranks = ["fabric-congestion"]                       # symptoms of this one
//   cite = ["d(rx_discard)"]                               # further readings worth showing
//   next = "…"   fix = "…"   source = "…"
// Metrics are named expressions; thresholds are numbers with a source each. Loading checks everything:
// unknown names in expressions, rules without source, outranking of rules that do not exist.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "doctor/evidence.h"
#include "doctor/expression.h"
#include "doctor/finding.h"

namespace mroce::doctor {

// How vendors name it.
struct VendorName {
  std::string vendor, from, name, canonical, note;
  CounterKind kind = CounterKind::kCounter;
  uint8_t width = 64, scale = 1;
  bool unison = false;  // the priorities of it move together: no sum
};

enum class Combine : uint8_t {
  kSum,
  kMax
};  // several names for one event: other parts of it, or other views of it

struct Canonical {
  std::string name, unit, sentence;
  Combine combine = Combine::kMax;
};

struct VendorMatch {
  const VendorName* entry = nullptr;
  int8_t priority = -1;
};

class VendorMap {
 public:
  // What this vendor (or one that counts for all: "ib", "any") means by the name; one name may stand for
  // several. An empty vendor or place matches every one.
  std::vector<VendorMatch> find(std::string_view vendor, std::string_view from, std::string_view name) const;
  bool knows(std::string_view name) const { return !find("", "", name).empty(); }
  std::string_view vendor_of_driver(
      std::string_view driver_or_device) const;  // "mlx5_core", "mlx5_0" → "mlx5"
  const Canonical* canonical(std::string_view name) const;
  const std::vector<VendorName>& names() const { return names_; }
  const std::map<std::string, Canonical, std::less<>>& canonicals() const { return canonicals_; }

 private:
  friend struct RulebookLoader;
  std::vector<VendorName> names_;
  std::unordered_multimap<std::string, size_t> by_pattern_;  // with {N} for the digit of a priority
  std::map<std::string, Canonical, std::less<>> canonicals_;
  std::vector<std::pair<std::string, std::string>> prefixes_;  // of drivers and devices → vendor
};

struct Threshold {
  std::string name, unit, sentence, source;
  double value = 0;
};

struct LowerConfidence {
  Expression when;
  Confidence to = Confidence::kLow;
  std::string because;
};

struct Rule {
  std::string id, stage, sentence, next_check, fix, source, when_text;
  int number = 0;
  Layer layer = Layer::kNone;
  Severity severity = Severity::kFault;
  Confidence confidence = Confidence::kHigh;
  Expression when;
  std::vector<Expression> cite;
  std::vector<LowerConfidence> lower;
  std::vector<std::string> needs, outranks;
};

// Counters that deny each other: what rests on this stage's evidence is unsure.
struct Contradiction {
  std::string stage;
  Expression when;
  std::string because;
};

struct Rulebook {
  VendorMap vendors;
  std::map<std::string, Threshold, std::less<>> thresholds;
  std::unordered_map<std::string, Expression> metrics;
  std::map<std::string, std::string, std::less<>> needs;  // key → sentence
  std::vector<Rule> rules;                                // in the order of evaluation
  std::vector<Contradiction> contradictions;
  const Rule* rule(std::string_view id_or_number) const;
};

tl::expected<Rulebook, std::string> load_rulebook(std::string_view counters_toml,
                                                  std::string_view thresholds_toml,
                                                  std::string_view rules_toml);
// The one in the binary. Broken data is our own bug, and a test loads it.
const Rulebook& builtin_rulebook();

}  // namespace mroce::doctor
