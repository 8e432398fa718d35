#include "cli/recovery.h"

#include <gtest/gtest.h>

#include <functional>

namespace mroce::cli {
namespace {

constexpr double kInterval = 0.02;

// Three seconds of samples; path 1 sends 10 packets in each interval of the given states.
std::vector<Sample> samples_of(const std::function<double(double)>& gbps_at,
                               const std::function<bool(double)>& sends) {
  std::vector<Sample> samples;
  uint64_t sent = 0;
  for (int i = 1; i <= 150; ++i) {
    const double at = i * kInterval;
    if (sends(at)) sent += 10;
    samples.push_back({at, gbps_at(at), {1, sent}, {"ACTIVE", sends(at) ? "ACTIVE" : "FAILED"}});
  }
  return samples;
}

bool sends_when_up(double at) {
  return at <= 1.0 || at > 2.1;
}

TEST(Recovery, a_dip_ends_when_goodput_is_back_for_three_intervals) {
  const auto samples =
      samples_of([](double at) { return at > 1.0 && at < 1.19 ? 2.0 : 10.0; }, sends_when_up);
  const Recovery recovery = judge_recovery(samples, {}, kInterval);
  EXPECT_DOUBLE_EQ(recovery.before_gbps, 10);
  EXPECT_DOUBLE_EQ(recovery.worst_gbps, 2);
  ASSERT_TRUE(recovery.recovered_s);
  EXPECT_NEAR(*recovery.recovered_s, 0.2, 0.001);
}

TEST(Recovery, one_good_interval_among_bad_ones_is_no_recovery) {
  const auto samples = samples_of(
      [](double at) {
        return at > 1.0 && at <= 2.0 && static_cast<int>(at * 50 + 0.5) % 3 != 0 ? 2.0 : 10.0;
      },
      sends_when_up);
  EXPECT_FALSE(judge_recovery(samples, {}, kInterval).recovered_s);
}

TEST(Recovery, what_comes_after_the_return_does_not_count_as_recovery) {
  const auto samples =
      samples_of([](double at) { return at > 1.0 && at <= 2.0 ? 2.0 : 10.0; }, sends_when_up);
  EXPECT_FALSE(judge_recovery(samples, {}, kInterval).recovered_s);
}

TEST(Recovery, the_path_carries_again_with_its_first_new_data_packet) {
  const auto samples = samples_of([](double) { return 10.0; }, sends_when_up);
  const Recovery recovery = judge_recovery(samples, {}, kInterval);
  ASSERT_TRUE(recovery.carries_again_s);
  EXPECT_NEAR(*recovery.carries_again_s, 0.12, 0.011);
}

TEST(Recovery, a_path_that_stays_dark_never_carries_again) {
  const auto samples = samples_of([](double) { return 10.0; }, [](double at) { return at <= 1.0; });
  EXPECT_FALSE(judge_recovery(samples, {}, kInterval).carries_again_s);
}

TEST(Recovery, no_samples_are_no_recovery) {
  const Recovery recovery = judge_recovery({}, {}, kInterval);
  EXPECT_EQ(recovery.before_gbps, 0);
  EXPECT_FALSE(recovery.recovered_s);
  EXPECT_FALSE(recovery.carries_again_s);
}

}  // namespace
}  // namespace mroce::cli
