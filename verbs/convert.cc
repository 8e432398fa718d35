#include "verbs/convert.h"

#include <endian.h>

#include <array>
#include <cstring>

namespace mroce::verbs {
namespace {

// core/rdma/types.h promises these equalities.
template <class Ours, class Theirs>
consteval bool same(Ours ours, Theirs theirs) {
  return static_cast<uint64_t>(ours) == static_cast<uint64_t>(theirs);
}

static_assert(same(access::kLocalWrite, IBV_ACCESS_LOCAL_WRITE));
static_assert(same(access::kRemoteWrite, IBV_ACCESS_REMOTE_WRITE));
static_assert(same(access::kRemoteRead, IBV_ACCESS_REMOTE_READ));
static_assert(same(access::kRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(access::kAll ==
              (access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic));

static_assert(same(Opcode::kWrite, IBV_WR_RDMA_WRITE));
static_assert(same(Opcode::kWriteImm, IBV_WR_RDMA_WRITE_WITH_IMM));
static_assert(same(Opcode::kSend, IBV_WR_SEND));
static_assert(same(Opcode::kSendImm, IBV_WR_SEND_WITH_IMM));
static_assert(same(Opcode::kRead, IBV_WR_RDMA_READ));
static_assert(same(Opcode::kCompareSwap, IBV_WR_ATOMIC_CMP_AND_SWP));
static_assert(same(Opcode::kFetchAdd, IBV_WR_ATOMIC_FETCH_AND_ADD));
static_assert(same(Opcode::kSendInv, IBV_WR_SEND_WITH_INV));

static_assert(same(send_flag::kFence, IBV_SEND_FENCE));
static_assert(same(send_flag::kSignaled, IBV_SEND_SIGNALED));
static_assert(same(send_flag::kSolicited, IBV_SEND_SOLICITED));
static_assert(same(send_flag::kInline, IBV_SEND_INLINE));

static_assert(same(WcStatus::kSuccess, IBV_WC_SUCCESS));
static_assert(same(WcStatus::kLocLenErr, IBV_WC_LOC_LEN_ERR));
static_assert(same(WcStatus::kLocQpOpErr, IBV_WC_LOC_QP_OP_ERR));
static_assert(same(WcStatus::kLocProtErr, IBV_WC_LOC_PROT_ERR));
static_assert(same(WcStatus::kWrFlushErr, IBV_WC_WR_FLUSH_ERR));
static_assert(same(WcStatus::kRemInvReqErr, IBV_WC_REM_INV_REQ_ERR));
static_assert(same(WcStatus::kRemAccessErr, IBV_WC_REM_ACCESS_ERR));
static_assert(same(WcStatus::kRemOpErr, IBV_WC_REM_OP_ERR));
static_assert(same(WcStatus::kRetryExcErr, IBV_WC_RETRY_EXC_ERR));
static_assert(same(WcStatus::kRnrRetryExcErr, IBV_WC_RNR_RETRY_EXC_ERR));
static_assert(same(WcStatus::kGeneralErr, IBV_WC_GENERAL_ERR));

static_assert(same(WcOpcode::kSend, IBV_WC_SEND));
static_assert(same(WcOpcode::kWrite, IBV_WC_RDMA_WRITE));
static_assert(same(WcOpcode::kRead, IBV_WC_RDMA_READ));
static_assert(same(WcOpcode::kCompareSwap, IBV_WC_COMP_SWAP));
static_assert(same(WcOpcode::kFetchAdd, IBV_WC_FETCH_ADD));
static_assert(same(WcOpcode::kRecv, IBV_WC_RECV));
static_assert(same(WcOpcode::kRecvWriteImm, IBV_WC_RECV_RDMA_WITH_IMM));

static_assert(same(wc_flag::kWithImm, IBV_WC_WITH_IMM));
static_assert(same(wc_flag::kWithInv, IBV_WC_WITH_INV));

static_assert(same(QpState::kReset, IBV_QPS_RESET));
static_assert(same(QpState::kInit, IBV_QPS_INIT));
static_assert(same(QpState::kRtr, IBV_QPS_RTR));
static_assert(same(QpState::kRts, IBV_QPS_RTS));
static_assert(same(QpState::kSqd, IBV_QPS_SQD));
static_assert(same(QpState::kSqe, IBV_QPS_SQE));
static_assert(same(QpState::kErr, IBV_QPS_ERR));

static_assert(same(qp_mask::kState, IBV_QP_STATE));
static_assert(same(qp_mask::kCurState, IBV_QP_CUR_STATE));
static_assert(same(qp_mask::kEnSqdAsyncNotify, IBV_QP_EN_SQD_ASYNC_NOTIFY));
static_assert(same(qp_mask::kAccessFlags, IBV_QP_ACCESS_FLAGS));
static_assert(same(qp_mask::kPkeyIndex, IBV_QP_PKEY_INDEX));
static_assert(same(qp_mask::kPort, IBV_QP_PORT));
static_assert(same(qp_mask::kQkey, IBV_QP_QKEY));
static_assert(same(qp_mask::kAv, IBV_QP_AV));
static_assert(same(qp_mask::kPathMtu, IBV_QP_PATH_MTU));
static_assert(same(qp_mask::kTimeout, IBV_QP_TIMEOUT));
static_assert(same(qp_mask::kRetryCnt, IBV_QP_RETRY_CNT));
static_assert(same(qp_mask::kRnrRetry, IBV_QP_RNR_RETRY));
static_assert(same(qp_mask::kRqPsn, IBV_QP_RQ_PSN));
static_assert(same(qp_mask::kMaxRdAtomic, IBV_QP_MAX_QP_RD_ATOMIC));
static_assert(same(qp_mask::kAltPath, IBV_QP_ALT_PATH));
static_assert(same(qp_mask::kMinRnrTimer, IBV_QP_MIN_RNR_TIMER));
static_assert(same(qp_mask::kSqPsn, IBV_QP_SQ_PSN));
static_assert(same(qp_mask::kMaxDestRdAtomic, IBV_QP_MAX_DEST_RD_ATOMIC));
static_assert(same(qp_mask::kPathMigState, IBV_QP_PATH_MIG_STATE));
static_assert(same(qp_mask::kCap, IBV_QP_CAP));
static_assert(same(qp_mask::kDestQpn, IBV_QP_DEST_QPN));
static_assert(same(qp_mask::kRateLimit, IBV_QP_RATE_LIMIT));

static_assert(sizeof(Sge) == sizeof(ibv_sge) && alignof(Sge) == alignof(ibv_sge));
static_assert(offsetof(Sge, addr) == offsetof(ibv_sge, addr));
static_assert(offsetof(Sge, length) == offsetof(ibv_sge, length));
static_assert(offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));

constexpr uint32_t kSendFlags =
    send_flag::kFence | send_flag::kSignaled | send_flag::kSolicited | send_flag::kInline;

// Devices read the low 24 bits of a packet number; programs that draw one at random often give all 32.
constexpr uint32_t kPsnBits = 0xffffff;

static_assert(static_cast<int>(WcStatus::kFatalErr) == IBV_WC_FATAL_ERR);

bool is_multicast(const Gid& gid) {
  if (gid.is_v4_mapped()) return (gid.raw[12] & 0xf0) == 0xe0;
  return gid.raw[0] == 0xff;
}

Gid to_gid(const ibv_gid& gid) {
  Gid out;
  std::memcpy(out.raw.data(), gid.raw, out.raw.size());
  return out;
}

}  // namespace

Result<uint32_t> to_mr_access(unsigned int flags) {
  constexpr unsigned int kHints = IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_MW_BIND;
  const unsigned int required = flags & ~static_cast<unsigned int>(IBV_ACCESS_OPTIONAL_RANGE);
  if ((required & IBV_ACCESS_ON_DEMAND) != 0) return fail(Errc::kNotSupported);
  if ((required & ~(access::kAll | kHints)) != 0) return fail(Errc::kInvalidArgument);
  return required & access::kAll;
}

Status check_ah_attr(const ibv_ah_attr& attr, size_t gids) {
  const Gid destination = to_gid(attr.grh.dgid);
  if (attr.is_global == 0 || attr.port_num != 1 || attr.grh.sgid_index >= gids)
    return fail(Errc::kInvalidArgument);
  if (destination.is_zero() || is_multicast(destination)) return fail(Errc::kInvalidArgument);
  return {};
}

Result<QpChange> to_qp_change(const ibv_qp_attr& attr, int mask_bits, size_t gids, QpKept& kept) {
  QpChange change;
  change.mask = static_cast<uint32_t>(mask_bits);
  const auto has = [&](uint32_t bit) { return (change.mask & bit) != 0; };

  if (has(qp_mask::kAltPath | qp_mask::kCap | qp_mask::kRateLimit)) return fail(Errc::kNotSupported);
  if (has(qp_mask::kPathMigState) && attr.path_mig_state != IBV_MIG_MIGRATED)
    return fail(Errc::kNotSupported);
  if (has(qp_mask::kState) && static_cast<unsigned>(attr.qp_state) > IBV_QPS_ERR)
    return fail(Errc::kInvalidArgument);
  if (has(qp_mask::kCurState) && static_cast<unsigned>(attr.cur_qp_state) > IBV_QPS_ERR) {
    return fail(Errc::kInvalidArgument);
  }
  if (has(qp_mask::kPkeyIndex) && attr.pkey_index != 0) return fail(Errc::kInvalidArgument);
  if (has(qp_mask::kPort) && attr.port_num != 1) return fail(Errc::kInvalidArgument);
  if (has(qp_mask::kPathMtu) && (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096)) {
    return fail(Errc::kInvalidArgument);
  }
  if (has(qp_mask::kAccessFlags)) {
    const auto flags = to_mr_access(attr.qp_access_flags);
    if (!flags) return fail(flags.error());
    change.attr.access_flags = *flags;
  }
  if (has(qp_mask::kAv)) {
    if (const Status ok = check_ah_attr(attr.ah_attr, gids); !ok) return fail(ok.error());
    change.attr.sgid_index = attr.ah_attr.grh.sgid_index;
    change.attr.dgid = to_gid(attr.ah_attr.grh.dgid);
    kept.ah_attr = attr.ah_attr;
  }
  if (has(qp_mask::kPkeyIndex)) kept.pkey_index = attr.pkey_index;
  if (has(qp_mask::kPort)) kept.port_num = attr.port_num;
  if (has(qp_mask::kPathMtu)) kept.path_mtu = attr.path_mtu;
  if (has(qp_mask::kState) && attr.qp_state == IBV_QPS_RESET) kept = QpKept{};

  // The notification is wanted for this transition, or not.
  if (has(qp_mask::kEnSqdAsyncNotify) && attr.en_sqd_async_notify == 0)
    change.mask &= ~qp_mask::kEnSqdAsyncNotify;

  if (has(qp_mask::kState)) change.attr.state = static_cast<QpState>(attr.qp_state);
  if (has(qp_mask::kCurState)) change.attr.cur_state = static_cast<QpState>(attr.cur_qp_state);
  change.attr.dest_qpn = attr.dest_qp_num;
  change.attr.sq_psn = attr.sq_psn & kPsnBits;
  change.attr.rq_psn = attr.rq_psn & kPsnBits;
  change.attr.timeout = attr.timeout;
  change.attr.retry_cnt = attr.retry_cnt;
  change.attr.rnr_retry = attr.rnr_retry;
  change.attr.min_rnr_timer = attr.min_rnr_timer;
  change.attr.max_rd_atomic = attr.max_rd_atomic;
  change.attr.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  return change;
}

void from_qp_info(const QpInfo& info, const QpKept& kept, ibv_qp_attr& out) {
  out = ibv_qp_attr{};
  out.qp_state = static_cast<ibv_qp_state>(info.state);
  out.cur_qp_state = static_cast<ibv_qp_state>(info.state);
  out.path_mtu = kept.path_mtu;
  out.path_mig_state = IBV_MIG_MIGRATED;
  out.rq_psn = info.attr.rq_psn;
  out.sq_psn = info.attr.sq_psn;
  out.dest_qp_num = info.attr.dest_qpn;
  out.qp_access_flags = info.attr.access_flags;
  out.cap = from_cap(info.cap);
  out.ah_attr = kept.ah_attr;
  out.pkey_index = kept.pkey_index;
  out.sq_draining = info.sq_draining ? 1 : 0;
  out.max_rd_atomic = info.attr.max_rd_atomic;
  out.max_dest_rd_atomic = info.attr.max_dest_rd_atomic;
  out.min_rnr_timer = info.attr.min_rnr_timer;
  out.port_num = kept.port_num;
  out.timeout = info.attr.timeout;
  out.retry_cnt = info.attr.retry_cnt;
  out.rnr_retry = info.attr.rnr_retry;
}

QpCap to_cap(const ibv_qp_cap& cap) {
  return {.max_send_wr = cap.max_send_wr,
          .max_recv_wr = cap.max_recv_wr,
          .max_send_sge = cap.max_send_sge,
          .max_recv_sge = cap.max_recv_sge,
          .max_inline_data = cap.max_inline_data};
}

ibv_qp_cap from_cap(const QpCap& cap) {
  return {.max_send_wr = cap.max_send_wr,
          .max_recv_wr = cap.max_recv_wr,
          .max_send_sge = cap.max_send_sge,
          .max_recv_sge = cap.max_recv_sge,
          .max_inline_data = cap.max_inline_data};
}

Result<SendWr> to_send_wr(const ibv_send_wr& wr) {
  if (wr.num_sge < 0 || (wr.num_sge > 0 && wr.sg_list == nullptr)) return fail(Errc::kInvalidArgument);
  if ((wr.send_flags & ~kSendFlags) != 0) return fail(Errc::kInvalidArgument);
  SendWr out;
  out.wr_id = wr.wr_id;
  out.flags = wr.send_flags;
  out.sges = to_sges(wr.sg_list, wr.num_sge);
  switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
      out.remote_addr = wr.wr.rdma.remote_addr;
      out.rkey = wr.wr.rdma.rkey;
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      out.remote_addr = wr.wr.atomic.remote_addr;
      out.rkey = wr.wr.atomic.rkey;
      out.compare_or_add = wr.wr.atomic.compare_add;
      out.swap = wr.wr.atomic.swap;
      break;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
      break;
    case IBV_WR_LOCAL_INV:
    case IBV_WR_BIND_MW:
    case IBV_WR_TSO:
    case IBV_WR_DRIVER1:
    case IBV_WR_ATOMIC_WRITE:
      return fail(Errc::kNotSupported);
    default:
      return fail(Errc::kInvalidArgument);
  }
  out.opcode = static_cast<Opcode>(wr.opcode);
  // The immediate is four bytes in network order; the transport carries a number.
  out.imm_or_invalidate = wr.opcode == IBV_WR_SEND_WITH_INV ? wr.invalidate_rkey : be32toh(wr.imm_data);
  return out;
}

Result<RecvWr> to_recv_wr(const ibv_recv_wr& wr) {
  if (wr.num_sge < 0 || (wr.num_sge > 0 && wr.sg_list == nullptr)) return fail(Errc::kInvalidArgument);
  return RecvWr{.wr_id = wr.wr_id, .sges = to_sges(wr.sg_list, wr.num_sge)};
}

uint32_t immediate_or_key(const Wc& wc) {
  return (wc.flags & wc_flag::kWithImm) != 0 ? htobe32(wc.imm_or_invalidated) : wc.imm_or_invalidated;
}

void from_wc(const Wc& wc, ibv_wc& out) {
  out.wr_id = wc.wr_id;
  out.status = static_cast<ibv_wc_status>(wc.status);
  out.opcode = static_cast<ibv_wc_opcode>(wc.opcode);
  out.vendor_err = 0;
  out.byte_len = wc.byte_len;
  out.invalidated_rkey = immediate_or_key(wc);  // and imm_data, which shares its place
  out.qp_num = wc.qp_num;
  out.src_qp = wc.src_qp;
  out.wc_flags = wc.flags;
  out.pkey_index = 0;
  out.slid = 0;
  out.sl = 0;
  out.dlid_path_bits = 0;
}

LinkSpeed to_link_speed(uint64_t rate_bps) {
  struct Row {
    uint64_t gbps;
    LinkSpeed encoded;
  };
  // Widths: 1 = 1x, 2 = 4x. Speeds per lane in Gbit/s: 1 = 2.5, 4 = 10, 32 = 25, 64 = 50, 128 = 100.
  static constexpr std::array<Row, 8> kTable{{{2, {1, 1}},
                                              {10, {2, 1}},
                                              {25, {1, 32}},
                                              {40, {2, 4}},
                                              {50, {1, 64}},
                                              {100, {2, 32}},
                                              {200, {2, 64}},
                                              {400, {2, 128}}}};
  if (rate_bps == 0) return kTable[1].encoded;
  for (const Row& row : kTable) {
    if (rate_bps <= row.gbps * 1'000'000'000) return row.encoded;
  }
  return kTable.back().encoded;
}

}  // namespace mroce::verbs
