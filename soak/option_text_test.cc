#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "soak/report.h"

namespace mroce::soak {
namespace {

using testing::HasSubstr;

TEST(OptionText, every_option_that_is_printed_can_be_set_again) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const RunOptions drawn = draw_soak_options(seed);
    RunOptions copy;
    copy.seed = seed;
    each_option(drawn, [&](std::string_view name, const auto&) {
      const std::string assignment = std::string(name) + "=" + option_text(drawn, name);
      EXPECT_TRUE(set_option(copy, assignment).has_value()) << assignment;
    });
    EXPECT_EQ(describe(copy), describe(drawn));
    EXPECT_TRUE(settings_of(copy).empty());
  }
}

TEST(OptionText, times_have_units) {
  RunOptions options;
  ASSERT_TRUE(set_option(options, "span=20ms").has_value());
  EXPECT_EQ(options.span, millis(20));
  EXPECT_FALSE(set_option(options, "span=20").has_value());
  EXPECT_FALSE(set_option(options, "span=-20ms").has_value());
  EXPECT_FALSE(set_option(options, "span=99999999999999s").has_value());
}

TEST(OptionText, what_a_run_cannot_stand_is_refused) {
  RunOptions options;
  for (const char* bad : {"endpoints=1", "endpoints=9", "endpoints=x", "loss=2", "loss=nan", "planes=0",
                          "crashes=4000000000", "max_inline=1025", "to_itself=2", "operations="}) {
    const auto set = set_option(options, bad);
    ASSERT_FALSE(set.has_value()) << bad;
    EXPECT_THAT(set.error(), HasSubstr("is no value for"));
    EXPECT_THAT(set.error(), HasSubstr(", which is "));
  }
  EXPECT_THAT(set_option(options, "nonsense=1").error(), HasSubstr("there is no option \"nonsense\""));
  EXPECT_EQ(describe(options), describe(RunOptions{}));
}

TEST(OptionText, a_refusal_says_what_would_be_taken) {
  RunOptions options;
  const auto error = [&](const char* assignment) { return set_option(options, assignment).error(); };
  EXPECT_EQ(error("loss=2"), "\"2\" is no value for loss, which is a number from 0 to 0.9");
  EXPECT_EQ(error("endpoints=1"), "\"1\" is no value for endpoints, which is a whole number from 2 to 8");
  EXPECT_EQ(error("crashes=-1"), "\"-1\" is no value for crashes, which is a whole number from 0 to 10000");
  EXPECT_THAT(error("to_itself=2"), HasSubstr("which is 0 or 1"));
  EXPECT_THAT(error("span=20"), HasSubstr("a time such as 20ms"));
  EXPECT_THAT(error("rate_bps=-1"), HasSubstr("a whole number from 0 to 18446744073709551615"));
}

TEST(OptionText, an_assignment_needs_its_sign) {
  RunOptions options;
  for (const char* bad : {"", "loss", "nonsense"})
    EXPECT_THAT(set_option(options, bad).error(), HasSubstr("has no '=': write NAME=VALUE")) << bad;
  EXPECT_THAT(set_option(options, "=1").error(), HasSubstr("there is no option \"\""));
}

TEST(OptionText, a_command_names_what_its_seed_does_not_draw) {
  RunOptions options = draw_soak_options(7);
  EXPECT_EQ(command_of(options), "mroce soak --seed 7 --runs 1");
  options.faults.loss = 0.25;
  EXPECT_EQ(command_of(options), "mroce soak --seed 7 --runs 1 --set loss=0.25");
}

}  // namespace
}  // namespace mroce::soak
