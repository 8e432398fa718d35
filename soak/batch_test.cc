#include "soak/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace mroce::soak {
namespace {

using testing::HasSubstr;

BatchPlan small_plan(uint64_t runs) {
  BatchPlan plan;
  plan.runs = runs;
  plan.settings = {"operations=10", "bytes=100000", "links=2"};
  plan.elapsed = [] { return 0.0; };
  return plan;
}

TEST(Batch, runs_are_counted_added_up_and_repeated) {
  const auto report = run_batch(small_plan(21));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->runs, 21u);
  EXPECT_EQ(report->repeated, 2u);
  EXPECT_EQ(report->failed_runs, 0u) << report_to_json(*report).dump(2);
  EXPECT_GT(report->operations, 21u);
  EXPECT_GT(report->packets, 1000u);
  EXPECT_GT(report->simulated_s, 1);
  const auto json = report_to_json(*report);
  for (const char* key :
       {"seed", "runs", "operations", "packets", "simulated_s", "faults", "violations", "final_draw"})
    EXPECT_TRUE(json.contains(key)) << key;
}

TEST(Batch, the_same_plan_gives_the_same_report) {
  const auto first = run_batch(small_plan(3));
  const auto second = run_batch(small_plan(3));
  EXPECT_EQ(first->final_draw, second->final_draw);
  EXPECT_EQ(first->packet_hash, second->packet_hash);
  EXPECT_EQ(first->faults.counts, second->faults.counts);
}

TEST(Batch, time_ends_it) {
  BatchPlan plan = small_plan(0);
  plan.seconds = 3;
  double now = 0;
  plan.elapsed = [&] { return now += 1; };
  EXPECT_EQ(run_batch(plan)->runs, 3u);
}

TEST(Batch, a_wrong_setting_is_an_error) {
  BatchPlan plan = small_plan(1);
  plan.settings.push_back("weather=bad");
  const auto report = run_batch(plan);
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error(), HasSubstr("weather"));
}

TEST(Batch, the_same_option_twice_is_an_error) {
  BatchPlan plan = small_plan(1);
  plan.settings.push_back("links=3");
  const auto report = run_batch(plan);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error(), "links is set twice");
}

// Both ends of a pipe; what was written can be read.
struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends.data()), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  void ask() { EXPECT_EQ(write(ends[1], "x", 1), 1); }
  std::array<int, 2> ends{};
};

TEST(Batch, a_stop_ends_it_with_what_it_has) {
  Pipe stop;
  BatchPlan plan = small_plan(0);
  plan.how.stop_fd = stop.ends[0];
  plan.before_run = [&](const SoakReport& report, uint64_t) {
    if (report.runs == 2) stop.ask();
  };
  const auto report = run_batch(plan);
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->stopped);
  EXPECT_EQ(report->runs, 2u);
  EXPECT_EQ(report->failed_runs, 0u);
  EXPECT_GT(report->operations, 0u);
  EXPECT_EQ(report_to_json(*report)["stopped"], true);
}

TEST(Batch, a_stop_while_a_violation_is_made_smaller_keeps_the_violation) {
  Pipe stop;
  BatchPlan plan = small_plan(1);
  plan.settings = {"endpoints=4", "operations=10", "links=2", "rate_bps=1000", "queue_bytes=20000"};
  plan.how.stop_fd = stop.ends[0];
  uint64_t tries = 0;
  plan.while_minimising = [&](uint64_t) {
    if (++tries == 2) stop.ask();
  };
  const auto report = run_batch(plan);
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->stopped);
  EXPECT_EQ(tries, 2u);
  EXPECT_EQ(report->failed_runs, 1u);
  EXPECT_TRUE(report->failed.has_value());
}

// A network on which nothing can end in time.
TEST(Batch, a_violation_is_told_and_made_smaller) {
  BatchPlan plan = small_plan(1);
  plan.settings = {"endpoints=4", "operations=10", "links=2", "rate_bps=1000", "queue_bytes=20000"};
  double now = 0;
  plan.elapsed = [&] { return now += 10; };
  uint64_t failures = 0;
  plan.after_failure = [&](const RunOptions&, const RunResult& run) {
    failures += run.violations.empty() ? 0 : 1;
  };
  const auto report = run_batch(plan);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(failures, 1u);
  EXPECT_EQ(report->failed_runs, 1u);
  ASSERT_TRUE(report->smallest.has_value());
  EXPECT_EQ(report->smallest->endpoints, 2u);
  EXPECT_THAT(command_of(*report->smallest), HasSubstr("--set rate_bps=1000"));
}

TEST(Apart, a_run_that_does_not_end_is_a_violation) {
  RunOptions options = draw_soak_options(1);
  options.links = 64;
  options.operations = 10000;
  options.bytes = 1 << 30;
  ApartOptions how;
  how.longest_seconds = 1;
  const ApartResult result = run_apart(options, how);
  ASSERT_EQ(result.run.violations.size(), 1u);
  EXPECT_EQ(result.run.violations[0].kind, "crash");
  EXPECT_THAT(result.run.violations[0].text, HasSubstr("did not end in time"));
}

TEST(Apart, a_stop_leaves_no_process) {
  Pipe stop;
  stop.ask();
  RunOptions options = draw_soak_options(1);
  options.links = 64;
  options.operations = 10000;
  options.bytes = 1 << 30;
  ApartOptions how;
  how.stop_fd = stop.ends[0];
  EXPECT_TRUE(run_apart(options, how).stopped);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// A process of its own has this one's standard output, which is a pipe without a reader here.
TEST(Apart, nobody_who_reads_a_story_is_no_violation) {
  Pipe nobody;
  close(nobody.ends[0]);
  const int before = dup(STDOUT_FILENO);
  std::fflush(stdout);
  dup2(nobody.ends[1], STDOUT_FILENO);
  ApartOptions how;
  how.story = true;
  how.packets = true;
  const ApartResult result = run_apart(draw_soak_options(3), how);
  dup2(before, STDOUT_FILENO);
  close(before);
  nobody.ends[0] = -1;
  EXPECT_TRUE(result.nobody_listens);
  EXPECT_TRUE(result.run.violations.empty());
}

TEST(Apart, a_run_is_the_same_in_a_process_of_its_own) {
  RunOptions options = draw_soak_options(3);
  options.operations = 20;
  ApartOptions here;
  here.same_process = true;
  const RunResult a = run_apart(options, here).run;
  const RunResult b = run_apart(options, {}).run;
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.final_draw, b.final_draw);
  EXPECT_EQ(a.faults.counts, b.faults.counts);
  EXPECT_EQ(a.virtual_time, b.virtual_time);
}

}  // namespace
}  // namespace mroce::soak
