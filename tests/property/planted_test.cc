// Is the oracle any good? Bugs are planted outside the engine (plant.h); it must see each of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "soak/run.h"

namespace mroce::soak {
namespace {

constexpr uint64_t kMostRuns = 300;

struct Way {  // of drawing runs
  const char* name;
  RunOptions (*draw)(uint64_t seed);
  int plants;  // of a kind
};

class Planted : public testing::TestWithParam<Way> {
 protected:
  static RunOptions options_for(uint64_t seed) {
    RunOptions options = GetParam().draw(seed);
    // What a failing application breaks may hide what is looked for.
    options.flaws = false;
    options.destroys = false;
    options.crashes = 0;
    options.tail_hold = true;
    options.relaxed = false;
    options.hard = false;
    options.longest_outage = std::min(options.longest_outage, millis(100));
    options.one_hour = false;
    options.lazy = false;
    options.reregisters = false;  // the plants do not follow a region that moves
    options.overcommit = 0;
    options.rnr_retry = 7;
    options.links = std::min(options.links, 12u);
    options.operations = std::min(options.operations, 60u);
    options.bytes = 2 << 20;
    return options;
  }

  // Plants `bug` in run after run. Every run in which it took effect must have a violation of one of the
  // `kinds`.
  static void expect_caught(Bug bug, const std::vector<std::string_view>& kinds, bool by_events = false) {
    int planted = 0;
    Rng rng(1);
    for (uint64_t seed = 1; seed <= kMostRuns && planted < GetParam().plants; ++seed) {
      Plant plant;
      plant.bug = bug;
      plant.skip = static_cast<uint32_t>(rng.below(20));
      RunOptions options = options_for(seed);
      options.by_events = options.by_events || by_events;
      const RunResult result = soak::Run(options, &plant).go();
      if (!plant.done) {
        EXPECT_TRUE(result.violations.empty()) << "a violation without a planted bug: " << describe(options);
        continue;
      }
      ++planted;
      std::string seen;
      bool caught = false;
      for (const Violation& violation : result.violations) {
        seen += fmt::format("\n  {}: {}", violation.kind, violation.text);
        caught = caught || std::find(kinds.begin(), kinds.end(), violation.kind) != kinds.end();
      }
      EXPECT_TRUE(caught) << "not caught in " << describe(options) << "\nviolations:" << seen;
    }
    EXPECT_EQ(planted, GetParam().plants) << "too few runs gave an opportunity";
  }
};

TEST_P(Planted, planted_lost_completion_is_caught) {
  expect_caught(Bug::kLostCompletion, {"completion_lost", "stall", "order", "fields"});
}
TEST_P(Planted, planted_double_completion_is_caught) {
  expect_caught(Bug::kDoubleCompletion, {"completion_unknown"});
}
TEST_P(Planted, planted_wrong_order_is_caught) {
  expect_caught(Bug::kWrongOrder, {"completion_lost", "completion_unknown", "stall"});
}
TEST_P(Planted, planted_double_execution_of_an_atomic_is_caught) {
  expect_caught(Bug::kDoubleAtomic, {"atomic_twice"});
}
TEST_P(Planted, planted_stale_overwrite_is_caught) {
  expect_caught(Bug::kStaleOverwrite, {"stale"});
}
TEST_P(Planted, planted_stale_overwrite_is_caught_by_the_contents_alone) {
  expect_caught(Bug::kSilentOverwrite, {"contents"});
}
TEST_P(Planted, planted_tail_before_body_is_caught) {
  expect_caught(Bug::kLostBody, {"tail_order"});
}
TEST_P(Planted, planted_lost_placement_is_caught) {
  expect_caught(Bug::kLostPlacement, {"tail_order", "not_placed", "contents", "atomic", "order"});
}
TEST_P(Planted, planted_wrong_byte_is_caught) {
  expect_caught(Bug::kWrongByte, {"stale", "contents", "atomic", "not_placed"});
}
TEST_P(Planted, planted_wrong_length_of_a_receive_is_caught) {
  expect_caught(Bug::kWrongReceive, {"fields"});
}
TEST_P(Planted, planted_lost_notification_is_caught) {
  expect_caught(Bug::kLostNotification, {"stall", "completion_lost", "completion_unknown", "notification"},
                true);
}

INSTANTIATE_TEST_SUITE_P(in, Planted,
                         testing::Values(Way{"property", draw_options, 12},
                                         Way{"soak", draw_soak_options, 5}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace mroce::soak
