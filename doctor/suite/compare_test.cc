#include "doctor/suite/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mroce::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kGib = 1024.0 * 1024 * 1024;

SuiteResults results_with(std::vector<double> goodput, std::vector<MovedCounter> counters = {}) {
  SuiteResults out;
  out.started = "2026-01-31T12:00:00Z";
  out.parameters = {{"size", "65536"}};
  out.settings = {{"A", {{"kernel", "6.1"}}}, {"A mlx5_0/1", {{"mtu.active", "4096"}}}};
  TestResult test;
  test.name = "single";
  test.payload_bytes = 10 * kGib;
  test.metrics.push_back({"goodput", "Gbit/s", true, std::move(goodput)});
  test.counters = std::move(counters);
  out.tests.push_back(std::move(test));
  return out;
}

MovedCounter moved(const std::string& name, double delta, bool reset = false) {
  return {"A", "mlx5_0/1", name, name, "packets", delta, reset};
}

Change change_of(std::vector<double> before, std::vector<double> now) {
  return compare(results_with(std::move(before)), results_with(std::move(now))).metrics.at(0).change;
}

TEST(Compare, a_change_within_the_spread_of_both_is_none) {
  EXPECT_EQ(change_of({90, 100, 110}, {80, 85, 95}), Change::kSame);
  EXPECT_EQ(change_of({99, 100, 101}, {84, 85, 86}), Change::kWorse);
  EXPECT_EQ(change_of({99, 100, 101}, {114, 115, 116}), Change::kBetter);
}

TEST(Compare, three_percent_are_noise_even_without_a_spread) {
  EXPECT_EQ(change_of({100, 100, 100}, {98, 98, 98}), Change::kSame);
  EXPECT_EQ(change_of({100, 100, 100}, {96, 96, 96}), Change::kWorse);
}

TEST(Compare, one_repetition_alone_needs_a_large_change) {
  EXPECT_EQ(change_of({100}, {90, 90, 90}), Change::kSame);
  EXPECT_EQ(change_of({100}, {80}), Change::kWorse);
}

TEST(Compare, of_latency_less_is_better) {
  SuiteResults before = results_with({100, 100}), now = results_with({100, 100});
  before.tests[0].metric("latency", "us", false).values = {10, 10};
  now.tests[0].metric("latency", "us", false).values = {20, 20};
  const Comparison comparison = compare(before, now);
  EXPECT_EQ(comparison.metrics.at(1).change, Change::kWorse);
  EXPECT_DOUBLE_EQ(comparison.metrics.at(1).relative, 1.0);
  EXPECT_TRUE(comparison.worse());
}

TEST(Compare, a_counter_that_newly_moves_is_named) {
  const Comparison comparison =
      compare(results_with({100, 100}), results_with({100, 100}, {moved("retransmits", 5)}));
  ASSERT_EQ(comparison.counters.size(), 1u);
  EXPECT_TRUE(comparison.counters[0].is_new);
  EXPECT_DOUBLE_EQ(comparison.counters[0].now_per_gib.value(), 0.5);
}

TEST(Compare, counters_are_compared_by_what_they_count_for_each_gib) {
  SuiteResults before =
      results_with({100, 100}, {moved("tx_packets", 1'000'000), moved("cnp_received", 1000)});
  SuiteResults now =
      results_with({100, 100}, {moved("tx_packets", 4'000'000), moved("cnp_received", 40'000)});
  now.tests[0].payload_bytes *= 4;
  const Comparison comparison = compare(before, now);
  ASSERT_EQ(comparison.counters.size(), 1u);
  EXPECT_EQ(comparison.counters[0].name, "cnp_received");
  EXPECT_FALSE(comparison.counters[0].is_new);
}

TEST(Compare, a_few_more_events_are_chance) {
  EXPECT_THAT(
      compare(results_with({1, 1}, {moved("timeout", 3)}), results_with({1, 1}, {moved("timeout", 8)}))
          .counters,
      IsEmpty());
}

TEST(Compare, a_counter_that_was_reset_is_not_compared) {
  EXPECT_THAT(compare(results_with({1, 1}, {moved("timeout", 0, true)}),
                      results_with({1, 1}, {moved("timeout", 800)}))
                  .counters,
              IsEmpty());
}

TEST(Compare, a_counter_that_no_longer_moves_is_named) {
  const Comparison comparison = compare(results_with({1, 1}, {moved("timeout", 800)}), results_with({1, 1}));
  ASSERT_EQ(comparison.counters.size(), 1u);
  EXPECT_EQ(comparison.counters[0].now, 0);
}

TEST(Compare, settings_and_parameters_that_differ_are_named) {
  const SuiteResults before = results_with({1, 1});
  SuiteResults now = before;
  now.parameters["size"] = "4096";
  now.settings["A mlx5_0/1"]["mtu.active"] = "1024";
  now.settings["A mlx5_0/1"]["firmware"] = "28.1";
  now.settings.erase("A");
  const Comparison comparison = compare(before, now);
  std::vector<std::string> all;
  for (const SettingShift& shift : comparison.settings)
    all.push_back(shift.place + " " + shift.name + " " + shift.before + ">" + shift.now);
  EXPECT_THAT(all, ElementsAre("suite size 65536>4096", "A mlx5_0/1 firmware >28.1",
                               "A mlx5_0/1 mtu.active 4096>1024"));
  EXPECT_THAT(comparison.remarks, ElementsAre("A is in the baseline only"));
}

TEST(Compare, a_test_that_fails_now_is_named) {
  SuiteResults now = results_with({1, 1});
  now.tests[0].failed = "no server";
  EXPECT_THAT(compare(results_with({1, 1}), now).remarks.at(0), HasSubstr("has none now: no server"));
}

TEST(Results, survive_their_file) {
  SuiteResults results = results_with({1.5, 2.5, 3.5}, {moved("timeout", 7), moved("", 0, true)});
  results.tests.emplace_back().name = "incast";
  results.tests.back().skipped = "two hosts \"only\"";
  const auto back = read_suite_results(to_json(results));
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(to_json(*back).substr(0, 200), to_json(results).substr(0, 200));
  ASSERT_EQ(back->tests.size(), 2u);
  EXPECT_EQ(back->tests[0].metrics.at(0).median(), 2.5);
  EXPECT_TRUE(back->tests[0].counters.at(1).reset);
  EXPECT_EQ(back->tests[1].skipped, "two hosts \"only\"");
  EXPECT_EQ(back->settings.at("A").at("kernel"), "6.1");
  EXPECT_THAT(compare(*back, results).settings, IsEmpty());
}

TEST(Results, broken_files_are_refused_with_a_reason) {
  const std::string good = to_json(results_with({1, 2}));
  EXPECT_FALSE(read_suite_results(""));
  EXPECT_FALSE(read_suite_results("[]"));
  EXPECT_FALSE(read_suite_results(good.substr(0, good.size() / 2)));
  std::string other = good;
  other.replace(other.find("suite/1"), 7, "suite/9");
  EXPECT_THAT(read_suite_results(other).error(), HasSubstr("suite/9"));
}

}  // namespace
}  // namespace mroce::doctor
