// One device, a protection domain and a completion queue, as a program has them.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

// Without the macros: the exported functions.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace mroce::verbs {

class LibraryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("MROCE_ADDRESSES", "127.0.0.1,::1", 0);
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(list[0]);
    ASSERT_NE(context_, nullptr);
    ibv_free_device_list(list);
  }
  static void TearDownTestSuite() {
    ASSERT_EQ(ibv_close_device(context_), 0);
    context_ = nullptr;
  }
  void SetUp() override {
    pd_ = ibv_alloc_pd(context_);
    ASSERT_NE(pd_, nullptr);
    cq_ = ibv_create_cq(context_, 16, this, nullptr, 0);
    ASSERT_NE(cq_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
  }

  ibv_mr* register_memory(unsigned int access, void* address = nullptr) {
    void* at = address != nullptr ? address : memory_.data();
    return ibv_reg_mr_iova2(pd_, at, memory_.size(), reinterpret_cast<uint64_t>(at), access);
  }
  ibv_qp_init_attr qp_attr() {
    ibv_qp_init_attr attr{};
    attr.send_cq = cq_;
    attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {
        .max_send_wr = 10, .max_recv_wr = 11, .max_send_sge = 2, .max_recv_sge = 3, .max_inline_data = 60};
    return attr;
  }
  int create_error(ibv_qp_init_attr attr) {
    errno = 0;
    ibv_qp* qp = ibv_create_qp(pd_, &attr);
    if (qp != nullptr) ibv_destroy_qp(qp);
    return qp != nullptr ? 0 : errno;
  }

  static void connect_to_itself(ibv_qp* qp, uint32_t rq_psn = 0, uint32_t sq_psn = 0) {
    ibv_qp_attr change{};
    change.qp_state = IBV_QPS_INIT;
    change.port_num = 1;
    ASSERT_EQ(
        ibv_modify_qp(qp, &change, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    change.qp_state = IBV_QPS_RTR;
    change.path_mtu = IBV_MTU_1024;
    change.dest_qp_num = qp->qp_num;
    change.rq_psn = rq_psn;
    change.max_dest_rd_atomic = 1;
    change.min_rnr_timer = 12;
    change.ah_attr.is_global = 1;
    change.ah_attr.port_num = 1;
    ASSERT_EQ(ibv_query_gid(context_, 1, 0, &change.ah_attr.grh.dgid), 0);
    ASSERT_EQ(ibv_modify_qp(qp, &change,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    change.qp_state = IBV_QPS_RTS;
    change.timeout = 14;
    change.retry_cnt = 7;
    change.rnr_retry = 7;
    change.sq_psn = sq_psn;
    change.max_rd_atomic = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &change,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }

  static inline ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::array<char, 8192> memory_{};
};

}  // namespace mroce::verbs
