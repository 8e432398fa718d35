// A switch: which port, whether the packet fits, whether it is marked.

#include "core/base/assert.h"
#include "sim/partition.h"

namespace mroce::sim {

void Partition::forward(uint32_t index, Packet* packet) {
  Switch& sw = fabric_.switches[index];
  ++packet->hops;
  const NextLinks next = fabric_.routing.next(index, packet->destination);
  if (next.count == 0) [[unlikely]]
    return drop(sw, link_in(index, *packet), packet, DropReason::no_route);
  const uint32_t id = next.count == 1 ? next.link(0) : choose(index, next, *packet);
  Link& link = links_[id];
  bool mark = false;
  if (link.backlog(now_) > link.quiet) {
    const uint32_t depth = depth_of(link, packet->priority) + packet->bytes;
    const uint64_t limit = fabric_.queue_limit(id);
    if (limit != 0 && depth > limit && !fabric_.lossless(packet->priority)) {
      return drop(sw, id, packet, DropReason::queue);
    }
    mark = marks(sw, *packet, depth);
  }
  if (fabric_.config.accounts() && !admit(sw, index, link, packet)) return;
  if (mark) {
    packet->ecn = Ecn::kCe;
    ++sw.counters.marks;
    ++counters_.marks;
    if (incidents_ != nullptr) note(Incident::Kind::kMark, id, *packet);
  }
  send(id, packet);
}

// Bytes of the class in the queue, and of the packet being sent whatever its class.
uint32_t Partition::depth_of(Link& link, uint32_t priority) const {
  if (!link.is(Link::kExplicit)) {
    link.settle(now_);
    return link.queued;
  }
  const ClassQueues& queues = *link.classes;
  return queues.bytes[priority] + (queues.sending != nullptr ? queues.sending->bytes : 0);
}

bool Partition::marks(Switch& sw, const Packet& packet, uint32_t depth) const {
  const EcnConfig& ecn = fabric_.config.ecn[packet.priority];
  if (!ecn.enabled() || packet.ecn == Ecn::kNotEct || packet.ecn == Ecn::kCe) return false;
  const double probability = ecn.probability(depth);
  return probability >= 1 || (probability > 0 && sw.rng.chance(probability));
}

// Among equal next links: by hash, or the least queued; not those that are known to be down if there is
// another.
uint32_t Partition::choose(uint32_t index, const NextLinks& next, const Packet& packet) {
  const uint32_t start = fabric_.routing.spread_at(index, packet.hash, next.count);
  if (fabric_.config.adaptive) return least_queued(next, start);
  uint32_t id = next.link(start);
  if (!links_[id].is(Link::kAvoided)) [[likely]]
    return id;
  uint32_t usable = 0;
  for (uint32_t i = 0; i < next.count; ++i) usable += links_[next.link(i)].is(Link::kAvoided) ? 0 : 1;
  if (usable == 0) return id;
  uint32_t wanted = spread(mix_hash(packet.hash, ~fabric_.routing.seed(index)), usable);
  for (uint32_t i = 0;; ++i) {
    id = next.link(i);
    if (!links_[id].is(Link::kAvoided) && wanted-- == 0) return id;
  }
}

uint32_t Partition::least_queued(const NextLinks& next, uint32_t start) const {
  uint32_t best = next.link(start);
  SimTime least = kEndOfTime;
  for (uint32_t i = 0; i < next.count; ++i) {
    const uint32_t at = start + i;
    const uint32_t id = next.link(at < next.count ? at : at - next.count);
    const Link& link = links_[id];
    if (link.is(Link::kAvoided)) continue;
    const SimTime backlog = link.backlog(now_);
    if (backlog < least) {
      least = backlog;
      best = id;
    }
  }
  return best;
}

// The link that the packet came in by.
uint32_t Partition::link_in(uint32_t index, const Packet& packet) const {
  const Topology& topology = fabric_.topology;
  return topology.links[topology.switches[index].first_link + packet.ingress].reverse;
}

// `link`: see Incident.
void Partition::drop(Switch& sw, uint32_t link, Packet* packet, DropReason reason) {
  if (incidents_ != nullptr) note(Incident::Kind::kDrop, link, *packet, reason);
  ++sw.counters.drops[static_cast<size_t>(reason)];
  sw.counters.dropped_bytes += packet->bytes;
  ++counters_.switch_drops;
  pool_.release(packet);
}

}  // namespace mroce::sim
