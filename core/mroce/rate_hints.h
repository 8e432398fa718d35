// Rate hints: the receiver of many shares its port among them, and tells each its part in every path block.
//
// A sender tells with each DATA packet how many more wait (`backlog`). The receiver counts who is active on
// each of its ports, divides 99.5 % of the port's rate (less where marks came) max-min fairly, and answers
// with the share; a single sender is not limited. Between messages a sender is told what it may begin with:
// the port's rate divided among all who have a stream open towards it, because they might all begin at once.
// A sender holds its rate by pacing, with one packet in flight at least and one and a half times rate x RTT
// at most; so an incast of any size never has more under way than the port takes. Hints advise: who ignores
// them is still bound by ECN.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/time.h"

namespace mroce {

// What one connection asks of one local port. Receiving side.
struct Demand {
  bool active = false;   // has more to send
  uint64_t cpsn = 0;     // of the packet that said so; older ones that come late do not count
  uint64_t backlog = 0;  // packets
  Time last{};           // it sent
  Time from{};           // the present interval of measuring began
  uint64_t bytes = 0;    // in it
  double measured = -1;  // bytes/s in the last one; -1: none has passed
  double share = 0;      // bytes/s
  double start = 0;      // bytes/s that it was told to begin with
};

// A local port, as its senders share it.
struct PortShare {
  std::vector<uint32_t> members;  // connections that are active
  bool stale = true;              // membership changed
  Time computed{};
  Time settles{};        // until then all that may send are taken to do so
  double ce = 0;         // EWMA of the share of marked packets
  uint32_t packets = 0;  // since it was computed
  uint32_t marked = 0;
};

// What the peer says of one plane. Sending side.
struct PlaneHint {
  bool limited = false;
  double rate = 0;  // bytes/s
  uint64_t inflight_bytes = 0;
  Time next_send{};  // pacing
};

// Max-min fair: nobody gets more than it asks, and what that leaves is shared by the others. `demands` in
// bytes/s (infinity: all it can get); the shares come back in their place.
void water_fill(double capacity, std::vector<double>& demands);

}  // namespace mroce
