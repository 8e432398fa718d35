#include "soak/minimise.h"

#include <gtest/gtest.h>

namespace mroce::soak {
namespace {

RunOptions large() {
  RunOptions options = draw_soak_options(1);
  options.endpoints = 7;
  options.links = 30;
  options.operations = 500;
  options.crashes = 3;
  options.clogs = 6;
  options.faults.loss = 0.1;
  options.flaws = true;
  return options;
}

TEST(Minimise, only_what_is_needed_for_the_failure_remains) {
  const auto fails = [](const RunOptions& o) {
    return o.endpoints >= 3 && o.faults.loss > 0 && o.operations >= 17;
  };
  const Minimised result = minimise(large(), fails, [] { return true; });
  EXPECT_EQ(result.options.endpoints, 3u);
  EXPECT_EQ(result.options.operations, 17u);
  EXPECT_EQ(result.options.faults.loss, 0.1);
  EXPECT_EQ(result.options.links, 1u);
  EXPECT_EQ(result.options.crashes, 0u);
  EXPECT_EQ(result.options.clogs, 0u);
  EXPECT_FALSE(result.options.flaws);
  EXPECT_FALSE(result.options.varied);
  EXPECT_GT(result.tries, 10u);
}

TEST(Minimise, what_fails_by_chance_stays_as_it_is) {
  const Minimised result = minimise(
      large(), [](const RunOptions&) { return false; }, [] { return true; });
  EXPECT_EQ(describe(result.options), describe(large()));
}

TEST(Minimise, it_ends_when_it_must) {
  int left = 5;
  const Minimised result = minimise(
      large(), [](const RunOptions&) { return true; }, [&] { return left-- > 0; });
  EXPECT_EQ(result.tries, 5u);
}

}  // namespace
}  // namespace mroce::soak
