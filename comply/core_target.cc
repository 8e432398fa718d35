#include "comply/core_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/base/rng.h"

namespace mroce::comply {
namespace {

constexpr uint32_t kMaxBurstsAtOnce = 100000;  // of the engine at one time: more is an endless loop
constexpr uint16_t kFirstSourcePort = 49152;

// 10.0.<plane>.<host>/24
Gid address_of(uint32_t plane, uint8_t host) {
  Gid gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[14] = static_cast<uint8_t>(plane);
  gid.raw[15] = host;
  return gid;
}
constexpr uint8_t kTargetHost = 1, kTesterHost = 2, kStrangerHost = 99;

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) throw TargetFailed(fmt::format("{}: {}", what, sentence_of(result.error())));
  return *result;
}
void must(Status result, const char* what) {
  if (!result) throw TargetFailed(fmt::format("{}: {}", what, sentence_of(result.error())));
}

}  // namespace

// ---- memory

uint64_t CoreMemory::allocate(size_t bytes) {
  const uint64_t addr = next_;
  blocks_[addr].assign(bytes, std::byte{0});
  next_ += (bytes + 8191) / 4096 * 4096;  // a gap, so that an overrun never lands in a neighbour
  return addr;
}

std::span<std::byte> CoreMemory::bytes(uint64_t addr, size_t length) {
  const auto after = blocks_.upper_bound(addr);
  if (after == blocks_.begin()) throw TargetFailed("the engine used an address that is no memory");
  auto& [start, block] = *std::prev(after);
  if (addr - start > block.size() || length > block.size() - (addr - start))
    throw TargetFailed("the engine used an address outside of its region");
  return {block.data() + (addr - start), length};
}

void CoreMemory::place(uint64_t addr, std::span<const std::byte> data) {
  if (!data.empty()) std::memcpy(bytes(addr, data.size()).data(), data.data(), data.size());
}

uint64_t CoreMemory::compare_swap(uint64_t addr, uint64_t compare, uint64_t swap) {
  uint64_t original = 0;
  std::memcpy(&original, bytes(addr, 8).data(), 8);
  if (original == compare) std::memcpy(bytes(addr, 8).data(), &swap, 8);
  return original;
}

uint64_t CoreMemory::fetch_add(uint64_t addr, uint64_t add) {
  uint64_t original = 0;
  std::memcpy(&original, bytes(addr, 8).data(), 8);
  const uint64_t sum = original + add;
  std::memcpy(bytes(addr, 8).data(), &sum, 8);
  return original;
}

// ---- names

Completion completion_of(const Wc& wc) {
  Completion out;
  out.wr_id = wc.wr_id;
  out.receive = wc.opcode == WcOpcode::kRecv || wc.opcode == WcOpcode::kRecvWriteImm;
  out.bytes = wc.byte_len;
  if ((wc.flags & wc_flag::kWithImm) != 0) out.imm = wc.imm_or_invalidated;
  switch (wc.opcode) {
    case WcOpcode::kSend:
      out.opcode = "SEND";
      break;
    case WcOpcode::kWrite:
      out.opcode = "RDMA_WRITE";
      break;
    case WcOpcode::kRead:
      out.opcode = "RDMA_READ";
      break;
    case WcOpcode::kCompareSwap:
      out.opcode = "COMP_SWAP";
      break;
    case WcOpcode::kFetchAdd:
      out.opcode = "FETCH_ADD";
      break;
    case WcOpcode::kRecv:
      out.opcode = "RECV";
      break;
    case WcOpcode::kRecvWriteImm:
      out.opcode = "RECV_RDMA_WITH_IMM";
      break;
  }
  switch (wc.status) {
    case WcStatus::kSuccess:
      out.status = "SUCCESS";
      break;
    case WcStatus::kLocLenErr:
      out.status = "LOC_LEN_ERR";
      break;
    case WcStatus::kLocQpOpErr:
      out.status = "LOC_QP_OP_ERR";
      break;
    case WcStatus::kLocProtErr:
      out.status = "LOC_PROT_ERR";
      break;
    case WcStatus::kWrFlushErr:
      out.status = "WR_FLUSH_ERR";
      break;
    case WcStatus::kRemInvReqErr:
      out.status = "REM_INV_REQ_ERR";
      break;
    case WcStatus::kRemAccessErr:
      out.status = "REM_ACCESS_ERR";
      break;
    case WcStatus::kRemOpErr:
      out.status = "REM_OP_ERR";
      break;
    case WcStatus::kRetryExcErr:
      out.status = "RETRY_EXC_ERR";
      break;
    case WcStatus::kRnrRetryExcErr:
      out.status = "RNR_RETRY_EXC_ERR";
      break;
    case WcStatus::kFatalErr:
      out.status = "FATAL_ERR";
      break;
    case WcStatus::kGeneralErr:
      out.status = "GENERAL_ERR";
      break;
  }
  return out;
}

