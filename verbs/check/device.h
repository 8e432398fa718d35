// RAII over the verbs objects that the cases use. A failed call ends the case with its name and errno.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "verbs/check/check.h"

namespace mroce::check {

// Counts destructions that failed: a side with any does not pass.
void destroyed(int error);
int failed_destructions();

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    destroyed(destroy(object));
  }
};
using ContextPtr = std::unique_ptr<ibv_context, Destroy<ibv_close_device>>;
using PdPtr = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using MrPtr = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using CqPtr = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using QpPtr = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;
using SrqPtr = std::unique_ptr<ibv_srq, Destroy<ibv_destroy_srq>>;
using ChannelPtr = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;

inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// The first device, opened, with one protection domain.
struct Device {
  Device();
  ContextPtr context;
  PdPtr pd;
  ibv_gid gid{};  // index 0

  CqPtr make_cq(int entries, ibv_comp_channel* channel = nullptr);
  ChannelPtr make_channel();
};

// Zeroed memory, registered.
struct Buffer {
  Buffer(Device& device, size_t bytes, int access = kAllAccess);
  std::vector<uint64_t> words;
  MrPtr mr;

  uint8_t* data() { return reinterpret_cast<uint8_t*>(words.data()); }
  std::span<uint8_t> part(size_t offset, size_t length) { return {data() + offset, length}; }
  uint64_t address(size_t offset = 0) const { return reinterpret_cast<uint64_t>(words.data()) + offset; }
  ibv_sge sge(size_t offset, size_t length) const {
    return {address(offset), static_cast<uint32_t>(length), mr->lkey};
  }
};

// What a peer needs to know of a Buffer.
struct Remote {
  uint64_t address = 0;
  uint32_t rkey = 0;
};
inline Remote remote_of(const Buffer& buffer) {
  return {buffer.address(), buffer.mr->rkey};
}

struct QpOptions {
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp_cap cap{
      .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128};
  bool signal_all = false;
  unsigned int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  uint8_t timeout = 14;  // 67 ms
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;      // for ever
  uint8_t min_rnr_timer = 1;  // 10 us
};

struct QpAddress {
  ibv_gid gid{};
  uint32_t number = 0;
  uint32_t psn = 0;
};

// A queue pair on its way to being connected.
class Link {
 public:
  Link(Device& device, const QpOptions& options);

  ibv_qp* qp() const { return qp_.get(); }
  QpAddress address() const { return {device_.gid, qp_->qp_num, psn_}; }
  void to_init();
  void to_rtr(const QpAddress& peer);
  void to_rts();
  void to_error();
  void to_reset();
  // Exchanges addresses and goes to RTS; both sides are ready to receive when it returns.
  void connect(Side& side);

  void post_send(ibv_send_wr& wr);
  void post_recv(uint64_t id, std::span<const ibv_sge> sges);

 private:
  Device& device_;
  QpOptions options_;
  QpPtr qp_;
  uint32_t psn_;
};

// Work requests, filled in.
ibv_send_wr send_wr(ibv_wr_opcode opcode, uint64_t id, std::span<ibv_sge> sges,
                    unsigned int flags = IBV_SEND_SIGNALED);
ibv_send_wr rdma_wr(ibv_wr_opcode opcode, uint64_t id, std::span<ibv_sge> sges, const Remote& remote,
                    uint64_t offset, unsigned int flags = IBV_SEND_SIGNALED);
ibv_send_wr fetch_add_wr(uint64_t id, std::span<ibv_sge> sges, const Remote& remote, uint64_t offset,
                         uint64_t add);
ibv_send_wr compare_swap_wr(uint64_t id, std::span<ibv_sge> sges, const Remote& remote, uint64_t offset,
                            uint64_t compare, uint64_t swap);

// The next completion, whatever its status.
ibv_wc next_completion(ibv_cq* cq, Deadline deadline = Deadline());
// The next completion, which must be a success.
ibv_wc next_success(ibv_cq* cq);
// There is none.
void require_empty(ibv_cq* cq);
// The next asynchronous event, acknowledged at once.
ibv_async_event next_async_event(ibv_context* context);

}  // namespace mroce::check
