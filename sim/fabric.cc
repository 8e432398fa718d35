#include "sim/fabric.h"

#include <algorithm>

namespace mroce::sim {
namespace {

// What may still arrive after a pause was sent: a round trip of the link, a packet on its way at each end,
// and the pause frame.
uint64_t needed_headroom(const LinkSpec& in, const LinkSpec& out, uint32_t full_packet) {
  const auto seconds = static_cast<double>(in.delay + out.delay) * 1e-12;
  const auto flying = static_cast<uint64_t>(seconds * static_cast<double>(in.rate_bps) / 8);
  return flying + 3 * full_packet + 128;
}

uint64_t seed_of(uint64_t seed, uint64_t what) {
  Rng rng(seed ^ (what + 1) * 0xD1B54A32D192ED03ULL);
  return rng.next();
}

}  // namespace

Fabric::Fabric(const Topology& t, const FabricConfig& c, uint32_t full, uint64_t seed_of_run)
    : topology(t),
      config(c),
      routing(t),
      seed(seed_of_run),
      full_packet(full),
      host_links(t.hosts * t.planes) {
  links.resize(topology.links.size());
  far_end.resize(links.size());
  for (uint32_t id = 0; id < links.size(); ++id) {
    far_end[id] = id;
    const LinkSpec& spec = topology.links[id];
    Link& link = links[id];
    link.set_rate(spec.rate_bps);
    link.delay = spec.delay;
    link.to = spec.to;
    link.to_port = static_cast<uint16_t>(spec.reverse - topology.first_link(spec.to));
    link.set(Link::kToHost, topology.is_host(spec.to));
    if ((id >= host_links && config.accounts()) || config.credit.buffer_bytes != 0) {
      link.classes = std::make_unique<ClassQueues>();
      link.classes->credit.fill(static_cast<int64_t>(config.credit.buffer_bytes));
      link.set(Link::kExplicit);
      link.set(Link::kSticky);
    }
    if (spec.loss > 0) {
      link.trouble = make_trouble(id);
      link.trouble->loss = spec.loss;
      link.set(Link::kTroubled);
    }
    set_quiet(id);
  }
  switches.resize(topology.switches.size());
  for (uint32_t index = 0; index < switches.size(); ++index) {
    routing.set_seed(index, static_cast<uint32_t>(seed_of(seed, uint64_t{1} << 32 | index)));
    switches[index].rng = Rng(seed_of(seed, uint64_t{3} << 32 | index));
  }
  hosts.resize(topology.hosts);
  if (!config.accounts()) return;
  ingress.resize(topology.links.size());
  for (uint32_t id = 0; id < topology.links.size(); ++id) {
    const LinkSpec& out = topology.links[id];
    ingress[id].headroom = config.pfc.headroom_bytes != PfcConfig::kAuto
                               ? config.pfc.headroom_bytes
                               : needed_headroom(topology.links[out.reverse], out, full_packet);
  }
}

std::unique_ptr<LinkTrouble> Fabric::make_trouble(uint32_t link) const {
  auto trouble = std::make_unique<LinkTrouble>();
  trouble->rng = Rng(seed_of(seed, uint64_t{2} << 32 | link));
  return trouble;
}

void Fabric::cut(const std::vector<uint32_t>& partition_of) {
  for (uint32_t id = 0; id < topology.links.size(); ++id) {
    const LinkSpec& spec = topology.links[id];
    if (partition_of[spec.from] == partition_of[spec.to]) continue;
    far_end[id] = static_cast<uint32_t>(links.size());
    Link& end = links.emplace_back();
    Link& link = links[id];
    link.set(Link::kCrossing);
    end.set_rate(spec.rate_bps);
    end.delay = link.delay;
    end.to = link.to;
    end.to_port = link.to_port;
    end.flags = link.flags & (Link::kTroubled | Link::kToHost);
    end.trouble = std::move(link.trouble);  // loss happens at the far end
  }
}

void Fabric::set_quiet(uint32_t id) {
  Link& link = links[id];
  uint64_t least = UINT64_MAX;
  if (id >= host_links) {
    if (const uint64_t limit = queue_limit(id); limit != 0) least = limit;
    for (const EcnConfig& ecn : config.ecn) {
      if (ecn.enabled()) least = std::min(least, ecn.kmin_bytes);
    }
  }
  // The exact depth is less than a packet above the bytes of the backlog, and the new packet comes on top.
  const uint64_t margin = 2 * uint64_t{full_packet};
  link.quiet = least == UINT64_MAX ? kEndOfTime
               : least <= margin   ? -1
                                   : serialisation(least - margin, link.rate_bps);
}

uint64_t Fabric::max_queue_bytes(uint32_t link) const {
  const double rate = static_cast<double>(topology.links[link].rate_bps);
  return static_cast<uint64_t>(static_cast<double>(links[link].max_backlog) * rate / 8e12 + 0.5);
}

uint64_t Fabric::memory_bytes() const {
  uint64_t sum = links.capacity() * sizeof(Link) + far_end.capacity() * sizeof(uint32_t) +
                 switches.capacity() * sizeof(Switch) + ingress.capacity() * sizeof(Ingress) +
                 hosts.capacity() * sizeof(Host);
  for (const Link& link : links) {
    if (link.classes != nullptr) sum += sizeof(ClassQueues);
    if (link.trouble != nullptr) sum += sizeof(LinkTrouble);
  }
  return sum;
}

}  // namespace mroce::sim