std::string_view state_name(QpState state) {
  constexpr std::string_view kNames[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};
  return kNames[static_cast<size_t>(state)];
}

SendWr work_request(const Work& work) {
  constexpr Opcode kOps[] = {Opcode::kSend,     Opcode::kSendImm, Opcode::kSendInv,     Opcode::kWrite,
                             Opcode::kWriteImm, Opcode::kRead,    Opcode::kCompareSwap, Opcode::kFetchAdd};
  SendWr wr;
  wr.wr_id = work.wr_id;
  wr.opcode = kOps[static_cast<size_t>(work.op)];
  wr.flags = (work.fence ? send_flag::kFence : 0) | (work.solicited ? send_flag::kSolicited : 0) |
             (work.unsignaled ? 0 : send_flag::kSignaled);
  wr.remote_addr = work.remote_addr;
  wr.rkey = work.rkey;
  wr.imm_or_invalidate = work.imm;
  wr.compare_or_add = work.op == WorkOp::kCompareSwap ? work.compare : work.add;
  wr.swap = work.swap;
  return wr;
}

// ---- control

CoreTarget::CoreTarget(Tweak tweak) : tweak_(std::move(tweak)) {}
CoreTarget::~CoreTarget() = default;

Engine& CoreTarget::engine() {
  if (!engine_) throw TargetFailed("there is no endpoint: start comes first");
  return *engine_;
}

Started CoreTarget::start(const StartOptions& options) {
  if (options.mode != 0 && options.mode != 2) throw Unsupported("security modes 0 and 2 only");
  Rng rng(options.seed.value_or(1) * 1000 + ++starts_);
  EngineConfig config;
  config.seed = rng.next();
  config.base_port = kBasePort;
  for (auto& byte : config.endpoint_id) byte = static_cast<uint8_t>(rng.next());
  for (uint32_t plane = 0; plane < kPlanes; ++plane) {
    LocalPort port;
    port.address = address_of(plane, kTargetHost);
    port.prefix_bits = 120;
    port.link_mtu = 9000;
    if (options.rate_hints) port.rate_bps = 100'000'000'000;
    config.ports.push_back(port);
  }
  config.rate_hints = options.rate_hints;
  const Limits& limits = options.limits;
  config.max_paths = limits.max_paths.value_or(config.max_paths);
  config.max_payload = limits.max_payload.value_or(config.max_payload);
  config.cpsn_window = limits.cpsn_window.value_or(config.cpsn_window);
  config.max_connections = limits.max_connections.value_or(config.max_connections);
  config.key_update_packets = limits.key_update_packets.value_or(config.key_update_packets);
  config.key_max_packets = limits.key_max_packets.value_or(config.key_max_packets);
  config.max_rd_atomic = static_cast<uint8_t>(limits.max_rd_atomic.value_or(config.max_rd_atomic));
  if (options.mode == 2) config.security = SecurityPolicy::kRequire;
  if (!options.psk.empty()) {
    if (options.psk.size() != sizeof(*config.preshared_key))
      throw TargetFailed("a pre-shared key has 32 bytes");
    std::memcpy(config.preshared_key.emplace().data(), options.psk.data(), options.psk.size());
  }
  if (tweak_) tweak_(config);
  mrs_.clear();
  qps_.clear();
  srqs_.clear();
  to_engine_.clear();
  to_tester_.clear();
  memory_ = CoreMemory{};
  engine_ = std::make_unique<Engine>(std::move(config), memory_);
  pd_ = must(engine_->alloc_pd(), "alloc_pd");
  return {address_of(0, kTargetHost), kBasePort, 0, kPlanes};
}

void CoreTarget::stop() {
  engine().shutdown(now_);
  pump();
}

const CoreTarget::Mr& CoreTarget::region(uint32_t mr) const {
  const auto found = mrs_.find(mr);
  if (found == mrs_.end()) throw TargetFailed("no such memory region");
  return found->second;
}

const CoreTarget::Qp& CoreTarget::queue_pair(uint32_t qp) const {
  const auto found = qps_.find(qp);
  if (found == qps_.end()) throw TargetFailed("no such queue pair");
  return found->second;
}

Sge CoreTarget::sge(uint32_t mr, uint32_t offset, uint32_t length) const {
  const Mr& found = region(mr);
  return {found.region.addr + offset, length, found.keys.lkey};
}

