// The tree of an expression. Internal to expression*.cc.
#pragma once

#include <string>
#include <vector>

namespace mroce::doctor {

enum class NodeKind : uint8_t { kNumber, kText, kBool, kName, kCall, kAnd, kOr, kNot, kCompare, kArithmetic };

struct Node {
  NodeKind kind = NodeKind::kNumber;
  std::string text;  // name, word, operator
  double number = 0;
  std::vector<Node> kids;
};

}  // namespace mroce::doctor
