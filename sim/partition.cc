#include "sim/partition.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/assert.h"
#include "sim/prefetch.h"

namespace mroce::sim {

Partition::Partition(Fabric& fabric, const std::vector<uint32_t>& partition_of, uint32_t own, uint32_t count,
                     unsigned slot_bits, std::vector<Flow>& flows, FlowScheduler* scheduler,
                     const FaultPlan& faults)
    : fabric_(fabric),
      links_(fabric.links.data()),
      partition_of_(partition_of),
      own_(own),
      flows_(flows),
      scheduler_(scheduler),
      faults_(faults),
      queue_(slot_bits),
      outboxes_(count) {
  for (uint32_t index = 0; index < faults.size(); ++index) {
    const LinkSpec& link = fabric.topology.links[faults[index].link];
    if (partition_of_[link.from] != own && partition_of_[link.to] != own) continue;
    queue_.push(faults[index].at, event_key(EventKind::kFault, index), 0);
  }
  // Until there are others. Links of other partitions may not even be looked at.
  const std::vector<LinkSpec>& links = fabric.topology.links;
  const auto leaves_here = [&](const LinkSpec& link) { return partition_of_[link.from] == own; };
  const auto own_link = std::find_if(links.begin(), links.end(), leaves_here);
  if (own_link != links.end()) next_hops_.fill(static_cast<uint32_t>(own_link - links.begin()));
}

void Partition::start_flow(SimTime at, uint32_t flow) {
  queue_.push(at, event_key(EventKind::kStart, flows_[flow].source), flow);
}

void Partition::run(SimTime limit) {
  Event event;
  uint64_t slots = 0;
  while (queue_.pop(limit, event)) {
    if (queue_.slots_taken() != slots) {
      slots = queue_.slots_taken();
      prefetch_slots();
    }
    prefetch_events();
    now_ = event.at;
    dispatch(event);
  }
}

// What later events will touch. Traffic in step puts thousands of events into one slot, other traffic a few
// into each; so both ways are needed: some places ahead in the current slot...
void Partition::prefetch_events() {
  if (const Event* event = queue_.ahead(20)) prefetch_link(*event);
  if (const Event* event = queue_.ahead(12)) prefetch_packet(*event);
  if (const Event* event = queue_.ahead(5)) prefetch_next_hop(*event);
  const Link& next = links_[next_hops_[(next_hop_ + 1) & 3]];
  prefetch(next.tail);
  if (!fabric_.ingress.empty()) prefetch(next.classes.get());
}

void Partition::prefetch_link(const Event& event) const {
  if (event.kind() == EventKind::kArrival) {
    prefetch(&links_[event.what]);
    prefetch(&links_[event.what].arrived_packets);
  } else if (event.kind() == EventKind::kSent) {
    prefetch(&links_[event.id()]);
    prefetch(&links_[event.id()].arrived_packets);
  }
}

void Partition::prefetch_packet(const Event& event) const {
  if (event.kind() == EventKind::kArrival) {
    const Link& link = links_[event.what];
    prefetch(link.head);
    if (link.is(Link::kToHost)) {
      prefetch(link.head + 1);
      prefetch(&fabric_.hosts[link.to]);
    } else {
      prefetch(fabric_.routing.address(link.to - fabric_.topology.hosts));
    }
  } else if (event.kind() == EventKind::kSent) {
    prefetch(links_[event.id()].classes.get());
  }
}

// Where the first packet of the link goes next: the link now, its last packet a few events later.
void Partition::prefetch_next_hop(const Event& event) {
  if (event.kind() == EventKind::kSent) return prefetch_sent(links_[event.id()]);
  if (event.kind() != EventKind::kArrival) return;
  const Link& link = links_[event.what];
  const Packet* const packet = link.head;
  if (packet == nullptr) return;
  if (link.is(Link::kToHost)) return prefetch(fabric_.hosts[link.to].transport.get());
  const uint32_t index = link.to - fabric_.topology.hosts;
  const NextLinks next = fabric_.routing.next(index, packet->destination);
  if (next.count == 0) return;
  const uint32_t id = next.link(fabric_.routing.spread_at(index, packet->hash, next.count));
  prefetch(&links_[id]);
  next_hops_[next_hop_++ & 3] = id;
}

// The packet that leaves, and the one that probably follows.
void Partition::prefetch_sent(const Link& link) const {
  if (link.classes == nullptr) return;
  const ClassQueues& queues = *link.classes;
  prefetch(queues.sending);
  if (queues.used != 0) prefetch(queues.waiting[std::bit_width(queues.used) - 1U].head);
}

// ... and packets of the next slot, links of the one after it, events of the third.
void Partition::prefetch_slots() const {
  const auto arrival = [](const Event& event) { return event.kind() == EventKind::kArrival; };
  const int64_t next = queue_.next_slot(queue_.current_slot());
  queue_.visit(next, [&](const Event& event) {
    if (arrival(event)) prefetch(links_[event.what].head);
  });
  const int64_t second = queue_.next_slot(next);
  queue_.visit(second, [&](const Event& event) {
    if (!arrival(event)) return;
    prefetch(&links_[event.what]);
    prefetch(&links_[event.what].arrived_packets);
  });
  queue_.prefetch_slot(queue_.next_slot(second));
}

void Partition::dispatch(const Event& event) {
  if (event.kind() == EventKind::kArrival) [[likely]] {
    ++counters_.events;
    return on_arrival(event);
  }
  if (event.kind() == EventKind::kFault) return on_fault(event.id());
  ++counters_.events;
  switch (event.kind()) {
    case EventKind::kSent:
      return on_sent(event.id());
    case EventKind::kCredit:
      return on_credit(event.id(), event.what);
    case EventKind::kReceive:
      return on_receive(event.id());
    case EventKind::kStart:
      return on_start(event.what);
    case EventKind::kTimer:
      return on_timer(event.id());
    case EventKind::kPull:
      return on_pull(event.id());
    case EventKind::kArrival:
    case EventKind::kFault:
      return;
  }
}

void Partition::on_arrival(const Event& event) {
  Link& link = links_[event.what];
  Packet* const packet = link.head;
  Packet* const next = packet->next;
  if (link.cursor == packet) {
    link.queued -= packet->bytes;
    link.cursor = next;
  }
  link.head = next;
  if (next != nullptr) queue_.push(packet->next_at, event.key, event.what);
  const bool pause = packet->kind == PacketKind::kPause;
  if ((link.flags & (Link::kTroubled | Link::kWatched)) != 0) [[unlikely]] {
    const bool lost = link.is(Link::kTroubled) && loses(link, *packet);
    if (link.is(Link::kWatched)) capture(event.id(), *packet, lost);
    if (lost) return lose(event.id(), link, packet);
  }
  if (pause) [[unlikely]] {
    ++counters_.pause_frames;
    set_paused(fabric_.topology.links[event.id()].reverse, packet->priority, packet->fabric != 0);
    return pool_.release(packet);
  }
  ++counters_.hops;
  ++link.arrived_packets;
  link.arrived_bytes += packet->bytes;
  packet->ingress = link.to_port;
  if (link.is(Link::kToHost)) return host_arrival(link.to, link.to_port, packet);
  forward(link.to - fabric_.topology.hosts, packet);
}

bool Partition::loses(Link& link, const Packet& packet) {
  LinkTrouble& trouble = *link.trouble;
  const SimTime started = packet.at - link.delay - link.time_of(packet.bytes);
  if (packet.kind == PacketKind::kPause) return trouble.down > 0 || started < trouble.up_since;
  return trouble.loses(started);
}

void Partition::lose(uint32_t id, Link& link, Packet* packet) {
  if (packet->kind != PacketKind::kPause) {
    ++link.arrived_packets;
    link.arrived_bytes += packet->bytes;
    ++link.lost_packets;
    link.lost_bytes += packet->bytes;
    ++counters_.lost;
    if (incidents_ != nullptr) note(Incident::Kind::kLost, id, *packet);
    if (fabric_.config.credit.buffer_bytes != 0) return_credit(id, packet->priority, packet->bytes);
  }
  pool_.release(packet);
}

void Partition::note(Incident::Kind kind, uint32_t link, const Packet& packet, DropReason reason) {
  incidents_->push_back({now_, link, kind, reason, packet.priority, packet.source, packet.destination,
                         packet.bytes, packet.flow});
}

void Partition::capture(uint32_t link, const Packet& packet, bool lost) {
  const std::span<const std::byte> header = packet.header();
  log_->packets.push_back({{packet, now_, link, lost}, log_->bytes.size()});
  log_->bytes.insert(log_->bytes.end(), header.begin(), header.end());
}

SimTime Partition::earliest() const {
  SimTime first = queue_.earliest();
  for (const uint32_t id : crossing_) first = std::min(first, links_[id].head->at);
  for (const Outbox& box : outboxes_) {
    for (const Credit& credit : box.new_credits) first = std::min(first, credit.at);
  }
  return first;
}

void Partition::hand_over(SimTime limit) {
  size_t kept = 0;
  for (const uint32_t id : crossing_) {
    Link& link = links_[id];
    PacketList batch;
    while (link.head != nullptr && link.head->at - link.delay < limit) {
      Packet* const packet = link.head;
      link.head = packet->next;
      if (link.cursor == packet) {
        link.queued -= packet->bytes;
        link.cursor = link.head;
      }
      if (batch.head != nullptr) batch.tail->next_at = packet->at;
      batch.push(packet);
    }
    if (batch.head != nullptr) {
      Outbox& box = outboxes_[partition_of(link.to)];
      box.links.push_back(id);
      box.packets.push_back(batch);
    }
    if (link.head != nullptr) {
      crossing_[kept++] = id;
    } else {
      link.set(Link::kListed, false);
    }
  }
  crossing_.resize(kept);
  for (Outbox& box : outboxes_) std::swap(box.credits, box.new_credits);
}

void Partition::take(Outbox& box) {
  for (size_t i = 0; i < box.links.size(); ++i) {
    const uint32_t id = box.links[i];
    const uint32_t end = fabric_.far_end[id];
    Link& link = links_[end];
    if (link.head == nullptr) {
      link.head = box.packets[i].head;
      queue_.push(link.head->at, event_key(EventKind::kArrival, id), end);
    } else {
      link.tail->next = box.packets[i].head;
      link.tail->next_at = box.packets[i].head->at;
    }
    link.tail = box.packets[i].tail;
  }
  for (const Credit& credit : box.credits) {
    queue_.push(credit.at, event_key(EventKind::kCredit, credit.link), credit.what);
  }
  box.links.clear();
  box.packets.clear();
  box.credits.clear();
}

void Partition::notify(SimTime now, uint32_t flow, FlowEvent event, uint32_t host) {
  if (scheduler_ == nullptr) return;
  const FlowNotice notice{now, flow, event};
  notices_.push_back(notice);
  starts_.clear();
  scheduler_->on_host(host, notice, starts_);
  for (const FlowStart& start : starts_) {
    MROCE_ASSERT(flows_[start.flow].source == host && start.at >= now);
    start_flow(start.at, start.flow);
  }
}

void Partition::flow_finished(SimTime now, uint32_t flow) {
  MROCE_ASSERT(flows_[flow].finished == kEndOfTime);
  flows_[flow].finished = now;
  last_finish_ = std::max(last_finish_, now);
  ++finished_;
  notify(now, flow, FlowEvent::kFinished, flows_[flow].source);
}

void Partition::flow_received(SimTime now, uint32_t flow) {
  MROCE_ASSERT(flows_[flow].received == kEndOfTime);
  flows_[flow].received = now;
  ++received_;
  notify(now, flow, FlowEvent::kReceived, flows_[flow].destination);
}

uint64_t Partition::memory_bytes() const {
  return queue_.memory_bytes() + pool_.memory_bytes() + crossing_.capacity() * sizeof(uint32_t);
}

}  // namespace mroce::sim
