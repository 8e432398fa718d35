#include "sim/cut.h"

#include <algorithm>

namespace mroce::sim {
namespace {

// Graphs have no ranges: a switch goes with the first host at it.
std::vector<uint32_t> first_hosts(const Topology& topology) {
  std::vector<uint32_t> first(topology.switches.size(), UINT32_MAX);
  for (const LinkSpec& link : topology.links) {
    if (!topology.is_host(link.from) || topology.is_host(link.to)) continue;
    uint32_t& host = first[link.to - topology.hosts];
    host = std::min(host, link.from);
  }
  return first;
}

// Position in the order of hosts; UINT32_MAX: above all of them.
std::vector<uint32_t> positions(const Topology& topology) {
  std::vector<uint32_t> position(topology.nodes(), UINT32_MAX);
  for (uint32_t host = 0; host < topology.hosts; ++host) position[host] = topology.place_of(host);
  const std::vector<uint32_t> first =
      topology.graph != nullptr ? first_hosts(topology) : std::vector<uint32_t>();
  for (uint32_t index = 0; index < topology.switches.size(); ++index) {
    const SwitchSpec& spec = topology.switches[index];
    uint32_t& at = position[topology.hosts + index];
    if (topology.graph != nullptr) {
      at = first[index];
    } else if (spec.high - spec.low < topology.hosts) {
      at = spec.low;
    }
  }
  // Hosts of a graph need not be in the order of their switches.
  for (uint32_t host = 0; topology.graph != nullptr && host < topology.hosts; ++host) {
    const uint32_t node = topology.links[topology.first_link(host)].to;
    if (!topology.is_host(node)) position[host] = position[node];
  }
  return position;
}

}  // namespace

Cut cut_fabric(const Topology& topology, uint32_t wanted) {
  Cut cut;
  cut.partition_of.assign(topology.nodes(), 0);
  cut.count = std::clamp<uint32_t>(wanted, 1, std::max<uint32_t>(topology.hosts / 2, 1));
  if (cut.count == 1) return cut;
  const std::vector<uint32_t> position = positions(topology);
  uint32_t turn = 0;
  for (uint32_t node = 0; node < topology.nodes(); ++node) {
    cut.partition_of[node] =
        position[node] != UINT32_MAX
            ? static_cast<uint32_t>(uint64_t{position[node]} * cut.count / topology.hosts)
            : turn++ % cut.count;
  }
  for (const LinkSpec& link : topology.links) {
    if (cut.partition_of[link.from] != cut.partition_of[link.to]) {
      cut.lookahead = std::min(cut.lookahead, link.delay);
    }
  }
  if (cut.lookahead > 0) return cut;
  Cut whole;
  whole.partition_of.assign(topology.nodes(), 0);
  return whole;
}

}  // namespace mroce::sim
