// Occupancy of a switch where it counts: the shared buffer, PFC by ingress port, credits.
//
// A packet is counted when it comes in and until its transmission has ended: in the shared buffer or, if the
// threshold of its ingress port and class is reached, in the headroom of that port.

#include <algorithm>

#include "core/base/assert.h"
#include "sim/partition.h"

namespace mroce::sim {
namespace {

constexpr uint32_t kPauseBytes = 64;

}  // namespace

uint64_t Partition::pause_threshold(const Switch& sw) const {
  const FabricConfig& config = fabric_.config;
  if (config.pfc.xoff_bytes != 0) return config.pfc.xoff_bytes;
  const uint64_t free = config.shared.bytes - std::min(config.shared.bytes, sw.shared);
  return static_cast<uint64_t>(config.pfc.alpha * static_cast<double>(free));
}

bool Partition::admit(Switch& sw, uint32_t index, Link& link, Packet* packet) {
  const FabricConfig& config = fabric_.config;
  if (fabric_.lossless(packet->priority)) {
    const uint32_t port = fabric_.topology.switches[index].first_link + packet->ingress;
    if (!admit_lossless(sw, port, packet)) return false;
  } else {
    const uint64_t free = config.shared.bytes - std::min(config.shared.bytes, sw.shared);
    const uint64_t wanted = uint64_t{depth_of(link, packet->priority)} + packet->bytes;
    if (config.shared.bytes != 0 &&
        (packet->bytes > free ||
         static_cast<double>(wanted) > config.shared.alpha * static_cast<double>(free))) {
      drop(sw, static_cast<uint32_t>(&link - links_), packet, DropReason::shared_buffer);
      return false;
    }
    sw.shared += packet->bytes;
  }
  sw.buffered += packet->bytes;
  sw.counters.max_buffered = std::max(sw.counters.max_buffered, sw.buffered);
  return true;
}

bool Partition::admit_lossless(Switch& sw, uint32_t port, Packet* packet) {
  Ingress& in = fabric_.ingress[port];
  const uint32_t c = packet->priority;
  const uint64_t threshold = pause_threshold(sw);
  const uint64_t total = fabric_.config.shared.bytes;
  const bool full = total != 0 && sw.shared + packet->bytes > total;
  const bool over = full || in.bytes[c] - in.in_headroom[c] + packet->bytes > threshold;
  if (over) {
    if (in.in_headroom[c] + packet->bytes > in.headroom) {
      drop(sw, fabric_.topology.links[port].reverse, packet, DropReason::headroom);
      return false;
    }
    in.in_headroom[c] += packet->bytes;
  } else {
    sw.shared += packet->bytes;
  }
  in.bytes[c] += packet->bytes;
  if (over && (in.pausing >> c & 1) == 0) {
    in.pausing |= 1U << c;
    ++sw.counters.pauses_sent;
    send_pause(port, c, true);
  }
  return true;
}

// The transmission of a packet has ended on link `id` of a switch. Of an ingress port the headroom is given
// back first, whichever packet leaves: it must be whole again before the neighbour may send.
void Partition::departed(uint32_t id, const Packet& packet) {
  if (packet.kind == PacketKind::kPause) return;
  const Topology& topology = fabric_.topology;
  const uint32_t index = topology.links[id].from - topology.hosts;
  Switch& sw = fabric_.switches[index];
  sw.buffered -= packet.bytes;
  const uint32_t port = topology.switches[index].first_link + packet.ingress;
  const uint32_t c = packet.priority;
  if (fabric_.config.credit.buffer_bytes != 0) return_credit(topology.links[port].reverse, c, packet.bytes);
  if (!fabric_.lossless(c)) {
    sw.shared -= packet.bytes;
    return;
  }
  Ingress& in = fabric_.ingress[port];
  const uint32_t from_headroom = std::min(in.in_headroom[c], packet.bytes);
  in.bytes[c] -= packet.bytes;
  in.in_headroom[c] -= from_headroom;
  sw.shared -= packet.bytes - from_headroom;
  if ((in.pausing >> c & 1) == 0 || in.in_headroom[c] != 0) return;
  if (in.bytes[c] != 0 && in.bytes[c] + fabric_.config.pfc.xon_gap_bytes > pause_threshold(sw)) return;
  in.pausing &= ~(1U << c);
  ++sw.counters.resumes_sent;
  send_pause(port, c, false);
}

// A real frame on the link that leaves the port, before everything that waits there.
void Partition::send_pause(uint32_t id, uint32_t priority, bool pause) {
  Packet* const packet = pool_.allocate(0);
  packet->kind = PacketKind::kPause;
  packet->bytes = kPauseBytes;
  packet->priority = static_cast<uint8_t>(priority);
  packet->fabric = pause ? 1 : 0;
  send(id, packet);
}

void Partition::return_credit(uint32_t in_link, uint32_t priority, uint32_t bytes) {
  const LinkSpec& spec = fabric_.topology.links[in_link];
  MROCE_ASSERT(bytes < 1U << 24);
  const SimTime at = now_ + fabric_.topology.links[spec.reverse].delay;
  const uint32_t what = priority << 24 | bytes;
  if (const uint32_t owner = partition_of(spec.from); owner != own_) {
    outboxes_[owner].new_credits.push_back({at, in_link, what});
  } else {
    queue_.push(at, event_key(EventKind::kCredit, in_link), what);
  }
}

}  // namespace mroce::sim
