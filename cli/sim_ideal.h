// What a flow takes that is alone in the fabric, at best: its packets back to back over every plane of its
// source, stored and forwarded on the way to its destination, and the last one's acknowledgement back.
// Transport headers are not counted, so no transport can be faster.
#pragma once

#include "sim/flow.h"
#include "sim/routing.h"
#include "sim/topology.h"
#include "sim/transport.h"

namespace mroce::cli {

class IdealTimes {
 public:
  IdealTimes(const sim::Topology& topology, uint32_t payload_mtu, const sim::WireSize& wire)
      : topology_(topology), routing_(topology), mtu_(payload_mtu), wire_(wire) {}

  sim::SimTime fct(const sim::Flow& flow) const;

 private:
  struct Way {
    sim::SimTime time = 0;     // of one packet
    uint64_t slowest_bps = 0;  // link
  };
  Way walk(uint32_t from, uint32_t to, uint32_t bytes) const;

  const sim::Topology& topology_;
  sim::Routing routing_;
  uint32_t mtu_;
  sim::WireSize wire_;
};

}  // namespace mroce::cli
