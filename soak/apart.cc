#include "soak/apart.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>

#include "soak/report.h"
#include "soak/story.h"

namespace mroce::soak {

namespace {

void print_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
}

RunResult run_here(const RunOptions& options, const ApartOptions& how) {
  Story story(print_line, how.packets);
  RunResult result = Run(options, nullptr, how.story ? &story : nullptr).go();
  std::fflush(stdout);
  return result;
}

bool write_all(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) done += static_cast<size_t>(written);
  }
  return true;
}

// Nothing if `stop_fd` became readable before the end.
std::optional<std::string> read_all(int fd, int stop_fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  std::array<pollfd, 2> waiting{{{fd, POLLIN, 0}, {stop_fd, POLLIN, 0}}};
  for (;;) {
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno == EINTR) continue;
    if ((waiting[1].revents & POLLIN) != 0) return std::nullopt;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

[[noreturn]] void be_the_run(const RunOptions& options, const ApartOptions& how, int pipe, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before that
  if (how.quiet) {
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  }
  constexpr rlimit kNoCore{0, 0};
  setrlimit(RLIMIT_CORE, &kNoCore);
  alarm(how.longest_seconds);
  const bool told = write_all(pipe, run_to_json(run_here(options, how)).dump());
  _exit(told ? 0 : 1);
}

RunResult failed_run(std::string text) {
  RunResult result;
  result.violations.push_back({"crash", std::move(text)});
  return result;
}

RunResult outcome_of(int status, const std::string& said) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return failed_run(signal == SIGALRM
                          ? "the run did not end in time: an endless loop"
                          : fmt::format("the run ended by signal {} ({})", signal, strsignal(signal)));
  }
  if (auto result = run_from_json(said)) return *result;
  return failed_run(fmt::format("the run ended with status {} and said nothing", status));
}

// What the end of process `child` says; `said` is what it told, unless it is to be stopped.
void finish(pid_t child, const std::optional<std::string>& said, const ApartOptions& how,
            ApartResult& result) {
  if (!said) kill(child, SIGKILL);
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  result.cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  result.stopped = !said;
  result.nobody_listens = how.story && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE;
  if (!result.stopped && !result.nobody_listens) result.run = outcome_of(status, *said);
}

double cpu_now() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

ApartResult run_apart(const RunOptions& options, const ApartOptions& how) {
  ApartResult result;
  std::array<int, 2> ends{};
  if (how.same_process || pipe(ends.data()) != 0) {
    const double before = cpu_now();
    result.run = run_here(options, how);
    result.cpu_s = cpu_now() - before;
    return result;
  }
  std::fflush(stdout);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    be_the_run(options, how, ends[1], parent);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    result.run = failed_run(fmt::format("cannot start a process: {}", std::strerror(errno)));
    return result;
  }
  const auto said = read_all(ends[0], how.stop_fd);
  close(ends[0]);
  finish(child, said, how, result);
  return result;
}

}  // namespace mroce::soak
