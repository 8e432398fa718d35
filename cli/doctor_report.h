// mroce doctor analyze --report, and mroce doctor export.
#pragma once

#include <string>

#include "cli/outcome.h"
#include "cli/verbs.h"
#include "doctor/evidence.h"
#include "doctor/finding.h"

namespace mroce::cli {

// The diagnosis as one HTML file; "-" is standard output.
Outcome<void> write_doctor_report(const std::string& file, const doctor::Evidence& evidence,
                                  const doctor::Diagnosis& diagnosis);

void add_doctor_export(CLI::App& doctor, int& exit_code);

}  // namespace mroce::cli
