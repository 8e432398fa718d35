// Runs for tests of what must hold for all of them.
#pragma once

#include "core/base/rng.h"
#include "sim/fat_tree.h"
#include "sim/test_run.h"

namespace mroce::sim {

struct Scenario {
  Topology topology;
  RunOptions options = test_options();
  std::vector<Flow> flows;
  TestTransportOptions transport;
  FaultPlan faults;
};

// Everything that can be switched on, drawn at random.
inline Scenario random_scenario(uint64_t seed) {
  Rng rng(seed);
  Scenario s;
  const uint64_t kind = rng.below(4);
  LeafSpineSpec spec;
  spec.leaves = 4;
  spec.hosts_per_leaf = 4;
  spec.spines = static_cast<uint32_t>(rng.between(1, 4));
  spec.planes = static_cast<uint32_t>(rng.between(1, 3));
  if (kind == 1) spec.rails = 2;
  if (kind == 2) {
    spec.long_haul_cables = 2;
    spec.long_haul_delay = microseconds(30);
  }
  s.topology = kind == 3 ? make_fat_tree(full_fat_tree(4, 400'000'000'000, nanos(700))).value()
                         : make_leaf_spine(spec).value();
  FabricConfig& fabric = s.options.fabric;
  switch (rng.below(4)) {
    case 0:
      fabric.queue_bytes = 40'000;
      break;
    case 1:
      fabric.shared = {200'000, 1};
      break;
    case 2:
      fabric.pfc.classes = 0x09;
      fabric.pfc.xoff_bytes = 20'000;
      fabric.pfc.xon_gap_bytes = 4'160;
      fabric.queue_bytes = 60'000;
      break;
    default:
      fabric.credit.buffer_bytes = 30'000;
  }
  if (rng.chance(0.5)) fabric.set_ecn({10'000, 30'000, 0.5});
  fabric.adaptive = rng.chance(0.3);
  if (rng.chance(0.3)) fabric.weight = {1, 3, 0, 0, 0, 0, 0, 0};
  if (rng.chance(0.3)) fabric.nic = {4, 150'000'000'000, 60'000, 20'000};
  s.transport.window = 24;
  s.transport.spray = rng.chance(0.5);
  s.transport.ack_own_priority = rng.chance(0.5);
  s.transport.ack_priority = 5;
  s.transport.resend_after = microseconds(200);
  for (uint32_t i = 0; i < 60; ++i) {
    const auto a = static_cast<uint32_t>(rng.below(s.topology.hosts));
    const auto b = static_cast<uint32_t>(rng.below(s.topology.hosts));
    if (a == b) continue;
    s.flows.push_back(make_flow(i, a, b, rng.between(1, 100'000), static_cast<SimTime>(rng.below(20'000'000)),
                                static_cast<uint8_t>(rng.below(4))));
  }
  if (rng.chance(0.5)) {
    std::vector<uint32_t> links = find_links(s.topology, "leaf 1").value();
    links.resize(links.size() / 2);
    add_loss(s.faults, links, microseconds(2), 0.01);
    add_outage(s.faults, find_links(s.topology, "host 5").value(), microseconds(10), microseconds(40));
    add_rate(s.faults, find_links(s.topology, "host 2").value(), microseconds(5), 0.3);
    if (rng.chance(0.5)) s.options.fabric.reroute_after = microseconds(3);
    add_outage(s.faults, find_links(s.topology, "leaf 0").value(), microseconds(15), microseconds(25));
  }
  s.options.limit = microseconds(20'000);
  s.options.seed = seed;
  return s;
}

}  // namespace mroce::sim
