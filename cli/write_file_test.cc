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

TEST(WriteFile, a_link_stays_one_and_what_it_points_to_is_written) {
  const std::string target = testing::TempDir() + "mroce-write-target-" + std::to_string(::getpid());
  const std::string link = target + ".link";
  std::ofstream(target) << "old";
  std::filesystem::create_symlink(target, link);
  EXPECT_TRUE(write_file(link, "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::ifstream file(target);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "new");
  std::filesystem::remove(link);
  std::filesystem::remove(target);
}

}  // namespace
}  // namespace mroce::cli
