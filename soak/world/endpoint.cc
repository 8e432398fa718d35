#include "soak/world/endpoint.h"

#include <algorithm>

#include "core/base/assert.h"
#include "soak/world/world.h"

namespace mroce::soak {

namespace {
constexpr uint32_t kMaxBurstsAtOnce = 100000;  // of one engine at one time: more is an endless loop

Gid address_of(uint32_t plane, uint8_t host) {
  Gid gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[14] = static_cast<uint8_t>(plane);
  gid.raw[15] = host;
  return gid;
}
}  // namespace

Endpoint::Endpoint(World& world, EndpointOptions options, uint8_t host, uint64_t seed)
    : world_(world), options_(std::move(options)), host_(host), rng_(seed) {
  MROCE_ASSERT(options_.slot < 200 && options_.planes >= 1);
  links_up_.assign(options_.planes, true);
  clock_ahead_ = options_.clock_ahead;
  index_ = world_.network().attach(*this);
  const EngineConfig defaults;
  for (uint32_t plane = 0; plane < options_.planes; ++plane) {
    world_.network().add_address(index_, plane, gid(plane),
                                 static_cast<uint16_t>(defaults.base_port + options_.slot), options_.slot);
  }
  start();
}

void Endpoint::start() {
  EngineConfig config;
  config.seed = rng_.next();
  for (auto& byte : config.endpoint_id) byte = static_cast<uint8_t>(rng_.next());
  config.slot = options_.slot;
  for (uint32_t plane = 0; plane < options_.planes; ++plane) {
    LocalPort port;
    port.address = gid(plane);
    port.prefix_bits = 120;
    port.link_mtu = options_.link_mtu;
    port.up = links_up_[plane];
    config.ports.push_back(port);
  }
  if (options_.tweak) options_.tweak(config);
  engine_ = std::make_unique<Engine>(std::move(config), memory_);
  pd_ = PdHandle{};
  dirty_ = true;
  ++activity_;
  ++incarnation_;
}

Engine& Endpoint::engine() {
  MROCE_ASSERT(engine_ != nullptr);
  dirty_ = true;
  ++activity_;
  return *engine_;
}

const Engine& Endpoint::look() const {
  MROCE_ASSERT(engine_ != nullptr);
  return *engine_;
}

Gid Endpoint::gid(uint32_t port) const {
  return address_of(port, host_);
}
Time Endpoint::now() const {
  return world_.now() + clock_ahead_;
}

bool Endpoint::frozen() const {
  return world_.now() < frozen_until_;
}

void Endpoint::crash() {
  engine_.reset();
  inbox_.clear();
  events_.clear();
}

void Endpoint::restart() {
  if (engine_) crash();
  start();
}

void Endpoint::freeze(Nanos duration) {
  frozen_until_ = world_.now() + duration;
  world_.at(frozen_until_, [this] { thaw(); });
}

void Endpoint::jump_clock(Nanos forward) {
  clock_ahead_ += forward;
  dirty_ = true;
}

void Endpoint::thaw() {
  if (frozen()) return;
  std::vector<Waiting> waiting = std::move(inbox_);
  inbox_.clear();
  for (Waiting& each : waiting) arrive(each.meta, std::move(each.bytes), each.segment_bytes);
  dirty_ = true;
}

void Endpoint::set_link(uint32_t port, bool up, bool tell) {
  world_.network().cut_link(index_, port, !up);
  if (!tell) return;
  links_up_[port] = up;
  if (engine_) engine().on_link(now(), port, up);
}

// ---- receiving
// --------------------------------------------------------------------------------------------------

void Endpoint::receive(const RxMeta& meta, std::vector<std::byte> bytes, uint32_t segment_bytes) {
  if (!engine_) return;
  if (options_.read_rate_bps == 0) return arrive(meta, std::move(bytes), segment_bytes);
  const Time begins = std::max(world_.now(), reader_busy_until_);
  const double waiting = static_cast<double>((begins - world_.now()).count()) *
                         static_cast<double>(options_.read_rate_bps) / 8e9;
  if (waiting + static_cast<double>(bytes.size()) > static_cast<double>(options_.read_buffer_bytes)) {
    const uint64_t datagrams = (bytes.size() + segment_bytes - 1) / segment_bytes;
    overflowed_ += datagrams;
    for (uint64_t i = 0; i < datagrams; ++i) world_.network().tally().count(FaultKind::kSlowReader);
    return;
  }
  reader_busy_until_ =
      begins + Nanos{static_cast<int64_t>(bytes.size() * 8 * 1000000000ULL / options_.read_rate_bps)};
  world_.at(reader_busy_until_,
            [this, meta, segment_bytes, incarnation = incarnation_, bytes = std::move(bytes)]() mutable {
              if (engine_ && incarnation == incarnation_) arrive(meta, std::move(bytes), segment_bytes);
            });
}

void Endpoint::arrive(const RxMeta& meta, std::vector<std::byte> bytes, uint32_t segment_bytes) {
  if (!engine_) return;
  if (frozen()) {
    inbox_.push_back({meta, std::move(bytes), segment_bytes});
    return;
  }
  if (overflowed_ != 0) engine().on_receive_overflow(now(), std::exchange(overflowed_, 0));
  // An allocation of exactly this size: a sanitizer sees what reads past it.
  engine().on_burst(now(), meta, bytes, segment_bytes);
}

// ---- the driver's loop
// ------------------------------------------------------------------------------------------

Time Endpoint::deadline() const {
  if (!engine_) return kNever;
  const Time due = engine_->next_deadline();
  return due == kNever ? kNever : std::max(due - clock_ahead_, frozen_until_);
}

bool Endpoint::pump() {
  if (!engine_ || frozen()) return false;
  const bool due = now() >= engine_->next_deadline();
  if (!dirty_ && !due) return false;
  dirty_ = false;
  ++activity_;
  if (due) engine_->on_timeout(now());
  TxBurst burst;
  uint32_t bursts = 0;
  while (engine_->poll_transmit(now(), burst)) {
    world_.network().send(index_, gid(burst.port), options_.slot, burst);
    ++bursts;
    MROCE_ASSERT(bursts < kMaxBurstsAtOnce);
  }
  collect_events();
  return true;
}

void Endpoint::collect_events() {
  mroce::Event event;
  while (engine_ && engine_->poll_event(event)) events_.push_back(event);
}

// ---- objects
// ----------------------------------------------------------------------------------------------------

PdHandle Endpoint::pd() {
  if (!pd_) pd_ = engine().alloc_pd().value();
  return pd_;
}

Mr Endpoint::make_mr(size_t bytes, uint32_t access_flags) {
  const uint64_t addr = memory_.allocate(bytes);
  const MrInfo info = engine().reg_mr(pd(), addr, bytes, addr, access_flags).value();
  return {addr, static_cast<uint32_t>(bytes), info.lkey, info.rkey};
}

CqHandle Endpoint::make_cq(uint32_t capacity, uint64_t user) {
  return engine().create_cq(capacity, user).value();
}

SrqHandle Endpoint::make_srq(uint32_t max_wr, uint32_t max_sge, uint32_t limit, uint64_t user) {
  return engine().create_srq(pd(), max_wr, max_sge, limit, user).value();
}

Status Endpoint::post_srq_recv(SrqHandle srq, uint64_t wr_id, std::vector<Sge> sges) {
  return engine().post_srq_recv(now(), srq, {wr_id, sges});
}

Qp Endpoint::make_qp(const QpOptions& options) {
  QpInit init;
  init.pd = pd();
  init.send_cq = options.send_cq ? options.send_cq : make_cq();
  init.recv_cq = options.recv_cq                            ? options.recv_cq
                 : options.send_cq || !options.separate_cqs ? init.send_cq
                                                            : make_cq();
  init.srq = options.srq;
  init.cap = options.cap;
  init.signal_all = options.signal_all;
  init.relaxed = options.relaxed;
  init.user = options.user;
  Qp qp;
  qp.endpoint = this;
  qp.handle = engine().create_qp(init).value();
  qp.number = engine().qp_num(qp.handle);
  qp.send_cq = init.send_cq;
  qp.recv_cq = init.recv_cq;
  return qp;
}

std::optional<Wc> Endpoint::poll(CqHandle cq) {
  Wc wc;
  if (!engine_ || engine_->poll_cq(cq, {&wc, 1}) == 0) return std::nullopt;
  return wc;
}

std::vector<Wc> Endpoint::poll_all(CqHandle cq) {
  std::vector<Wc> result;
  while (const auto wc = poll(cq)) result.push_back(*wc);
  return result;
}

bool Endpoint::take_event(EventKind kind, std::optional<uint64_t> user) {
  collect_events();  // of what was posted since, also if the engine does not run
  const auto it = std::find_if(events_.begin(), events_.end(), [&](const mroce::Event& event) {
    return event.kind == kind && (!user || event.user == *user);
  });
  if (it == events_.end()) return false;
  events_.erase(it);
  return true;
}

std::optional<ConnectionStats> Endpoint::connection_to(const Endpoint& peer) const {
  std::optional<ConnectionStats> found;
  for (const ConnectionStats& stats : look().connection_stats()) {
    bool same = false;
    for (uint32_t port = 0; port < peer.ports(); ++port) same = same || stats.remote.ip == peer.gid(port);
    if (same && (!found || found->state != "OPEN")) found = stats;
  }
  return found;
}

// ---- Qp
// ---------------------------------------------------------------------------------------------------------

Status Qp::modify(const QpAttr& attr, uint32_t mask) const {
  return endpoint->engine().modify_qp(endpoint->now(), handle, attr, mask);
}

Status Qp::to_init(const ConnectOptions& options) const {
  QpAttr attr;
  attr.state = QpState::kInit;
  attr.access_flags = options.access;
  return modify(attr, qp_mask::kState | qp_mask::kPkeyIndex | qp_mask::kPort | qp_mask::kAccessFlags);
}

Status Qp::to_rtr(const Qp& peer, const ConnectOptions& options) const {
  QpAttr attr;
  attr.state = QpState::kRtr;
  attr.sgid_index = options.local_port;
  attr.dgid = peer.endpoint->gid(options.remote_port);
  attr.dest_qpn = peer.number;
  attr.rq_psn = options.rq_psn;
  attr.max_dest_rd_atomic = options.max_dest_rd_atomic;
  attr.min_rnr_timer = options.min_rnr_timer;
  return modify(attr, qp_mask::kState | qp_mask::kAv | qp_mask::kPathMtu | qp_mask::kDestQpn |
                          qp_mask::kRqPsn | qp_mask::kMaxDestRdAtomic | qp_mask::kMinRnrTimer);
}

Status Qp::to_rts(const ConnectOptions& options) const {
  QpAttr attr;
  attr.state = QpState::kRts;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.sq_psn = options.sq_psn;
  attr.max_rd_atomic = options.max_rd_atomic;
  return modify(attr, qp_mask::kState | qp_mask::kTimeout | qp_mask::kRetryCnt | qp_mask::kRnrRetry |
                          qp_mask::kSqPsn | qp_mask::kMaxRdAtomic);
}

Status Qp::to_error() const {
  QpAttr attr;
  attr.state = QpState::kErr;
  return modify(attr, qp_mask::kState);
}

Status Qp::to_reset() const {
  QpAttr attr;
  attr.state = QpState::kReset;
  return modify(attr, qp_mask::kState);
}

QpState Qp::state() const {
  return endpoint->look().query_qp(handle).value().state;
}

void Qp::destroy() const {
  const Status destroyed = endpoint->engine().destroy_qp(endpoint->now(), handle);
  MROCE_ASSERT(destroyed.has_value());
}

Status Qp::post(const SendWr& wr) const {
  return endpoint->engine().post_send(endpoint->now(), handle, wr);
}

Status Qp::post_recv(uint64_t wr_id, std::vector<Sge> sges) const {
  return endpoint->engine().post_recv(endpoint->now(), handle, {wr_id, sges});
}

namespace {
SendWr request(Opcode opcode, uint64_t wr_id, const std::vector<Sge>& sges, uint32_t flags) {
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.flags = flags;
  wr.sges = sges;
  return wr;
}

SendWr one_sided(Opcode opcode, uint64_t wr_id, const std::vector<Sge>& sges, uint64_t remote, uint32_t rkey,
                 uint32_t flags) {
  SendWr wr = request(opcode, wr_id, sges, flags);
  wr.remote_addr = remote;
  wr.rkey = rkey;
  return wr;
}
}  // namespace

Status Qp::send(uint64_t wr_id, std::vector<Sge> sges, uint32_t flags) const {
  return post(request(Opcode::kSend, wr_id, sges, flags));
}

Status Qp::send_imm(uint64_t wr_id, std::vector<Sge> sges, uint32_t imm, uint32_t flags) const {
  SendWr wr = request(Opcode::kSendImm, wr_id, sges, flags);
  wr.imm_or_invalidate = imm;
  return post(wr);
}

Status Qp::send_inv(uint64_t wr_id, std::vector<Sge> sges, uint32_t rkey, uint32_t flags) const {
  SendWr wr = request(Opcode::kSendInv, wr_id, sges, flags);
  wr.imm_or_invalidate = rkey;
  return post(wr);
}

Status Qp::write(uint64_t wr_id, std::vector<Sge> sges, uint64_t remote, uint32_t rkey,
                 uint32_t flags) const {
  return post(one_sided(Opcode::kWrite, wr_id, sges, remote, rkey, flags));
}

Status Qp::write_imm(uint64_t wr_id, std::vector<Sge> sges, uint64_t remote, uint32_t rkey, uint32_t imm,
                     uint32_t flags) const {
  SendWr wr = one_sided(Opcode::kWriteImm, wr_id, sges, remote, rkey, flags);
  wr.imm_or_invalidate = imm;
  return post(wr);
}

Status Qp::read(uint64_t wr_id, std::vector<Sge> sges, uint64_t remote, uint32_t rkey, uint32_t flags) const {
  return post(one_sided(Opcode::kRead, wr_id, sges, remote, rkey, flags));
}

Status Qp::fetch_add(uint64_t wr_id, Sge into, uint64_t remote, uint32_t rkey, uint64_t add,
                     uint32_t flags) const {
  const std::vector<Sge> sges{into};
  SendWr wr = one_sided(Opcode::kFetchAdd, wr_id, sges, remote, rkey, flags);
  wr.compare_or_add = add;
  return post(wr);
}

Status Qp::compare_swap(uint64_t wr_id, Sge into, uint64_t remote, uint32_t rkey, uint64_t compare,
                        uint64_t swap, uint32_t flags) const {
  const std::vector<Sge> sges{into};
  SendWr wr = one_sided(Opcode::kCompareSwap, wr_id, sges, remote, rkey, flags);
  wr.compare_or_add = compare;
  wr.swap = swap;
  return post(wr);
}

}  // namespace mroce::soak
