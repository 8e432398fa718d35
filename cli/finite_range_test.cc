#include "cli/finite_range.h"

#include <gtest/gtest.h>

namespace mroce::cli {
namespace {

std::string said_of(std::string text) {
  return finite_range(0.5, 60)(text);
}

TEST(FiniteRange, numbers_within_it_are_taken) {
  for (const char* good : {"0.5", "1", "59.9", "60", "6e1"}) EXPECT_EQ(said_of(good), "") << good;
}

TEST(FiniteRange, what_is_no_number_within_it_is_refused_with_the_range) {
  for (const char* bad : {"nan", "-nan", "NAN", "inf", "-inf", "0.49", "60.1", "-1", "1e999", "x", "", "1x"})
    EXPECT_NE(said_of(bad).find("is not a number from 0.5 to 60"), std::string::npos) << bad;
}

}  // namespace
}  // namespace mroce::cli
