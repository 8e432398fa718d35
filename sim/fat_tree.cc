#include "sim/fat_tree.h"

#include <fmt/format.h>

namespace mroce::sim {
std::string check_fat_tree(const FatTreeSpec& spec) {
  if (spec.tiers < 2 || spec.tiers > 3) return fmt::format("{} tiers; 2 or 3 are possible", spec.tiers);
  if (spec.planes < 1 || spec.planes > kMaxPlanes) {
    return fmt::format("{} planes; 1 to {} are possible", spec.planes, kMaxPlanes);
  }
  if (spec.hosts < 2 || spec.hosts > kMaxHosts) {
    return fmt::format("{} hosts; 2 to {} are possible", spec.hosts, kMaxHosts);
  }
  for (uint32_t t = 0; t < spec.tiers; ++t) {
    const FatTreeTier& tier = spec.tier[t];
    if (tier.down_ports == 0 || tier.down_ports > kMaxPorts || tier.up_ports > kMaxPorts) {
      return fmt::format("tier {} has {} ports downwards and {} upwards; 1 to {} are possible", t,
                         tier.down_ports, tier.up_ports, kMaxPorts);
    }
    if (tier.bundle == 0 || tier.bundle > tier.down_ports) {
      return fmt::format("tier {}: a bundle of {} cables does not fit {} ports", t, tier.bundle,
                         tier.down_ports);
    }
    if ((tier.up_ports == 0) != (t + 1 == spec.tiers)) {
      return fmt::format("tier {} has {} ports upwards; the highest tier has none, the others some", t,
                         tier.up_ports);
    }
    if (t + 1 < spec.tiers && tier.up_ports % spec.tier[t + 1].bundle != 0) {
      return fmt::format("tier {}: {} ports upwards are not a multiple of the bundle of {}", t, tier.up_ports,
                         spec.tier[t + 1].bundle);
    }
    if (tier.down_rate_bps < 1'000'000 || tier.down_rate_bps > 10'000'000'000'000) {
      return fmt::format("tier {}: a rate of {} bit/s; 1 Mbit/s to 10 Tbit/s are possible", t,
                         tier.down_rate_bps);
    }
  }
  if (spec.tier[0].bundle != 1) return "tier 0: a host has one cable a plane; its bundle must be 1";
  if (spec.hosts % spec.tier[0].down_ports != 0) {
    return fmt::format("{} hosts are not a multiple of {} hosts a leaf", spec.hosts, spec.tier[0].down_ports);
  }
  const uint32_t pod = spec.tiers == 3 ? spec.pod_hosts : spec.hosts;
  if (pod == 0 || spec.hosts % pod != 0 || pod % spec.tier[0].down_ports != 0) {
    return fmt::format("a pod of {} hosts does not fit {} hosts with {} a leaf", pod, spec.hosts,
                       spec.tier[0].down_ports);
  }
  const uint64_t leaves = pod / spec.tier[0].down_ports;
  if (leaves * spec.tier[1].bundle != spec.tier[1].down_ports) {
    return fmt::format("tier 1 has {} ports downwards, but {} leaves with {} cables each are below",
                       spec.tier[1].down_ports, leaves, spec.tier[1].bundle);
  }
  const uint64_t pods = spec.hosts / pod;
  if (spec.tiers == 3 && pods * spec.tier[2].bundle != spec.tier[2].down_ports) {
    return fmt::format("tier 2 has {} ports downwards, but {} pods with {} cables each are below",
                       spec.tier[2].down_ports, pods, spec.tier[2].bundle);
  }
  const uint64_t second_switches = pods * (spec.tier[0].up_ports / spec.tier[1].bundle);
  const uint64_t cables = uint64_t{spec.planes} * (spec.hosts + pods * leaves * spec.tier[0].up_ports +
                                                   second_switches * spec.tier[1].up_ports);
  if (cables > kMaxLinks / 2) {
    return fmt::format("{} cables are too many; the limit is {}", cables, kMaxLinks / 2);
  }
  return {};
}

namespace {

class Wiring {
 public:
  Wiring(const FatTreeSpec& spec, TopologyBuilder& builder) : spec_(spec), builder_(builder) {}

