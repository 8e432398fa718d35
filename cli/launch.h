// Starting a program with our verbs library, and standing in for it until it ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/outcome.h"
#include "cli/view.h"

namespace mroce::cli {

// The folder with our libibverbs.so.1, found from where this binary lies: a build tree or an installation.
Outcome<std::filesystem::path> library_folder();

// Whether LD_LIBRARY_PATH can name it.
Outcome<void> nameable(const std::filesystem::path& folder);

struct LaunchPlan {
  std::vector<std::string> arguments;                            // the program first
  std::vector<std::pair<std::string, std::string>> environment;  // replaces variables of the same name
  std::optional<DeviceView> view;
  int output = -1;        // descriptor for standard output and error of the program, or -1 to inherit ours
  int error_output = -1;  // another one for standard error
  int cpu = -1;           // the only core that it may run on, or -1
};

// LD_LIBRARY_PATH with `folder` in front of what is there already.
std::string library_path_with(const std::filesystem::path& folder);

struct Started {
  pid_t pid = 0;
  std::string view_refused;  // why there is no view; empty if there is one, or none was asked for
};

// Forks and executes. A view that the machine refuses is given up, the program runs without. A program that
// cannot be executed is an error; `code` then has the value that env(1) uses: 127 not found, 126 not
// executable.
Outcome<Started> start_program(const LaunchPlan& plan);

// Waits for `pid`, passing on signals that were sent to this process; answers the program's exit status, or
// 128 + n when signal n ended it. Call `Signals` first, before the program is started, so that none is lost.
class SignalRelay {
 public:
  SignalRelay();   // blocks the signals in question
  ~SignalRelay();  // and restores the mask
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;
  int wait_for(pid_t pid);
};

}  // namespace mroce::cli
