#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/rng.h"

namespace mroce::sim {
namespace {

using Rank = std::pair<SimTime, uint64_t>;

// Random pushes and pops, compared with a multimap that has the same order.
void compare(uint64_t seed, unsigned slot_bits, SimTime reach) {
  Rng rng(seed);
  EventQueue queue(slot_bits);
  std::multimap<Rank, Event> model;
  SimTime now = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (rng.chance(0.52)) {
      SimTime distance = static_cast<SimTime>(rng.below(static_cast<uint64_t>(reach)));
      if (rng.chance(0.1)) distance = 0;
      if (rng.chance(0.02)) distance *= 1000;
      const Event event{
          now + distance, static_cast<uint32_t>(rng.below(3)),
          event_key(static_cast<EventKind>(rng.below(8)), static_cast<uint32_t>(rng.below(50)))};
      queue.push(event.at, event.key, event.what);
      model.emplace(Rank{event.at, event.rank()}, event);
    } else {
      const SimTime limit = rng.chance(0.3) ? now + static_cast<SimTime>(rng.below(1000)) : kEndOfTime;
      Event event;
      const bool expected = !model.empty() && model.begin()->second.at < limit;
      ASSERT_EQ(queue.pop(limit, event), expected) << "seed " << seed << " step " << step;
      if (!expected) continue;
      ASSERT_EQ(event.at, model.begin()->second.at) << "seed " << seed << " step " << step;
      ASSERT_EQ(event.rank(), model.begin()->second.rank()) << "seed " << seed << " step " << step;
      now = event.at;
      model.erase(model.begin());
    }
    ASSERT_EQ(queue.size(), model.size());
    ASSERT_EQ(queue.earliest(), model.empty() ? kEndOfTime : model.begin()->second.at);
  }
}

TEST(EventQueue, pops_in_the_order_of_a_multimap) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    compare(seed, 8, 1'000'000);
    compare(seed, 6, 10'000'000);
    compare(seed, 20, 100'000);
    compare(seed, 10, 300);
  }
}

TEST(EventQueue, holds_thousands_of_events_of_one_moment) {
  EventQueue queue(10);
  for (uint32_t i = 0; i < 5000; ++i)
    queue.push(1'000'000, event_key(EventKind::kArrival, (i * 7919) % 5000), 0);
  Event event;
  for (uint32_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(queue.pop(kEndOfTime, event));
    ASSERT_EQ(event.id(), i);
  }
  EXPECT_FALSE(queue.pop(kEndOfTime, event));
}

TEST(EventQueue, finds_events_far_beyond_the_wheel) {
  EventQueue queue(6);
  queue.push(microseconds(1'000'000), event_key(EventKind::kTimer, 1), 0);
  queue.push(microseconds(2), event_key(EventKind::kTimer, 2), 0);
  Event event;
  ASSERT_TRUE(queue.pop(kEndOfTime, event));
  EXPECT_EQ(event.id(), 2U);
  EXPECT_FALSE(queue.pop(microseconds(1'000'000), event));
  queue.push(microseconds(3), event_key(EventKind::kTimer, 3), 0);
  ASSERT_TRUE(queue.pop(kEndOfTime, event));
  EXPECT_EQ(event.id(), 3U);
  ASSERT_TRUE(queue.pop(kEndOfTime, event));
  EXPECT_EQ(event.id(), 1U);
}

}  // namespace
}  // namespace mroce::sim