Region CoreTarget::create_mr(uint32_t length, uint32_t access) {
  const uint64_t addr = memory_.allocate(length);
  Mr mr;
  mr.keys = must(engine().reg_mr(pd_, addr, length, addr, access), "create_mr");
  mr.region = {next_id_++, addr, mr.keys.rkey, length};
  mrs_[mr.region.id] = mr;
  return mr.region;
}

void CoreTarget::destroy_mr(uint32_t mr) {
  must(engine().dereg_mr(region(mr).keys.lkey), "destroy_mr");
  pump();
}

Bytes CoreTarget::read_memory(uint32_t mr, uint32_t offset, uint32_t length) {
  const auto view = memory_.bytes(region(mr).region.addr + offset, length);
  return {view.begin(), view.end()};
}

void CoreTarget::write_memory(uint32_t mr, uint32_t offset, std::span<const std::byte> bytes) {
  memory_.place(region(mr).region.addr + offset, bytes);
}

uint32_t CoreTarget::create_srq(uint32_t max_wr) {
  srqs_[next_id_] = must(engine().create_srq(pd_, max_wr, 1, 0, 0), "create_srq");
  return next_id_++;
}

QueuePair CoreTarget::create_qp(uint32_t max_send_wr, uint32_t max_recv_wr, std::optional<uint32_t> srq) {
  Qp qp;
  qp.cq = must(engine().create_cq(4096, 0), "create_cq");
  QpInit init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = qp.cq;
  init.cap = {max_send_wr, max_recv_wr, 1, 1, 0};
  if (srq) {
    const auto found = srqs_.find(*srq);
    if (found == srqs_.end()) throw TargetFailed("no such shared receive queue");
    init.srq = found->second;
  }
  qp.handle = must(engine().create_qp(init), "create_qp");
  qps_[next_id_] = qp;
  return {next_id_++, engine().qp_num(qp.handle)};
}

void CoreTarget::connect_qp(uint32_t qp, const ConnectOptions& options) {
  const QpHandle handle = queue_pair(qp).handle;
  QpAttr attr;
  attr.state = QpState::kInit;
  attr.access_flags = options.access;
  must(engine().modify_qp(now_, handle, attr,
                          qp_mask::kState | qp_mask::kPkeyIndex | qp_mask::kPort | qp_mask::kAccessFlags),
       "to INIT");
  attr.state = QpState::kRtr;
  attr.dgid = options.remote_address;
  attr.dest_qpn = options.remote_qpn;
  attr.rq_psn = options.rq_psn;
  attr.max_dest_rd_atomic = options.rd_atomic;
  attr.min_rnr_timer = options.min_rnr_timer;
  must(engine().modify_qp(now_, handle, attr,
                          qp_mask::kState | qp_mask::kAv | qp_mask::kPathMtu | qp_mask::kDestQpn |
                              qp_mask::kRqPsn | qp_mask::kMaxDestRdAtomic | qp_mask::kMinRnrTimer),
       "to RTR");
  if (options.to_rts) {
    attr.state = QpState::kRts;
    attr.timeout = options.timeout;
    attr.retry_cnt = options.retry_cnt;
    attr.rnr_retry = options.rnr_retry;
    attr.sq_psn = options.sq_psn;
    attr.max_rd_atomic = options.rd_atomic;
    must(engine().modify_qp(now_, handle, attr,
                            qp_mask::kState | qp_mask::kTimeout | qp_mask::kRetryCnt | qp_mask::kRnrRetry |
                                qp_mask::kSqPsn | qp_mask::kMaxRdAtomic),
         "to RTS");
  }
  pump();
}

void CoreTarget::modify_qp(uint32_t qp, std::string_view state) {
  QpAttr attr;
  attr.state = state == "reset" ? QpState::kReset : QpState::kErr;
  must(engine().modify_qp(now_, queue_pair(qp).handle, attr, qp_mask::kState), "modify_qp");
  pump();
}

std::string CoreTarget::query_qp(uint32_t qp) {
  return std::string(state_name(must(engine().query_qp(queue_pair(qp).handle), "query_qp").state));
}

void CoreTarget::destroy_qp(uint32_t qp) {
  must(engine().destroy_qp(now_, queue_pair(qp).handle), "destroy_qp");
  qps_.erase(qp);
  pump();
}

void CoreTarget::post_recv(uint32_t qp, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) {
  const Sge where[] = {sge(mr, offset, length)};
  must(engine().post_recv(now_, queue_pair(qp).handle, {wr_id, where}), "post_recv");
  pump();
}

void CoreTarget::post_srq_recv(uint32_t srq, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) {
  const Sge where[] = {sge(mr, offset, length)};
  const auto found = srqs_.find(srq);
  if (found == srqs_.end()) throw TargetFailed("no such shared receive queue");
  must(engine().post_srq_recv(now_, found->second, {wr_id, where}), "post_recv");
  pump();
}

