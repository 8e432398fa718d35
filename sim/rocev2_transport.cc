#include "sim/rocev2_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/assert.h"
#include "core/rocev2/psn.h"
#include "core/wire/bytes.h"
#include "sim/hash.h"

namespace mroce::sim {
namespace {

constexpr uint32_t kFirstQpn = 16;
constexpr uint16_t kFirstSourcePort = 0xc000;  // of the dynamic ports, as drivers take them

uint32_t qpn_of(uint32_t flow) {
  MROCE_ASSERT(flow < rocev2::kPsnMask - kFirstQpn);
  return flow + kFirstQpn;
}
uint32_t flow_of(uint32_t qpn) {
  return qpn - kFirstQpn;
}

uint32_t five_tuple(uint32_t source, uint32_t destination, uint32_t entropy) {
  return static_cast<uint32_t>(mix64((uint64_t{source} << 32 | destination) ^ mix64(entropy + 1)));
}

rocev2::EngineConfig engine_config(const HostContext& context, const Rocev2Options& options, uint32_t port) {
  rocev2::EngineConfig config;
  config.seed = context.seed * 64 + port;
  config.line_rate_bps = static_cast<double>(context.rate_bps);
  config.mtu = context.payload_mtu & ~3u;
  config.overhead_bytes = context.wire.below + rocev2::kIcrcBytes;
  config.dcqcn = options.dcqcn;
  config.loss = options.loss;
  config.ecn = options.ecn;
  config.cnp_gap = options.cnp_gap;
  config.ack_interval = options.ack_interval;
  config.end_to_end_credits = false;  // a flow is WRITEs only
  const double bdp = static_cast<double>(context.base_rtt) * static_cast<double>(context.rate_bps) / 8e12;
  config.window.bytes = static_cast<uint64_t>(options.window_bdp * bdp);
  if (options.window_bdp > 0) config.window.bytes = std::max<uint64_t>(config.window.bytes, config.mtu);
  config.window.variable = options.window_variable;
  return config;
}

PacketKind kind_of(const rocev2::TxPacket& out) {
  switch (out.kind) {
    case rocev2::TxKind::kAck:
      return PacketKind::kAck;
    case rocev2::TxKind::kNak:
      return PacketKind::kNack;
    case rocev2::TxKind::kCnp:
      return PacketKind::kCnp;
    default:
      return PacketKind::kData;
  }
}

}  // namespace

// Payload is virtual, so nothing is ever asked of memory.
class Rocev2Transport::NoMemory : public Memory {
 public:
  void place(uint64_t, std::span<const std::byte>) override { MROCE_ASSERT(false); }
  void place_tail(uint64_t, std::span<const std::byte>) override { MROCE_ASSERT(false); }
  const std::byte* fetch(uint64_t, uint32_t) override {
    MROCE_ASSERT(false);
    return nullptr;
  }
  uint64_t compare_swap(uint64_t, uint64_t, uint64_t) override { return 0; }
  uint64_t fetch_add(uint64_t, uint64_t) override { return 0; }
};

Rocev2Transport::Rocev2Transport(const HostContext& context, const Rocev2Options& options)
    : context_(context), options_(options), memory_(std::make_unique<NoMemory>()) {
  MROCE_ASSERT(context.ports > 0);
  for (uint32_t port = 0; port < context.ports; ++port) {
    engines_.push_back(std::make_unique<rocev2::Engine>(engine_config(context, options, port), *memory_));
  }
}

Rocev2Transport::~Rocev2Transport() = default;

rocev2::QpParams Rocev2Transport::params(uint32_t flow, uint32_t peer) const {
  rocev2::QpParams p;
  p.qpn = p.dest_qpn = qpn_of(flow);
  p.peer = peer;
  // Both sides know the PSN that a flow begins with, as if they had exchanged it.
  p.sq_psn = p.rq_psn = static_cast<uint32_t>(mix64(flow) & rocev2::kPsnMask);
  p.entropy = static_cast<uint16_t>(mix64(~uint64_t{flow}));
  const uint32_t hash = five_tuple(context_.host, peer, p.entropy);
  p.tag = uint64_t{hash} << 32 | options_.data_priority;
  p.timeout = static_cast<uint8_t>(options_.timeout);
  p.retry_cnt = static_cast<uint8_t>(options_.retry_cnt);
  p.max_send_wr = UINT32_MAX;
  p.virtual_payload = true;
  return p;
}

void Rocev2Transport::start(SimTime now, uint32_t index, const Flow& flow) {
  if (flow.destination == context_.host) {  // no network is involved
    context_.flows.flow_received(now, index);
    context_.flows.flow_finished(now, index);
    return;
  }
  const uint32_t hash = five_tuple(flow.source, flow.destination, index);
  rocev2::Engine& engine = *engines_[hash % engines_.size()];
  const Time at = engine_time(now);
  rocev2::QpParams p = params(index, flow.destination);
  if (flow.priority != 0) p.tag = (p.tag & ~uint64_t{UINT32_MAX}) | flow.priority;
  const auto qpn = engine.create_qp(at, p);
  MROCE_ASSERT(qpn.has_value());
  // All messages but the last fill their packets, so that the flow has ceil(bytes / mtu) PSNs.
  const uint64_t whole =
      std::max<uint64_t>(1, options_.message_bytes / engine.config().mtu) * engine.config().mtu;
  uint32_t& messages = messages_left_[index];
  uint64_t left = flow.bytes;
  do {
    const uint64_t length = std::min(left, whole);
    left -= length;
    ++messages;
    const uint32_t flags = send_flag::kSignaled | (left == 0 ? send_flag::kSolicited : 0);
    const auto posted =
        engine.post_virtual(at, *qpn, {index, Opcode::kWrite, flags, static_cast<uint32_t>(length)});
    MROCE_ASSERT(posted.has_value());
  } while (left != 0);
}

void Rocev2Transport::receive(SimTime now, uint32_t port, Packet& packet) {
  rocev2::Engine& engine = *engines_[port % engines_.size()];
  const rocev2::RxPacket rx{packet.source, packet.ecn, std::as_const(packet).header(),
                            (packet.payload + 3) & ~3u};
  const uint64_t unknown = engine.counters().drop_qp;
  engine.on_packet(engine_time(now), rx);
  if (engine.counters().drop_qp != unknown && packet.kind == PacketKind::kData) {
    accept(now, port, packet);
    engine.on_packet(engine_time(now), rx);
  }
  if (engine.has_reports()) drain(now, port);
  if (!finished_.empty()) drop_finished(now);
}

// The first packet of a flow, or a late one.
void Rocev2Transport::accept(SimTime now, uint32_t port, const Packet& packet) {
  if (packet.header_bytes < rocev2::kBthBytes) return;
  const uint32_t qpn = wire::load_be<uint32_t>(packet.header().data() + 4) & rocev2::kPsnMask;
  if (qpn < kFirstQpn) return;
  const uint32_t flow = flow_of(qpn);
  rocev2::QpParams p = params(flow, packet.source);
  const auto late = received_packets_.find(flow);
  if (late != received_packets_.end()) {
    p.rq_psn = static_cast<uint32_t>((p.rq_psn + late->second) & rocev2::kPsnMask);
    finished_.push_back({now + 4 * context_.base_rtt + nanos(10'000), port, flow});
  }
  // Fails if the number is taken by another peer's flow; then the packet is dropped again.
  static_cast<void>(engines_[port]->create_qp(engine_time(now), p));
}

void Rocev2Transport::drain(SimTime now, uint32_t port) {
  rocev2::Engine& engine = *engines_[port];
  Wc wc;
  while (engine.poll_completion(wc)) {
    const uint32_t flow = flow_of(wc.qp_num);
    const auto found = messages_left_.find(flow);
    if (found == messages_left_.end()) continue;  // flushed behind a failure
    if (wc.status != WcStatus::kSuccess) {
      ++failed_flows_;
    } else if (--found->second != 0) {
      continue;
    } else {
      context_.flows.flow_finished(now, flow);
    }
    messages_left_.erase(found);
    static_cast<void>(engine.destroy_qp(wc.qp_num));
  }
  rocev2::Event event;
  while (engine.poll_event(event)) {
    if (event.kind != rocev2::EventKind::kSolicited) continue;
    const uint32_t flow = flow_of(event.qpn);
    received_packets_[flow] = engine.executed_psns(event.qpn);
    finished_.push_back({now + 4 * context_.base_rtt + nanos(10'000), port, flow});
    context_.flows.flow_received(now, flow);
  }
}

// Times in the list may be out of order by nothing: all are `now` plus the same.
void Rocev2Transport::drop_finished(SimTime now) {
  while (!finished_.empty() && finished_.front().at <= now) {
    static_cast<void>(engines_[finished_.front().port]->destroy_qp(qpn_of(finished_.front().flow)));
    finished_.pop_front();
  }
}

void Rocev2Transport::on_timer(SimTime now) {
  for (uint32_t port = 0; port < engines_.size(); ++port) {
    if (engines_[port]->next_deadline() > engine_time(now)) continue;
    engines_[port]->on_timeout(engine_time(now));
    drain(now, port);
  }
}

SimTime Rocev2Transport::deadline() const {
  Time earliest = kNever;
  for (const auto& engine : engines_) earliest = std::min(earliest, engine->next_deadline());
  return sim_time(earliest);
}

uint32_t Rocev2Transport::priority_of(const rocev2::TxPacket& out) const {
  if (out.kind == rocev2::TxKind::kCnp) return options_.cnp_priority;
  const bool answer = out.kind == rocev2::TxKind::kAck || out.kind == rocev2::TxKind::kNak;
  return answer ? options_.ack_priority : static_cast<uint32_t>(out.tag);
}

Packet* Rocev2Transport::pull(SimTime now, uint32_t port) {
  rocev2::TxPacket out;
  if (!engines_[port]->poll_transmit(engine_time(now), out)) return nullptr;
  Packet* packet = context_.pool.allocate(out.header_bytes);
  std::memcpy(packet->header(), out.header.data(), out.header_bytes);
  packet->source = context_.host;
  packet->destination = static_cast<uint32_t>(out.peer);
  packet->payload = out.payload;
  packet->bytes = context_.wire.of(out.payload, out.pad + out.header_bytes + rocev2::kIcrcBytes);
  packet->hash = static_cast<uint32_t>(out.tag >> 32);
  packet->flow = flow_of(out.qpn);
  packet->source_port = out.entropy | kFirstSourcePort;
  packet->kind = kind_of(out);
  packet->priority = static_cast<uint8_t>(priority_of(out));
  packet->ecn = out.ect ? Ecn::kEct0 : Ecn::kNotEct;
  return packet;
}

TransportCounters Rocev2Transport::counters() const {
  TransportCounters sum;
  for (const auto& engine : engines_) {
    const rocev2::Counters& c = engine->counters();
    sum.data_packets += c.tx_data;
    sum.payload_bytes += c.rx_payload_bytes;
    sum.acks += c.acks_sent;
    sum.nacks += c.naks_sent + c.rnr_naks_sent + c.error_naks_sent;
    sum.cnps += c.cnps_sent;
    sum.retransmissions += c.retransmitted;
    sum.duplicates += c.duplicates;
    sum.out_of_order += c.out_of_order;
    sum.timeouts += c.timeouts;
    sum.receiver_drops += c.drop_hold;
  }
  sum.failed_flows = failed_flows_;
  return sum;
}

uint64_t Rocev2Transport::memory_bytes() const {
  constexpr uint64_t kMapNode = 48;  // of unordered_map with a small value, about
  uint64_t sum = sizeof *this + (messages_left_.size() + received_packets_.size()) * kMapNode;
  sum += finished_.size() * sizeof(Finished);
  for (const auto& engine : engines_) sum += engine->memory_bytes();
  return sum;
}

}  // namespace mroce::sim
