// From evidence to a diagnosis: every rule is evaluated, in order; what fired is ranked; the first is the
// verdict.
//
// * An invalid test ends it: nothing else is scored.
// * A finding that causes others (`outranks` of its rule) comes before them, and they say so, unless it is
// itself unsure.
// * Else confidence decides, then the order of the rules: validity, link and PCIe, host and GPU path,
// connectivity, flow
//   control, loss, topology, collective and application.
// * Without a fault, the run is healthy if a result proves it, or if what looked alarming is known to be
// normal.
// * Else the evidence is insufficient, and what undecided rules needed is what to collect.
#pragma once

#include "doctor/evidence.h"
#include "doctor/finding.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {

inline constexpr std::string_view kHealthyRule = "healthy";
inline constexpr std::string_view kInsufficientRule = "insufficient-evidence";

Diagnosis judge(const Evidence& evidence, const Rulebook& book);

}  // namespace mroce::doctor
