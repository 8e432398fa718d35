#include "verbs/convert.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace mroce::verbs {
namespace {

constexpr size_t kGids = 3;

ibv_ah_attr good_ah() {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = 2;
  attr.grh.hop_limit = 64;
  attr.grh.traffic_class = 9;
  attr.sl = 3;
  const std::array<uint8_t, 16> v4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  std::memcpy(attr.grh.dgid.raw, v4.data(), v4.size());
  return attr;
}

Errc error_of(const Status& status) {
  return status ? Errc::kNetwork : status.error();
}

TEST(ConvertTest, optional_access_flags_and_hints_are_dropped) {
  EXPECT_EQ(to_mr_access(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB),
            access::kLocalWrite);
  EXPECT_EQ(to_mr_access(access::kAll | IBV_ACCESS_OPTIONAL_RANGE), access::kAll);
  EXPECT_EQ(to_mr_access(0), 0u);
}

TEST(ConvertTest, on_demand_paging_is_not_supported_and_unknown_flags_are_invalid) {
  EXPECT_EQ(to_mr_access(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE).error(), Errc::kNotSupported);
  EXPECT_EQ(to_mr_access(1u << 19).error(), Errc::kInvalidArgument);
  EXPECT_EQ(to_mr_access(1u << 30).error(), Errc::kInvalidArgument);
}

TEST(ConvertTest, an_address_must_be_global_on_port_one_with_a_gid_that_exists) {
  EXPECT_TRUE(check_ah_attr(good_ah(), kGids));
  ibv_ah_attr attr = good_ah();
  attr.is_global = 0;
  EXPECT_EQ(error_of(check_ah_attr(attr, kGids)), Errc::kInvalidArgument);
  attr = good_ah();
  attr.port_num = 2;
  EXPECT_EQ(error_of(check_ah_attr(attr, kGids)), Errc::kInvalidArgument);
  attr = good_ah();
  attr.grh.sgid_index = kGids;
  EXPECT_EQ(error_of(check_ah_attr(attr, kGids)), Errc::kInvalidArgument);
}

TEST(ConvertTest, a_destination_must_be_one_host) {
  ibv_ah_attr attr = good_ah();
  attr.grh.dgid.raw[12] = 224;
  EXPECT_EQ(error_of(check_ah_attr(attr, kGids)), Errc::kInvalidArgument);
  std::memset(attr.grh.dgid.raw, 0, 16);
  EXPECT_EQ(error_of(check_ah_attr(attr, kGids)), Errc::kInvalidArgument);
  attr.grh.dgid.raw[0] = 0xff;
  EXPECT_EQ(error_of(check_ah_attr(attr, kGids)), Errc::kInvalidArgument);
}

TEST(ConvertTest, what_modify_qp_keeps_comes_back_from_query_qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.port_num = 1;
  attr.path_mtu = IBV_MTU_1024;
  attr.ah_attr = good_ah();
  QpKept kept;
  const int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_PKEY_INDEX;
  const auto change = to_qp_change(attr, mask, kGids, kept);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->mask, static_cast<uint32_t>(mask));
  EXPECT_EQ(change->attr.state, QpState::kRtr);
  EXPECT_EQ(change->attr.sgid_index, 2u);
  EXPECT_EQ(change->attr.dgid.raw[15], 1);

  QpInfo info;
  info.state = QpState::kRtr;
  info.attr.timeout = 14;
  info.sq_draining = true;
  ibv_qp_attr out{};
  from_qp_info(info, kept, out);
  EXPECT_EQ(out.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(out.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(out.port_num, 1);
  EXPECT_EQ(out.timeout, 14);
  EXPECT_EQ(out.sq_draining, 1);
  EXPECT_EQ(out.ah_attr.grh.traffic_class, 9);
  EXPECT_EQ(std::memcmp(&out.ah_attr.grh.dgid, &attr.ah_attr.grh.dgid, 16), 0);
}

TEST(ConvertTest, packet_numbers_keep_24_bits) {
  ibv_qp_attr attr{};
  attr.rq_psn = 0xff123456;
  attr.sq_psn = 0x01654321;
  QpKept kept;
  const auto change = to_qp_change(attr, IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, kGids, kept);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->attr.rq_psn, 0x123456u);
  EXPECT_EQ(change->attr.sq_psn, 0x654321u);
}

TEST(ConvertTest, a_reset_forgets_what_was_kept) {
  QpKept kept;
  kept.port_num = 1;
  kept.path_mtu = IBV_MTU_512;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_TRUE(to_qp_change(attr, IBV_QP_STATE, kGids, kept));
  EXPECT_EQ(kept.port_num, 0);
  EXPECT_EQ(kept.path_mtu, ibv_mtu{});
}

TEST(ConvertTest, attributes_that_the_device_lacks_are_refused) {
  QpKept kept;
  ibv_qp_attr attr{};
  attr.path_mig_state = IBV_MIG_ARMED;
  attr.pkey_index = 1;
  attr.path_mtu = static_cast<ibv_mtu>(6);
  attr.port_num = 0;
  attr.qp_state = static_cast<ibv_qp_state>(7);
  const auto error = [&](int mask) { return to_qp_change(attr, mask, kGids, kept).error(); };
  EXPECT_EQ(error(IBV_QP_ALT_PATH), Errc::kNotSupported);
  EXPECT_EQ(error(IBV_QP_CAP), Errc::kNotSupported);
  EXPECT_EQ(error(IBV_QP_RATE_LIMIT), Errc::kNotSupported);
  EXPECT_EQ(error(IBV_QP_PATH_MIG_STATE), Errc::kNotSupported);
  EXPECT_EQ(error(IBV_QP_PKEY_INDEX), Errc::kInvalidArgument);
  EXPECT_EQ(error(IBV_QP_PATH_MTU), Errc::kInvalidArgument);
  EXPECT_EQ(error(IBV_QP_PORT), Errc::kInvalidArgument);
  EXPECT_EQ(error(IBV_QP_STATE), Errc::kInvalidArgument);
}

TEST(ConvertTest, a_drain_notification_that_is_not_wanted_is_not_asked_for) {
  QpKept kept;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  const int mask = IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;
  EXPECT_EQ(to_qp_change(attr, mask, kGids, kept)->mask, qp_mask::kState);
  attr.en_sqd_async_notify = 1;
  EXPECT_EQ(to_qp_change(attr, mask, kGids, kept)->mask, qp_mask::kState | qp_mask::kEnSqdAsyncNotify);
}

TEST(ConvertTest, each_operation_takes_its_fields_from_its_part_of_the_work_request) {
  std::array<ibv_sge, 2> sges{{{0x1000, 5, 7}, {0x2000, 6, 8}}};
  ibv_send_wr wr{};
  wr.wr_id = 99;
  wr.sg_list = sges.data();
  wr.num_sge = 2;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  wr.imm_data = 0x11223344;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.wr.rdma = {0xabc, 0x5};
  auto out = to_send_wr(wr);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->opcode, Opcode::kWriteImm);
  EXPECT_EQ(out->remote_addr, 0xabcu);
  EXPECT_EQ(out->rkey, 5u);
  EXPECT_EQ(out->imm_or_invalidate, be32toh(0x11223344u));
  ASSERT_EQ(out->sges.size(), 2u);
  EXPECT_EQ(out->sges[1].addr, 0x2000u);
  EXPECT_EQ(out->sges[1].lkey, 8u);

  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic = {0x10, 1, 2, 3};
  out = to_send_wr(wr);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->remote_addr, 0x10u);
  EXPECT_EQ(out->compare_or_add, 1u);
  EXPECT_EQ(out->swap, 2u);
  EXPECT_EQ(out->rkey, 3u);
}

