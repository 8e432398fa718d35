#include "doctor/collect/tasks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxComplaint = 4096;
constexpr size_t kMaxNamedMissing = 3;
// Between a function's text and what it misses. No file that we read holds it.
constexpr char kMissingMark = '\0';

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the reader has gone: nobody is left to be told
    text.remove_prefix(static_cast<size_t>(written));
  }
}

struct Pipe {
  int in = -1, out = -1;
};

bool make_pipe(Pipe& pipe) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return false;
  pipe = {fds[0], fds[1]};
  return true;
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

}  // namespace

void TaskOutput::line(std::string_view text) {
  buffer_ += text;
  buffer_ += '\n';
  if (buffer_.size() > (32u << 10)) flush();
}

void TaskOutput::missing(std::string_view what, std::string_view reason) {
  ++missing_count_;
  if (missing_count_ <= kMaxNamedMissing)
    missing_ += fmt::format("{}{}{}", missing_.empty() ? "" : "; ",
                            what.empty() ? "" : std::string(what) + ": ", reason);
}

void TaskOutput::flush() {
  write_all(fd_, buffer_);
  buffer_.clear();
}

// What happens in the process of a task.
struct TaskChild {
  [[noreturn]] static void execute(const Task& task) {
    std::vector<char*> argv;
    for (const std::string& argument : task.arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::setenv("LC_ALL", "C", 1);
    ::unsetenv("LANGUAGE");
    const std::string program = find_program(task.arguments.front());
    ::execv(program.c_str(), argv.data());
    write_all(STDERR_FILENO, fmt::format("cannot be executed: {}\n", std::strerror(errno)));
    ::_exit(127);
  }

  [[noreturn]] static void read(const Task& task) {
    {
      TaskOutput output(STDOUT_FILENO);
      task.read(output);
      output.flush();
      if (output.missing_count_ > 0) {
        const size_t more = output.missing_count_ - std::min(output.missing_count_, kMaxNamedMissing);
        output.buffer_ += kMissingMark;
        output.buffer_ += output.missing_;
        if (more > 0) output.buffer_ += fmt::format("; and {} more", more);
      }
    }
    ::_exit(0);
  }

  [[noreturn]] static void become(const Task& task, int out, int complaints, pid_t parent) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 ||
        ::dup2(complaints, STDERR_FILENO) < 0)
      ::_exit(1);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    if (task.read) read(task);
    execute(task);
  }
};

namespace {

struct Running {
  const Task* task = nullptr;
  pid_t pid = -1;
  int out = -1, complaints = -1;
  Clock::time_point limit;
  std::string text, complaint;
  std::string stopped;  // why it was killed, if it was
  int status = 0;
};

std::string last_words(const Running& running) {
  const std::string_view all = trim(running.complaint.empty() ? running.text : running.complaint);
  const std::string_view first = trim(before(all, "\n"));
  return std::string(first.substr(0, 200));
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with {}", WEXITSTATUS(status));
}

void add_result(const Running& running, std::vector<BundleSource>& into) {
  const Task& task = *running.task;
  BundleSource source{task.name, task.device, task.netdev, std::nullopt, ""};
  std::string missing = running.stopped;
  std::string text = running.text;
  if (const size_t mark = text.find(kMissingMark); mark != std::string::npos) {
    if (task.read && missing.empty()) missing = text.substr(mark + 1);
    if (task.read) text.resize(mark);
  }
  const bool failed = missing.empty() && running.status != 0;
  if (!text.empty()) {
    source.text = std::move(text);
    into.push_back(source);
    source.text.reset();
  } else if (missing.empty()) {
    const std::string words = last_words(running);
    missing = failed ? how_it_ended(running.status) : "printed nothing";
    if (!words.empty()) missing += ": " + words;
  }
  if (missing.empty()) return;
  source.missing = std::move(missing);
  into.push_back(std::move(source));
}

class TaskRunner {
 public:
  explicit TaskRunner(const TaskLimits& limits) : limits_(limits) {}

  std::vector<BundleSource> run(const std::vector<Task>& tasks) {
    std::vector<std::vector<BundleSource>> results(tasks.size());
    size_t next = 0;
    while (next < tasks.size() || !running_.empty()) {
      while (next < tasks.size() && running_.size() < limits_.side_by_side) {
        start(tasks[next], results[next]);
        ++next;
      }
      wait();
      reap(tasks, results);
    }
    std::vector<BundleSource> all;
    for (auto& result : results)
      for (auto& source : result) all.push_back(std::move(source));
    return all;
  }

 private:
  static void give_up(const Task& task, std::string reason, std::vector<BundleSource>& result) {
    result.push_back({task.name, task.device, task.netdev, std::nullopt, std::move(reason)});
  }

