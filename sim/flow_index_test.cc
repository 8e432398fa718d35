#include "sim/flow_index.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/rng.h"

namespace mroce::sim {
namespace {

TEST(FlowIndex, agrees_with_a_map_under_random_insertions_and_removals) {
  FlowIndex index;
  std::map<uint32_t, uint32_t> model;
  Rng rng(3);
  EXPECT_EQ(index.find(1), FlowIndex::kNone);
  for (int round = 0; round < 20'000; ++round) {
    const auto flow = static_cast<uint32_t>(rng.below(300) << rng.below(2) * 12);
    const auto it = model.find(flow);
    ASSERT_EQ(index.find(flow), it == model.end() ? FlowIndex::kNone : it->second);
    if (it == model.end()) {
      const auto slot = static_cast<uint32_t>(rng.below(1000));
      index.insert(flow, slot);
      model[flow] = slot;
    } else {
      index.erase(flow);
      model.erase(it);
    }
  }
  for (const auto& [flow, slot] : model) EXPECT_EQ(index.find(flow), slot);
}

}  // namespace
}  // namespace mroce::sim
