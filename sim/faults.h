// Faults: what happens to links at given times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/topology.h"

namespace mroce::sim {

struct Fault {
  enum class Kind : uint8_t { kDown, kUp, kLoss, kRate, kAvoid, kUse };
  SimTime at = 0;
  Kind kind = Kind::kDown;
  uint32_t link = 0;
  double value = 0;  // kLoss: probability; kRate: share of the rate that the link has when all is well
  // kLoss in bursts: `value` outside, these decide about the bad state.
  double enter_bad = 0;
  double leave_bad = 1;
  double bad_loss = 0;
};

// Sorted by time; ties in the order given.
using FaultPlan = std::vector<Fault>;

// Links, both directions, that a name means: "host 3", "host 3 port 0", "leaf 2 spine 1", "leaf 2 spine 1
// plane 0", "spine 4" (all its links), "plane 1", "switch 7 switch 9", "host 3 switch 7".
tl::expected<std::vector<uint32_t>, std::string> find_links(const Topology& topology, std::string_view name);

// Adds to `plan`. `until` = kEndOfTime: for good.
void add_outage(FaultPlan& plan, const std::vector<uint32_t>& links, SimTime from, SimTime until);
// Down for `down` out of each `period`, from `from` to `until`.
tl::expected<void, std::string> add_flapping(FaultPlan& plan, const std::vector<uint32_t>& links,
                                             SimTime from, SimTime until, SimTime period, SimTime down);
void add_loss(FaultPlan& plan, const std::vector<uint32_t>& links, SimTime at, double probability);
void add_burst_loss(FaultPlan& plan, const std::vector<uint32_t>& links, SimTime at, double enter_bad,
                    double leave_bad, double bad_loss);
void add_rate(FaultPlan& plan, const std::vector<uint32_t>& links, SimTime at, double share);

// The plan that the fabric runs: sorted, and with the moments at which neighbours notice.
FaultPlan finish_plan(FaultPlan plan, SimTime reroute_after);

}  // namespace mroce::sim