  void plane(uint32_t plane) {
    const uint32_t hosts = spec_.hosts;
    const uint32_t per_leaf = spec_.tier[0].down_ports;
    const std::vector<uint32_t> leaves = tier(plane, 0, hosts / per_leaf, per_leaf, 1, hosts / per_leaf);
    for (uint32_t host = 0; host < hosts; ++host) cables(0, host, leaves[host / per_leaf]);
    const uint32_t pod = spec_.tiers == 3 ? spec_.pod_hosts : hosts;
    const uint32_t pods = hosts / pod;
    const uint32_t pod_leaves = pod / per_leaf;
    const uint32_t above = spec_.tier[0].up_ports / spec_.tier[1].bundle;
    const std::vector<uint32_t> seconds = tier(plane, 1, above * pods, pod, per_leaf, pods);
    for (uint32_t leaf = 0; leaf < leaves.size(); ++leaf) {
      for (uint32_t a = 0; a < above; ++a) cables(1, leaves[leaf], seconds[leaf / pod_leaves * above + a]);
    }
    if (spec_.tiers == 2) return;
    const uint32_t group = spec_.tier[1].up_ports / spec_.tier[2].bundle;
    const std::vector<uint32_t> cores = tier(plane, 2, above * group, hosts, pod, 1);
    for (uint32_t second = 0; second < seconds.size(); ++second) {
      for (uint32_t c = 0; c < group; ++c) cables(2, seconds[second], cores[second % above * group + c]);
    }
  }

 private:
  // `count` switches in `ranges` groups of equal size; those of a group have the same `below` hosts below.
  std::vector<uint32_t> tier(uint32_t plane, uint32_t t, uint32_t count, uint32_t below, uint32_t per_bundle,
                             uint32_t ranges) {
    std::vector<uint32_t> nodes;
    for (uint32_t i = 0; i < count; ++i) {
      SwitchSpec spec;
      spec.tier = t;
      spec.plane = plane;
      spec.index = i;
      spec.low = i / (count / ranges) * below;
      spec.high = spec.low + below;
      spec.per_bundle = per_bundle;
      spec.bundle = spec_.tier[t].bundle;
      spec.up_ports = spec_.tier[t].up_ports;
      nodes.push_back(builder_.add_switch(spec));
    }
    return nodes;
  }

  // The bundle between a node below tier t and a switch of it.
  void cables(uint32_t t, uint32_t below, uint32_t above) {
    const FatTreeTier& tier = spec_.tier[t];
    const SimTime below_delay = t == 0 ? 0 : spec_.tier[t - 1].switch_delay;
    const uint64_t below_queue = t == 0 ? 0 : spec_.tier[t - 1].up_queue_bytes;
    for (uint32_t i = 0; i < tier.bundle; ++i) {
      builder_.connect(below, above,
                       {tier.down_rate_bps, tier.down_delay + tier.switch_delay, 0, below_queue},
                       {tier.down_rate_bps, tier.down_delay + below_delay, 0, tier.down_queue_bytes});
    }
  }

  const FatTreeSpec& spec_;
  TopologyBuilder& builder_;
};

}  // namespace

TopologyResult make_fat_tree(const FatTreeSpec& spec) {
  if (std::string error = check_fat_tree(spec); !error.empty()) return tl::unexpected(std::move(error));
  TopologyBuilder builder(spec.name, spec.hosts, spec.planes);
  Wiring wiring(spec, builder);
  for (uint32_t plane = 0; plane < spec.planes; ++plane) wiring.plane(plane);
  return builder.finish();
}

FatTreeSpec full_fat_tree(uint32_t radix, uint64_t rate_bps, SimTime delay) {
  FatTreeSpec spec;
  const uint32_t half = radix / 2;
  spec.hosts = radix * half * half;
  spec.pod_hosts = half * half;
  for (uint32_t t = 0; t < 3; ++t) {
    spec.tier[t].down_rate_bps = rate_bps;
    spec.tier[t].down_delay = delay;
    spec.tier[t].down_ports = t == 2 ? radix : half;
    spec.tier[t].up_ports = t == 2 ? 0 : half;
  }
  return spec;
}

}  // namespace mroce::sim
