// Flow files of the ns-3 simulators of HPCC and ConWeave, and the file of completion times that they write.
//
//   count
//   src dst prio dport bytes start_s        HPCC; ConWeave's lines have no dport
//
// The earliest flow begins at the run's zero: such files begin at second 2, and there is nothing to simulate
// before. Times in the output are those of the file again.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "sim/workload.h"

namespace mroce::sim {

// `hosts`: of the topology; 0: one more than the highest that the file names.
WorkloadResult read_hpcc_flows(const std::string& path, uint32_t hosts = 0);
WorkloadResult parse_hpcc_flows(std::string_view name, std::string_view text, uint32_t hosts = 0);

// What a flow takes that is alone in the fabric.
using IdealFct = std::function<SimTime(const Flow&)>;

// A line a finished flow, in the order in which they finished (equal times: of the table):
//   sip dip sport dport bytes start_ns fct_ns ideal_fct_ns
// Addresses are hexadecimal, 0x0b000001 + (host / 256 << 16) + (host % 256 << 8); source ports count from
// 10000 for each pair of hosts.
void write_hpcc_fct(std::ostream& out, const Workload& workload, const IdealFct& ideal);

}  // namespace mroce::sim
