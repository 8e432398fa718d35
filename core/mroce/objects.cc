// Protection domains, memory regions, completion queues and shared receive queues; and the public face of
// Engine.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

std::string_view name_of(PathState state) {
  switch (state) {
    case PathState::kNew:
      return "NEW";
    case PathState::kActive:
      return "ACTIVE";
    case PathState::kSuspect:
      return "SUSPECT";
    case PathState::kFailed:
      return "FAILED";
    case PathState::kDegraded:
      return "DEGRADED";
    case PathState::kDenied:
      return "DENIED";
  }
  return "?";
}

namespace {
template <class Map, class H>
auto* find_in(const Map& map, H handle) {
  const auto it = map.find(handle.value);
  return it == map.end() ? nullptr : it->second.get();
}
}  // namespace

Engine::Impl::Impl(EngineConfig configuration, Memory& memory_interface)
    : config(std::move(configuration)),
      memory(memory_interface),
      rng(config.seed),
      mrs(rng.next(), config.max_mr) {
  MROCE_ASSERT(config.security == SecurityPolicy::kOff || !config.virtual_payload);
  MROCE_ASSERT(config.key_update_packets + kMaxSegments <= config.key_max_packets);
  key_id = key_id_of(config.preshared_key);
  const size_t trailer = config.security == SecurityPolicy::kOff ? wire::kTrailerBytes : wire::kTagBytes;
  const size_t segments = config.virtual_payload ? 1 + config.max_burst_bytes / 1024 : kMaxSegments;
  const size_t bytes =
      config.virtual_payload ? std::max<size_t>(4096, 2 * config.max_payload) : kMaxBurstBytes;
  scratch.resize(bytes + segments * (wire::kMaxHeaderBytes + trailer));
  slices.reserve(kMaxSegments * 4);
  chosen.reserve(kMaxSegments);
  next_stream = static_cast<uint16_t>(16 + rng.below(1024));
  if (MROCE_MUTANT(kLowStreams)) next_stream = 1;
}

Cq* Engine::Impl::find(CqHandle cq) const {
  return find_in(cqs, cq);
}
Srq* Engine::Impl::find(SrqHandle srq) const {
  return find_in(srqs, srq);
}
QueuePair* Engine::Impl::find(QpHandle qp) const {
  return find_in(qps, qp);
}
Pd* Engine::Impl::find(PdHandle pd) {
  const auto it = pds.find(pd.value);
  return it == pds.end() ? nullptr : &it->second;
}

void Engine::Impl::push_completion(Cq& cq, const Wc& wc, bool solicited) {
  if (cq.queue.push(wc, solicited)) emit(EventKind::kCompletion, cq.queue.user());
  if (!cq.queue.overflowed()) return;
  if (!cq.error_told) emit(EventKind::kCqError, cq.queue.user());
  cq.error_told = true;
  // Not at once: whoever completes something here is in the middle of a queue pair.
  if (std::find(overrun_cqs.begin(), overrun_cqs.end(), cq.handle) == overrun_cqs.end())
    overrun_cqs.push_back(cq.handle);
}

// ---- Engine: construction and getters
// --------------------------------------------------------------------------

Engine::Engine(EngineConfig config, Memory& memory)
    : impl_(std::make_unique<Impl>(std::move(config), memory)) {}
Engine::~Engine() = default;
const EngineConfig& Engine::config() const {
  return impl_->config;
}
const EngineCounters& Engine::counters() const {
  return impl_->counters;
}
Time Engine::next_deadline() const {
  return impl_->timers.earliest();
}

uint64_t Engine::held_bytes() const {
  return impl_->held_bytes;
}

bool Engine::quiescent() const {
  for (const auto& c : impl_->connections) {
    if (c && c->state != Connection::State::kClosed && c->state != Connection::State::kTimeWait) return false;
  }
  return true;
}

// ---- Engine: inputs and outputs
// --------------------------------------------------------------------------------

void Engine::on_burst(Time now, const RxMeta& meta, std::span<const std::byte> bytes,
                      uint32_t segment_bytes) {
  impl_->on_burst(now, meta, bytes, segment_bytes);
}
void Engine::on_timeout(Time now) {
  impl_->on_timeout(now);
}
void Engine::on_link(Time now, uint32_t port, bool up) {
  impl_->on_link(now, port, up);
}
void Engine::on_receive_overflow(Time now, uint64_t datagrams) {
  impl_->note_overflow(now, datagrams);
}
void Engine::on_send_error(Time, uint32_t) {
  // The packets count as sent; loss recovery and path health draw the conclusions, as for any other loss.
}
bool Engine::poll_transmit(Time now, TxBurst& out) {
  return impl_->poll_transmit(now, out);
}
bool Engine::poll_event(Event& out) {
  if (impl_->events.empty()) return false;
  out = impl_->events.front();
  impl_->events.pop();
  return true;
}
void Engine::shutdown(Time now) {
  impl_->shutdown(now);
}

