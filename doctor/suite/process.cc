#include "doctor/suite/process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxOutput = 64u << 20;
constexpr auto kGrace = std::chrono::seconds(3);

}  // namespace

// After a fork, before the exec.
void SuiteProcess::become(int failed) {
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output_, STDOUT_FILENO);
  ::dup2(errors_, STDERR_FILENO);
  std::vector<char*> arguments;
  for (std::string& word : words_) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int why = errno;
  [[maybe_unused]] const ssize_t said = ::write(failed, &why, sizeof why);
  ::_exit(127);
}

bool SuiteProcess::start() {
  output_ = ::memfd_create("output", MFD_CLOEXEC);
  errors_ = ::memfd_create("errors", MFD_CLOEXEC);
  int told[2] = {-1, -1};
  if (words_.empty() || output_ < 0 || errors_ < 0 || ::pipe2(told, O_CLOEXEC) != 0) {
    error_ = words_.empty() ? "no command" : std::strerror(errno);
    return false;
  }
  pid_ = ::fork();
  if (pid_ == 0) become(told[1]);
  const int fork_error = errno;
  ::close(told[1]);
  int why = 0;
  if (pid_ < 0) why = fork_error;
  // Closed by the exec: no answer is a good one.
  while (pid_ > 0 && ::read(told[0], &why, sizeof why) < 0 && errno == EINTR) {
  }
  ::close(told[0]);
  if (why == 0) return true;
  error_ = words_.front() + ": " + std::strerror(why);
  return false;
}

std::optional<int> SuiteProcess::ended() {
  int status = 0;
  if (!status_ && pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

void SuiteProcess::stop() {
  if (pid_ > 0 && !ended()) {
    ::kill(pid_, SIGTERM);
    const auto limit = SuiteClock::now() + kGrace;
    constexpr timespec kPause{0, 5'000'000};
    while (!ended() && SuiteClock::now() < limit) ::nanosleep(&kPause, nullptr);
  }
  // The group outlives its leader if a launcher left something behind.
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    if (!status_) {
      ::waitpid(pid_, nullptr, 0);
      status_ = 128 + SIGKILL;
    }
    pid_ = -1;
  }
  for (int* fd : {&output_, &errors_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
}

std::string SuiteProcess::text_of(int fd) {
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) return {};
  std::string text(std::min(kMaxOutput, static_cast<size_t>(status.st_size)), '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t piece = ::pread(fd, text.data() + got, text.size() - got, static_cast<off_t>(got));
    if (piece <= 0) break;
    got += static_cast<size_t>(piece);
  }
  text.resize(got);
  return text;
}

std::string SuiteProcess::last_words() const {
  for (const std::string& text : {errors(), output()}) {
    const auto lines = split(text, '\n');
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
      if (!trim(*line).empty()) return std::string(trim(*line).substr(0, 200));
  }
  return "it said nothing";
}

SuiteSignals::SuiteSignals() {
  sigemptyset(&waited_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&waited_, signal);
  ::sigprocmask(SIG_BLOCK, &waited_, &old_);
}

SuiteSignals::~SuiteSignals() {
  ::sigprocmask(SIG_SETMASK, &old_, nullptr);
}

bool SuiteSignals::pause(std::chrono::milliseconds at_most) {
  const auto count = at_most.count();
  const timespec limit{count / 1000, count % 1000 * 1'000'000};
  const int signal = ::sigtimedwait(&waited_, nullptr, &limit);
  if (signal > 0 && signal != SIGCHLD) received_ = signal;
  return received_ == 0;
}

}  // namespace mroce::doctor
