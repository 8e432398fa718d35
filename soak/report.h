// What runs gave, as JSON: of one run between processes, of all of them for people and programs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "soak/run.h"

namespace mroce::soak {

struct SoakReport {
  uint64_t seed = 0;  // the first
  uint64_t runs = 0;
  uint64_t repeated = 0;
  uint64_t operations = 0;
  uint64_t completions = 0;
  uint64_t packets = 0;
  double simulated_s = 0;
  double cpu_s = 0;
  FaultTally faults;
  uint64_t final_draw = 0;   // of the last run
  uint64_t packet_hash = 0;  // of the last run
  uint64_t most_memory = 0;
  uint64_t most_idle_memory = 0;
  uint64_t failed_runs = 0;
  std::vector<Violation> violations;   // of the first run that failed
  std::optional<RunOptions> failed;    // its options
  std::optional<RunOptions> smallest;  // the least options that fail in the same way
  uint64_t tries = 0;                  // runs that it took to find them
  bool stopped = false;                // from outside, before all runs were done or the smallest was found
  bool nobody_listens = false;         // the pipe that the story goes to was closed

  void add(const RunResult& run, double cpu);
  double packets_per_cpu_s() const { return cpu_s > 0 ? static_cast<double>(packets) / cpu_s : 0; }
};

nlohmann::ordered_json run_to_json(const RunResult& result);
std::optional<RunResult> run_from_json(std::string_view text);
nlohmann::ordered_json report_to_json(const SoakReport& report);

// Assignments that make `wanted` of the options that its seed draws.
std::vector<std::string> settings_of(const RunOptions& wanted);
// The command that runs exactly this again.
std::string command_of(const RunOptions& options);

}  // namespace mroce::soak
