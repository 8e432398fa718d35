#include "comply/target.h"

#include <array>

namespace mroce::comply {
namespace {
constexpr std::array<std::string_view, 11> kFeatureNames = {"requester", "read",         "atomics",   "srq",
                                                            "initiator", "paths",        "planes",    "mode2",
                                                            "retry",     "virtual time", "rate hints"};
constexpr size_t kListedFeatures = 9;  // a target may list these; the others are the suite's own
constexpr std::array<std::string_view, 8> kWorkNames = {"send",      "send_imm", "send_inv",     "write",
                                                        "write_imm", "read",     "compare_swap", "fetch_add"};
}  // namespace

std::string_view name_of(Feature feature) {
  return kFeatureNames[static_cast<size_t>(feature)];
}

std::optional<Feature> feature_named(std::string_view name) {
  for (size_t i = 0; i < kListedFeatures; ++i) {
    if (kFeatureNames[i] == name) return static_cast<Feature>(i);
  }
  return std::nullopt;
}

std::string_view name_of(WorkOp op) {
  return kWorkNames[static_cast<size_t>(op)];
}

}  // namespace mroce::comply
