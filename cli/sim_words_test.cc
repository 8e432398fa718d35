#include "cli/sim_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mroce::cli {
namespace {

using testing::HasSubstr;

TEST(SimWords, sizes_are_powers_of_1024) {
  EXPECT_EQ(parse_size("1500"), 1500u);
  EXPECT_EQ(parse_size("64K"), 65536u);
  EXPECT_EQ(parse_size("2MiB"), 2u << 20);
  EXPECT_EQ(parse_size("1.5G"), 3u << 29);
  for (const char* bad : {"", "K", "-1", "1Q", "1 K", "nan", "inf", "1e30", "2000000T", "1K2"})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(SimWords, rates_and_times_have_units_of_1000) {
  EXPECT_EQ(parse_rate("400G"), 400'000'000'000u);
  EXPECT_EQ(parse_rate("25Gbps"), 25'000'000'000u);
  EXPECT_EQ(parse_rate("1.6T"), 1'600'000'000'000u);
  EXPECT_FALSE(parse_rate("100T"));
  EXPECT_EQ(parse_time("2.5us"), sim::nanos(2500));
  EXPECT_EQ(parse_time("250ps"), 250);
  EXPECT_EQ(parse_time("1s"), sim::microseconds(1'000'000));
  EXPECT_EQ(parse_time("0"), 0);
  for (const char* bad : {"", "1", "us", "-1us", "1min", "86401s", "1us2"})
    EXPECT_FALSE(parse_time(bad)) << bad;
}

TEST(SimWords, shares_are_percent_or_parts_of_one) {
  EXPECT_DOUBLE_EQ(parse_share("1%").value(), 0.01);
  EXPECT_DOUBLE_EQ(parse_share("0.25").value(), 0.25);
  EXPECT_DOUBLE_EQ(parse_share("100%").value(), 1);
  for (const char* bad : {"", "%", "2", "101%", "-1%", "1%%"}) EXPECT_FALSE(parse_share(bad)) << bad;
}

TEST(NamedList, gives_values_to_those_who_ask_and_leaves_defaults_alone) {
  auto list = NamedList::parse("--load", "incast:senders=8,size=2M").value();
  EXPECT_EQ(list.name(), "incast");
  uint32_t senders = 64, receiver = 3;
  uint64_t size = 1;
  list.count("senders", senders, 1, 63);
  list.count("receiver", receiver, 0, 63);
  list.size("size", size);
  EXPECT_TRUE(list.end());
  EXPECT_EQ(senders, 8u);
  EXPECT_EQ(receiver, 3u);
  EXPECT_EQ(size, 2u << 20);
}

TEST(NamedList, an_unknown_key_is_answered_with_those_that_exist) {
  auto list = NamedList::parse("--load", "single:sice=2M").value();
  uint64_t size = 1;
  list.size("size", size);
  const auto end = list.end();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, kUsage);
  EXPECT_THAT(end.error().cause, HasSubstr("unknown key 'sice'"));
  EXPECT_THAT(end.error().hint, HasSubstr("size=SIZE"));
}

TEST(NamedList, a_refusal_shows_no_control_characters_of_the_name) {
  const auto list = NamedList::parse("--load", "a\x1b[2J\t:b=1").value();
  EXPECT_EQ(list.end().error().cause, "--load 'a?[2J?': unknown key 'b'");
}

TEST(NamedList, what_is_no_pair_or_stands_twice_is_refused) {
  for (const char* bad : {"a:b", "a:=1", "a:b=1,b=2", "a:b=1,c"})
    EXPECT_FALSE(NamedList::parse("--load", bad)) << bad;
  EXPECT_TRUE(NamedList::parse("--load", "a"));
  EXPECT_TRUE(NamedList::parse("--load", "a:"));
}

}  // namespace
}  // namespace mroce::cli
