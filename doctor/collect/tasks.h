// Sources that are read side by side, each with a limit of time and size, so that nothing can hang us.
//
// A task is a program with its arguments (executed directly, never through a shell) or a function that reads
// files. Both run in a process of their own: a read of sysfs can sleep in a driver whose firmware does not
// answer, and a process that sleeps there can be left behind, a thread of ours could not. What a task prints
// comes through a pipe; at its limit it is killed with all that it started, and what had arrived is kept
// beside the reason. The calling process must have one thread only, as it forks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/bundle.h"

namespace mroce::doctor {

// What a reading function says: text, and at most a reason why something is missing.
class TaskOutput {
 public:
  explicit TaskOutput(int fd) : fd_(fd) {}
  ~TaskOutput() { flush(); }
  TaskOutput(const TaskOutput&) = delete;
  TaskOutput& operator=(const TaskOutput&) = delete;
  void line(std::string_view text);
  void missing(std::string_view what, std::string_view reason);

 private:
  friend struct TaskChild;
  void flush();
  int fd_;
  std::string buffer_;
  std::string missing_;
  size_t missing_count_ = 0;
};

struct Task {
  std::string name;  // of the source: see bundle.h
  std::string device, netdev;
  std::vector<std::string> arguments;     // of a program, which comes first; or
  std::function<void(TaskOutput&)> read;  // a function; or
  std::string missing;                    // why nothing is to be done
};

struct TaskLimits {
  double seconds = 2;  // of one task
  size_t side_by_side = 16;
  size_t bytes = 4u << 20;  // of one task's output
};

// In the order of the tasks. A task that was cut off yields its text and, after it, an entry that says so.
std::vector<BundleSource> run_tasks(const std::vector<Task>& tasks, const TaskLimits& limits);

// The file that would be executed, looked for in PATH and in the folders of administrators' tools; or empty.
std::string find_program(std::string_view name);

}  // namespace mroce::doctor
