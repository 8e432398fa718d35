#include "sim/words.h"

#include <gtest/gtest.h>

namespace mroce::sim {
namespace {

TEST(Words, whole_numbers_are_all_digits_of_at_most_64_bits) {
  EXPECT_EQ(parse_whole("0"), 0U);
  EXPECT_EQ(parse_whole("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "18446744073709551616", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "one"})
    EXPECT_FALSE(parse_whole(bad)) << bad;
}

TEST(Words, decimal_numbers_are_finite_and_not_negative) {
  EXPECT_EQ(parse_decimal("0.5"), 0.5);
  EXPECT_EQ(parse_decimal("1e3"), 1000);
  for (const char* bad : {"", "-1", "-0", "+1", "nan", "inf", "1e999", "0x10", "1,5", "1.5s", "."})
    EXPECT_FALSE(parse_decimal(bad)) << bad;
}

TEST(Words, a_unit_stands_right_behind_the_number) {
  constexpr Unit kUnits[] = {{"ns", 1}, {"s", 1e9}, {"", 1000}};
  EXPECT_EQ(parse_scaled("2.5s", kUnits), 2.5e9);
  EXPECT_EQ(parse_scaled("3ns", kUnits), 3);
  EXPECT_EQ(parse_scaled("3", kUnits), 3000);
  for (const char* bad : {"", "s", "3 s", "3m", "-3s", "infs", "3sns"})
    EXPECT_FALSE(parse_scaled(bad, kUnits)) << bad;
}

TEST(Words, quotes_are_short_and_printable) {
  EXPECT_EQ(quoted("leaf 2"), "'leaf 2'");
  EXPECT_EQ(quoted("a\x1b[1m\n"), "'a?[1m?'");
  EXPECT_EQ(quoted("\xff"), "'?'");
  const std::string forty(40, 'x');
  EXPECT_EQ(quoted(std::string_view(forty)), "'" + forty + "'");
  EXPECT_EQ(quoted(std::string_view(forty + "y")), "'" + forty + "...'");
}

TEST(Words, an_option_keeps_its_value_when_the_word_is_refused) {
  uint8_t small = 7;
  EXPECT_FALSE(set_whole("256", 0, 1000, small));
  EXPECT_FALSE(set_whole("9", 0, 8, small));
  EXPECT_FALSE(set_whole("1", 2, 8, small));
  EXPECT_FALSE(set_whole("x", 0, 8, small));
  EXPECT_EQ(small, 7);
  EXPECT_TRUE(set_whole("8", 0, 8, small));
  EXPECT_EQ(small, 8);
  bool flag = true;
  EXPECT_FALSE(set_flag("on", flag));
  EXPECT_TRUE(flag);
  EXPECT_TRUE(set_flag("0", flag));
  EXPECT_FALSE(flag);
}

}  // namespace
}  // namespace mroce::sim
