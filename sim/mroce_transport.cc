#include "sim/mroce_transport.h"

#include <algorithm>
#include <cstring>

#include "core/base/assert.h"
#include "core/wire/packet.h"
#include "sim/hash.h"
#include "sim/words.h"

namespace mroce::sim {
namespace {

constexpr uint32_t kHeader = wire::header_bytes(wire::DataOp::kWrite) + wire::kTrailerBytes;
constexpr uint64_t kRegionBytes = uint64_t{1} << 62;
constexpr uint32_t kFlowShift = 40;             // of an address: flow << 40 | offset
constexpr uint64_t kMessageBytes = 1ULL << 30;  // longer flows are several WRITEs
constexpr uint32_t kMaxPostedMessages = 4;
constexpr uint32_t kFirstSourcePort = 49152;  // of the dynamic ports, one for each entropy
constexpr uint32_t kPortsAhead = 2;           // packets chosen for other ports while one is pulled

EngineConfig config_for(const HostContext& context, const MroceOptions& options) {
  EngineConfig config;
  config.seed = context.seed;
  for (size_t i = 0; i < 4; ++i)
    config.endpoint_id[12 + i] = static_cast<uint8_t>(context.host >> (24 - 8 * i));
  config.endpoint_id[0] = 1;
  for (uint32_t plane = 0; plane < context.ports; ++plane) {
    LocalPort port;
    port.address = MroceTransport::address_of(context.host, plane);
    port.prefix_bits = 96 + 16;
    port.link_mtu = 65535;
    port.rate_bps = context.rate_bps;
    config.ports.push_back(port);
  }
  config.max_paths = std::max(options.paths, context.ports);
  config.max_payload = context.payload_mtu;
  config.cpsn_window = options.cpsn_window;
  const uint64_t packet = context.payload_mtu + kHeader;
  const double seconds = static_cast<double>(context.base_rtt) * 1e-12;
  const double bdp = seconds * static_cast<double>(context.rate_bps) * context.ports / 8;
  const auto bdp_packets =
      std::max<uint64_t>(2, static_cast<uint64_t>(bdp / static_cast<double>(packet)) + 1);
  const uint64_t window = options.window_packets != 0 ? options.window_packets : 2 * bdp_packets;
  config.window_bytes = static_cast<uint32_t>(window * packet);
  config.receive_buffer_bytes = UINT32_MAX;
  config.initial_window =
      options.initial_window != 0
          ? options.initial_window
          : static_cast<uint32_t>((bdp_packets + config.max_paths - 1) / config.max_paths);
  config.max_burst_bytes = 0;  // a packet
  config.ack_every = options.ack_every;
  config.ack_delay = Nanos{options.ack_delay_ns};
  config.ack_request_delay = Nanos{0};
  config.block_repeats = static_cast<uint8_t>(options.block_repeats);
  const Nanos rtt{context.base_rtt / kPicosInNano};
  config.pto_min = options.pto_min_ns != 0 ? Nanos{options.pto_min_ns} : std::max(micros(10), 4 * rtt);
  config.pto_max = millis(1);
  config.reo_min = Nanos{options.reo_min_ns};
  config.delay_gate = Nanos{0};
  config.ecn = options.ecn;
  config.rate_hints = options.hints;
  config.degraded_paths = true;
  config.link_overhead = context.wire.of(context.payload_mtu, kHeader) - (context.payload_mtu + kHeader);
  config.tail_hold = options.tail_hold;
  config.virtual_payload = true;
  config.retry_above = UINT32_MAX;  // all connections begin at once here, and nobody lies about its address
  return config;
}

}  // namespace

bool MroceOptions::set(std::string_view key, std::string_view value, std::string& error) {
  bool good = false;
  if (key == "paths")
    good = set_whole(value, 1, 32, paths);
  else if (key == "initial_window")
    good = set_whole(value, 0, 65536, initial_window);
  else if (key == "window_packets")
    good = set_whole(value, 0, 1 << 20, window_packets);
  else if (key == "cpsn_window")
    good = set_whole(value, 64, 1 << 20, cpsn_window);
  else if (key == "ack_every")
    good = set_whole(value, 1, 256, ack_every);
  else if (key == "ack_delay_ns")
    good = set_whole(value, 0, 1'000'000, ack_delay_ns);
  else if (key == "block_repeats")
    good = set_whole(value, 0, 16, block_repeats);
  else if (key == "pto_min_ns")
    good = set_whole(value, 0, 1'000'000, pto_min_ns);
  else if (key == "reo_min_ns")
    good = set_whole(value, 0, 1'000'000, reo_min_ns);
  else if (key == "ecn")
    good = set_flag(value, ecn);
  else if (key == "hints")
    good = set_flag(value, hints);
  else if (key == "tail_hold")
    good = set_flag(value, tail_hold);
  else {
    error = "unknown key " + quoted(key) + "; mroce has: " + kKeys;
    return false;
  }
  if (!good) error = quoted(value) + " is not a value of " + std::string(key);
  return good;
}

Gid MroceTransport::address_of(uint32_t host, uint32_t plane) {
  Gid gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[13] = static_cast<uint8_t>(plane);
  gid.raw[14] = static_cast<uint8_t>(host >> 8);
  gid.raw[15] = static_cast<uint8_t>(host);
  return gid;
}

uint32_t MroceTransport::host_of(const Gid& address) {
  return uint32_t{address.raw[14]} << 8 | address.raw[15];
}

MroceTransport::MroceTransport(const HostContext& context, const MroceOptions& options)
    : context_(context),
      options_(options),
      engine_(config_for(context, options), *this),
      waiting_(context.ports) {
  pd_ = engine_.alloc_pd().value();
  cq_ = engine_.create_cq(1 << 16, 0).value();
  region_ = engine_.reg_mr(pd_, 0, kRegionBytes, 0, access::kLocalWrite | access::kRemoteWrite).value();
}

MroceTransport::~MroceTransport() {
  for (auto& queue : waiting_) {
    for (Packet* packet : queue) context_.pool.release(packet);
  }
}

// ---- set-up

std::optional<MroceTransport::Side> MroceTransport::make_queue_pair(uint32_t flow) {
  QpInit init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap.max_send_wr = 8;
  init.cap.max_recv_wr = 1;
  init.cap.max_send_sge = 1;
  init.cap.max_recv_sge = 1;
  init.user = flow;
  const auto created = engine_.create_qp(init);
  if (!created) return std::nullopt;
  Side side;
  side.qp = *created;
  side.number = engine_.qp_num(side.qp);
  return side;
}

void MroceTransport::connect(Time now, const Side& side, uint32_t peer_host, uint32_t peer_number) {
  QpAttr attr;
  attr.state = QpState::kInit;
  attr.access_flags = access::kRemoteWrite;
  Status done = engine_.modify_qp(
      now, side.qp, attr, qp_mask::kState | qp_mask::kPkeyIndex | qp_mask::kPort | qp_mask::kAccessFlags);
  MROCE_ASSERT(done.has_value());
  attr.state = QpState::kRtr;
  attr.dgid = address_of(peer_host, 0);
  attr.dest_qpn = peer_number;
  done = engine_.modify_qp(now, side.qp, attr,
                           qp_mask::kState | qp_mask::kAv | qp_mask::kPathMtu | qp_mask::kDestQpn |
                               qp_mask::kRqPsn | qp_mask::kMaxDestRdAtomic | qp_mask::kMinRnrTimer);
  MROCE_ASSERT(done.has_value());
  attr.state = QpState::kRts;
  attr.retry_cnt = 7;
  done = engine_.modify_qp(now, side.qp, attr,
                           qp_mask::kState | qp_mask::kTimeout | qp_mask::kRetryCnt | qp_mask::kRnrRetry |
                               qp_mask::kSqPsn | qp_mask::kMaxRdAtomic);
  MROCE_ASSERT(done.has_value());
}

void MroceTransport::open_stream(Time now, const Side& side) {
  SendWr wr;
  wr.opcode = Opcode::kWrite;
  wr.flags = send_flag::kSignaled;
  const Status posted = engine_.post_send(now, side.qp, wr);
  MROCE_ASSERT(posted.has_value());
}

void MroceTransport::begin(Time origin) {
  Wc wc;
  while (engine_.poll_cq(cq_, {&wc, 1}) == 1) MROCE_ASSERT(wc.status == WcStatus::kSuccess);
  shift_ = origin - Time{};
  std::sort(outgoing_.begin(), outgoing_.end(),
            [](const Outgoing& a, const Outgoing& b) { return a.flow < b.flow; });
  std::sort(incoming_.begin(), incoming_.end(),
            [](const Incoming& a, const Incoming& b) { return a.flow < b.flow; });
  Event event;
  while (engine_.poll_event(event)) {
  }
}

void MroceTransport::expect(uint32_t flow, uint64_t bytes) {
  incoming_.push_back({flow, bytes});
}

void MroceTransport::send_from(uint32_t flow, const Side& side, uint32_t rkey) {
  outgoing_.push_back({.flow = flow, .qp = side.qp, .rkey = rkey});
}

// ---- run

MroceTransport::Outgoing* MroceTransport::outgoing_of(uint32_t flow) {
  const auto it = std::lower_bound(outgoing_.begin(), outgoing_.end(), flow,
                                   [](const Outgoing& each, uint32_t wanted) { return each.flow < wanted; });
  return it != outgoing_.end() && it->flow == flow ? &*it : nullptr;
}

MroceTransport::Incoming* MroceTransport::incoming_of(uint32_t flow) {
  const auto it = std::lower_bound(incoming_.begin(), incoming_.end(), flow,
                                   [](const Incoming& each, uint32_t wanted) { return each.flow < wanted; });
  return it != incoming_.end() && it->flow == flow ? &*it : nullptr;
}

void MroceTransport::start(SimTime now, uint32_t index, const Flow& flow) {
  now_ = now;
  Outgoing* const outgoing = outgoing_of(index);
  MROCE_ASSERT(outgoing != nullptr);
  outgoing->bytes = flow.bytes;
  post_more(now, *outgoing);
  take_completions(now);  // of a connection that has ended already
}

void MroceTransport::post_more(SimTime now, Outgoing& outgoing) {
  for (uint32_t i = 0; i < kMaxPostedMessages && (outgoing.posted < outgoing.bytes || outgoing.bytes == 0);
       ++i) {
    const uint64_t bytes = std::min(kMessageBytes, outgoing.bytes - outgoing.posted);
    const Sge sge{0, static_cast<uint32_t>(bytes), region_.lkey};
    SendWr wr;
    wr.wr_id = outgoing.flow;
    wr.opcode = Opcode::kWrite;
    wr.flags = send_flag::kSignaled;
    if (bytes != 0) wr.sges = {&sge, 1};
    wr.remote_addr = uint64_t{outgoing.flow} << kFlowShift | outgoing.posted;
    wr.rkey = outgoing.rkey;
    const Status posted = engine_.post_send(engine_now(now), outgoing.qp, wr);
    MROCE_ASSERT(posted.has_value());
    outgoing.posted += bytes;
    ++outgoing.open;
    if (outgoing.bytes == 0) break;
  }
  may_have_more_ = true;
}

void MroceTransport::receive(SimTime now, uint32_t port, Packet& packet) {
  now_ = now;
  RxMeta meta;
  meta.port = port;
  meta.from = {address_of(packet.source, packet.plane), engine_.config().base_port};
  meta.ecn = packet.ecn;
  // As long as the datagram was; the engine reads no further than the header.
  const size_t length = size_t{packet.header_bytes} + packet.payload;
  engine_.on_burst(engine_now(now), meta, {packet.header(), length}, static_cast<uint32_t>(length));
  may_have_more_ = true;
  take_completions(now);
}

void MroceTransport::on_timer(SimTime now) {
  now_ = now;
  engine_.on_timeout(engine_now(now));
  may_have_more_ = true;
  take_completions(now);
}

SimTime MroceTransport::deadline() const {
  const Time at = engine_.next_deadline();
  return at == kNever ? kEndOfTime : sim_time(at - shift_);
}

void MroceTransport::take_completions(SimTime now) {
  Wc wc;
  while (engine_.poll_cq(cq_, {&wc, 1}) == 1) {
    Outgoing* const outgoing = outgoing_of(static_cast<uint32_t>(wc.wr_id));
    MROCE_ASSERT(outgoing != nullptr);
    --outgoing->open;
    if (wc.status != WcStatus::kSuccess) {  // the network is not there any more
      if (!outgoing->failed) ++failed_flows_;
      outgoing->failed = true;
    }
    if (outgoing->failed) continue;
    if (outgoing->posted < outgoing->bytes) {
      post_more(now, *outgoing);
    } else if (outgoing->open == 0) {
      context_.flows.flow_finished(now, outgoing->flow);
    }
  }
}

Packet* MroceTransport::pull(SimTime now, uint32_t port) {
  now_ = now;
  while (waiting_[port].empty() && may_have_more_ && waiting_packets_ < kPortsAhead * context_.ports) {
    TxBurst burst;
    if (!engine_.poll_transmit(engine_now(now), burst)) {
      may_have_more_ = false;
      break;
    }
    waiting_[burst.port].push_back(to_packet(burst));
    ++waiting_packets_;
  }
  if (waiting_[port].empty()) return nullptr;
  Packet* const packet = waiting_[port].front();
  waiting_[port].pop_front();
  --waiting_packets_;
  return packet;
}

Packet* MroceTransport::to_packet(const TxBurst& burst) {
  MROCE_ASSERT(burst.segments == 1);
  size_t real = 0;
  size_t payload = 0;
  for (const Slice& slice : burst.slices) (slice.data != nullptr ? real : payload) += slice.length;
  const size_t kept = std::min(real, Packet::kLargeHeader);  // the rest of an INIT or probe is padding
  Packet* const packet = context_.pool.allocate(kept);
  std::byte* out = packet->header();
  size_t left = kept;
  for (const Slice& slice : burst.slices) {
    if (slice.data == nullptr) continue;
    const size_t bytes = std::min(left, slice.length);
    std::memcpy(out, slice.data, bytes);
    out += bytes;
    left -= bytes;
  }
  packet->source = context_.host;
  packet->destination = host_of(burst.to.ip);
  packet->payload = static_cast<uint32_t>(payload + real - kept);
  packet->bytes = context_.wire.of(static_cast<uint32_t>(payload), real);
  packet->kind = payload != 0 ? PacketKind::kData : PacketKind::kAck;
  packet->ecn = burst.ecn;
  packet->plane = static_cast<uint8_t>(burst.port);
  packet->hash = static_cast<uint32_t>(
      mix64(uint64_t{context_.host} << 40 ^ uint64_t{packet->destination} << 16 ^ burst.entropy));
  packet->source_port = static_cast<uint16_t>(kFirstSourcePort + burst.entropy);
  return packet;
}

void MroceTransport::place(uint64_t addr, std::span<const std::byte> bytes) {
  placed_bytes_ += bytes.size();
  Incoming* const incoming = incoming_of(static_cast<uint32_t>(addr >> kFlowShift));
  MROCE_ASSERT(incoming != nullptr && incoming->left >= bytes.size());
  incoming->left -= bytes.size();
  if (incoming->left == 0) context_.flows.flow_received(now_, incoming->flow);
}

const std::byte* MroceTransport::fetch(uint64_t, uint32_t) {
  MROCE_ASSERT(false);  // payload is virtual
  return nullptr;
}

TransportCounters MroceTransport::counters() const {
  TransportCounters sum;
  sum.payload_bytes = placed_bytes_;
  for (const ConnectionStats& connection : engine_.connection_stats()) {
    sum.data_packets += connection.counters.data_packets_sent;
    sum.acks += connection.counters.acks_sent;
    sum.retransmissions += connection.counters.retransmissions;
    sum.duplicates += connection.counters.duplicates;
    sum.timeouts += connection.counters.ptos;
    for (const PathStats& path : connection.paths) sum.path_changes += path.counters.entropy_changes;
  }
  sum.nacks = engine_.counters().naks_sent;
  sum.failed_flows = failed_flows_;
  return sum;
}

uint64_t MroceTransport::memory_bytes() const {
  uint64_t sum =
      sizeof *this + outgoing_.capacity() * sizeof(Outgoing) + incoming_.capacity() * sizeof(Incoming);
  for (const ConnectionStats& connection : engine_.connection_stats()) sum += connection.memory_bytes;
  return sum;
}

}  // namespace mroce::sim
