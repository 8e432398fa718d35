// verbs_check: the verbs library under test, seen through its public C interface only.
//
// Each case runs in two fresh processes, an initiator and a responder, which this program starts from its own
// file and which talk over a socket pair besides verbs. Whatever libibverbs.so.1 the dynamic linker finds is
// tested: ours through LD_LIBRARY_PATH. Impairments come from the environment (MROCE_IMPAIR).
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>

#include "net/say.h"
#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {

std::span<const Case> all_cases() {
  static constexpr std::array kCases{
      Case{"send", case_send},
      Case{"send_imm", case_send_imm},
      Case{"send_inv", case_send_inv},
      Case{"write", case_write},
      Case{"write_imm", case_write_imm},
      Case{"read", case_read},
      Case{"compare_swap", case_compare_swap},
      Case{"fetch_add", case_fetch_add},
      Case{"last_byte_polling", case_last_byte_polling},
      Case{"data_then_flag", case_data_then_flag},
      Case{"send_after_write", case_send_after_write},
      Case{"fenced_send_after_read", case_fenced_send_after_read},
      Case{"mixed", case_mixed},
      Case{"atomics_exactly_once", case_atomics_exactly_once},
      Case{"srq", case_srq},
      Case{"srq_limit", case_srq_limit},
      Case{"receiver_not_ready", case_receiver_not_ready},
      Case{"receiver_never_ready", case_receiver_never_ready},
      Case{"many_qps", case_many_qps},
      Case{"recreate", case_recreate},
      Case{"flush", case_flush},
      Case{"attributes", case_attributes},
      Case{"solicited_events", case_solicited_events},
      Case{"channel_of_many", case_channel_of_many},
      Case{"access_errors", case_access_errors},
      Case{"local_errors", case_local_errors},
      Case{"short_receive", case_short_receive},
      Case{"peer_killed", case_peer_killed, true},
      Case{"peer_exits", case_peer_exits},
      Case{"fork", case_fork},
  };
  return kCases;
}

namespace {

constexpr std::chrono::seconds kCaseLimit{300};
constexpr std::chrono::seconds kGrace{3};  // for the second side, after the first has failed

const Case* find_case(const std::string& name) {
  const auto cases = all_cases();
  const auto found = std::ranges::find_if(cases, [&](const Case& entry) { return name == entry.name; });
  return found == cases.end() ? nullptr : &*found;
}

int run_side(const Case& entry, bool initiator, int fd, uint64_t seed, uint32_t iterations) {
  try {
    Control control(fd);
    Side side{initiator, control, seed, iterations};
    entry.run(side);
  } catch (const Failure& failure) {
    say("{} ({}): {}\n", entry.name, initiator ? "initiator" : "responder", failure.what());
    return 1;
  }
  return failed_destructions() == 0 ? 0 : 1;
}

struct Options {
  uint64_t seed = 0;
  uint32_t iterations = 1;
  std::vector<std::string> names;
  bool list = false;
  std::string side;  // set in the processes that run a case
  int control = -1;
};

pid_t start_side(const Options& options, const Case& entry, const char* side, int fd, int other_fd) {
  const pid_t child = fork();
  if (child != 0) return child;
  close(other_fd);
  const std::string seed = std::to_string(options.seed);
  const std::string iterations = std::to_string(options.iterations);
  const std::string control = std::to_string(fd);
  execl("/proc/self/exe", "verbs_check", "--case", entry.name, "--side", side, "--control", control.c_str(),
        "--seed", seed.c_str(), "--iterations", iterations.c_str(), nullptr);
  _exit(127);
}

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

// Waits for both sides; when one has failed, or time is up, the other is killed. Returns what went wrong, or
// nothing.
std::string wait_for_sides(const Case& entry, std::array<pid_t, 2> sides) {
  std::string trouble;
  Deadline limit(kCaseLimit);
  bool killed = false;
  while (sides[0] != 0 || sides[1] != 0) {
    for (size_t i = 0; i < sides.size(); ++i) {
      int status = 0;
      if (sides[i] == 0 || waitpid(sides[i], &status, WNOHANG) != sides[i]) continue;
      sides[i] = 0;
      const bool expected_death =
          i == 1 && entry.responder_dies && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (status == 0 || expected_death || killed) continue;
      if (trouble.empty()) {
        trouble = fmt::format("{}: {}", i == 0 ? "initiator" : "responder", describe(status));
        limit = Deadline(kGrace);
      }
    }
    if (limit.passed() && !killed) {
      if (trouble.empty()) trouble = "still running after 300 s";
      for (const pid_t side : sides) {
        if (side != 0) kill(side, SIGKILL);
      }
      killed = true;
    }
    usleep(1000);
  }
  return trouble;
}

bool run_case(const Options& options, const Case& entry) {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()) != 0) {
    std::perror("socketpair");
    return false;
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::array sides{start_side(options, entry, "initiator", fds[0], fds[1]),
                         start_side(options, entry, "responder", fds[1], fds[0])};
  close(fds[0]);
  close(fds[1]);
  const std::string trouble = wait_for_sides(entry, sides);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("{} {:<24} {:>7.2f} s{}{}\n", trouble.empty() ? "ok  " : "FAIL", entry.name, took.count(),
             trouble.empty() ? "" : "  ", trouble);
  std::fflush(stdout);
  return trouble.empty();
}

int run_all(const Options& options) {
  fmt::print("seed {}, {} iteration{}\n", options.seed, options.iterations,
             options.iterations == 1 ? "" : "s");
  std::fflush(stdout);
  uint32_t failed = 0;
  for (const Case& entry : all_cases()) {
    const bool wanted =
        options.names.empty() || std::ranges::find(options.names, entry.name) != options.names.end();
    if (wanted && !run_case(options, entry)) ++failed;
  }
  if (failed != 0) fmt::print("{} failed; --seed {} draws the same again\n", failed, options.seed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mroce::check

int main(int argc, char** argv) {
  using namespace mroce::check;
  Options options;
  CLI::App app{"Tests the verbs library that the dynamic linker finds: two processes for each case."};
  app.add_option("--seed", options.seed, "draws sizes, contents and order; printed when it is not given");
  app.add_option("--iterations", options.iterations, "how often each case repeats its work")
      ->check(CLI::Range(1, 1000));
  app.add_option("--case", options.names, "run only this case; may be repeated");
  app.add_flag("--list", options.list, "print the names of the cases");
  app.add_option("--side", options.side)->group("");
  app.add_option("--control", options.control)->group("");
  CLI11_PARSE(app, argc, argv);
  if (app.count("--seed") == 0) options.seed = std::random_device{}();
  if (options.list) {
    for (const Case& entry : all_cases()) fmt::print("{}\n", entry.name);
    return 0;
  }
  for (const std::string& name : options.names) {
    if (find_case(name) == nullptr) {
      mroce::say("there is no case \"{}\"; --list names them\n", name);
      return 2;
    }
  }
  if (!options.side.empty()) {
    return run_side(*find_case(options.names.at(0)), options.side == "initiator", options.control,
                    options.seed, options.iterations);
  }
  return run_all(options);
}
