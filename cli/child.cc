#include "cli/child.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>

namespace mroce::cli {
namespace {

constexpr timespec kPause{0, 2'000'000};

}  // namespace

Child::Child(LaunchPlan plan) : plan_(std::move(plan)), output_(::memfd_create("output", MFD_CLOEXEC)) {}

Child::~Child() {
  if (pid_ <= 0 || status_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Outcome<void> Child::start() {
  plan_.output = output_.get();
  const auto started = start_program(plan_);
  if (!started)
    return failure(kEnvironment, started.error().cause,
                   "its package is missing; tools/packages.txt lists all");
  pid_ = started->pid;
  return {};
}

std::optional<int> Child::ended() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return status_;
}

std::string Child::output() const {
  std::string text(static_cast<size_t>(std::max<off_t>(::lseek(output_.get(), 0, SEEK_END), 0)), '\0');
  const ssize_t length = ::pread(output_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
  return text;
}

void pause_briefly() {
  ::nanosleep(&kPause, nullptr);
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n\r");
  if (end == std::string::npos) return "it said nothing";
  const size_t newline = text.find_last_of('\n', end);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return text.substr(begin, end - begin + 1);
}

Outcome<void> wait_for_end(Child& child, const std::string& name, SteadyClock::time_point limit) {
  std::optional<int> status;
  while (!(status = child.ended())) {
    if (SteadyClock::now() > limit) return failure(kFindings, name + " did not end in time", "");
    pause_briefly();
  }
  if (*status != 0) {
    return failure(kFindings, fmt::format("{} ended with {}: {}", name, *status, last_line(child.output())),
                   "");
  }
  return {};
}

}  // namespace mroce::cli
