// One run in a process of its own, so that an assertion of the engine, an endless loop or a bad access ends
// that process only, and is a violation like others.
#pragma once

#include "soak/run.h"

namespace mroce::soak {

struct ApartOptions {
  unsigned longest_seconds = 300;  // of wall-clock time; then the run counts as endless
  bool quiet = false;              // what the run writes to standard error is dropped
  bool story = false;              // told on standard output
  bool packets = false;            // with a line for each datagram
  bool same_process = false;       // for a debugger
  int stop_fd = -1;                // once it is readable, a run is ended and `stopped`; not with same_process
};

struct ApartResult {
  RunResult run;
  double cpu_s = 0;
  bool stopped = false;         // by `stop_fd`; `run` says nothing
  bool nobody_listens = false;  // standard output is a pipe that was closed; `run` says nothing
};

ApartResult run_apart(const RunOptions& options, const ApartOptions& how);

}  // namespace mroce::soak
