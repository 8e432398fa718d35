#include "cli/launch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

namespace mroce::cli {
namespace {

// Starts `sh -c script`; its output goes to the pipe that read_all() empties.
class Shell {
 public:
  explicit Shell(const std::string& script) {
    EXPECT_EQ(::pipe(pipe_.data()), 0);
    plan.arguments = {"sh", "-c", script};
    plan.output = pipe_[1];
  }
  ~Shell() {
    ::close(pipe_[0]);
    if (pipe_[1] >= 0) ::close(pipe_[1]);
  }
  pid_t start() {
    const auto started = start_program(plan);
    EXPECT_TRUE(started);
    ::close(pipe_[1]);
    pipe_[1] = -1;
    return started ? started->pid : -1;
  }
  std::string read_some() {
    std::array<char, 1000> text{};
    const ssize_t length = ::read(pipe_[0], text.data(), text.size());
    return {text.data(), static_cast<size_t>(std::max<ssize_t>(length, 0))};
  }

  LaunchPlan plan;

 private:
  std::array<int, 2> pipe_{-1, -1};
};

TEST(Launch, the_exit_status_of_the_program_is_passed_on) {
  SignalRelay relay;
  Shell shell("exit 7");
  EXPECT_EQ(relay.wait_for(shell.start()), 7);
}

TEST(Launch, death_by_signal_n_is_128_plus_n) {
  SignalRelay relay;
  Shell shell("kill -9 $$");
  EXPECT_EQ(relay.wait_for(shell.start()), 128 + SIGKILL);
}

TEST(Launch, a_signal_that_is_sent_to_us_reaches_the_program) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    SignalRelay relay;
    Shell shell(
        "for s in 1 2 3 10 12 15; do trap \"exit $((40 + s))\" $s; done; echo ready; while :; do sleep 0.01; "
        "done");
    const pid_t pid = shell.start();
    ASSERT_EQ(shell.read_some(), "ready\n");
    ASSERT_EQ(::kill(::getpid(), signal), 0);
    EXPECT_EQ(relay.wait_for(pid), 40 + signal);
  }
}

TEST(Launch, the_program_does_not_inherit_blocked_signals) {
  SignalRelay relay;
  Shell shell("awk '/SigBlk/ { print $2 }' /proc/self/status");
  const pid_t pid = shell.start();
  EXPECT_EQ(shell.read_some(), "0000000000000000\n");
  EXPECT_EQ(relay.wait_for(pid), 0);
}

TEST(Launch, environment_is_set_in_the_program_only) {
  SignalRelay relay;
  Shell shell("echo $MROCE_LAUNCH_TEST");
  shell.plan.environment.emplace_back("MROCE_LAUNCH_TEST", "here");
  const pid_t pid = shell.start();
  EXPECT_EQ(shell.read_some(), "here\n");
  EXPECT_EQ(relay.wait_for(pid), 0);
  EXPECT_EQ(std::getenv("MROCE_LAUNCH_TEST"), nullptr);
}

TEST(Launch, a_missing_program_is_127_and_one_without_permission_126) {
  LaunchPlan plan;
  plan.arguments = {"/nonexistent/program"};
  auto started = start_program(plan);
  ASSERT_FALSE(started);
  EXPECT_EQ(static_cast<int>(started.error().code), 127);
  plan.arguments = {"/etc/passwd"};
  started = start_program(plan);
  ASSERT_FALSE(started);
  EXPECT_EQ(static_cast<int>(started.error().code), 126);
}

TEST(Launch, a_library_path_that_is_set_already_comes_second) {
  ::setenv("LD_LIBRARY_PATH", "/somewhere", 1);
  EXPECT_EQ(library_path_with("/ours"), "/ours:/somewhere");
  ::unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(library_path_with("/ours"), "/ours");
}

TEST(Launch, a_folder_that_ld_so_would_take_for_two_is_refused) {
  EXPECT_TRUE(nameable("/opt/mroce/lib"));
  for (const char* folder : {"/opt/v1:2/lib", "/opt/a;b", "/opt/$LIB"}) {
    const auto named = nameable(folder);
    ASSERT_FALSE(named) << folder;
    EXPECT_EQ(named.error().code, kEnvironment);
    EXPECT_NE(named.error().cause.find(folder), std::string::npos);
  }
}

}  // namespace
}  // namespace mroce::cli
