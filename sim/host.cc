// A host's NIC: pulls packets from the transport, hands packets to it, keeps its timer.

#include <algorithm>

#include "sim/partition.h"

namespace mroce::sim {

void Partition::host_arrival(uint32_t host, uint32_t port, Packet* packet) {
  if (fabric_.config.nic.receive_bps != 0) return hold(host, port, packet);
  deliver(host, port, packet);
}

// A slow receiver: the packet waits until the host has taken it in.
void Partition::hold(uint32_t host, uint32_t port, Packet* packet) {
  const NicConfig& nic = fabric_.config.nic;
  Host& state = fabric_.hosts[host];
  const uint32_t first = host * fabric_.topology.planes;
  if (nic.receive_buffer != 0 && state.received_bytes + packet->bytes > nic.receive_buffer) {
    ++state.receiver_drops;
    ++counters_.receiver_drops;
    state.transport->on_receive_drop(now_);
    if (incidents_ != nullptr) {
      note(Incident::Kind::kRefused, fabric_.topology.links[first + port].reverse, *packet);
    }
    if (fabric_.config.credit.buffer_bytes != 0) {
      return_credit(fabric_.topology.links[first + port].reverse, packet->priority, packet->bytes);
    }
    return pool_.release(packet);
  }
  state.receiving_until =
      std::max(state.receiving_until, now_) + serialisation(packet->bytes, nic.receive_bps);
  packet->at = state.receiving_until;
  if (state.received.head == nullptr) queue_.push(packet->at, event_key(EventKind::kReceive, host), 0);
  state.received.push(packet);
  state.received_bytes += packet->bytes;
  const uint32_t bit = 1U << packet->priority;
  if (fabric_.lossless(packet->priority) && state.received_bytes > receive_xoff() &&
      (state.pausing & bit) == 0) {
    state.pausing |= bit;
    ++state.pauses_sent;
    for (uint32_t p = 0; p < fabric_.topology.planes; ++p) send_pause(first + p, packet->priority, true);
  }
}

uint64_t Partition::receive_xoff() const {
  const NicConfig& nic = fabric_.config.nic;
  if (nic.receive_xoff != 0) return nic.receive_xoff;
  return nic.receive_buffer != 0 ? nic.receive_buffer / 2 : UINT64_MAX;
}

void Partition::on_receive(uint32_t host) {
  Host& state = fabric_.hosts[host];
  Packet* const packet = state.received.pop();
  if (state.received.head != nullptr) {
    queue_.push(state.received.head->at, event_key(EventKind::kReceive, host), 0);
  }
  state.received_bytes -= packet->bytes;
  if (state.pausing != 0 && state.received_bytes <= receive_xoff() / 2) {
    const uint32_t first = host * fabric_.topology.planes;
    for (uint32_t c = 0; c < kClasses; ++c) {
      if ((state.pausing >> c & 1) == 0) continue;
      for (uint32_t p = 0; p < fabric_.topology.planes; ++p) send_pause(first + p, c, false);
    }
    state.pausing = 0;
  }
  deliver(host, packet->ingress, packet);
}

void Partition::deliver(uint32_t host, uint32_t port, Packet* packet) {
  if (fabric_.config.credit.buffer_bytes != 0) {
    const uint32_t uplink = host * fabric_.topology.planes + port;
    return_credit(fabric_.topology.links[uplink].reverse, packet->priority, packet->bytes);
  }
  fabric_.hosts[host].transport->receive(now_, port, *packet);
  pool_.release(packet);
  after_call(host);
}

void Partition::on_start(uint32_t flow) {
  Flow& entry = flows_[flow];
  entry.started = now_;
  fabric_.hosts[entry.source].transport->start(now_, flow, entry);
  after_call(entry.source);
}

void Partition::on_timer(uint32_t host) {
  Host& state = fabric_.hosts[host];
  if (state.timer != now_) return;  // an earlier one took its place
  state.timer = kEndOfTime;
  if (state.transport->deadline() <= now_) state.transport->on_timer(now_);
  after_call(host);
}

// Ports that are not full ask for packets; an earlier deadline gets an event. A later one is found when the
// pending event comes.
void Partition::after_call(uint32_t host) {
  Host& state = fabric_.hosts[host];
  for (uint32_t port = 0; port < fabric_.topology.planes; ++port) {
    if ((state.busy_ports >> port & 1) == 0) pull(host, port);
  }
  set_timer(host);
}

void Partition::set_timer(uint32_t host) {
  Host& state = fabric_.hosts[host];
  const SimTime deadline = state.transport->deadline();
  if (deadline >= state.timer) return;
  state.timer = std::max(deadline, now_ + 1);
  queue_.push(state.timer, event_key(EventKind::kTimer, host), 0);
}

bool Partition::port_full(const Link& link) const {
  const uint32_t ahead = fabric_.config.nic.pull_ahead;
  if (!link.is(Link::kExplicit))
    return link.busy_until - now_ > link.time_of((ahead - 1) * fabric_.full_packet);
  // Paused classes may fill a few times as much, so that others are not stuck behind them.
  const ClassQueues& queues = *link.classes;
  uint32_t open = queues.sending != nullptr ? queues.sending->bytes : 0;
  uint32_t all = open;
  for (uint32_t c = 0; c < kClasses; ++c) {
    all += queues.bytes[c];
    if ((queues.paused >> c & 1) == 0) open += queues.bytes[c];
  }
  return open > (ahead - 1) * fabric_.full_packet || all > 4 * ahead * fabric_.full_packet;
}

void Partition::pull(uint32_t host, uint32_t port) {
  const uint32_t id = host * fabric_.topology.planes + port;
  Host& state = fabric_.hosts[host];
  Link& link = links_[id];
  while (!port_full(link)) {
    Packet* const packet = state.transport->pull(now_, port);
    if (packet == nullptr) return;
    packet->plane = static_cast<uint8_t>(port);
    send(id, packet);
  }
  state.busy_ports |= 1U << port;
  // In explicit mode the end of each transmission pulls again.
  if (link.is(Link::kExplicit) || (state.pull_events >> port & 1) != 0) return;
  state.pull_events |= 1U << port;
  const SimTime one_left = std::max(link.busy_until - link.time_of(fabric_.full_packet), now_ + 1);
  queue_.push(one_left, event_key(EventKind::kPull, id), 0);
}

void Partition::on_pull(uint32_t id) {
  const uint32_t planes = fabric_.topology.planes;
  fabric_.hosts[id / planes].pull_events &= ~(1U << id % planes);
  pull_again(id);
}

void Partition::pull_again(uint32_t id) {
  const uint32_t planes = fabric_.topology.planes;
  fabric_.hosts[id / planes].busy_ports &= ~(1U << id % planes);
  pull(id / planes, id % planes);
  set_timer(id / planes);
}

}  // namespace mroce::sim
