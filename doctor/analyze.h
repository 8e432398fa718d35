// Files in, diagnosis out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/evidence.h"
#include "doctor/finding.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {

struct AnalyzeOptions {
  std::vector<std::string> files;  // "-" is standard input; folders are read with all that is in them
  std::optional<double> seconds;   // length of the run, if no file says it
};

// Reads, parses and assembles. Files that cannot be read are problems of the evidence.
Evidence gather(const AnalyzeOptions& options, const Rulebook& book, bool keep_unknown = false);
Diagnosis analyze(const AnalyzeOptions& options, const Rulebook& book);

}  // namespace mroce::doctor
