// Recursive descent; the grammar is the comment of expression.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/expression.h"
#include "doctor/expression_node.h"
#include "doctor/facts.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr int kMaxDepth = 40;

bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool digit(char c) {
  return c >= '0' && c <= '9';
}

struct Function {
  std::string_view name;
  size_t least, most;
};
constexpr std::array kFunctions = {
    Function{"d", 1, 1},    Function{"rate", 1, 1},    Function{"v", 1, 1},      Function{"total", 1, 1},
    Function{"has", 1, 1},  Function{"unless", 2, 2},  Function{"likely", 1, 1}, Function{"contains", 2, 2},
    Function{"word", 2, 2}, Function{"if", 2, 2},      Function{"any", 2, 2},    Function{"all", 2, 2},
    Function{"none", 2, 2}, Function{"count", 2, 2},   Function{"sum", 2, 2},    Function{"max", 2, 2},
    Function{"min", 2, 2},  Function{"changed", 1, 1}, Function{"abs", 1, 1},
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  tl::expected<Node, std::string> parse() {
    Node root = either(0);
    skip();
    if (error_.empty() && at_ < text_.size()) fail("something is left over");
    if (!error_.empty()) return tl::unexpected(error_);
    return root;
  }

 private:
  void fail(std::string_view what) {
    if (error_.empty()) error_ = fmt::format("{} at character {} of \"{}\"", what, at_ + 1, text_);
    at_ = text_.size();
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view mark) {
    skip();
    if (!text_.substr(at_).starts_with(mark)) return false;
    const size_t end = at_ + mark.size();
    if (letter(mark[0]) && end < text_.size() &&
        (letter(text_[end]) || digit(text_[end]) || text_[end] == '.'))
      return false;
    at_ = end;
    return true;
  }

  Node chain(NodeKind kind, std::string_view word, Node (Parser::*inner)(int), int depth) {
    Node left = (this->*inner)(depth + 1);
    if (!take(word)) return left;
    Node out{kind, std::string(word), 0, {}};
    out.kids.push_back(std::move(left));
    do {
      out.kids.push_back((this->*inner)(depth + 1));
    } while (take(word));
    return out;
  }
  Node either(int depth) {
    if (depth > kMaxDepth) {
      fail("nested too deeply");
      return {};
    }
    return chain(NodeKind::kOr, "or", &Parser::both, depth);
  }
  Node both(int depth) { return chain(NodeKind::kAnd, "and", &Parser::negation, depth); }
  Node negation(int depth) {
    if (depth > kMaxDepth) {
      fail("nested too deeply");
      return {};
    }
    if (!take("not")) return comparison(depth + 1);
    Node out{NodeKind::kNot, "not", 0, {}};
    out.kids.push_back(negation(depth + 1));
    return out;
  }
  Node comparison(int depth) {
    Node left = sum(depth + 1);
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(sign)) continue;
      Node out{NodeKind::kCompare, std::string(sign), 0, {}};
      out.kids.push_back(std::move(left));
      out.kids.push_back(sum(depth + 1));
      return out;
    }
    return left;
  }
  Node arithmetic(std::string_view one, std::string_view two, Node (Parser::*inner)(int), int depth) {
    Node left = (this->*inner)(depth + 1);
    while (true) {
      const std::string_view sign = take(one) ? one : take(two) ? two : "";
      if (sign.empty()) return left;
      Node out{NodeKind::kArithmetic, std::string(sign), 0, {}};
      out.kids.push_back(std::move(left));
      out.kids.push_back((this->*inner)(depth + 1));
      left = std::move(out);
    }
  }
  Node sum(int depth) { return arithmetic("+", "-", &Parser::product, depth); }
  Node product(int depth) { return arithmetic("*", "/", &Parser::operand, depth); }

  Node operand(int depth) {
    skip();
    if (at_ >= text_.size()) {
      fail("something is missing");
      return {};
    }
    if (take("(")) {
      Node inner = either(depth + 1);
      if (!take(")")) fail("\")\" is missing");
      return inner;
    }
    const char c = text_[at_];
    if (c == '\'') return quoted();
    if (digit(c)) return number();
    if (letter(c)) return name(depth);
    fail("nothing begins like this");
    return {};
  }
  Node quoted() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) {
      fail("a quote is missing");
      return {};
    }
    Node out{NodeKind::kText, std::string(text_.substr(at_ + 1, end - at_ - 1)), 0, {}};
    at_ = end + 1;
    return out;
  }
  Node number() {
    size_t end = at_;
    while (end < text_.size() && (digit(text_[end]) || text_[end] == '.' || text_[end] == 'e')) ++end;
    const auto value = real_number(text_.substr(at_, end - at_));
    if (!value) fail("this is no number");
    at_ = end;
    return Node{NodeKind::kNumber, "", value.value_or(0), {}};
  }
  Node name(int depth) {
    size_t end = at_;
    while (end < text_.size() && (letter(text_[end]) || digit(text_[end]) || text_[end] == '.')) ++end;
    std::string word(text_.substr(at_, end - at_));
    at_ = end;
    if (word == "true" || word == "false") return Node{NodeKind::kBool, word, word == "true" ? 1.0 : 0.0, {}};
    if (!take("(")) return Node{NodeKind::kName, std::move(word), 0, {}};
    return call(std::move(word), depth);
  }
  Node call(std::string word, int depth) {
    const auto* function =
        std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Function& f) { return f.name == word; });
    if (function == kFunctions.end()) {
      fail("no such function");
      return {};
    }
    Node out{NodeKind::kCall, std::move(word), 0, {}};
    do {
      out.kids.push_back(either(depth + 1));
    } while (take(","));
    if (!take(")")) fail("\")\" is missing");
    if (out.kids.size() < function->least || out.kids.size() > function->most)
      fail("too many or too few arguments");
    static constexpr std::array kQuantifiers = {"any", "all", "none", "count", "sum"};
    const bool scoped = std::find(kQuantifiers.begin(), kQuantifiers.end(), out.text) != kQuantifiers.end();
    if (scoped && (out.kids[0].kind != NodeKind::kName || !World::is_scope(out.kids[0].text)))
      fail("the first argument must be a scope");
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

void collect(const Node& node, std::vector<std::string>& out) {
  const bool counter = node.kind == NodeKind::kCall &&
                       (node.text == "d" || node.text == "rate" || node.text == "v" || node.text == "total");
  if (counter) {
    out.push_back("counter:" + node.kids[0].text);
    return;
  }
  if (node.kind == NodeKind::kName && !World::is_scope(node.text)) out.push_back(node.text);
  for (const Node& kid : node.kids) collect(kid, out);
}

}  // namespace

tl::expected<Expression, std::string> Expression::parse(std::string_view text) {
  auto root = Parser(text).parse();
  if (!root) return tl::unexpected(root.error());
  Expression out;
  out.root_ = std::make_shared<const Node>(std::move(*root));
  return out;
}

std::vector<std::string> Expression::names() const {
  std::vector<std::string> out;
  if (root_) collect(*root_, out);
  return out;
}

}  // namespace mroce::doctor
