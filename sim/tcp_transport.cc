#include "sim/tcp_transport.h"

#include <algorithm>

#include "core/base/assert.h"
#include "sim/hash.h"

namespace mroce::sim {
namespace {

// Of the 5-tuple; the two directions of a connection differ.
uint32_t hash_of(uint32_t source, uint32_t destination, uint32_t flow) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
  return static_cast<uint32_t>(mix64((uint64_t{source} << 32 | destination) ^ flow * kGolden));
}

}  // namespace

TcpTransport::TcpTransport(const HostContext& context, const TcpOptions& options)
    : context_(context), options_(options), ports_(context.ports) {}

TcpTransport::~TcpTransport() {
  for (Port& port : ports_) {
    while (port.acks != nullptr) {
      Packet* const packet = port.acks;
      port.acks = packet->next;
      context_.pool.release(packet);
    }
  }
}

void TcpTransport::start(SimTime, uint32_t index, const Flow& flow) {
  MROCE_ASSERT(flow.source == context_.host && outgoing_of_.find(index) == FlowIndex::kNone);
  auto outgoing = std::make_unique<Outgoing>(options_, context_.payload_mtu, flow.bytes);
  outgoing->flow = index;
  outgoing->peer = flow.destination;
  outgoing->priority = flow.priority;
  outgoing->hash = hash_of(context_.host, flow.destination, index);
  if (context_.base_rtt > 0) outgoing->sender.seed_rtt(context_.base_rtt);
  auto slot = static_cast<uint32_t>(outgoing_.size());
  if (free_.empty()) {
    outgoing_.push_back(std::move(outgoing));
  } else {
    slot = free_.back();
    free_.pop_back();
    outgoing_[slot] = std::move(outgoing);
  }
  outgoing_of_.insert(index, slot);
  update(slot);
}

void TcpTransport::receive(SimTime now, uint32_t, Packet& packet) {
  if (packet.kind == PacketKind::kData) {
    on_data(now, packet);
  } else if (packet.kind == PacketKind::kAck) {
    on_ack(now, packet);
  }
}

uint32_t TcpTransport::incoming_slot(const Packet& packet) {
  uint32_t slot = incoming_of_.find(packet.flow);
  if (slot == FlowIndex::kNone) {
    slot = static_cast<uint32_t>(incoming_.size());
    incoming_.push_back(std::make_unique<Incoming>(options_));
    incoming_of_.insert(packet.flow, slot);
    Incoming& incoming = *incoming_.back();
    incoming.flow = packet.flow;
    incoming.peer = packet.source;
    incoming.priority = packet.priority;
    incoming.hash = hash_of(context_.host, packet.source, packet.flow);
  }
  return slot;
}

void TcpTransport::on_data(SimTime now, const Packet& packet) {
  const TcpHeader header = TcpHeader::read(packet);
  const uint32_t slot = incoming_slot(packet);
  Incoming& incoming = *incoming_[slot];
  TcpReceiver& receiver = incoming.receiver;
  if (options_.control == TcpControl::kDctcp) {
    const bool marked = packet.ecn == Ecn::kCe;
    if (receiver.mark_changes(marked)) send_ack(incoming);
    receiver.set_mark(marked);
  }
  const TcpReceiver::Arrival arrival = receiver.on_segment(now, options_, header.sequence, packet.payload,
                                                           (header.flags & TcpHeader::kFin) != 0);
  counters_.payload_bytes += arrival.delivered;
  if (arrival.duplicate) ++counters_.duplicates;
  if (arrival.out_of_order) ++counters_.out_of_order;
  if (arrival.complete) context_.flows.flow_received(now, packet.flow);
  if (arrival.acknowledge) {
    send_ack(incoming);
  } else {
    set_timer(incoming, receiver.deadline(), slot, false);
  }
}

void TcpTransport::send_ack(Incoming& incoming) {
  TcpHeader header;
  header.connection = incoming.flow;
  incoming.receiver.acknowledge(options_, header);
  Packet* const packet = make(incoming, header, 0);
  Port& port = ports_[port_of(incoming)];
  *port.acks_end = packet;
  port.acks_end = &packet->next;
  ++counters_.acks;
}

void TcpTransport::on_ack(SimTime now, const Packet& packet) {
  const uint32_t slot = outgoing_of_.find(packet.flow);
  if (slot == FlowIndex::kNone) return;  // late, for a flow that is finished
  TcpSender& sender = outgoing_[slot]->sender;
  sender.on_ack(now, TcpHeader::read(packet));
  if (!sender.finished()) return update(slot);
  context_.flows.flow_finished(now, packet.flow);
  outgoing_of_.erase(packet.flow);
  if (!outgoing_[slot]->ready) drop(slot);
}

// Entries of timers_ for a slot that is gone or used again find out by themselves.
void TcpTransport::drop(uint32_t slot) {
  outgoing_[slot].reset();
  free_.push_back(slot);
}

