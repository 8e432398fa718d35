// Facts that need more than one entity: what the peers of a port have, which tables belong together, which
// pairs are slow.
#pragma once

#include <deque>

#include "doctor/evidence.h"
#include "doctor/facts.h"

namespace mroce::doctor {

// peer_rate_gbps peer_up mtu_differs pfc_differs: against the ports of the same name (else of any, if each
// host has one) on other hosts. pfc_off pfc_priorities prio_lossless_bytes prio_lossy_bytes: of the port's
// own configuration.
void derive_port_facts(std::deque<Entity>& ports);

// separate: tables of one output whose ranks are on one host each, and not the same one.
// Of the run: version_ratio slow_version fast_version, busbw_spread.
void derive_table_facts(std::deque<Entity>& tables, const Evidence& evidence, Entity& run);

// Results between named pairs ("nodeA-to-nodeB"): pairs slow_pairs slow_node of the run.
void derive_pair_facts(const Evidence& evidence, Entity& run);

void put_fact(Entity& entity, std::string_view name, Value value, Where where = {});

}  // namespace mroce::doctor
