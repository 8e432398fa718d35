// Faults of a simulation as sentences.
//
//   down LINKS [at T] [until T]                         flap LINKS period T down T [at T] until T
//   rate LINKS SHARE [at T] [until T]                   loss LINKS SHARE [at T] [until T]
//
// LINKS as sim/faults.h has them: "leaf 2 spine 1", "host 3 port 0", "plane 1", "spine 4". Words may stand in
// any order behind the links. Without "at" from the beginning, without "until" for good.
#pragma once

#include <string_view>

#include "cli/outcome.h"
#include "sim/faults.h"

namespace mroce::cli {

extern const char* const kFaultHelp;

// Adds to `plan`. When a loss ends, the links have `usual_loss` again. `limit` is the end of time for flaps.
Outcome<void> add_fault(sim::FaultPlan& plan, const sim::Topology& topology, std::string_view sentence,
                        double usual_loss, sim::SimTime limit);

}  // namespace mroce::cli
