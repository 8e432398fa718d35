#include "sim/leaf_spine.h"

#include <fmt/format.h>

#include <utility>

#include "sim/fat_tree.h"
#include "sim/routing.h"

namespace mroce::sim {
namespace {

std::string check(const LeafSpineSpec& spec) {
  const auto within = [](uint64_t value, uint64_t least, uint64_t most) {
    return value >= least && value <= most;
  };
  constexpr uint64_t kMost = 1 << 14;
  if (!within(spec.leaves, 1, kMost) || !within(spec.hosts_per_leaf, 1, kMost) ||
      !within(spec.spines, 1, kMost) || !within(spec.bundle, 1, kMost) ||
      !within(spec.border_cables, 1, kMost)) {
    return fmt::format("leaves, hosts a leaf, spines and bundles must be 1 to {}", kMost);
  }
  if (!within(spec.planes, 1, kMaxPlanes))
    return fmt::format("{} planes; 1 to {} are possible", spec.planes, kMaxPlanes);
  for (const uint64_t rate : {spec.host_rate_bps, spec.fabric_rate_bps, spec.long_haul_rate_bps}) {
    if (!within(rate, 1'000'000, 10'000'000'000'000)) {
      return fmt::format("a rate of {} bit/s; 1 Mbit/s to 10 Tbit/s are possible", rate);
    }
  }
  for (const SimTime delay : {spec.host_delay, spec.fabric_delay, spec.switch_delay, spec.long_haul_delay}) {
    if (delay < 0 || delay > microseconds(1'000'000)) return "a delay must be 0 to 1 s";
  }
  if (spec.rails != 0 && spec.leaves % spec.rails != 0) {
    return fmt::format("{} leaves are not a multiple of {} rails", spec.leaves, spec.rails);
  }
  const uint64_t sites = spec.long_haul_cables != 0 ? 2 : 1;
  const uint64_t hosts = sites * spec.leaves * spec.hosts_per_leaf;
  const uint64_t fabric = sites * spec.leaves * spec.spines * spec.bundle;
  if (hosts > kMaxHosts ||
      (hosts + fabric + sites * spec.spines * spec.border_cables) * spec.planes > kMaxLinks / 2) {
    return fmt::format("{} hosts and {} cables between switches are too many", hosts, fabric);
  }
  return {};
}

class Wiring {
 public:
  Wiring(const LeafSpineSpec& spec, TopologyBuilder& builder) : spec_(spec), builder_(builder) {}

  void plane(uint32_t plane) {
    const uint32_t sites = spec_.long_haul_cables != 0 ? 2 : 1;
    uint32_t borders[2] = {};
    for (uint32_t site = 0; site < sites; ++site) {
      const std::vector<uint32_t> spines = this->site(plane, site);
      if (sites == 2) borders[site] = border(plane, site, spines);
    }
    for (uint32_t i = 0; i < spec_.long_haul_cables; ++i) {
      cable(borders[0], borders[1], spec_.long_haul_rate_bps, spec_.long_haul_delay, false);
    }
  }

 private:
  uint32_t site_hosts() const { return spec_.leaves * spec_.hosts_per_leaf; }

  void cable(uint32_t below, uint32_t above, uint64_t rate, SimTime delay, bool host) {
    const SimTime back = delay + (host ? 0 : spec_.switch_delay);
    builder_.connect(below, above, {rate, delay + spec_.switch_delay, 0, 0}, {rate, back, 0, 0});
  }

  // Leaves and spines of one site; returns the spines.
  std::vector<uint32_t> site(uint32_t plane, uint32_t site) {
    const uint32_t first = site * site_hosts();
    std::vector<uint32_t> leaves;
    std::vector<uint32_t> spines;
    for (uint32_t i = 0; i < spec_.leaves; ++i) {
      SwitchSpec leaf;
      leaf.plane = plane;
      leaf.index = site * spec_.leaves + i;
      leaf.low = first + i * spec_.hosts_per_leaf;
      leaf.high = leaf.low + spec_.hosts_per_leaf;
      leaf.up_ports = spec_.spines * spec_.bundle;
      leaves.push_back(builder_.add_switch(leaf));
    }
    for (uint32_t i = 0; i < spec_.spines; ++i) {
      SwitchSpec spine;
      spine.tier = 1;
      spine.plane = plane;
      spine.index = site * spec_.spines + i;
      spine.low = first;
      spine.high = first + site_hosts();
      spine.per_bundle = spec_.hosts_per_leaf;
      spine.bundle = spec_.bundle;
      spine.up_ports = spec_.long_haul_cables != 0 ? spec_.border_cables : 0;
      spines.push_back(builder_.add_switch(spine));
    }
    for (uint32_t place = 0; place < site_hosts(); ++place) {
      const uint32_t leaf = leaves[place / spec_.hosts_per_leaf];
      cable(host_at(first + place), leaf, spec_.host_rate_bps, spec_.host_delay, true);
    }
    for (const uint32_t leaf : leaves) {
      for (const uint32_t spine : spines) {
        for (uint32_t i = 0; i < spec_.bundle; ++i)
          cable(leaf, spine, spec_.fabric_rate_bps, spec_.fabric_delay, false);
      }
    }
    return spines;
  }

  // All of its site is below, through any spine; the other site is above.
  uint32_t border(uint32_t plane, uint32_t site, const std::vector<uint32_t>& spines) {
    SwitchSpec spec;
    spec.tier = kBorderTier;
    spec.plane = plane;
    spec.index = site;
    spec.low = site * site_hosts();
    spec.high = spec.low + site_hosts();
    spec.per_bundle = site_hosts();
    spec.bundle = spec_.spines * spec_.border_cables;
    spec.up_ports = spec_.long_haul_cables;
    const uint32_t node = builder_.add_switch(spec);
    for (const uint32_t spine : spines) {
      for (uint32_t i = 0; i < spec_.border_cables; ++i) {
        cable(spine, node, spec_.fabric_rate_bps, spec_.fabric_delay, false);
      }
    }
    return node;
  }

 public:
  // Place p of a rail-optimised pod is server p % n of rail p / n, with n servers a pod.
  uint32_t host_at(uint32_t place) const {
    if (spec_.rails == 0) return place;
    const uint32_t servers = spec_.hosts_per_leaf;
    const uint32_t pod = place / (spec_.rails * servers);
    const uint32_t in_pod = place % (spec_.rails * servers);
    return (pod * servers + in_pod % servers) * spec_.rails + in_pod / servers;
  }

 private:
  const LeafSpineSpec& spec_;
  TopologyBuilder& builder_;
};

}  // namespace

TopologyResult make_leaf_spine(const LeafSpineSpec& spec) {
  if (std::string error = check(spec); !error.empty()) return tl::unexpected(std::move(error));
  const uint32_t hosts = (spec.long_haul_cables != 0 ? 2 : 1) * spec.leaves * spec.hosts_per_leaf;
  TopologyBuilder builder(spec.rails != 0 ? "rail-optimised" : "leaf-spine", hosts, spec.planes);
  Wiring wiring(spec, builder);
  for (uint32_t plane = 0; plane < spec.planes; ++plane) wiring.plane(plane);
  TopologyResult topology = builder.finish();
  if (!topology || spec.rails == 0) return topology;
  topology->place.resize(hosts);
  for (uint32_t place = 0; place < hosts; ++place) topology->place[wiring.host_at(place)] = place;
  return topology;
}

}  // namespace mroce::sim
