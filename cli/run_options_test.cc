#include "cli/run_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/impairment_clause.h"

namespace mroce::cli {
namespace {

using testing::HasSubstr;

std::string impair_of(const std::string& loss, const std::string& impair = "") {
  RunOptions options;
  options.loss = loss;
  options.impair = impair;
  const auto overrides = overrides_of(options);
  if (!overrides) return overrides.error().cause;
  return overrides->size() == 1 && overrides->front().setting == "impair" ? overrides->front().value : "";
}

TEST(RunOptions, loss_is_a_percentage_with_and_without_its_sign) {
  EXPECT_EQ(impair_of("1"), "loss=1%");
  EXPECT_EQ(impair_of("1%"), "loss=1%");
  EXPECT_EQ(impair_of("0.1%"), "loss=0.1%");
  EXPECT_EQ(impair_of("100"), "loss=100%");
  EXPECT_EQ(impair_of("0.1%", "path=1,down=1s-"), "path=1,down=1s-;loss=0.1%");
}

TEST(RunOptions, what_is_no_percentage_is_refused_in_the_name_of_the_option) {
  for (const char* wrong :
       {"x", "%", "1%%", "-1", "101", "1.2.3", "1%,ce=1", "1;down=0s-", "1e1", "nan", " 1"})
    EXPECT_EQ(impair_of(wrong), "--loss " + std::string(wrong) + ": not a percentage from 0 to 100");
}

TEST(RunOptions, a_set_needs_a_name_and_a_value) {
  for (const char* wrong : {"paths", "=4"}) {
    RunOptions options;
    options.sets = {wrong};
    const auto overrides = overrides_of(options);
    ASSERT_FALSE(overrides) << wrong;
    EXPECT_EQ(overrides.error().code, kUsage);
    EXPECT_EQ(overrides.error().hint, "write --set NAME=VALUE");
  }
}

TEST(RunOptions, an_empty_value_of_a_set_is_one) {
  RunOptions options;
  options.sets = {"impair="};
  const auto overrides = overrides_of(options);
  ASSERT_TRUE(overrides);
  EXPECT_EQ(overrides->front().setting, "impair");
  EXPECT_EQ(overrides->front().value, "");
}

// What --impair accepts is in a table of the library; help is written by hand.
TEST(RunOptions, help_names_every_impairment_and_shows_their_commas) {
  CLI::App app("", "run");
  RunOptions options;
  add_run_options(app, options);
  const std::string help = app.help();
  for (const net::ImpairmentItem& item : net::impairment_items())
    EXPECT_THAT(help, HasSubstr(std::string(item.name) + "=")) << item.name;
  EXPECT_THAT(help, HasSubstr("rate=R[,queue=B]"));
  EXPECT_THAT(help, HasSubstr("local address with GID index N"));
  EXPECT_THAT(help, HasSubstr("the same on all hosts"));
}

}  // namespace
}  // namespace mroce::cli
