// The simplest transport that fills a fabric, for tests and the benchmark: a fixed window of packets for each
// flow, an acknowledgement for every few, no recovery from loss.
#pragma once

#include <cstring>
#include <deque>
#include <unordered_map>
#include <vector>

#include "core/base/rng.h"
#include "sim/transport.h"

namespace mroce::sim {

struct TestArrival {
  SimTime at;
  uint8_t priority;
  uint32_t flow;
  bool marked;
};

struct TestTransportOptions {
  uint32_t window = 64;  // packets in flight of a flow
  uint32_t ack_every = 4;
  bool spray = false;  // a new hash for each packet
  uint8_t ack_priority = 0;
  bool ack_own_priority = false;  // acknowledgements in ack_priority, not in that of the flow
  SimTime resend_after = 0;       // 0: never; else go back to what is not acknowledged
  std::vector<std::vector<TestArrival>>* record = nullptr;  // [host]: data packets
};

class TestTransport final : public Transport {
 public:
  TestTransport(const HostContext& context, const TestTransportOptions& options)
      : context_(context), options_(options), rng_(context.seed), active_(context.ports) {}

  void start(SimTime, uint32_t index, const Flow& flow) override {
    Sending sending;
    sending.flow = &flow;
    sending.index = index;
    sending.packets = (flow.bytes + context_.payload_mtu - 1) / context_.payload_mtu;
    sending.port = index % context_.ports;
    sending.hash = static_cast<uint32_t>(rng_.next());
    sending_.push_back(sending);
    position_[index] = sending_.size() - 1;
    active_[sending.port].push_back(sending_.size() - 1);
  }

  void receive(SimTime now, uint32_t port, Packet& packet) override {
    Header header;
    std::memcpy(&header, packet.header(), sizeof(header));
    if (packet.kind == PacketKind::kAck) return on_ack(now, packet.flow, header);
    if (options_.record != nullptr) {
      (*options_.record)[context_.host].push_back(
          {now, packet.priority, packet.flow, packet.ecn == Ecn::kCe});
    }
    Receiving& receiving = receiving_of(packet.flow);
    if (header.sequence != receiving.next) {
      ++counters_.out_of_order;
      if (options_.resend_after != 0) {
        if (header.sequence < receiving.next) acknowledge(port, packet, receiving);
        return;
      }
    }
    ++receiving.next;
    counters_.payload_bytes += packet.payload;
    const bool last = receiving.next == header.packets;
    if (last) context_.flows.flow_received(now, packet.flow);
    if (last || ++receiving.unacknowledged == options_.ack_every) acknowledge(port, packet, receiving);
  }

  void on_timer(SimTime now) override {
    deadline_ = kEndOfTime;
    for (Sending& sending : sending_) {
      if (sending.acknowledged == sending.packets) continue;
      ++counters_.timeouts;
      sending.sent = sending.acknowledged;
      activate(sending);
      deadline_ = now + options_.resend_after;
    }
  }
  SimTime deadline() const override { return deadline_; }

  Packet* pull(SimTime now, uint32_t port) override {
    if (!acks_.empty() && acks_.front().first == port) {
      Packet* const ack = acks_.front().second;
      acks_.pop_front();
      return ack;
    }
    std::deque<size_t>& active = active_[port];
    while (!active.empty()) {
      Sending& sending = sending_[active.front()];
      if (sending.sent == sending.packets || sending.sent - sending.acknowledged >= options_.window) {
        sending.active = false;
        active.pop_front();
        continue;
      }
      if (active.size() > 1) {
        active.push_back(active.front());
        active.pop_front();
      }
      return next_packet(now, sending);
    }
    return nullptr;
  }

  TransportCounters counters() const override { return counters_; }
  uint64_t memory_bytes() const override { return sizeof(*this); }

 private:
  struct Header {
    uint64_t sequence;
    uint64_t packets;
  };
  struct Sending {
    const Flow* flow = nullptr;
    uint32_t index = 0;
    uint32_t port = 0;
    uint32_t hash = 0;
    bool active = true;
    uint64_t packets = 0;
    uint64_t sent = 0;
    uint64_t acknowledged = 0;
  };
  struct Receiving {
    uint32_t flow = 0;
    uint64_t next = 0;
    uint32_t unacknowledged = 0;
  };

  Receiving& receiving_of(uint32_t flow) {
    for (Receiving& receiving : receiving_) {
      if (receiving.flow == flow) return receiving;
    }
    Receiving& receiving = receiving_.emplace_back();
    receiving.flow = flow;
    return receiving;
  }

  void activate(Sending& sending) {
    if (sending.active) return;
    sending.active = true;
    active_[sending.port].push_back(static_cast<size_t>(&sending - sending_.data()));
  }

  void on_ack(SimTime now, uint32_t flow, const Header& header) {
    Sending& sending = sending_[position_[flow]];
    if (header.sequence <= sending.acknowledged) return;
    sending.acknowledged = header.sequence;
    if (options_.resend_after != 0) deadline_ = now + options_.resend_after;
    if (sending.acknowledged == sending.packets) return context_.flows.flow_finished(now, flow);
    activate(sending);
  }

  Packet* next_packet(SimTime now, Sending& sending) {
    Packet* const packet = make(sending.index, sending.flow->destination, PacketKind::kData);
    const uint64_t left = sending.flow->bytes - sending.sent * context_.payload_mtu;
    packet->payload = static_cast<uint32_t>(std::min<uint64_t>(left, context_.payload_mtu));
    packet->bytes = context_.wire.of(packet->payload, sizeof(Header));
    packet->priority = sending.flow->priority;
    packet->hash = options_.spray ? static_cast<uint32_t>(rng_.next()) : sending.hash;
    packet->ecn = Ecn::kEct0;
    const Header header{sending.sent++, sending.packets};
    std::memcpy(packet->header(), &header, sizeof(header));
    ++counters_.data_packets;
    if (options_.resend_after != 0 && deadline_ == kEndOfTime) deadline_ = now + options_.resend_after;
    return packet;
  }

  void acknowledge(uint32_t port, const Packet& data, Receiving& receiving) {
    receiving.unacknowledged = 0;
    Packet* const ack = make(data.flow, data.source, PacketKind::kAck);
    ack->bytes = context_.wire.of(0, sizeof(Header));
    if (context_.wire.fixed == 0) ack->bytes = 64;
    ack->priority = options_.ack_own_priority ? options_.ack_priority : data.priority;
    ack->hash = options_.spray ? static_cast<uint32_t>(rng_.next()) : data.hash * 31 + 7;
    const Header header{receiving.next, 0};
    std::memcpy(ack->header(), &header, sizeof(header));
    ++counters_.acks;
    acks_.emplace_back(port, ack);
  }

  Packet* make(uint32_t flow, uint32_t destination, PacketKind kind) {
    Packet* const packet = context_.pool.allocate(sizeof(Header));
    packet->source = context_.host;
    packet->destination = destination;
    packet->flow = flow;
    packet->kind = kind;
    return packet;
  }

  HostContext context_;
  TestTransportOptions options_;
  Rng rng_;
  std::vector<std::deque<size_t>> active_;
  std::vector<Sending> sending_;
  std::unordered_map<uint32_t, size_t> position_;
  std::vector<Receiving> receiving_;
  std::deque<std::pair<uint32_t, Packet*>> acks_;
  TransportCounters counters_;
  SimTime deadline_ = kEndOfTime;
};

}  // namespace mroce::sim
