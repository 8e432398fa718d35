#include "cli/process_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace mroce::cli {
namespace {

using nlohmann::json;

TEST(ProcessPair, both_roles_run_in_processes_of_their_own_and_hand_back_a_value) {
  const auto result = run_pair([](Channel&) -> json { return ::getpid(); },
                               [](Channel&) -> json { return ::getpid(); }, std::chrono::seconds(20));
  ASSERT_TRUE(result) << result.error().cause;
  EXPECT_NE(result->first, result->second);
  EXPECT_NE(result->first, json(::getpid()));
}

TEST(ProcessPair, the_channel_carries_values_in_both_directions_and_in_order) {
  const auto sender = [](Channel& other) -> json {
    for (int i = 0; i < 1000; ++i) other.send({{"number", i}, {"text", "line\nbreak"}});
    return other.receive();
  };
  const auto receiver = [](Channel& other) -> json {
    int sum = 0;
    for (int i = 0; i < 1000; ++i) {
      const json value = other.receive();
      if (value.at("number") != i || value.at("text") != "line\nbreak") throw RoleFailed("wrong value");
      sum += i;
    }
    other.send(sum);
    return sum;
  };
  const auto result = run_pair(sender, receiver, std::chrono::seconds(20));
  ASSERT_TRUE(result) << result.error().cause;
  EXPECT_EQ(result->first, 499500);
}

TEST(ProcessPair, a_role_that_fails_is_an_error_with_its_sentence) {
  const auto result =
      run_pair([](Channel&) -> json { throw RoleFailed("no device"); },
               [](Channel& other) -> json { return other.receive(); }, std::chrono::seconds(20));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().cause, testing::HasSubstr("no device"));
}

TEST(ProcessPair, a_role_whose_partner_has_gone_does_not_wait_for_it) {
  const auto result =
      run_pair([](Channel&) -> json { return 1; }, [](Channel& other) -> json { return other.receive(); },
               std::chrono::seconds(20));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().cause, testing::HasSubstr("gone"));
}

TEST(ProcessPair, a_role_that_dies_is_an_error) {
  const auto result = run_pair([](Channel&) -> json { ::_exit(3); }, [](Channel&) -> json { return 1; },
                               std::chrono::seconds(20));
  ASSERT_FALSE(result);
}

TEST(ProcessPair, a_role_that_hangs_is_killed_at_the_limit) {
  const auto hang = [](Channel&) -> json {
    while (true) ::pause();
  };
  const auto result = run_pair(hang, hang, std::chrono::seconds(1));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().cause, testing::HasSubstr("more than 1 s"));
}

}  // namespace
}  // namespace mroce::cli
