#include "sim/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/routing.h"

namespace mroce::sim {

const char* Topology::node_kind(uint32_t node) const {
  if (is_host(node)) return "host";
  if (graph != nullptr) return "switch";
  const uint32_t tier = switch_of(node).tier;
  if (tier == 0) return "leaf";
  if (tier == kBorderTier) return "border";
  if (tiers <= 2) return "spine";
  return tier == 1 ? "aggregation" : "core";
}

std::string Topology::node_name(uint32_t node) const {
  if (is_host(node)) return fmt::format("host {}", node);
  const SwitchSpec& spec = switch_of(node);
  std::string name = fmt::format("{} {}", node_kind(node), spec.index);
  if (planes > 1) name += fmt::format(" plane {}", spec.plane);
  return name;
}

std::string Topology::link_name(uint32_t link) const {
  const LinkSpec& spec = links[link];
  return fmt::format("{} -> {}", node_name(spec.from), node_name(spec.to));
}

SimTime Topology::min_delay() const {
  SimTime least = kEndOfTime;
  for (const LinkSpec& link : links) least = std::min(least, link.delay);
  return links.empty() ? 0 : least;
}

uint64_t Topology::memory_bytes() const {
  return switches.capacity() * sizeof(SwitchSpec) + links.capacity() * sizeof(LinkSpec) +
         place.capacity() * sizeof(uint32_t) + (graph != nullptr ? graph->memory_bytes() : 0);
}

namespace {

// Time of a packet from one host to another, each hop by the first of its next links.
SimTime time_of_way(const Topology& topology, const Routing& routing, uint32_t from, uint32_t to,
                    uint32_t bytes) {
  SimTime time = 0;
  uint32_t link = topology.first_link(from);
  for (uint32_t hops = 0; hops < 64; ++hops) {
    const LinkSpec& spec = topology.links[link];
    time += spec.delay + serialisation(bytes, spec.rate_bps);
    if (spec.to == to) return time;
    if (topology.is_host(spec.to)) return 0;
    const NextLinks next = routing.next(spec.to - topology.hosts, to);
    if (next.count == 0) return 0;
    link = next.link(0);
  }
  return 0;
}

}  // namespace

SimTime Topology::base_rtt(uint32_t bytes, uint32_t ack_bytes) const {
  // The longest way from host 0, and from the host that is farthest from it: exact in trees, where all hosts
  // are alike or the far ones lie on the other side.
  const Routing routing(*this);
  SimTime longest = 0;
  uint32_t far = 0;
  for (const uint32_t from : {0U, UINT32_MAX}) {
    const uint32_t source = from == 0 ? 0 : far;
    for (uint32_t to = 0; to < hosts; ++to) {
      if (to == source) continue;
      const SimTime there = time_of_way(*this, routing, source, to, bytes);
      const SimTime both = there + time_of_way(*this, routing, to, source, ack_bytes);
      if (both > longest) {
        longest = both;
        far = to;
      }
    }
  }
  return longest;
}

TopologyBuilder::TopologyBuilder(std::string name, uint32_t hosts, uint32_t planes) {
  topology_.name = std::move(name);
  topology_.hosts = hosts;
  topology_.planes = planes;
}

uint32_t TopologyBuilder::add_switch(const SwitchSpec& spec) {
  topology_.switches.push_back(spec);
  topology_.tiers = std::max(topology_.tiers, spec.tier == kBorderTier ? 0 : spec.tier + 1);
  return topology_.nodes() - 1;
}

void TopologyBuilder::connect(uint32_t a, uint32_t b, const Direction& forth, const Direction& back) {
  cables_.push_back({a, b, forth, back});
}

TopologyResult TopologyBuilder::finish() {
  Topology& topology = topology_;
  if (topology.hosts < 2) return tl::unexpected<std::string>("a fabric needs at least two hosts");
  if (cables_.size() > kMaxLinks / 2) {
    return tl::unexpected(
        fmt::format("{} cables are too many; the limit is {}", cables_.size(), kMaxLinks / 2));
  }
  std::vector<uint32_t> first(topology.nodes() + 1, 0);
  for (const Cable& cable : cables_) {
    ++first[cable.a + 1];
    ++first[cable.b + 1];
  }
  for (uint32_t node = 0; node < topology.nodes(); ++node) {
    const uint32_t ports = first[node + 1];
    if (topology.is_host(node) && ports != topology.planes) {
      return tl::unexpected(fmt::format("host {} has {} links, not {}", node, ports, topology.planes));
    }
    if (ports > kMaxPorts) {
      return tl::unexpected(
          fmt::format("{} has {} ports; the limit is {}", topology.node_name(node), ports, kMaxPorts));
    }
    first[node + 1] += first[node];
    if (!topology.is_host(node)) {
      switch_of(node).first_link = first[node];
      switch_of(node).ports = ports;
    }
  }
  topology.links.resize(cables_.size() * 2);
  for (const Cable& cable : cables_) {
    const uint32_t forth = first[cable.a]++;
    const uint32_t back = first[cable.b]++;
    topology.links[forth] = {cable.a,
                             cable.b,
                             back,
                             cable.forth.rate_bps,
                             cable.forth.delay,
                             cable.forth.loss,
                             cable.forth.queue_bytes};
    topology.links[back] = {cable.b,
                            cable.a,
                            forth,
                            cable.back.rate_bps,
                            cable.back.delay,
                            cable.back.loss,
                            cable.back.queue_bytes};
  }
  return std::move(topology);
}

}  // namespace mroce::sim
