#include "cli/write_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mroce::cli {
namespace {

TEST(WriteFile, replaces_the_whole_file_and_an_error_is_a_sentence) {
  const std::string name = testing::TempDir() + "/mroce-" + std::to_string(::getpid()) + ".prom";
  ASSERT_TRUE(write_file(name, "one"));
  ASSERT_TRUE(write_file(name, "two"));
  std::ifstream stream(name);
  std::string text;
  stream >> text;
  EXPECT_EQ(text, "two");
  std::filesystem::remove(name);
  const auto refused = write_file("/nowhere/at/all", "x");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().cause, testing::HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace mroce::cli