void TcpTransport::update(uint32_t slot) {
  Outgoing& outgoing = *outgoing_[slot];
  if (!outgoing.ready && outgoing.sender.can_send()) {
    outgoing.ready = true;
    ports_[port_of(outgoing)].ready.push(slot);
  }
  set_timer(outgoing, outgoing.sender.deadline(), slot, true);
}

void TcpTransport::set_timer(Connection& connection, SimTime deadline, uint32_t slot, bool outgoing) {
  if (deadline >= connection.timer) return;
  connection.timer = deadline;
  timers_.push_back({deadline, slot, outgoing});
  std::push_heap(timers_.begin(), timers_.end());
}

void TcpTransport::on_timer(SimTime now) {
  while (!timers_.empty() && timers_.front().at <= now) {
    const Timer timer = timers_.front();
    std::pop_heap(timers_.begin(), timers_.end());
    timers_.pop_back();
    fire(now, timer);
  }
}

void TcpTransport::fire(SimTime now, const Timer& timer) {
  if (!timer.outgoing) {
    Incoming& incoming = *incoming_[timer.slot];
    if (incoming.timer != timer.at) return;
    incoming.timer = kEndOfTime;
    if (incoming.receiver.deadline() <= now) return send_ack(incoming);
    return set_timer(incoming, incoming.receiver.deadline(), timer.slot, false);
  }
  Outgoing* const outgoing = outgoing_[timer.slot].get();
  if (outgoing == nullptr || outgoing->timer != timer.at) return;
  outgoing->timer = kEndOfTime;
  TcpSender& sender = outgoing->sender;
  const uint64_t before = sender.timeouts() + sender.probes();
  if (sender.deadline() <= now) sender.on_timer(now);
  counters_.timeouts += sender.timeouts() + sender.probes() - before;
  update(timer.slot);
}

Packet* TcpTransport::pull(SimTime now, uint32_t port_number) {
  Port& port = ports_[port_number];
  if (port.acks != nullptr) {
    Packet* const packet = port.acks;
    port.acks = packet->next;
    packet->next = nullptr;
    if (port.acks == nullptr) port.acks_end = &port.acks;
    return packet;
  }
  while (!port.ready.empty()) {
    const uint32_t slot = port.ready.front();
    port.ready.pop();
    Outgoing& outgoing = *outgoing_[slot];
    outgoing.ready = false;
    if (outgoing.sender.finished()) {
      drop(slot);
      continue;
    }
    if (!outgoing.sender.can_send()) continue;
    const TcpSegment segment = outgoing.sender.take(now);
    ++counters_.data_packets;
    if (segment.again) ++counters_.retransmissions;
    TcpHeader header;
    header.connection = outgoing.flow;
    header.sequence = static_cast<uint32_t>(segment.index * context_.payload_mtu);
    header.flags = segment.last ? TcpHeader::kFin : 0;
    update(slot);
    return make(outgoing, header, segment.bytes);
  }
  return nullptr;
}

Packet* TcpTransport::make(const Connection& connection, const TcpHeader& header, uint32_t payload) {
  const size_t header_bytes = header.wire_bytes();
  Packet* const packet = context_.pool.allocate(header_bytes);
  header.write(*packet);
  packet->source = context_.host;
  packet->destination = connection.peer;
  packet->payload = payload;
  packet->bytes = context_.wire.of(payload, header_bytes);
  packet->hash = connection.hash;
  packet->flow = connection.flow;
  packet->priority = connection.priority;
  packet->kind = payload != 0 ? PacketKind::kData : PacketKind::kAck;
  const bool capable = payload != 0 && options_.control == TcpControl::kDctcp;
  packet->ecn = capable ? Ecn::kEct0 : Ecn::kNotEct;
  return packet;
}

TransportCounters TcpTransport::counters() const {
  return counters_;
}

uint64_t TcpTransport::memory_bytes() const {
  uint64_t sum = sizeof(*this) + outgoing_of_.memory_bytes() + incoming_of_.memory_bytes() +
                 (outgoing_.capacity() + incoming_.capacity()) * sizeof(void*) +
                 timers_.capacity() * sizeof(Timer) + free_.capacity() * sizeof(uint32_t);
  for (const Port& port : ports_) sum += sizeof(port) + port.ready.capacity() * sizeof(uint32_t);
  for (const auto& outgoing : outgoing_) {
    if (outgoing != nullptr) sum += sizeof(*outgoing) + outgoing->sender.memory_bytes();
  }
  for (const auto& incoming : incoming_) sum += sizeof(*incoming) + incoming->receiver.memory_bytes();
  return sum;
}

const TcpSender* TcpTransport::sender(uint32_t flow) const {
  const uint32_t slot = outgoing_of_.find(flow);
  return slot == FlowIndex::kNone ? nullptr : &outgoing_[slot]->sender;
}

}  // namespace mroce::sim
