// A diagnosis as one HTML file that needs nothing else: no script, no request, charts as inline SVG.
//
// Whatever comes from files is escaped. The policy in the head forbids all that the page does not need: what
// would slip through could still not run or load anything. Sizes are bounded; what is not shown is counted.
#pragma once

#include <string>
#include <string_view>

#include "doctor/finding.h"
#include "doctor/report/series.h"

namespace mroce::doctor {

struct ReportAbout {
  std::string version;  // of mroce
  std::string written;  // when, as text; may be empty
};

std::string html_of(const Diagnosis& diagnosis, const Timeline& timeline, const ReportAbout& about);

// The style sheet and its hash for the policy (SHA-256, base64); a test compares them.
std::string_view report_style();
std::string_view report_style_hash();

}  // namespace mroce::doctor
