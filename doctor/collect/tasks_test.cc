#include "doctor/collect/tasks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

namespace mroce::doctor {
namespace {

Task program(std::vector<std::string> arguments) {
  Task task;
  task.name = arguments.front();
  task.arguments = std::move(arguments);
  return task;
}

double seconds_of(const std::function<void()>& what) {
  const auto begin = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Tasks, a_program_s_output_is_kept_as_it_was_printed) {
  const auto sources = run_tasks({program({"printf", "a: 1\\n\\tb\\n"})}, {});
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].text, "a: 1\n\tb\n");
}

TEST(Tasks, no_shell_looks_at_arguments) {
  const auto sources = run_tasks({program({"echo", "$(id) `id`; id > /tmp/x"})}, {});
  EXPECT_EQ(sources.at(0).text, "$(id) `id`; id > /tmp/x\n");
}

TEST(Tasks, programs_speak_english) {
  EXPECT_EQ(run_tasks({program({"printenv", "LC_ALL"})}, {}).at(0).text, "C\n");
}

TEST(Tasks, what_is_missing_says_why) {
  const auto sources = run_tasks({program({"no-such-program-anywhere"}),
                                  program({"ls", "/no/such/folder"}),
                                  program({"true"}),
                                  {"known", "", "", {}, {}, "not here"}},
                                 {});
  ASSERT_EQ(sources.size(), 4u);
  EXPECT_EQ(sources[0].missing, "no such program");
  EXPECT_NE(sources[1].missing.find("ended with 2: "), std::string::npos) << sources[1].missing;
  EXPECT_NE(sources[1].missing.find("No such file"), std::string::npos) << sources[1].missing;
  EXPECT_EQ(sources[2].missing, "printed nothing");
  EXPECT_EQ(sources[3].missing, "not here");
  for (const auto& source : sources) EXPECT_FALSE(source.text);
}

TEST(Tasks, what_hangs_is_stopped_at_the_limit_and_keeps_what_it_said) {
  std::vector<BundleSource> sources;
  TaskLimits limits;
  limits.seconds = 0.3;
  const double took = seconds_of([&] {
    sources =
        run_tasks({program({"sh", "-c", "echo begun; sleep 1000"}), program({"echo", "other"})}, limits);
  });
  EXPECT_LT(took, 5);
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].text, "begun\n");
  EXPECT_EQ(sources[1].missing, "stopped at the limit of 0.3 s");
  EXPECT_EQ(sources[2].text, "other\n");
}

TEST(Tasks, one_that_leaves_a_child_with_its_pipe_behind_cannot_keep_us) {
  TaskLimits limits;
  limits.seconds = 0.3;
  const double took = seconds_of([&] {
    run_tasks({program({"sh", "-c", "sleep 1000 & echo parent"})}, limits);
  });
  EXPECT_LT(took, 5);
}

TEST(Tasks, endless_output_is_cut) {
  TaskLimits limits;
  limits.bytes = 1000;
  const auto sources = run_tasks({program({"yes"})}, limits);
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].text->size(), 1000u);
  EXPECT_EQ(sources[1].missing, "stopped after 1000 bytes");
}

TEST(Tasks, a_function_is_read_like_a_program_and_says_what_it_missed) {
  Task task;
  task.name = "files";
  task.read = [](TaskOutput& out) {
    out.line("one");
    out.missing("/two", "Permission denied");
    for (int i = 0; i < 5; ++i) out.missing("/more", "gone");
  };
  const auto sources = run_tasks({task}, {});
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].text, "one\n");
  EXPECT_EQ(sources[1].missing, "/two: Permission denied; /more: gone; /more: gone; and 3 more");
}

TEST(Tasks, a_function_that_hangs_is_stopped_too) {
  Task task;
  task.name = "stuck";
  task.read = [](TaskOutput&) { ::pause(); };
  TaskLimits limits;
  limits.seconds = 0.2;
  EXPECT_EQ(run_tasks({task}, limits).at(0).missing, "stopped at the limit of 0.2 s");
}

TEST(Tasks, results_have_the_order_of_the_tasks_however_many_there_are) {
  std::vector<Task> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back(program({"echo", std::to_string(i)}));
  const auto sources = run_tasks(tasks, {});
  ASSERT_EQ(sources.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sources[static_cast<size_t>(i)].text, std::to_string(i) + "\n");
}

}  // namespace
}  // namespace mroce::doctor
