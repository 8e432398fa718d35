// The heap and the map of the engine against the standard library's.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/base/rng.h"
#include "core/rocev2/deadline_heap.h"
#include "core/rocev2/qpn_map.h"

namespace mroce::rocev2 {
namespace {

TEST(RoceContainers, the_heap_agrees_with_an_ordered_set) {
  Rng rng(1);
  DeadlineHeap heap;
  std::map<uint32_t, Time> of;
  std::set<std::pair<Time, uint32_t>> order;
  for (int i = 0; i < 50'000; ++i) {
    const auto slot = static_cast<uint32_t>(rng.below(60));
    const uint64_t what = rng.below(10);
    if (what < 6) {
      const Time at = time_from_ns(static_cast<int64_t>(rng.below(500)));
      if (of.contains(slot)) order.erase({of[slot], slot});
      of[slot] = at;
      order.insert({at, slot});
      heap.set(slot, at);
    } else if (what < 8) {
      if (of.contains(slot)) order.erase({of[slot], slot});
      of.erase(slot);
      heap.remove(slot);
    } else if (!order.empty()) {
      const auto [at, first] = *order.begin();
      order.erase(order.begin());
      of.erase(first);
      ASSERT_EQ(heap.earliest(), at);
      ASSERT_EQ(heap.pop(), first);
    }
    ASSERT_EQ(heap.earliest(), order.empty() ? kNever : order.begin()->first);
    ASSERT_EQ(heap.of(slot), of.contains(slot) ? of[slot] : kNever);
  }
}

TEST(RoceContainers, the_map_agrees_with_an_ordered_map) {
  Rng rng(2);
  QpnMap map;
  std::map<uint32_t, uint32_t> model;
  EXPECT_EQ(map.find(5), QpnMap::kNone);
  map.erase(5);
  for (int i = 0; i < 50'000; ++i) {
    const auto qpn = static_cast<uint32_t>(rng.chance(.5) ? rng.below(300) : rng.below(300) << 16);
    if (rng.chance(.5)) {
      if (!model.contains(qpn)) map.insert(qpn, static_cast<uint32_t>(i));
      model.emplace(qpn, static_cast<uint32_t>(i));
    } else {
      map.erase(qpn);
      model.erase(qpn);
    }
    const auto other = static_cast<uint32_t>(rng.below(300));
    const auto found = model.find(other);
    ASSERT_EQ(map.find(other), found == model.end() ? QpnMap::kNone : found->second);
  }
  for (const auto& [qpn, slot] : model) ASSERT_EQ(map.find(qpn), slot);
}

}  // namespace
}  // namespace mroce::rocev2
