// A program in the background whose output is kept, for the demo.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "cli/launch.h"
#include "cli/outcome.h"
#include "cli/stopwatch.h"
#include "net/sockets.h"

namespace mroce::cli {

// Output goes to an unnamed file; a child that still runs at the end is killed.
class Child {
 public:
  explicit Child(LaunchPlan plan);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Outcome<void> start();
  std::optional<int> ended();  // the exit status (128 + n for a signal), or nothing while it runs
  std::string output() const;

 private:
  LaunchPlan plan_;
  net::FileDescriptor output_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// Waits for the end; a status other than 0 is a finding that quotes the last line of the output.
Outcome<void> wait_for_end(Child& child, const std::string& name, SteadyClock::time_point limit);

// For loops that wait for what nothing announces.
void pause_briefly();

std::string last_line(const std::string& text);

}  // namespace mroce::cli
