#include "cli/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/base/text.h"

namespace mroce::cli {
namespace {

constexpr std::array kRelayed{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

sigset_t relayed_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kRelayed) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  return set;
}

// How the child tells its parent what went wrong before exec; nothing is sent when exec succeeds.
enum class Stage : int { kView, kExec, kSetup };
struct ChildReport {
  Stage stage = Stage::kSetup;
  int error = 0;
  std::array<char, 500> text{};
};

[[noreturn]] void give_up(int report_fd, Stage stage, int error, const std::string& text) {
  ChildReport report;
  report.stage = stage;
  report.error = error;
  std::strncpy(report.text.data(), text.c_str(), report.text.size() - 1);
  [[maybe_unused]] const ssize_t sent = ::write(report_fd, &report, sizeof report);
  ::_exit(kInternal);
}

void restore_signals() {
  const sigset_t set = relayed_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

[[noreturn]] void become_program(const LaunchPlan& plan, pid_t parent, int report_fd) {
  if (plan.view) {
    if (const auto done = enter_view(*plan.view); !done) give_up(report_fd, Stage::kView, 0, done.error());
  }
  // After the namespaces, because a change of credentials resets it. The program must not outlive us: we may
  // be killed by a signal that cannot be passed on.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) give_up(report_fd, Stage::kSetup, ESRCH, "the parent has gone");
  for (const auto& [name, value] : plan.environment) ::setenv(name.c_str(), value.c_str(), 1);
  const int error_output = plan.error_output >= 0 ? plan.error_output : plan.output;
  if ((plan.output >= 0 && ::dup2(plan.output, STDOUT_FILENO) < 0) ||
      (error_output >= 0 && ::dup2(error_output, STDERR_FILENO) < 0)) {
    give_up(report_fd, Stage::kSetup, errno, "cannot redirect the output");
  }
  if (plan.cpu >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<size_t>(plan.cpu), &cpus);
    if (::sched_setaffinity(0, sizeof cpus, &cpus) != 0)
      give_up(report_fd, Stage::kSetup, errno, "cannot pin");
  }
  std::vector<char*> argv;
  for (const auto& argument : plan.arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  restore_signals();
  ::execvp(argv[0], argv.data());
  give_up(report_fd, Stage::kExec, errno, std::strerror(errno));
}

// One attempt: the child's pid, or what stopped it.
tl::expected<pid_t, ChildReport> try_start(const LaunchPlan& plan) {
  ChildReport report;
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    report.error = errno;
    return tl::unexpected<ChildReport>(report);
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become_program(plan, parent, pipe[1]);
  const int fork_error = errno;
  ::close(pipe[1]);
  ssize_t got = 0;
  if (child > 0) {
    do {
      got = ::read(pipe[0], &report, sizeof report);
    } while (got < 0 && errno == EINTR);
  }
  ::close(pipe[0]);
  if (child > 0 && got == 0) return child;
  if (child > 0) ::waitpid(child, nullptr, 0);
  if (child < 0) report.error = fork_error;
  return tl::unexpected<ChildReport>(report);
}

std::filesystem::path own_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

Outcome<std::filesystem::path> library_folder() {
  const std::filesystem::path here = own_folder();
  std::error_code error;
  // Beside a build's libraries may lie nobody else's; in /usr/lib those of the distribution do.
  const bool in_build_tree = std::filesystem::exists(here / "../CMakeCache.txt", error);
  const std::filesystem::path folder =
      (here / (in_build_tree ? "../lib" : "../lib/mroce")).lexically_normal();
  if (auto named = nameable(folder); !named) return tl::unexpected(named.error());
  if (std::filesystem::exists(folder / "libibverbs.so.1", error)) return folder;
  return failure(kEnvironment, fmt::format("there is no libibverbs.so.1 of mroce in {}", folder.string()),
                 in_build_tree ? "build the target mroce_verbs" : "install all of mroce");
}

// ld.so has no way to quote what separates the folders of LD_LIBRARY_PATH; "$" begins a token.
Outcome<void> nameable(const std::filesystem::path& folder) {
  const std::string text = folder.string();
  const size_t at = text.find_first_of(":;$");
  if (at == std::string::npos) return {};
  return failure(kEnvironment,
                 fmt::format("mroce lies in {}: programs cannot be told of a folder with '{}' in its name "
                             "(LD_LIBRARY_PATH)",
                             printable(text), text[at]),
                 "move it to another folder");
}

std::string library_path_with(const std::filesystem::path& folder) {
  const char* before = std::getenv("LD_LIBRARY_PATH");
  if (before == nullptr || *before == '\0') return folder.string();
  return folder.string() + ":" + before;
}

Outcome<Started> start_program(const LaunchPlan& plan) {
  Started started;
  auto pid = try_start(plan);
  if (!pid && pid.error().stage == Stage::kView) {
    started.view_refused = pid.error().text.data();
    LaunchPlan without = plan;
    without.view.reset();
    pid = try_start(without);
  }
  if (pid) {
    started.pid = *pid;
    return started;
  }
  const ChildReport& report = pid.error();
  if (report.stage != Stage::kExec) {
    return failure(kInternal,
                   fmt::format("cannot start {}: {} {}", plan.arguments.front(), report.text.data(),
                               std::strerror(report.error)),
                   "");
  }
  const bool missing = report.error == ENOENT;
  return failure(static_cast<ExitCode>(missing ? 127 : 126),
                 fmt::format("cannot run {}: {}", plan.arguments.front(), std::strerror(report.error)),
                 missing ? "check the name and PATH" : "check its permissions");
}

SignalRelay::SignalRelay() {
  ::signal(SIGCHLD, SIG_DFL);  // ignored, as some callers leave it, the exit status would be lost
  const sigset_t set = relayed_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

SignalRelay::~SignalRelay() {
  restore_signals();
}

int SignalRelay::wait_for(pid_t pid) {
  const sigset_t set = relayed_signals();
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (ended < 0 && errno != EINTR) return kInternal;
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&set, &info);
    // A positive code means the kernel: a key on the terminal. The program is in the same foreground group
    // and has got it already.
    if (signal > 0 && signal != SIGCHLD && info.si_code <= 0) ::kill(pid, signal);
  }
}

}  // namespace mroce::cli