// ---- Engine: protection domains, memory regions
// ----------------------------------------------------------------

Result<PdHandle> Engine::alloc_pd() {
  if (impl_->pds.size() >= impl_->config.max_pd) return fail(Errc::kNoMemory);
  const PdHandle pd{++impl_->handle_counter};
  impl_->pds[pd.value] = {};
  return pd;
}

Status Engine::dealloc_pd(PdHandle pd) {
  Pd* found = impl_->find(pd);
  if (found == nullptr) return fail(Errc::kNotFound);
  if (found->users != 0 || impl_->mrs.count_of(pd) != 0) return fail(Errc::kBusy);
  impl_->pds.erase(pd.value);
  return {};
}

Result<MrInfo> Engine::reg_mr(PdHandle pd, uint64_t addr, uint64_t length, uint64_t iova,
                              uint32_t access_flags) {
  if (impl_->find(pd) == nullptr) return fail(Errc::kInvalidArgument);
  const auto key = impl_->mrs.add({pd, addr, length, iova, access_flags, 0});
  if (!key) return fail(key.error());
  return MrInfo{*key, *key};
}

Status Engine::dereg_mr(uint32_t lkey) {
  return impl_->mrs.remove(lkey);
}

Result<MrInfo> Engine::rereg_mr(uint32_t lkey, std::optional<PdHandle> pd,
                                std::optional<std::array<uint64_t, 3>> range,
                                std::optional<uint32_t> access_flags) {
  const MemoryRegion* old = impl_->mrs.find(lkey);
  if (old == nullptr) return fail(Errc::kNotFound);
  MemoryRegion region = *old;
  if (pd) {
    if (impl_->find(*pd) == nullptr) return fail(Errc::kInvalidArgument);
    region.pd = *pd;
  }
  if (range) {
    region.addr = (*range)[0];
    region.length = (*range)[1];
    region.iova = (*range)[2];
  }
  if (access_flags) region.access = *access_flags;
  const auto replaced = impl_->mrs.replace(lkey, region);
  if (!replaced) return fail(replaced.error());
  return MrInfo{lkey, lkey};
}

// ---- Engine: completion queues
// ---------------------------------------------------------------------------------

Result<CqHandle> Engine::create_cq(uint32_t capacity, uint64_t user) {
  if (capacity == 0 || capacity > impl_->config.max_cqe) return fail(Errc::kInvalidArgument);
  if (impl_->cqs.size() >= impl_->config.max_cq) return fail(Errc::kNoMemory);
  const CqHandle handle{++impl_->handle_counter};
  impl_->cqs[handle.value] = std::unique_ptr<Cq>(new Cq{handle, CompletionQueue(capacity, user)});
  return handle;
}

Result<uint32_t> Engine::resize_cq(CqHandle cq, uint32_t capacity) {
  Cq* found = impl_->find(cq);
  if (found == nullptr) return fail(Errc::kNotFound);
  if (capacity == 0 || capacity > impl_->config.max_cqe) return fail(Errc::kInvalidArgument);
  const auto resized = found->queue.resize(capacity);
  if (!resized) return fail(resized.error());
  return capacity;
}

Status Engine::destroy_cq(CqHandle cq) {
  Cq* found = impl_->find(cq);
  if (found == nullptr) return fail(Errc::kNotFound);
  if (found->users != 0) return fail(Errc::kBusy);
  impl_->cqs.erase(cq.value);
  return {};
}

uint32_t Engine::poll_cq(CqHandle cq, std::span<Wc> out) {
  Cq* found = impl_->find(cq);
  return found == nullptr ? 0 : found->queue.poll(out);
}

Status Engine::arm_cq(CqHandle cq, bool solicited_only) {
  Cq* found = impl_->find(cq);
  if (found == nullptr) return fail(Errc::kNotFound);
  found->queue.arm(solicited_only);
  return {};
}

uint32_t Engine::cq_depth(CqHandle cq) const {
  const Cq* found = impl_->find(cq);
  return found == nullptr ? 0 : found->queue.depth();
}

