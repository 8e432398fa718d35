#include "core/rdma/rnr_timer.h"

#include <gtest/gtest.h>

namespace mroce {
namespace {

TEST(RnrTimer, has_the_values_of_the_ibta_table) {
  EXPECT_EQ(rnr_timer(0), micros(655360));
  EXPECT_EQ(rnr_timer(1), micros(10));
  EXPECT_EQ(rnr_timer(2), micros(20));
  EXPECT_EQ(rnr_timer(12), micros(640));
  EXPECT_EQ(rnr_timer(14), micros(1280));
  EXPECT_EQ(rnr_timer(20), micros(10240));
  EXPECT_EQ(rnr_timer(31), micros(491520));
}

TEST(RnrTimer, grows_from_code_1_to_31_and_doubles_every_second_step) {
  for (uint8_t code = 2; code <= 31; ++code) {
    EXPECT_GT(rnr_timer(code), rnr_timer(static_cast<uint8_t>(code - 1))) << int{code};
    if (code < 4) continue;
    EXPECT_EQ(rnr_timer(code), 2 * rnr_timer(static_cast<uint8_t>(code - 2))) << int{code};
  }
  EXPECT_GT(rnr_timer(0), rnr_timer(31));
}

TEST(RnrTimer, looks_at_five_bits_only) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(rnr_timer(static_cast<uint8_t>(code)), rnr_timer(static_cast<uint8_t>(code & 31)));
  }
}

TEST(AckTimeout, is_4096_ns_doubled_and_never_for_0) {
  EXPECT_EQ(ack_timeout(0), std::nullopt);
  EXPECT_EQ(ack_timeout(1), Nanos{8192});
  EXPECT_EQ(ack_timeout(14), Nanos{67'108'864});
  EXPECT_EQ(ack_timeout(31), Nanos{8'796'093'022'208});
}

}  // namespace
}  // namespace mroce
