// Conditions of rules: a small language over facts, with three-valued logic.
//
//   any(sender, rx_pause_frac > limit.pause_red) and not any(receiver, d(tx_pause_us) > 0)
//
//   literals     12  0.5  1e6  'words'  true  false
//   names        facts of the entity at hand, else of its parents (port → host → run), else a metric, else
//   limit.NAME arithmetic   + - * /      comparison  == != < <= > >=      logic  and  or  not parentheses
//   d(NAME)      delta of a canonical counter over the run     rate(NAME)   the same for each second
//   v(NAME)      newest reading (gauges)                       total(NAME)  the same of what has one reading
//   only has(X)       can X be told at all? Never unknown.          unless(X, Y) X, or Y if X is unknown
//   likely(X)    X, with false for unknown                     contains('ab', 'b'), word('a b', 'b')
//   if(X, Y)     Y if X is true, else unknown                  changed(NAME)  had a setting two values?
//   any(SCOPE, X)  all(…)  none(…)  count(…)                   over hosts, ports, … (facts.h lists the
//   scopes) sum(SCOPE, X)  max(…)  min(…)                              unknown members are left out
//
// Unknown is contagious in arithmetic and comparison; `false and unknown` is false, `true or unknown` is
// true. any() is true if one member is true, else unknown if one is unknown. d() of a counter that one port
// lacks is unknown, not zero. While a condition becomes true, every comparison that holds notes the readings
// that it rests on, and its other side as the threshold: the evidence of a finding is what its condition
// looked at, no more and no less.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "doctor/evidence.h"

namespace mroce::doctor {

struct Entity;
class World;

// monostate is "unknown".
using Value = std::variant<std::monostate, bool, double, std::string>;

struct Node;
class Expression {
 public:
  Expression() = default;
  static tl::expected<Expression, std::string> parse(std::string_view text);
  const Node* root() const { return root_.get(); }
  explicit operator bool() const { return root_ != nullptr; }
  std::vector<std::string> names() const;  // all that it mentions, for checking

 private:
  std::shared_ptr<const Node> root_;
};

struct Noted {
  const Entity* entity = nullptr;
  std::string name;  // of a counter as the vendor has it; of a fact or a metric
  Value value;
  Where where;  // nowhere for a metric: what it was computed from is noted behind it
  std::optional<double> threshold;
};

struct Evaluation {
  Value value;
  std::vector<Noted> notes;
  std::vector<const Entity*> witnesses;  // members that made any() true, outermost first
};

Evaluation evaluate(const Expression& expression, const World& world, const Entity& at);
std::optional<bool> truth(const Value& value);

}  // namespace mroce::doctor