  void start(const Task& task, std::vector<BundleSource>& result) {
    if (!task.missing.empty()) return give_up(task, task.missing, result);
    if (!task.read && find_program(task.arguments.front()).empty())
      return give_up(task, "no such program", result);
    Pipe out, complaints;
    const bool pipes = make_pipe(out) && make_pipe(complaints);
    const pid_t parent = ::getpid();
    const pid_t pid = pipes ? ::fork() : -1;
    const int error = errno;
    if (pid == 0) TaskChild::become(task, out.out, complaints.out, parent);
    close_fd(out.out);
    close_fd(complaints.out);
    if (pid < 0) {
      close_fd(out.in);
      close_fd(complaints.in);
      return give_up(task, fmt::format("cannot be started: {}", std::strerror(error)), result);
    }
    ::setpgid(pid, pid);  // here and in the child, whoever is first
    Running& added = running_.emplace_back();
    added.task = &task;
    added.pid = pid;
    added.out = out.in;
    added.complaints = complaints.in;
    added.limit = Clock::now() +
                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.seconds));
  }

  // Until something arrives or the next limit is reached.
  void wait() {
    std::vector<pollfd> fds;
    auto limit = Clock::time_point::max();
    for (const Running& each : running_) {
      fds.push_back({each.out, POLLIN, 0});
      fds.push_back({each.complaints, POLLIN, 0});
      limit = std::min(limit, each.limit);
    }
    if (fds.empty()) return;
    // Whose pipes are both closed ends at once, but the kernel announces it in no descriptor of ours.
    const bool ending = std::any_of(running_.begin(), running_.end(),
                                    [](const Running& r) { return r.out < 0 && r.complaints < 0; });
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
    ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<int64_t>(left + 1, 0, ending ? 1 : 60'000)));
    for (size_t i = 0; i < running_.size(); ++i) {
      if (fds[2 * i].revents != 0) take(running_[i].out, running_[i].text, limits_.bytes, running_[i]);
      if (fds[2 * i + 1].revents != 0) {
        Running none;  // a talkative complaint is cut, not punished
        take(running_[i].complaints, running_[i].complaint, kMaxComplaint, none);
      }
    }
  }

  static void take(int& fd, std::string& into, size_t bound, Running& of) {
    std::array<char, 65536> piece;
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return close_fd(fd);
    const size_t room = bound - std::min(bound, into.size());
    into.append(piece.data(), std::min(room, static_cast<size_t>(got)));
    if (static_cast<size_t>(got) > room && of.stopped.empty() && of.pid > 0) {
      of.stopped = fmt::format("stopped after {} bytes", bound);
      ::kill(-of.pid, SIGKILL);
      close_fd(fd);
    }
  }

  void reap(const std::vector<Task>& tasks, std::vector<std::vector<BundleSource>>& results) {
    const auto now = Clock::now();
    for (size_t i = 0; i < running_.size();) {
      Running& each = running_[i];
      const bool late = now >= each.limit;
      if (late && each.stopped.empty())
        each.stopped = fmt::format("stopped at the limit of {} s", limits_.seconds);
      // What it started may hold its pipes open after its own end; that must not keep us.
      const bool closed = each.out < 0 && each.complaints < 0;
      if (!late && !closed && each.stopped.empty()) {
        ++i;
        continue;
      }
      if (!finish(each, late || !each.stopped.empty())) {
        ++i;
        continue;
      }
      add_result(each, results[static_cast<size_t>(each.task - tasks.data())]);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  // True when nothing more is to be had from it. One that the kernel does not let go is left behind.
  static bool finish(Running& each, bool kill) {
    if (kill) {
      ::kill(-each.pid, SIGKILL);
      close_fd(each.out);
      close_fd(each.complaints);
      for (int tries = 0; tries < 20 && ::waitpid(each.pid, &each.status, WNOHANG) == 0; ++tries)
        ::poll(nullptr, 0, 1);
      return true;
    }
    return ::waitpid(each.pid, &each.status, WNOHANG) != 0;
  }

  TaskLimits limits_;
  std::vector<Running> running_;
};

}  // namespace

std::vector<BundleSource> run_tasks(const std::vector<Task>& tasks, const TaskLimits& limits) {
  return TaskRunner(limits).run(tasks);
}

std::string find_program(std::string_view name) {
  if (contains(name, "/")) return ::access(std::string(name).c_str(), X_OK) == 0 ? std::string(name) : "";
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  folders += ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin:/opt/rocm/bin";
  for (const std::string_view folder : split(folders, ':')) {
    if (!folder.starts_with('/')) continue;  // what lies in the current folder is not to be executed
    const std::string file = std::string(folder) + "/" + std::string(name);
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

}  // namespace mroce::doctor
