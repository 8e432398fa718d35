#include "doctor/expression.h"

#include <algorithm>
#include <cmath>

#include "doctor/expression_node.h"
#include "doctor/facts.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr int kMaxMetricDepth = 12;
constexpr size_t kMaxNotes = 12;  // of one quantifier: a page shows the worst few

const Value kUnknown{};

class Evaluator {
 public:
  Evaluator(const World& world, Evaluation& out) : world_(world), out_(out) {}

  Value eval(const Node& node, const Entity& at) {
    switch (node.kind) {
      case NodeKind::kNumber:
        return node.number;
      case NodeKind::kText:
        return node.text;
      case NodeKind::kBool:
        return node.number != 0;
      case NodeKind::kName:
        return name(node, at);
      case NodeKind::kCall:
        return call(node, at);
      case NodeKind::kAnd:
      case NodeKind::kOr:
        return logic(node, at);
      case NodeKind::kNot: {
        const auto mark = marked();
        const auto value = truth(eval(node.kids[0], at));
        rewind(mark);
        return value ? Value(!*value) : kUnknown;
      }
      case NodeKind::kCompare:
        return compare(node, at);
      case NodeKind::kArithmetic:
        return arithmetic(node, at);
    }
    return kUnknown;
  }

 private:
  struct Mark {
    size_t notes, witnesses;
  };
  Mark marked() const { return {out_.notes.size(), out_.witnesses.size()}; }
  void rewind(Mark mark) {
    out_.notes.resize(mark.notes);
    out_.witnesses.resize(mark.witnesses);
  }

  void note(const Entity& at, std::string_view name, const Value& value, Where where) {
    out_.notes.push_back({&at, std::string(name), value, where, std::nullopt});
  }

  Value name(const Node& node, const Entity& at) {
    if (node.text.starts_with("limit.")) {
      const auto value = world_.threshold(std::string_view(node.text).substr(6));
      return value ? Value(*value) : kUnknown;
    }
    const Expression* metric = world_.metric(node.text);
    if (metric == nullptr) {
      const Fact* fact = at.find(node.text);
      if (fact == nullptr) return kUnknown;
      note(at, fact->shown.empty() ? node.text : fact->shown, fact->value, fact->where);
      return fact->value;
    }
    if (metric_depth_ >= kMaxMetricDepth) return kUnknown;
    ++metric_depth_;
    const size_t before = out_.notes.size();
    const Value value = eval(*metric->root(), at);
    --metric_depth_;
    if (std::holds_alternative<double>(value)) {
      out_.notes.insert(out_.notes.begin() + static_cast<std::ptrdiff_t>(before),
                        Noted{&at, node.text, value, Where{}, std::nullopt});
    }
    return value;
  }

  Value counter(const Node& node, const Entity& at) {
    const std::string& which = node.kids[0].text;
    const auto& table = node.text == "v" ? at.newest : node.text == "total" ? at.totals : at.deltas;
    const auto found = table.find(which);
    if (found == table.end()) return kUnknown;
    const Fact& fact = found->second;
    note(at, fact.shown.empty() ? which : fact.shown, fact.value, fact.where);
    if (node.text != "rate") return fact.value;
    const Fact* seconds = at.find("seconds");
    if (seconds == nullptr || !std::holds_alternative<double>(seconds->value)) return kUnknown;
    const double length = std::get<double>(seconds->value);
    if (length <= 0) return kUnknown;
    return std::get<double>(fact.value) / length;
  }

  Value call(const Node& node, const Entity& at) {
    const std::string& f = node.text;
    if (f == "d" || f == "rate" || f == "v" || f == "total") return counter(node, at);
    const bool scoped =
        node.kids.size() == 2 && node.kids[0].kind == NodeKind::kName && World::is_scope(node.kids[0].text);
    if (scoped) return quantifier(node, at);
    if (f == "has" || f == "changed") {
      const auto mark = marked();
      const Value value = eval(node.kids[0], at);
      if (f == "has") {
        rewind(mark);
        return !std::holds_alternative<std::monostate>(value);
      }
      const Fact* fact = at.find("changed." + node.kids[0].text);
      return fact != nullptr ? fact->value : Value(false);
    }
    const Value first = eval(node.kids[0], at);
    if (f == "likely") return truth(first).value_or(false);
    if (f == "unless") return std::holds_alternative<std::monostate>(first) ? eval(node.kids[1], at) : first;
    if (f == "abs")
      return std::holds_alternative<double>(first) ? Value(std::fabs(std::get<double>(first))) : kUnknown;
    if (f == "if") return truth(first) == true ? eval(node.kids[1], at) : kUnknown;
    const Value second = eval(node.kids[1], at);
    if (f == "contains" || f == "word") {
      const auto* text = std::get_if<std::string>(&first);
      const auto* part = std::get_if<std::string>(&second);
      if (text == nullptr || part == nullptr) return kUnknown;
      return f == "word" ? contains_word(*text, *part) : contains(*text, *part);
    }
    const auto* a = std::get_if<double>(&first);
    const auto* b = std::get_if<double>(&second);
    if (a == nullptr || b == nullptr) return kUnknown;
    return f == "max" ? std::max(*a, *b) : std::min(*a, *b);
  }

