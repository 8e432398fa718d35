#include "core/rocev2/engine.h"

#include <algorithm>

#include "core/rocev2/engine_impl.h"

namespace mroce::rocev2 {
namespace {

constexpr uint32_t kMaxRegions = 1u << 20;
constexpr uint32_t kFirstQpn = 16;  // 0 and 1 are special, the rest is left free for tools

int64_t picos(Time t) {
  return ns_of(t) * 1000;
}

}  // namespace

Engine::Impl::Impl(const EngineConfig& c, Memory& m)
    : config(c), memory(m), rng(c.seed), regions(c.seed ^ 0x6d72, kMaxRegions) {
  constexpr uint64_t kSelectiveLimit = SackBits::kBits / 2;
  window_limit = c.loss.recovery == Recovery::kSelectiveRepeat ? kSelectiveLimit : kMaxOutstanding;
  fixed_window = window_of(c.window.bytes);
  MROCE_ASSERT(c.mtu >= 256 && c.mtu % 4 == 0 && c.line_rate_bps > 0 && c.ack_interval > 0);
}

// ---- what arrives

void Engine::Impl::on_packet(Time now, const RxPacket& packet) {
  ++counters.rx_packets;
  const size_t header = packet.bytes.empty() ? 0 : info(static_cast<Op>(packet.bytes[0])).header_bytes;
  const uint64_t real = packet.bytes.size() > header ? packet.bytes.size() - header : 0;
  if (real != 0 && packet.virtual_behind != 0) {
    ++counters.drop_malformed;
    return;
  }
  DecodeError error{};
  if (!decode_into(packet.bytes, real + packet.virtual_behind, received, error)) {
    ++counters.drop_malformed;
    return;
  }
  Qp* qp = find(received.bth.dqpn);
  const bool is_virtual = packet.virtual_behind != 0;
  if (qp == nullptr || qp->params.peer != packet.peer) {
    ++counters.drop_qp;
    return;
  }
  const uint64_t behind = real + packet.virtual_behind;
  if (behind != 0 && is_virtual != qp->params.virtual_payload) {
    ++counters.drop_malformed;
    return;
  }
  if (packet.ecn == Ecn::kCe) {
    ++counters.ce_received;
    if (config.ecn) schedule_cnp(now, *qp);
  }
  dispatch(now, *qp,
           {received, info(received.bth.op), static_cast<uint32_t>(behind - received.bth.pad),
            is_virtual || real == 0 ? nullptr : packet.bytes.data() + header});
}

void Engine::Impl::dispatch(Time now, Qp& qp, const Arrival& arrival) {
  if (arrival.headers.bth.op == Op::kCnp) {
    ++counters.cnps_received;
    qp.dcqcn.on_cnp(now);
  } else if (qp.state != QpState::kRts) {
    ++counters.drop_state;
    return;
  } else if (arrival.op.request) {
    on_request(now, qp, arrival);
    if (qp.rx.responses.empty()) return;  // nothing that has a turn or a timer
  } else {
    on_response(now, qp, arrival);
  }
  kick(now, qp);
  schedule_timer(qp);
}

// ---- what is sent, and when

void Engine::Impl::kick_control(Qp& qp) {
  if (qp.in_control) return;
  qp.in_control = true;
  control.push(qp.slot);
}

void Engine::Impl::kick(Time now, Qp& qp) {
  if (qp.in_ready || qp.in_paced) return;
  // Whether a request may really go (window, credits, …) is looked at when its turn comes.
  const Requester& tx = qp.tx;
  if (qp.rx.responses.empty() && tx.nxt == tx.end && !tx.in_recovery) return;
  if (qp.pace_at_ps >= picos(now) + 1000) {  // later than the nanosecond that `now` names
    qp.in_paced = true;
    paced.set(qp.slot, time_from_ns(qp.pace_at_ps / 1000));
  } else {
    qp.in_ready = true;
    ready.push(qp.slot);
  }
}

void Engine::Impl::release_paced(Time now) {
  while (paced.earliest() <= now) {
    Qp& qp = *qps[paced.pop()];
    qp.in_paced = false;
    qp.in_ready = true;
    ready.push(qp.slot);
  }
}

bool Engine::Impl::poll_transmit(Time now, TxPacket& out) {
  if (paced.earliest() <= now) release_paced(now);
  if (!control.empty() && transmit_control(out)) return true;
  while (!ready.empty()) {
    Qp& qp = *qps[ready.front()];
    ready.pop();
    qp.in_ready = false;
    if (qp.dead) {
      release_if_dead(qp);
    } else if (transmit_data(now, qp, out)) {
      return true;
    }
  }
  return false;
}

bool Engine::Impl::transmit_control(TxPacket& out) {
  while (!control.empty()) {
    Qp& qp = *qps[control.front()];
    if (!qp.dead && qp.rx.cnp_pending) {
      transmit_cnp(qp, out);
    } else if (!qp.dead && transmit_ack(qp, out)) {
      // one of ACK, NAK
    } else {
      control.pop();
      qp.in_control = false;
      release_if_dead(qp);
      continue;
    }
    ++counters.tx_packets;
    return true;
  }
  return false;
}

bool Engine::Impl::transmit_data(Time now, Qp& qp, TxPacket& out) {
  const Time timeout = qp.tx.timeout_at;
  if (!qp.rx.responses.empty()) {
    transmit_response(qp, out);
  } else if (request_ready(qp)) {
    transmit_request(now, qp, out);
    if (qp.state == QpState::kErr) return false;  // its memory is gone
  } else {
    return false;
  }
  ++counters.tx_packets;
  if (out.payload != 0) {
    ++counters.tx_data;
    counters.tx_payload_bytes += out.payload;
  }
  if (out.retransmission) ++counters.retransmitted;
  pace(now, qp, out);
  kick(now, qp);
  if (qp.tx.timeout_at != timeout) schedule_timer(qp);
  return true;
}

void Engine::Impl::pace(Time now, Qp& qp, const TxPacket& out) {
  const uint32_t bytes = config.overhead_bytes + out.header_bytes + out.payload;
  qp.dcqcn.on_sent(bytes);
  if (!qp.dcqcn.throttled()) return;  // the line itself is the pacer
  const double gap = static_cast<double>(bytes) * 8e12 / qp.dcqcn.rate_bps();
  qp.pace_at_ps = std::max(qp.pace_at_ps, picos(now)) + static_cast<int64_t>(gap);
}

void Engine::Impl::begin_packet(const Qp& qp, TxPacket& out, TxKind kind) const {
  out.qpn = qp.params.qpn;
  out.peer = qp.params.peer;
  out.tag = qp.params.tag;
  out.entropy = qp.params.entropy;
  out.kind = kind;
  out.ect = config.ecn && (kind == TxKind::kRequest || kind == TxKind::kResponse);
  out.retransmission = false;
  out.pad = 0;
  out.slice_count = 0;
  out.payload = 0;
}

void Engine::Impl::finish_headers(const Headers& headers, TxPacket& out) const {
  out.header_bytes = static_cast<uint8_t>(encode(headers, out.header.data()));
}

// ---- objects

void Engine::Impl::release_if_dead(Qp& qp) {
  if (!qp.dead || qp.in_ready || qp.in_control) return;
  free_slots.push_back(qp.slot);
  qps[qp.slot].reset();
}

void Engine::Impl::to_error(Qp& qp) {
  if (qp.state == QpState::kErr) return;
  qp.state = QpState::kErr;
  events.push({EventKind::kQpError, qp.params.qpn, 0});
  while (!qp.tx.sq.empty()) {
    complete(qp, qp.tx.sq.front(), WcStatus::kWrFlushErr);
    qp.tx.sq.pop();
  }
  if (qp.receives) {
    qp.receives->flush([&](uint64_t id) {
      Wc wc;
      wc.wr_id = id;
      wc.status = WcStatus::kWrFlushErr;
      wc.opcode = WcOpcode::kRecv;
      wc.qp_num = qp.params.qpn;
      completions.push(wc);
    });
  }
  qp.tx.timeout_at = qp.tx.rnr_until = kNever;
  qp.rx.responses.clear();
  qp.rx.held.clear();
}

Engine::Engine(const EngineConfig& config, Memory& memory) : impl_(std::make_unique<Impl>(config, memory)) {}
Engine::~Engine() = default;

const EngineConfig& Engine::config() const {
  return impl_->config;
}
const Counters& Engine::counters() const {
  return impl_->counters;
}
Time Engine::next_deadline() const {
  return std::min(impl_->timers.earliest(), impl_->paced.earliest());
}

uint64_t Engine::memory_bytes() const {
  const Impl& i = *impl_;
  uint64_t sum = sizeof(Impl) + i.qps.capacity() * sizeof(void*) + i.by_qpn.memory_bytes();
  sum += i.paced.memory_bytes() + i.timers.memory_bytes();
  sum += (i.ready.capacity() + i.control.capacity()) * sizeof(uint32_t);
  for (const auto& qp : i.qps) {
    if (!qp) continue;
    sum += sizeof(Qp) + qp->tx.sq.capacity() * sizeof(Wqe) + qp->rx.held.capacity() * sizeof(HeldPacket);
    sum += qp->rx.responses.capacity() * sizeof(Response);
    if (qp->tx.sacked_end != 0) sum += SackBits::kBits / 8;
  }
  return sum;
}

Result<QpStats> Engine::qp_stats(Time now, uint32_t qpn) const {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return fail(Errc::kNotFound);
  QpStats stats;
  stats.state = qp->state;
  stats.rate_bps = qp->dcqcn.rate_bps();
  stats.target_bps = qp->dcqcn.target_bps();
  stats.alpha = qp->dcqcn.alpha(now);
  stats.outstanding = qp->tx.nxt - qp->tx.una;
  stats.queued = static_cast<uint32_t>(qp->tx.sq.size());
  stats.in_recovery = qp->tx.in_recovery;
  return stats;
}

uint64_t Engine::executed_psns(uint32_t qpn) const {
  const Qp* qp = impl_->find(qpn);
  return qp == nullptr ? 0 : qp->rx.expected - kPsnBase - (qp->params.rq_psn & kPsnMask);
}

void Engine::on_packet(Time now, const RxPacket& packet) {
  impl_->on_packet(now, packet);
}
void Engine::on_timeout(Time now) {
  impl_->on_timeout(now);
}
bool Engine::poll_transmit(Time now, TxPacket& out) {
  return impl_->poll_transmit(now, out);
}

Result<uint32_t> Engine::reg_mr(PdHandle pd, uint64_t addr, uint64_t length, uint64_t iova,
                                uint32_t access_flags) {
  return impl_->regions.add({pd, addr, length, iova, access_flags, 0});
}

Result<uint32_t> Engine::create_qp(Time now, const QpParams& params) {
  Impl& i = *impl_;
  if (params.qpn > kPsnMask || params.dest_qpn > kPsnMask || params.max_recv_sge > kMaxSlices) {
    return fail(Errc::kInvalidArgument);
  }
  if (params.timeout > 31 || params.retry_cnt > 7 || params.rnr_retry > 7 || params.min_rnr_timer > 31) {
    return fail(Errc::kInvalidArgument);
  }
  if (i.qps.size() - i.free_slots.size() >= i.config.max_qps) return fail(Errc::kNoMemory);
  if (params.qpn != 0 && i.find(params.qpn) != nullptr) return fail(Errc::kBusy);
  auto qp = std::make_unique<Qp>(params, i.config, now);
  while (qp->params.qpn == 0) {
    const uint32_t candidate = i.next_qpn;
    i.next_qpn = candidate == kPsnMask ? kFirstQpn : candidate + 1;
    if (i.find(candidate) == nullptr) qp->params.qpn = candidate;
  }
  Requester& tx = qp->tx;
  tx.una = tx.nxt = tx.sent_end = tx.end = kPsnBase + (params.sq_psn & kPsnMask);
  tx.retries_left = params.retry_cnt;
  tx.rnr_left = params.rnr_retry;
  qp->rx.expected = kPsnBase + (params.rq_psn & kPsnMask);
  qp->rx.held.restart(qp->rx.expected);
  if (i.free_slots.empty()) {
    qp->slot = static_cast<uint32_t>(i.qps.size());
    i.qps.emplace_back();
  } else {
    qp->slot = i.free_slots.back();
    i.free_slots.pop_back();
  }
  i.by_qpn.insert(qp->params.qpn, qp->slot);
  const uint32_t qpn = qp->params.qpn;
  Qp& placed = *(i.qps[qp->slot] = std::move(qp));
  i.schedule_timer(placed);
  return qpn;
}

Status Engine::destroy_qp(uint32_t qpn) {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return fail(Errc::kNotFound);
  impl_->by_qpn.erase(qpn);
  qp->dead = true;
  impl_->timers.remove(qp->slot);
  impl_->paced.remove(qp->slot);
  impl_->release_if_dead(*qp);
  return {};
}

Status Engine::post_recv(Time now, uint32_t qpn, const RecvWr& wr) {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return fail(Errc::kNotFound);
  if (qp->state != QpState::kRts) return fail(Errc::kBadState);
  if (!qp->receives) {
    qp->receives = std::make_unique<ReceiveQueue>(qp->params.max_recv_wr, qp->params.max_recv_sge);
  }
  static_cast<void>(now);
  return qp->receives->post(wr);
}

bool Engine::has_reports() const {
  return !impl_->completions.empty() || !impl_->events.empty();
}

bool Engine::poll_completion(Wc& out) {
  if (impl_->completions.empty()) return false;
  out = impl_->completions.front();
  impl_->completions.pop();
  return true;
}

bool Engine::poll_event(Event& out) {
  if (impl_->events.empty()) return false;
  out = impl_->events.front();
  impl_->events.pop();
  return true;
}

}  // namespace mroce::rocev2
