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
};

struct ApartResult {
  RunResult run;
  double cpu_s = 0;
};

ApartResult run_apart(const RunOptions& options, const ApartOptions& how);

}  // namespace mroce::soak