  Value quantifier(const Node& node, const Entity& at) {
    const std::string& f = node.text;
    const auto& members = world_.members(node.kids[0].text, at);
    if (f == "sum" || f == "max" || f == "min") return fold(node, members);
    size_t yes = 0, no = 0, unknown = 0;
    const Mark start = marked();
    for (const Entity* member : members) {
      const Mark mark = marked();
      out_.witnesses.push_back(member);
      const auto value = truth(eval(node.kids[1], *member));
      yes += value == true ? 1 : 0;
      no += value == false ? 1 : 0;
      unknown += value ? 0 : 1;
      if (value != true || mark.notes > start.notes + kMaxNotes) rewind(mark);
    }
    const auto drop = [&] { rewind(start); };
    if (f == "count") {
      return static_cast<double>(yes);
    }
    if (members.empty()) return kUnknown;
    if (f == "any") {
      if (yes > 0) return true;
      drop();
      return unknown > 0 ? kUnknown : Value(false);
    }
    if (f == "all") {
      if (no > 0) {
        drop();
        return false;
      }
      if (unknown > 0) {
        drop();
        return kUnknown;
      }
      return true;
    }
    drop();  // none
    if (yes > 0) return false;
    return unknown > 0 ? kUnknown : Value(true);
  }

  Value fold(const Node& node, const std::vector<const Entity*>& members) {
    std::optional<double> result;
    const Mark start = marked();
    std::vector<Noted> best;
    const Entity* witness = nullptr;
    for (const Entity* member : members) {
      const Value value = eval(node.kids[1], *member);
      const auto* number = std::get_if<double>(&value);
      const bool better = number != nullptr && (!result || node.text == "sum" ||
                                                (node.text == "max" ? *number > *result : *number < *result));
      if (better) {
        if (node.text == "sum" && result) {
          *result += *number;
        } else {
          best.assign(out_.notes.begin() + static_cast<std::ptrdiff_t>(start.notes), out_.notes.end());
          result = *number;
          witness = member;
        }
      }
      rewind(start);
    }
    if (!result) return kUnknown;
    out_.notes.insert(out_.notes.end(), best.begin(), best.end());
    if (node.text != "sum") out_.witnesses.push_back(witness);
    return *result;
  }

  Value logic(const Node& node, const Entity& at) {
    const bool decisive = node.kind == NodeKind::kOr;
    const Mark start = marked();
    bool unknown = false;
    for (const Node& kid : node.kids) {
      const auto value = truth(eval(kid, at));
      if (value == decisive) {
        if (!decisive) rewind(start);
        return decisive;
      }
      unknown = unknown || !value;
    }
    if (unknown || decisive) rewind(start);
    if (unknown) return kUnknown;
    return !decisive;
  }

  Value compare(const Node& node, const Entity& at) {
    const Mark start = marked();
    const Value left = eval(node.kids[0], at);
    const size_t middle = out_.notes.size();
    const Value right = eval(node.kids[1], at);
    const auto result = holds(node.text, left, right);
    if (result != true) {
      rewind(start);
      return result ? Value(false) : kUnknown;
    }
    if (const auto* limit = std::get_if<double>(&right); limit != nullptr && middle > start.notes)
      out_.notes[start.notes].threshold = *limit;
    return true;
  }

  static std::optional<bool> holds(const std::string& sign, const Value& left, const Value& right) {
    if (left.index() != right.index() || std::holds_alternative<std::monostate>(left)) {
      // A number that was printed as a word, and the reverse, are no comparison but not equal either.
      return std::nullopt;
    }
    if (sign == "==") return left == right;
    if (sign == "!=") return left != right;
    const auto* a = std::get_if<double>(&left);
    const auto* b = std::get_if<double>(&right);
    if (a == nullptr || b == nullptr) return std::nullopt;
    if (sign == "<") return *a < *b;
    if (sign == "<=") return *a <= *b;
    if (sign == ">") return *a > *b;
    return *a >= *b;
  }

  Value arithmetic(const Node& node, const Entity& at) {
    const Value left = eval(node.kids[0], at);
    const Value right = eval(node.kids[1], at);
    const auto* a = std::get_if<double>(&left);
    const auto* b = std::get_if<double>(&right);
    if (a == nullptr || b == nullptr) return kUnknown;
    switch (node.text[0]) {
      case '+':
        return *a + *b;
      case '-':
        return *a - *b;
      case '*':
        return *a * *b;
      default:
        return *b == 0 ? kUnknown : Value(*a / *b);
    }
  }

  const World& world_;
  Evaluation& out_;
  int metric_depth_ = 0;
};

}  // namespace

std::optional<bool> truth(const Value& value) {
  const auto* known = std::get_if<bool>(&value);
  return known == nullptr ? std::nullopt : std::optional<bool>(*known);
}

Evaluation evaluate(const Expression& expression, const World& world, const Entity& at) {
  Evaluation out;
  if (expression) out.value = Evaluator(world, out).eval(*expression.root(), at);
  return out;
}

}  // namespace mroce::doctor
