// Opens the connections and streams of all flows before a mroce run begins.
//
// The hosts' engines exchange their handshakes, stream openings and path challenges over an ideal network of
// half a base RTT each way, outside the fabric and before its time zero: as in a job whose queue pairs are
// set up before it communicates. It takes no simulated time and no bandwidth, and round-trip estimates begin
// at the base RTT.
#pragma once

#include <span>
#include <string>

#include "sim/mroce_transport.h"

namespace mroce::sim {

// `transports` by host. Returns an error text, or an empty string.
std::string open_connections(std::span<MroceTransport* const> transports, std::span<const Flow> flows,
                             SimTime base_rtt);

}  // namespace mroce::sim