void CoreTarget::post_send(uint32_t qp, const Work& work) {
  const Sge where[] = {sge(work.mr, work.offset, work.length)};
  SendWr wr = work_request(work);
  if (work.length != 0) wr.sges = where;
  must(engine().post_send(now_, queue_pair(qp).handle, wr), "post_send");
  pump();
}

std::vector<Completion> CoreTarget::poll(uint32_t qp) {
  Wc found[64];
  const uint32_t count = engine().poll_cq(queue_pair(qp).cq, found);
  std::vector<Completion> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(completion_of(found[i]));
  return out;
}

void CoreTarget::link(uint32_t plane, bool up) {
  engine().on_link(now_, plane, up);
  pump();
}

// ---- packets

Gid CoreTarget::tester_address(uint32_t plane) const {
  return address_of(plane, kTesterHost);
}
Gid CoreTarget::stranger_address() const {
  return address_of(0, kStrangerHost);
}

UdpAddress CoreTarget::source_address(const Origin& origin) const {
  return {origin.stranger ? stranger_address() : tester_address(origin.plane),
          static_cast<uint16_t>(kFirstSourcePort + 1000 + origin.source)};
}

void CoreTarget::send(std::span<const std::byte> datagram, const Origin& origin) {
  Inbound in;
  in.at = now_ + kLatency;
  in.meta.port = origin.plane;
  in.meta.from = source_address(origin);
  in.meta.ecn = origin.ecn;
  in.bytes.assign(datagram.begin(), datagram.end());
  to_engine_.push_back(std::move(in));
}

std::optional<Arrived> CoreTarget::receive(Time until) {
  pump();
  while (true) {
    const Time answer = to_tester_.empty() ? kNever : to_tester_.front().at;
    const Time arrival = to_engine_.empty() ? kNever : to_engine_.front().at;
    const Time deadline = engine_ ? engine_->next_deadline() : kNever;
    const Time next = std::min({answer, arrival, std::max(deadline, now_)});
    if (next > until) {
      now_ = std::max(now_, until);
      return std::nullopt;
    }
    now_ = std::max(now_, next);
    if (answer <= now_) {
      Arrived out = std::move(to_tester_.front());
      to_tester_.pop_front();
      return out;
    }
    // Datagrams that arrive together are still handed over one by one: bursts are the sender's affair.
    if (arrival <= now_) {
      const Inbound in = std::move(to_engine_.front());
      to_engine_.pop_front();
      if (engine_)
        engine_->on_burst(now_, in.meta, in.bytes,
                          std::max<uint32_t>(1, static_cast<uint32_t>(in.bytes.size())));
    }
    pump();
  }
}

// What a driver does after every input and command.
void CoreTarget::pump() {
  if (!engine_) return;
  if (engine_->next_deadline() <= now_) engine_->on_timeout(now_);
  TxBurst burst;
  uint32_t bursts = 0;
  while (engine_->poll_transmit(now_, burst)) {
    take(burst);
    if (++bursts > kMaxBurstsAtOnce) throw TargetFailed("the engine sends without end");
  }
  Event event;
  while (engine_->poll_event(event)) {
  }
}

// Cuts a burst into its datagrams.
void CoreTarget::take(const TxBurst& burst) {
  Bytes all;
  all.reserve(burst.total_bytes);
  for (const Slice& slice : burst.slices) all.insert(all.end(), slice.data, slice.data + slice.length);
  for (size_t at = 0; at < all.size(); at += burst.segment_bytes) {
    const size_t end = std::min(all.size(), at + burst.segment_bytes);
    deliver(burst.port, burst.entropy, burst.to, burst.ecn,
            Bytes(all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(end)));
  }
}

void CoreTarget::deliver(uint32_t port, uint16_t entropy, const UdpAddress& to, Ecn ecn, Bytes bytes) {
  Arrived out;
  out.at = now_ + kLatency;
  out.ecn = ecn;
  out.from = {address_of(port, kTargetHost), static_cast<uint16_t>(kFirstSourcePort + entropy)};
  out.to = to;
  out.to_stranger = to.ip == stranger_address();
  out.to_source_port = to.port != tester_port();
  bool ours = out.to_stranger;
  for (uint32_t plane = 0; plane < kPlanes; ++plane) {
    if (to.ip != tester_address(plane)) continue;
    out.plane = static_cast<uint8_t>(plane);
    ours = true;
  }
  if (!ours) return;  // to an address that nobody has
  out.bytes = std::move(bytes);
  to_tester_.push_back(std::move(out));
}

}  // namespace mroce::comply
