// What a device and its kernel see to, and a library alone must: errno after success, memory that cannot be
// pinned, objects that do not belong together, numbers that are too wide.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

#include "verbs/library_fixture.h"
#include "verbs/test_mapping.h"

namespace mroce::verbs {
namespace {

constexpr int kErrnoBefore = 4711;

// What a call returns that must leave errno alone.
template <class Call>
auto quietly(const char* name, Call&& call) {
  errno = kErrnoBefore;
  const auto result = call();
  EXPECT_EQ(errno, kErrnoBefore) << name;
  return result;
}
#define QUIETLY(expression) quietly(#expression, [&] { return expression; })

TEST_F(LibraryTest, calls_about_objects_that_succeed_leave_errno_alone) {
  ibv_device** list = QUIETLY(ibv_get_device_list(nullptr));
  ASSERT_NE(list, nullptr);
  ibv_context* context = QUIETLY(ibv_open_device(list[0]));
  ASSERT_NE(context, nullptr);
  ibv_device_attr device{};
  EXPECT_EQ(QUIETLY(ibv_query_device(context, &device)), 0);
  ibv_port_attr port{};
  EXPECT_EQ(QUIETLY(___ibv_query_port(context, 1, &port)), 0);
  ibv_gid gid{};
  EXPECT_EQ(QUIETLY(ibv_query_gid(context, 1, 0, &gid)), 0);
  ibv_pd* pd = QUIETLY(ibv_alloc_pd(context));
  ASSERT_NE(pd, nullptr);
  ibv_mr* mr = QUIETLY(ibv_reg_mr(pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(QUIETLY(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory_.data(), 128, 0)), 0);
  ibv_comp_channel* channel = QUIETLY(ibv_create_comp_channel(context));
  ASSERT_NE(channel, nullptr);
  ibv_cq* cq = QUIETLY(ibv_create_cq(context, 8, nullptr, channel, 0));
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(QUIETLY(ibv_resize_cq(cq, 100)), 0);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {.max_wr = 8, .max_sge = 2, .srq_limit = 0};
  ibv_srq* srq = QUIETLY(ibv_create_srq(pd, &srq_attr));
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(QUIETLY(ibv_query_srq(srq, &srq_attr.attr)), 0);
  EXPECT_EQ(QUIETLY(ibv_destroy_srq(srq)), 0);
  EXPECT_EQ(QUIETLY(ibv_destroy_cq(cq)), 0);
  EXPECT_EQ(QUIETLY(ibv_destroy_comp_channel(channel)), 0);
  EXPECT_EQ(QUIETLY(ibv_dereg_mr(mr)), 0);
  EXPECT_EQ(QUIETLY(ibv_dealloc_pd(pd)), 0);
  EXPECT_EQ(QUIETLY(ibv_close_device(context)), 0);
  ibv_free_device_list(list);
}

// Over the real network of the host: the queue pair is its own peer.
TEST_F(LibraryTest, work_that_succeeds_leaves_errno_alone) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  ibv_cq* cq = ibv_create_cq(context_, 8, nullptr, channel, 0);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attr = qp_attr();
  attr.recv_cq = cq;
  ibv_qp* qp = QUIETLY(ibv_create_qp(pd_, &attr));
  ASSERT_NE(qp, nullptr);
  errno = kErrnoBefore;
  connect_to_itself(qp);
  EXPECT_EQ(errno, kErrnoBefore);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(QUIETLY(ibv_req_notify_cq(cq, 0)), 0);
  ASSERT_EQ(QUIETLY(ibv_post_recv(qp, &receive, &bad_receive)), 0);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(QUIETLY(ibv_post_send(qp, &send, &bad_send)), 0);
  ibv_cq* event_cq = nullptr;
  void* event_context = nullptr;
  ASSERT_EQ(QUIETLY(ibv_get_cq_event(channel, &event_cq, &event_context)), 0);
  errno = kErrnoBefore;
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(errno, kErrnoBefore);
  ibv_wc wc{};
  EXPECT_EQ(QUIETLY(ibv_poll_cq(cq, 1, &wc)), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(QUIETLY(ibv_poll_cq(cq, 1, &wc)), 0);
  ibv_qp_attr change{};
  change.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(QUIETLY(ibv_modify_qp(qp, &change, IBV_QP_STATE)), 0);
  EXPECT_EQ(QUIETLY(ibv_query_qp(qp, &change, IBV_QP_STATE, &attr)), 0);
  EXPECT_EQ(QUIETLY(ibv_destroy_qp(qp)), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

// The child needs an endpoint of its own, and finds the parent's port taken.
TEST_F(LibraryTest, a_device_that_had_to_look_for_a_free_port_leaves_errno_alone) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    errno = kErrnoBefore;
    ibv_context* context = ibv_open_device(context_->device);
    const int after = errno;
    _exit(context == nullptr ? 2 : after == kErrnoBefore ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: errno changed; 2: not opened";
}

// Both sides mean the same number, by its low 24 bits. Over the real network of the host.
TEST_F(LibraryTest, packet_numbers_of_more_than_24_bits_count_by_their_low_24) {
  ibv_qp_init_attr attr = qp_attr();
  ibv_qp* qp = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp, nullptr);
  connect_to_itself(qp, 0xff123456, 0x01123456);
  ibv_qp_attr now{};
  ASSERT_EQ(ibv_query_qp(qp, &now, IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, &attr), 0);
  EXPECT_EQ(now.rq_psn, 0x123456u);
  EXPECT_EQ(now.sq_psn, 0x123456u);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad_receive), 0);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &send, &bad_send), 0);
  ibv_wc wc{};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int polled = 0;
  while (polled == 0 && std::chrono::steady_clock::now() < limit) polled = ibv_poll_cq(cq_, 1, &wc);
  ASSERT_EQ(polled, 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// Handles of objects mean something in their own context only.
TEST_F(LibraryTest, objects_of_different_contexts_do_not_go_together) {
  ibv_context* other = ibv_open_device(context_->device);
  ASSERT_NE(other, nullptr);
  ibv_pd* pd = ibv_alloc_pd(other);
  ASSERT_NE(pd, nullptr);
  ibv_cq* cq = ibv_create_cq(other, 16, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  ibv_comp_channel* channel = ibv_create_comp_channel(other);
  ASSERT_NE(channel, nullptr);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {.max_wr = 8, .max_sge = 2, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(pd, &srq_attr);
  ASSERT_NE(srq, nullptr);

  const auto with = [&](auto&& change) {
    ibv_qp_init_attr attr = qp_attr();
    change(attr);
    return create_error(attr);
  };
  EXPECT_EQ(with([&](auto& attr) { attr.send_cq = cq; }), EINVAL);
  EXPECT_EQ(with([&](auto& attr) { attr.recv_cq = cq; }), EINVAL);
  EXPECT_EQ(with([&](auto& attr) { attr.srq = srq; }), EINVAL);

  const auto error_of = [](auto* object) { return object == nullptr ? errno : 0; };
  EXPECT_EQ(error_of(ibv_create_cq(context_, 8, nullptr, channel, 0)), EINVAL);
  ibv_cq_init_attr_ex cq_ex{};
  cq_ex.cqe = 8;
  cq_ex.channel = channel;
  EXPECT_EQ(error_of(ibv_create_cq_ex(context_, &cq_ex)), EINVAL);
  ibv_mr* mr = register_memory(IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mr->pd, pd_);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);

  // Nothing was left behind that would hold these.
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

// Older kernels cannot be asked.
#define SKIP_UNLESS_KERNEL_POPULATES()               \
  if (madvise(nullptr, 0, MADV_POPULATE_WRITE) != 0) \
  GTEST_SKIP() << "the kernel does not know MADV_POPULATE_WRITE"

TEST_F(LibraryTest, memory_with_less_than_the_rights_asked_for_is_not_registered) {
  SKIP_UNLESS_KERNEL_POPULATES();
  const Mapping readable(1, PROT_READ);
  const auto error_with = [&](const Mapping& memory, int access) {
    errno = 0;
    ibv_mr* mr = ibv_reg_mr(pd_, memory.at(0), memory.bytes(), access);
    const int error = mr == nullptr ? errno : 0;
    if (mr != nullptr) ibv_dereg_mr(mr);
    return error;
  };
  EXPECT_EQ(error_with(readable, 0), 0);
  EXPECT_EQ(error_with(readable, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(error_with(readable, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(error_with(readable, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), EFAULT);
  EXPECT_EQ(error_with(readable, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC), EFAULT);
  const Mapping forbidden(1, PROT_NONE);
  EXPECT_EQ(error_with(forbidden, 0), EFAULT);
  EXPECT_EQ(error_with(forbidden, IBV_ACCESS_LOCAL_WRITE), EFAULT);
}

TEST_F(LibraryTest, ranges_that_no_memory_can_have_are_not_registered) {
  EXPECT_EQ(ibv_reg_mr(pd_, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd_, memory_.data(), SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd_, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(LibraryTest, a_region_is_not_moved_to_memory_that_it_may_not_use) {
  SKIP_UNLESS_KERNEL_POPULATES();
  const Mapping readable(1, PROT_READ);
  ibv_mr* mr = register_memory(IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  const auto move = [&](int flags, int access) {
    return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | flags, nullptr, readable.at(0),
                        readable.bytes(), access);
  };
  EXPECT_EQ(move(0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(mr->addr, memory_.data());
  EXPECT_EQ(mr->length, memory_.size());
  EXPECT_EQ(move(IBV_REREG_MR_CHANGE_ACCESS, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(mr->addr, readable.at(0));
  // From here on it is a region that is only read, also when it is moved again.
  EXPECT_EQ(move(0, 0), 0);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}
}  // namespace
}  // namespace mroce::verbs
