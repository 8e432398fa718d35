// Flow: so many bytes from one host to another, and what became of them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/time.h"

namespace mroce::sim {

struct Flow {
  uint32_t id = 0;  // as the input file has it
  uint32_t source = 0;
  uint32_t destination = 0;
  uint64_t bytes = 0;
  SimTime start = 0;  // kEndOfTime: when a trigger fires
  uint8_t priority = 0;

  // Results; kEndOfTime until it happened. `started` and `finished` belong to the source's thread, `received`
  // to the destination's.
  SimTime started = kEndOfTime;
  SimTime finished = kEndOfTime;  // the sender has the last acknowledgement: what FCT means here
  SimTime received = kEndOfTime;  // the last byte is placed
};

// What a transport tells about flows. Indices are positions in the run's flow table.
class FlowObserver {
 public:
  virtual ~FlowObserver() = default;
  virtual void flow_finished(SimTime now, uint32_t flow) = 0;  // at the source
  virtual void flow_received(SimTime now, uint32_t flow) = 0;  // at the destination
};

}  // namespace mroce::sim
