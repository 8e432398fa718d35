#include "soak/seed.h"

#include <gtest/gtest.h>

namespace mroce::soak {
namespace {

TEST(Seed, numbers_are_themselves) {
  EXPECT_EQ(parse_seed("0"), 0u);
  EXPECT_EQ(parse_seed("42"), 42u);
  EXPECT_EQ(parse_seed("0x2a"), 42u);
  EXPECT_EQ(parse_seed("18446744073709551615"), UINT64_MAX);
}

TEST(Seed, a_hash_means_the_same_however_it_is_abbreviated) {
  const auto whole = parse_seed("dd58135f00d2e1c0ffee00112233445566778899");
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(*whole, 0xdd58135u);
  EXPECT_EQ(parse_seed("dd58135"), whole);
  EXPECT_EQ(parse_seed("dd58135f00"), whole);
  EXPECT_EQ(parse_seed("DD58135F00D2"), whole);
}

TEST(Seed, forty_digits_are_a_hash_even_without_letters) {
  EXPECT_EQ(parse_seed("1234567890123456789012345678901234567890"), 0x1234567u);
}

TEST(Seed, an_abbreviation_without_letters_is_a_number_unless_it_is_said_to_be_a_hash) {
  EXPECT_EQ(parse_seed("1234567"), 1234567u);
  EXPECT_EQ(parse_commit("1234567"), 0x1234567u);
  EXPECT_EQ(parse_commit("1234567890"), 0x1234567u);
  EXPECT_EQ(parse_commit("1234567890123456789012345678901234567890"), 0x1234567u);
  EXPECT_EQ(parse_commit("DD58135F00D2"), 0xdd58135u);
}

TEST(Seed, what_cannot_be_a_hash_is_refused) {
  for (const char* text : {"", "123456", "0x1234567", "123456g", "-1234567", " 1234567",
                           "12345678901234567890123456789012345678901"}) {
    const auto seed = parse_commit(text);
    ASSERT_FALSE(seed.has_value()) << text;
    EXPECT_NE(seed.error().find("7 to 40 hexadecimal digits"), std::string::npos);
  }
}

TEST(Seed, anything_else_is_refused_with_a_sentence) {
  for (const char* text : {"", "abc", "-1", "0x", "12 ", "18446744073709551616", "dd58135g",
                           "dd58135f00d2e1c0ffee001122334455667788990"}) {
    const auto seed = parse_seed(text);
    ASSERT_FALSE(seed.has_value()) << text;
    EXPECT_NE(seed.error().find("hash of a commit"), std::string::npos);
  }
}

}  // namespace
}  // namespace mroce::soak
