// What a simulation says about its run: a table, JSON, a line of CSV.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/flow_results.h"
#include "sim/run.h"

namespace mroce::cli {

struct SimReport {
  std::string transport;
  std::string topology;
  std::string load;
  std::string fabric;  // settings in words
  uint64_t seed = 1;
  sim::FlowSummary flows;
  sim::RunResult result;
  double cpu_s = 0;
  double setup_cpu_s = 0;  // of it, before time zero
  uint64_t peak_rss_bytes = 0;

  uint64_t drops() const;
  std::string trouble() const;  // empty, or why flows are missing
};

// Everything except cpu_s and peak_rss_bytes is the same for any number of threads.
nlohmann::ordered_json sim_json(const SimReport& report);
// The JSON object as two lines; names of members of objects are joined by '_'.
std::string sim_csv(const nlohmann::ordered_json& object);
std::string sim_table(const SimReport& report);

}  // namespace mroce::cli
