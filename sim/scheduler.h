// FlowScheduler: decides which flows start because others ended (triggers, steps of a collective).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/flow.h"

namespace mroce::sim {

enum class FlowEvent : uint8_t { kReceived, kFinished };

struct FlowNotice {
  SimTime at = 0;
  uint32_t flow = 0;  // position in the run's table
  FlowEvent event = FlowEvent::kReceived;

  bool operator<(const FlowNotice& other) const {
    if (at != other.at) return at < other.at;
    return flow != other.flow ? flow < other.flow : event < other.event;
  }
};

struct FlowStart {
  SimTime at = 0;
  uint32_t flow = 0;
};
using FlowStarts = std::vector<FlowStart>;

// Flows of the table with a `start` begin by themselves; those with kEndOfTime when a scheduler says so, at
// most once each.
class FlowScheduler {
 public:
  virtual ~FlowScheduler() = default;
  // At once, on the thread of the host at which it happened (source for kFinished, destination for
  // kReceived). May only touch state of this host, and start flows of this host, from notice.at on.
  virtual void on_host(uint32_t host, const FlowNotice& notice, FlowStarts& starts) {
    (void)host, (void)notice, (void)starts;
  }
  // All notices of the run in their order, on one thread while the others wait. Any state, flows of any host;
  // each starts at `earliest` (the notice plus the smallest delay of a link of the fabric) or later.
  virtual void on_fabric(const FlowNotice& notice, SimTime earliest, FlowStarts& starts) {
    (void)notice, (void)earliest, (void)starts;
  }
};

}  // namespace mroce::sim
