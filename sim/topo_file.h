// Reader of htsim's .topo files: a fat tree by tiers.
//
//   Nodes 128            hosts
//   Tiers 3              2 or 3
//   Podsize 16           hosts of a pod
//   Tier 0               then, for each tier from the leaves up:
//   Downlink_speed_Gbps 400
//   Radix_Up 4           not in the highest tier
//   Radix_Down 4
//   Downlink_Latency_ns 1000
//   Switch_Latency_ns 0
//   Bundle 1             cables between a switch of this tier and one below
//   Oversubscribed 2     how much more goes down than up; checked against speeds and radixes
//   Queue_up 628160      bytes of a port upwards, and downwards; default: as the run says
//   Queue_down 628160
//
// Names may be written in any case; '#' begins a comment.
#pragma once

#include <string_view>

#include "sim/fat_tree.h"

namespace mroce::sim {

tl::expected<FatTreeSpec, std::string> parse_topo(std::string_view file, std::string_view text);

}  // namespace mroce::sim
