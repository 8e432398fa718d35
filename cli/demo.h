// The parts of `mroce demo`. Each measures, prints its section unless asked for JSON, and says what did not
// hold.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/outcome.h"

namespace mroce::cli {

struct DemoOptions {
  bool quick = false;
  bool json = false;
};

struct DemoPart {
  nlohmann::ordered_json json;
  std::string text;
  std::vector<std::string> findings;  // what did not hold, one sentence each
};

Outcome<DemoPart> demo_programs(const DemoOptions& options);
Outcome<DemoPart> demo_path_failure(const DemoOptions& options);
Outcome<DemoPart> demo_verified_data(const DemoOptions& options);

// What the parts need, found out before the first one begins.
Outcome<void> demo_programs_ready();
Outcome<void> demo_verified_data_ready();

}  // namespace mroce::cli
