#include "sim/routing.h"

#include <map>
#include <utility>

namespace mroce::sim {

Routing::Routing(const Topology& topology)
    : place_(topology.place.empty() ? nullptr : topology.place.data()),
      graph_(topology.graph.get()),
      hosts_(topology.hosts) {
  if (graph_ != nullptr) {
    nodes_.resize(topology.switches.size());
    return;
  }
  nodes_.reserve(topology.switches.size());
  for (const SwitchSpec& spec : topology.switches) {
    Node node;
    node.low = spec.low;
    node.span = spec.high - spec.low;
    node.per_bundle = spec.per_bundle;
    node.bundle = spec.bundle;
    node.down = spec.first_link;
    node.up = spec.first_link + spec.ports - spec.up_ports;
    node.up_count = spec.up_ports;
    nodes_.push_back(node);
  }
}

NextLinks Routing::next_in_graph(uint32_t index, uint32_t destination) const {
  const uint32_t at = graph_->set_of[static_cast<size_t>(index) * hosts_ + destination];
  const GraphRoutes::Set& set = graph_->sets[at];
  return {0, set.count, graph_->members.data() + set.first};
}

namespace {

constexpr uint32_t kFar = UINT32_MAX;

// Distance of every node to `host` in hops; ways do not lead through other hosts.
void distances(const Topology& topology, uint32_t host, std::vector<uint32_t>& distance,
               std::vector<uint32_t>& queue) {
  distance.assign(topology.nodes(), kFar);
  queue.assign(1, host);
  distance[host] = 0;
  for (size_t at = 0; at < queue.size(); ++at) {
    const uint32_t node = queue[at];
    if (topology.is_host(node) && node != host) continue;
    const uint32_t first = topology.first_link(node);
    const uint32_t ports = topology.is_host(node) ? topology.planes : topology.switch_of(node).ports;
    for (uint32_t link = first; link < first + ports; ++link) {
      const uint32_t next = topology.links[link].to;
      if (distance[next] != kFar) continue;
      distance[next] = distance[node] + 1;
      queue.push_back(next);
    }
  }
}

}  // namespace

std::optional<GraphRoutes> shortest_routes(const Topology& topology, size_t max_members) {
  GraphRoutes routes;
  routes.set_of.assign(topology.switches.size() * topology.hosts, 0);
  std::map<std::vector<uint32_t>, uint32_t> known;
  std::vector<uint32_t> distance;
  std::vector<uint32_t> queue;
  std::vector<uint32_t> next;
  for (uint32_t host = 0; host < topology.hosts; ++host) {
    distances(topology, host, distance, queue);
    for (uint32_t index = 0; index < topology.switches.size(); ++index) {
      const SwitchSpec& spec = topology.switches[index];
      const uint32_t own = distance[topology.hosts + index];
      next.clear();
      for (uint32_t link = spec.first_link; own != kFar && link < spec.first_link + spec.ports; ++link) {
        const uint32_t to = topology.links[link].to;
        if (topology.is_host(to) && to != host) continue;
        if (distance[to] + 1 == own) next.push_back(link);
      }
      const auto [at, fresh] = known.emplace(next, static_cast<uint32_t>(routes.sets.size()));
      if (fresh) {
        if (routes.members.size() + next.size() > max_members) return std::nullopt;
        routes.sets.push_back(
            {static_cast<uint32_t>(routes.members.size()), static_cast<uint32_t>(next.size())});
        routes.members.insert(routes.members.end(), next.begin(), next.end());
      }
      routes.set_of[static_cast<size_t>(index) * topology.hosts + host] = at->second;
    }
  }
  return routes;
}

}  // namespace mroce::sim
