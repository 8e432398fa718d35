#include "verbs/check/device.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "net/say.h"

namespace mroce::check {
namespace {

// Pointers that come back null, and calls that return an errno.
template <class T>
T* made(T* object, const char* what) {
  REQUIRE(object != nullptr, "{}: {}", what, std::strerror(errno));
  return object;
}
void done(int error, const char* what) {
  REQUIRE(error == 0, "{}: {}", what, std::strerror(error));
}

int destruction_failures = 0;

ContextPtr open_first_device() {
  int count = 0;
  ibv_device** list = made(ibv_get_device_list(&count), "ibv_get_device_list");
  REQUIRE(count > 0, "there is no device");
  ContextPtr context(made(ibv_open_device(list[0]), "ibv_open_device"));
  ibv_free_device_list(list);
  return context;
}

}  // namespace

void destroyed(int error) {
  if (error == 0) return;
  ++destruction_failures;
  say("an object cannot be destroyed: {}\n", std::strerror(error));
}
int failed_destructions() {
  return destruction_failures;
}

Device::Device() : context(open_first_device()), pd(made(ibv_alloc_pd(context.get()), "ibv_alloc_pd")) {
  REQUIRE(ibv_query_gid(context.get(), 1, 0, &gid) == 0, "no GID");
}

CqPtr Device::make_cq(int entries, ibv_comp_channel* channel) {
  return CqPtr(made(ibv_create_cq(context.get(), entries, this, channel, 0), "ibv_create_cq"));
}

ChannelPtr Device::make_channel() {
  return ChannelPtr(made(ibv_create_comp_channel(context.get()), "ibv_create_comp_channel"));
}

Buffer::Buffer(Device& device, size_t bytes, int access) : words((bytes + 7) / 8) {
  mr.reset(made(ibv_reg_mr(device.pd.get(), words.data(), words.size() * 8, access), "ibv_reg_mr"));
}

Link::Link(Device& device, const QpOptions& options) : device_(device), options_(options) {
  ibv_qp_init_attr attr{};
  attr.send_cq = options.send_cq;
  attr.recv_cq = options.recv_cq;
  attr.srq = options.srq;
  attr.cap = options.cap;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = options.signal_all ? 1 : 0;
  qp_.reset(made(ibv_create_qp(device.pd.get(), &attr), "ibv_create_qp"));
  psn_ = (qp_->qp_num * 2654435761u) & 0xffffff;
}

void Link::to_init() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = options_.access;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  done(ibv_modify_qp(qp(), &attr, mask), "modify to INIT");
}

void Link::to_rtr(const QpAddress& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = peer.number;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = options_.min_rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.hop_limit = 64;
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  done(ibv_modify_qp(qp(), &attr, mask), "modify to RTR");
}

void Link::to_rts() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = options_.timeout;
  attr.retry_cnt = options_.retry_count;
  attr.rnr_retry = options_.rnr_retry;
  attr.sq_psn = psn_;
  attr.max_rd_atomic = 16;
  const int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                   IBV_QP_MAX_QP_RD_ATOMIC;
  done(ibv_modify_qp(qp(), &attr, mask), "modify to RTS");
}

void Link::to_error() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  done(ibv_modify_qp(qp(), &attr, IBV_QP_STATE), "modify to ERR");
}

void Link::to_reset() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  done(ibv_modify_qp(qp(), &attr, IBV_QP_STATE), "modify to RESET");
}

void Link::connect(Side& side) {
  to_init();
  const QpAddress peer = side.control.exchange(address());
  to_rtr(peer);
  to_rts();
  side.control.barrier();
}

void Link::post_send(ibv_send_wr& wr) {
  ibv_send_wr* bad = nullptr;
  done(ibv_post_send(qp(), &wr, &bad), "ibv_post_send");
}

void Link::post_recv(uint64_t id, std::span<const ibv_sge> sges) {
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = const_cast<ibv_sge*>(sges.data());
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  done(ibv_post_recv(qp(), &wr, &bad), "ibv_post_recv");
}

ibv_send_wr send_wr(ibv_wr_opcode opcode, uint64_t id, std::span<ibv_sge> sges, unsigned int flags) {
  ibv_send_wr wr{};
  wr.wr_id = id;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  wr.opcode = opcode;
  wr.send_flags = flags;
  return wr;
}

ibv_send_wr rdma_wr(ibv_wr_opcode opcode, uint64_t id, std::span<ibv_sge> sges, const Remote& remote,
                    uint64_t offset, unsigned int flags) {
  ibv_send_wr wr = send_wr(opcode, id, sges, flags);
  wr.wr.rdma.remote_addr = remote.address + offset;
  wr.wr.rdma.rkey = remote.rkey;
  return wr;
}

ibv_send_wr fetch_add_wr(uint64_t id, std::span<ibv_sge> sges, const Remote& remote, uint64_t offset,
                         uint64_t add) {
  ibv_send_wr wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, id, sges);
  wr.wr.atomic.remote_addr = remote.address + offset;
  wr.wr.atomic.rkey = remote.rkey;
  wr.wr.atomic.compare_add = add;
  return wr;
}

ibv_send_wr compare_swap_wr(uint64_t id, std::span<ibv_sge> sges, const Remote& remote, uint64_t offset,
                            uint64_t compare, uint64_t swap) {
  ibv_send_wr wr = fetch_add_wr(id, sges, remote, offset, compare);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.swap = swap;
  return wr;
}

ibv_wc next_completion(ibv_cq* cq, Deadline deadline) {
  ibv_wc wc{};
  for (;;) {
    const int got = ibv_poll_cq(cq, 1, &wc);
    REQUIRE(got >= 0, "ibv_poll_cq returned {}", got);
    if (got == 1) return wc;
    REQUIRE(!deadline.passed(), "no completion came");
  }
}

ibv_wc next_success(ibv_cq* cq) {
  const ibv_wc wc = next_completion(cq);
  REQUIRE(wc.status == IBV_WC_SUCCESS, "work request {} ended with: {}", wc.wr_id,
          ibv_wc_status_str(wc.status));
  return wc;
}

void require_empty(ibv_cq* cq) {
  ibv_wc wc{};
  const int got = ibv_poll_cq(cq, 1, &wc);
  REQUIRE(got == 0, "an unexpected completion: work request {}, {}", wc.wr_id, ibv_wc_status_str(wc.status));
}

ibv_async_event next_async_event(ibv_context* context) {
  pollfd entry{context->async_fd, POLLIN, 0};
  const int milliseconds = static_cast<int>(std::chrono::milliseconds(kPatience).count());
  REQUIRE(::poll(&entry, 1, milliseconds) == 1, "no asynchronous event came");
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(context, &event) == 0, "ibv_get_async_event: {}", std::strerror(errno));
  ibv_ack_async_event(&event);
  return event;
}

}  // namespace mroce::check