// ---- Engine: shared receive queues
// -----------------------------------------------------------------------------

Result<SrqHandle> Engine::create_srq(PdHandle pd, uint32_t max_wr, uint32_t max_sge, uint32_t limit,
                                     uint64_t user) {
  Pd* domain = impl_->find(pd);
  const EngineConfig& limits = impl_->config;
  if (domain == nullptr || max_wr == 0 || max_wr > limits.max_srq_wr || max_sge > limits.max_sge ||
      limit > max_wr) {
    return fail(Errc::kInvalidArgument);
  }
  if (impl_->srqs.size() >= limits.max_srq) return fail(Errc::kNoMemory);
  const SrqHandle handle{++impl_->handle_counter};
  impl_->srqs[handle.value] = std::unique_ptr<Srq>(
      new Srq{handle, pd, SharedReceiveQueue(pd, max_wr, max_sge == 0 ? 1 : max_sge, limit, user), user, 0,
              Ring<uint16_t>{}});
  ++domain->users;
  return handle;
}

Status Engine::modify_srq(SrqHandle srq, std::optional<uint32_t> max_wr, std::optional<uint32_t> limit) {
  Srq* found = impl_->find(srq);
  if (found == nullptr) return fail(Errc::kNotFound);
  SharedReceiveQueue& queue = found->queue;
  if (max_wr && *max_wr > impl_->config.max_srq_wr) return fail(Errc::kInvalidArgument);
  const Status done = queue.modify(max_wr.value_or(queue.max_wr()), limit.value_or(queue.limit()));
  if (done && limit && queue.check_limit()) impl_->emit(EventKind::kSrqLimitReached, found->user);
  return done;
}

Result<SrqInfo> Engine::query_srq(SrqHandle srq) const {
  const Srq* found = impl_->find(srq);
  if (found == nullptr) return fail(Errc::kNotFound);
  return SrqInfo{found->queue.max_wr(), found->queue.max_sge(), found->queue.limit()};
}

Status Engine::destroy_srq(SrqHandle srq) {
  Srq* found = impl_->find(srq);
  if (found == nullptr) return fail(Errc::kNotFound);
  if (found->users != 0) return fail(Errc::kBusy);
  if (Pd* domain = impl_->find(found->pd)) --domain->users;
  impl_->srqs.erase(srq.value);
  return {};
}

Status Engine::post_srq_recv(Time now, SrqHandle srq, const RecvWr& wr) {
  Srq* found = impl_->find(srq);
  if (found == nullptr) return fail(Errc::kNotFound);
  const auto posted = found->queue.post(wr);
  if (posted) impl_->serve_srq(now, *found);
  return posted;
}

// ---- Engine: queue pairs
// ---------------------------------------------------------------------------------------

Result<QpHandle> Engine::create_qp(const QpInit& init) {
  return impl_->create_qp(init);
}

uint32_t Engine::qp_num(QpHandle qp) const {
  const QueuePair* found = impl_->find(qp);
  return found == nullptr ? 0 : found->qpn;
}

Status Engine::modify_qp(Time now, QpHandle qp, const QpAttr& attr, uint32_t mask) {
  QueuePair* found = impl_->find(qp);
  return found == nullptr ? Status(fail(Errc::kNotFound)) : impl_->modify_qp(now, *found, attr, mask);
}

Result<QpInfo> Engine::query_qp(QpHandle qp) const {
  const QueuePair* found = impl_->find(qp);
  if (found == nullptr) return fail(Errc::kNotFound);
  QpInfo info{found->state, found->attr, found->cap, found->signal_all, false};
  info.attr.state = info.attr.cur_state = found->state;
  info.sq_draining = found->state == QpState::kSqd && !found->tx.idle();
  return info;
}

Status Engine::destroy_qp(Time now, QpHandle qp) {
  return impl_->destroy_qp(now, qp);
}

Status Engine::post_send(Time now, QpHandle qp, const SendWr& wr) {
  QueuePair* found = impl_->find(qp);
  return found == nullptr ? Status(fail(Errc::kNotFound)) : impl_->post_send(now, *found, wr);
}

Status Engine::post_recv(Time now, QpHandle qp, const RecvWr& wr) {
  QueuePair* found = impl_->find(qp);
  return found == nullptr ? Status(fail(Errc::kNotFound)) : impl_->post_recv(now, *found, wr);
}

}  // namespace mroce
