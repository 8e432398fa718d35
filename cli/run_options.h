// What `mroce run` was asked for, as settings of the program that it starts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/device.h"
#include "cli/outcome.h"

namespace mroce::cli {

struct RunOptions {
  std::string loss;  // as written: "1", "1%"
  std::string impair;
  std::string paths;
  std::string planes;
  std::string json_file;
  std::string trace_file;
  std::vector<std::string> sets;
  bool stats = false;
  bool no_view = false;
};

void add_run_options(CLI::App& run, RunOptions& options);

// An option that is empty was not given.
Outcome<std::vector<Override>> overrides_of(const RunOptions& options);

}  // namespace mroce::cli
