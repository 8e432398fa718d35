#include "cli/perftest.h"

#include <gtest/gtest.h>

namespace mroce::cli {
namespace {

constexpr const char* kBandwidth = R"(
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:127:00:00:01
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             24.51              23.87              0.045528
---------------------------------------------------------------------------------------
)";
constexpr const char* kLatency = R"(
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       1000          4.31           92.10        5.02               5.55           2.31            9.80                   33.01
)";

TEST(PerftestOutput, goodput_is_the_average_and_the_rate_stands_behind_it) {
  EXPECT_DOUBLE_EQ(figure_in(kBandwidth, Measures::kGoodput), 23.87);
  EXPECT_DOUBLE_EQ(figure_in(kBandwidth, Measures::kRate), 0.045528);
}

TEST(PerftestOutput, latency_is_the_typical_one) {
  EXPECT_DOUBLE_EQ(figure_in(kLatency, Measures::kLatency), 5.02);
}

TEST(PerftestOutput, no_result_is_zero) {
  EXPECT_EQ(figure_in("", Measures::kGoodput), 0);
  EXPECT_EQ(figure_in("Couldn't connect to 127.0.0.1:18515\n1 2 3\n1 2 3 4 x\n", Measures::kRate), 0);
}

}  // namespace
}  // namespace mroce::cli
