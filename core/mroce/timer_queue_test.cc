#include "core/mroce/timer_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/rng.h"

namespace mroce {
namespace {

using Kind = TimerEntry::Kind;

Time at(int64_t ns) {
  return time_from_ns(ns);
}

TEST(TimerQueue, is_empty_at_first) {
  TimerQueue queue;
  EXPECT_EQ(queue.earliest(), kNever);
}

TEST(TimerQueue, gives_out_the_earliest_first) {
  TimerQueue queue;
  std::vector<Time> queued(5, kNever);
  const std::vector<int64_t> times{50, 10, 40, 20, 30};
  for (uint32_t i = 0; i < 5; ++i) queue.schedule(Kind::kStream, i, at(times[i]), queued[i]);
  for (const uint32_t expected : {1u, 3u, 4u, 2u, 0u}) {
    EXPECT_EQ(queue.earliest(), at(times[expected]));
    const TimerEntry entry = queue.pop();
    EXPECT_EQ(entry.id, expected);
    EXPECT_EQ(entry.at, queued[expected]);
    EXPECT_EQ(entry.kind, Kind::kStream);
  }
  EXPECT_EQ(queue.earliest(), kNever);
}

TEST(TimerQueue, adds_nothing_for_never) {
  TimerQueue queue;
  Time queued = kNever;
  queue.schedule(Kind::kConnection, 1, kNever, queued);
  EXPECT_EQ(queued, kNever);
  EXPECT_EQ(queue.earliest(), kNever);
}

TEST(TimerQueue, adds_nothing_for_a_deadline_that_is_put_off) {
  TimerQueue queue;
  Time queued = kNever;
  queue.schedule(Kind::kConnection, 1, at(10), queued);
  queue.schedule(Kind::kConnection, 1, at(10), queued);
  queue.schedule(Kind::kConnection, 1, at(500), queued);
  EXPECT_EQ(queued, at(10));
  EXPECT_EQ(queue.pop().at, at(10));
  EXPECT_EQ(queue.earliest(), kNever) << "one entry, however often it was put off";
}

TEST(TimerQueue, an_earlier_deadline_comes_out_in_front_of_the_old_one) {
  TimerQueue queue;
  Time queued = kNever;
  queue.schedule(Kind::kConnection, 1, at(100), queued);
  queue.schedule(Kind::kConnection, 1, at(10), queued);
  EXPECT_EQ(queued, at(10));
  EXPECT_EQ(queue.pop().at, at(10));
  const TimerEntry old = queue.pop();
  EXPECT_NE(old.at, queued) << "by which its owner knows that it does not count";
  EXPECT_EQ(queue.earliest(), kNever);
}

TEST(TimerQueue, equal_deadlines_all_come_out) {
  TimerQueue queue;
  std::vector<Time> queued(200, kNever);
  for (uint32_t i = 0; i < 200; ++i) {
    queue.schedule(i % 2 != 0 ? Kind::kStream : Kind::kConnection, i, at(7), queued[i]);
  }
  std::vector<uint32_t> ids;
  while (queue.earliest() != kNever) {
    const TimerEntry entry = queue.pop();
    EXPECT_EQ(entry.at, at(7));
    EXPECT_EQ(entry.kind == Kind::kStream, entry.id % 2 != 0);
    ids.push_back(entry.id);
  }
  std::ranges::sort(ids);
  ASSERT_EQ(ids.size(), 200u);
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(ids[i], i);
}

// Objects whose deadlines change at random, used as the engine does: an entry counts if it carries the time
// that its object noted, and an object whose deadline is later is queued again. The reference is a multimap
// that is always exact.
TEST(TimerQueue, wakes_each_object_at_its_time_as_an_exact_map_would) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    struct Object {
      Time deadline = kNever;
      Time queued = kNever;
    };
    std::vector<Object> objects(100);
    std::multimap<Time, uint32_t> exact;
    TimerQueue queue;
    const auto set = [&](uint32_t id, Time deadline) {
      for (auto [it, end] = exact.equal_range(objects[id].deadline); it != end; ++it) {
        if (it->second != id) continue;
        exact.erase(it);
        break;
      }
      objects[id].deadline = deadline;
      if (deadline != kNever) exact.emplace(deadline, id);
      queue.schedule(Kind::kStream, id, deadline, objects[id].queued);
    };
    Time now = at(0);
    uint64_t fired = 0;
    for (int step = 0; step < 3000; ++step) {
      const auto id = static_cast<uint32_t>(rng.below(objects.size()));
      set(id, rng.chance(0.1) ? kNever : now + Nanos{static_cast<int64_t>(rng.between(1, 40))});
      ASSERT_LE(queue.earliest(), exact.empty() ? kNever : exact.begin()->first)
          << "may be early, never late";
      if (!rng.chance(0.5)) continue;
      now += Nanos{static_cast<int64_t>(rng.below(20))};
      std::vector<uint32_t> expected, woken;
      for (auto it = exact.begin(); it != exact.end() && it->first <= now; ++it)
        expected.push_back(it->second);
      while (queue.earliest() <= now) {
        const TimerEntry entry = queue.pop();
        Object& object = objects[entry.id];
        if (object.queued != entry.at) continue;
        object.queued = kNever;
        if (object.deadline > now) {
          queue.schedule(entry.kind, entry.id, object.deadline, object.queued);
        } else {
          woken.push_back(entry.id);
        }
      }
      fired += woken.size();
      std::ranges::sort(expected);
      std::ranges::sort(woken);
      ASSERT_EQ(woken, expected);
      for (const uint32_t each : woken) {
        set(each, rng.chance(0.3) ? kNever : now + Nanos{static_cast<int64_t>(rng.between(1, 100))});
      }
    }
    EXPECT_GT(fired, 500u);
  }
}

TEST(TimerQueue, holds_a_hundred_thousand) {
  constexpr uint32_t kCount = 100000;
  Rng rng(3);
  TimerQueue queue;
  std::vector<Time> queued(kCount, kNever);
  for (uint32_t i = 0; i < kCount; ++i) {
    queue.schedule(Kind::kConnection, i, at(static_cast<int64_t>(rng.below(1000000))), queued[i]);
  }
  Time last = at(-1);
  uint32_t count = 0;
  for (; queue.earliest() != kNever; ++count) {
    const TimerEntry entry = queue.pop();
    ASSERT_GE(entry.at, last);
    ASSERT_EQ(entry.at, queued[entry.id]);
    last = entry.at;
  }
  EXPECT_EQ(count, kCount);
}

}  // namespace
}  // namespace mroce
