// Connection matrices of htsim (.cm): flows, and triggers that start flows.
//
//   Nodes N            hosts, 0 to N-1
//   Connections N      as many lines of flows as follow
//   Triggers N         as many lines of triggers; may be absent if there are none
//   Failures 0         other numbers are refused: failures are not supported yet
//   src->dst [id N] start T|trigger N size B [send_done_trigger N] [recv_done_trigger N] [prio N]
//   trigger id N oneshot|multishot|barrier [count N]
//
// T is in picoseconds and may have a fraction (rounded to the nearest); B in bytes; prio is a priority of the
// fabric, 0 to 7. Either all flows have an id or none has; without, they are numbered from 1. What triggers
// do is told in triggers.h. A file whose flows cannot all start is an error, as is every word that is not
// understood.
#pragma once

#include <string>
#include <string_view>

#include "sim/workload.h"

namespace mroce::sim {

WorkloadResult read_connection_matrix(const std::string& path);
WorkloadResult parse_connection_matrix(std::string_view name, std::string_view text);  // name: for errors

}  // namespace mroce::sim
