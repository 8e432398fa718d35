#include "net/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace mroce::net {
namespace {

using ::testing::HasSubstr;

class KeyFile : public ::testing::Test {
 protected:
  void SetUp() override { path_ = ::testing::TempDir() + "mroce-key-" + std::to_string(getpid()); }
  void TearDown() override { unlink(path_.c_str()); }
  void write(const std::string& content, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << content;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string path_;
};

TEST_F(KeyFile, holds_32_bytes_as_they_are) {
  std::string raw(32, '\0');
  for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<char>(7 * i);
  write(raw, 0400);
  const auto key = read_key_file(path_);
  ASSERT_TRUE(key) << key.error();
  EXPECT_EQ((*key)[31], 7 * 31);
}

TEST_F(KeyFile, holds_64_digits_with_white_space_around_them) {
  std::string hex;
  for (int i = 0; i < 16; ++i) hex += "a5F0";
  write("  " + hex + "\n");
  const auto key = read_key_file(path_);
  ASSERT_TRUE(key) << key.error();
  EXPECT_EQ((*key)[0], 0xa5);
  EXPECT_EQ((*key)[31], 0xf0);
}

TEST_F(KeyFile, that_others_can_read_or_change_is_refused_with_what_to_type) {
  for (const mode_t mode : {0640u, 0604u, 0620u, 0602u}) {
    write(std::string(32, 'k'), mode);
    const auto key = read_key_file(path_);
    ASSERT_FALSE(key) << mode;
    EXPECT_THAT(key.error(), HasSubstr("chmod 600 " + path_));
  }
}

TEST_F(KeyFile, of_another_length_or_with_other_characters_is_refused) {
  for (const std::string& content : {std::string(), std::string(31, 'k'), std::string(33, 'k'),
                                     std::string(63, 'a'), std::string(64, 'g'), std::string(1000, 'a')}) {
    write(content);
    const auto key = read_key_file(path_);
    ASSERT_FALSE(key) << content.size();
    EXPECT_THAT(key.error(), HasSubstr("neither 32 bytes nor 64 hexadecimal digits"));
  }
}

TEST_F(KeyFile, that_is_not_there_or_no_file_is_refused) {
  EXPECT_THAT(read_key_file(path_).error(), HasSubstr("No such file"));
  EXPECT_THAT(read_key_file("/").error(), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace mroce::net