TEST(ConvertTest, work_requests_that_make_no_sense_are_refused) {
  ibv_send_wr wr{};
  const auto error = [&] { return to_send_wr(wr).error(); };
  wr.opcode = IBV_WR_SEND;
  wr.num_sge = -1;
  EXPECT_EQ(error(), Errc::kInvalidArgument);
  wr.num_sge = 1;  // no list
  EXPECT_EQ(error(), Errc::kInvalidArgument);
  wr.num_sge = 0;
  wr.send_flags = IBV_SEND_IP_CSUM;
  EXPECT_EQ(error(), Errc::kInvalidArgument);
  wr.send_flags = 0;
  wr.opcode = IBV_WR_LOCAL_INV;
  EXPECT_EQ(error(), Errc::kNotSupported);
  wr.opcode = static_cast<ibv_wr_opcode>(13);
  EXPECT_EQ(error(), Errc::kInvalidArgument);
  ibv_recv_wr recv{};
  recv.num_sge = -3;
  EXPECT_EQ(to_recv_wr(recv).error(), Errc::kInvalidArgument);
}

TEST(ConvertTest, a_completion_arrives_with_every_field) {
  const Wc wc{.wr_id = 1,
              .status = WcStatus::kFatalErr,
              .opcode = WcOpcode::kRecvWriteImm,
              .byte_len = 10,
              .imm_or_invalidated = 0xaabbccdd,
              .qp_num = 4,
              .src_qp = 5,
              .flags = wc_flag::kWithImm};
  ibv_wc out;
  std::memset(&out, 0xff, sizeof out);
  from_wc(wc, out);
  EXPECT_EQ(out.wr_id, 1u);
  EXPECT_EQ(out.status, IBV_WC_FATAL_ERR);
  EXPECT_EQ(out.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(out.byte_len, 10u);
  EXPECT_EQ(out.imm_data, htobe32(0xaabbccddu));
  EXPECT_EQ(out.qp_num, 4u);
  EXPECT_EQ(out.src_qp, 5u);
  EXPECT_EQ(out.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(out.pkey_index + out.slid + out.sl + out.dlid_path_bits + static_cast<int>(out.vendor_err), 0);
}

TEST(ConvertTest, a_key_that_was_invalidated_keeps_its_order_and_an_immediate_does_not) {
  Wc wc;
  wc.imm_or_invalidated = 0x01020304;
  wc.flags = wc_flag::kWithInv;
  EXPECT_EQ(immediate_or_key(wc), 0x01020304u);
  wc.flags = wc_flag::kWithImm;
  EXPECT_EQ(immediate_or_key(wc), htobe32(0x01020304u));
}

TEST(ConvertTest, a_link_speed_is_never_below_the_rate_of_the_interface) {
  const auto gbps = [](LinkSpeed link) {
    const double lanes = link.width == 1 ? 1 : 4;
    const double lane = link.speed == 1    ? 2.5
                        : link.speed == 4  ? 10
                        : link.speed == 32 ? 25
                        : link.speed == 64 ? 50
                                           : 100;
    return lanes * lane;
  };
  EXPECT_EQ(gbps(to_link_speed(0)), 10);
  for (const uint64_t rate : {1u, 10u, 25u, 40u, 50u, 100u, 200u, 400u}) {
    EXPECT_GE(gbps(to_link_speed(rate * 1'000'000'000)), static_cast<double>(rate));
    EXPECT_LE(gbps(to_link_speed(rate * 1'000'000'000)), static_cast<double>(rate) * 2.5);
  }
}

}  // namespace
}  // namespace mroce::verbs
