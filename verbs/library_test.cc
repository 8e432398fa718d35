// The library as a program sees it, in one process: what is refused and how, what attributes say.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "verbs/library_fixture.h"

namespace mroce::verbs {
namespace {

TEST_F(LibraryTest, the_device_list_needs_no_count_and_ends_with_null) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  ASSERT_NE(list[0], nullptr);
  EXPECT_EQ(list[1], nullptr);
  EXPECT_STREQ(ibv_get_device_name(list[0]), list[0]->name);
  EXPECT_NE(ibv_get_device_guid(list[0]), 0u);
  EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
  EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
  ibv_free_device_list(list);
}

TEST_F(LibraryTest, a_foreign_device_cannot_be_opened) {
  ibv_device other{};
  EXPECT_EQ(ibv_open_device(&other), nullptr);
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(LibraryTest, device_attributes_fill_exactly_the_length_that_is_passed) {
  auto* extended =
      reinterpret_cast<verbs_context*>(reinterpret_cast<char*>(context_) - offsetof(verbs_context, context));
  ibv_device_attr plain{};
  ASSERT_EQ(ibv_query_device(context_, &plain), 0);
  for (const size_t length :
       {sizeof(ibv_device_attr), sizeof(ibv_device_attr) + 8, sizeof(ibv_device_attr_ex) + 16}) {
    std::array<unsigned char, sizeof(ibv_device_attr_ex) + 64> bytes;
    bytes.fill(0xaa);
    auto* attr = reinterpret_cast<ibv_device_attr_ex*>(bytes.data());
    ASSERT_EQ(extended->query_device_ex(context_, nullptr, attr, length), 0);
    EXPECT_EQ(attr->orig_attr.max_qp, plain.max_qp);
    EXPECT_NE(bytes[length - 1], 0xaa);
    EXPECT_EQ(bytes[length], 0xaa);
  }
  ibv_device_attr_ex attr{};
  EXPECT_EQ(extended->query_device_ex(context_, nullptr, &attr, sizeof(ibv_device_attr) - 1), EINVAL);
  const ibv_query_device_ex_input input{.comp_mask = 1};
  EXPECT_EQ(extended->query_device_ex(context_, &input, &attr, sizeof attr), EINVAL);
}

TEST_F(LibraryTest, the_exported_query_port_fills_48_bytes) {
  std::array<unsigned char, 64> bytes;
  bytes.fill(0xaa);
  ASSERT_EQ(ibv_query_port(context_, 1, reinterpret_cast<_compat_ibv_port_attr*>(bytes.data())), 0);
  EXPECT_NE(bytes[47], 0xaa);
  for (size_t i = 48; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], 0xaa) << i;
  EXPECT_EQ(ibv_query_port(context_, 2, reinterpret_cast<_compat_ibv_port_attr*>(bytes.data())), EINVAL);
  EXPECT_EQ(ibv_query_port(context_, 0, reinterpret_cast<_compat_ibv_port_attr*>(bytes.data())), EINVAL);
}

TEST_F(LibraryTest, port_attributes_describe_an_active_ethernet_port) {
  ibv_port_attr attr{};
  ASSERT_EQ(___ibv_query_port(context_, 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(attr.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(attr.gid_tbl_len, 2);
  EXPECT_EQ(attr.pkey_tbl_len, 1);
  EXPECT_EQ(attr.phys_state, 5);
  EXPECT_EQ(attr.max_msg_sz, 1u << 31);
  EXPECT_NE(attr.active_width, 0);
  EXPECT_NE(attr.active_speed, 0);
}

TEST_F(LibraryTest, the_gid_table_holds_ipv4_before_ipv6_all_of_roce_v2) {
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &gid), 0);
  const std::array<uint8_t, 16> v4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(std::memcmp(gid.raw, v4.data(), 16), 0);
  EXPECT_EQ(ibv_query_gid(context_, 1, 2, &gid), -1);
  EXPECT_EQ(ibv_query_gid(context_, 1, -1, &gid), -1);
  EXPECT_EQ(ibv_query_gid(context_, 2, 0, &gid), -1);
  std::array<ibv_gid_entry, 4> entries{};
  EXPECT_EQ(ibv_query_gid_table(context_, entries.data(), entries.size(), 0), 2);
  EXPECT_EQ(entries[1].gid.raw[15], 1);
  EXPECT_EQ(entries[1].gid_index, 1u);
  EXPECT_EQ(entries[1].gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V2));
  EXPECT_NE(entries[1].ndev_ifindex, 0u);
  EXPECT_EQ(ibv_query_gid_table(context_, entries.data(), 1, 0), -EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 0, entries.data(), 0), 0);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 9, entries.data(), 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 0, entries.data(), 1), EOPNOTSUPP);
}

TEST_F(LibraryTest, there_is_one_partition_key) {
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(context_, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_query_pkey(context_, 1, 1, &pkey), -1);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, 0xffff), 0);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, 0x7fff), -1);
}

TEST_F(LibraryTest, a_probe_without_a_protection_domain_is_invalid) {  // NCCL does this
  EXPECT_EQ(ibv_reg_mr_iova2(nullptr, nullptr, 0, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_dmabuf_mr(nullptr, 0, 0, 0, 0, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(LibraryTest, memory_is_registered_or_refused_with_the_reason) {
  ibv_mr* mr =
      register_memory(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, memory_.data());
  EXPECT_EQ(mr->length, memory_.size());
  EXPECT_EQ(mr->pd, pd_);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);

  EXPECT_EQ(register_memory(IBV_ACCESS_ON_DEMAND), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(register_memory(IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(register_memory(1u << 18), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(register_memory(IBV_ACCESS_LOCAL_WRITE, reinterpret_cast<void*>(0x1000)), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_reg_mr(pd_, memory_.data(), 0, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(LibraryTest, reregistration_changes_what_it_is_told_to) {
  ibv_mr* mr = register_memory(IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, 8, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 4, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory_.data() + 64, 128, 0), 0);
  EXPECT_EQ(mr->addr, memory_.data() + 64);
  EXPECT_EQ(mr->length, 128u);
  ibv_pd* other = ibv_alloc_pd(context_);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, other);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(LibraryTest, completion_queues_have_bounds) {
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_EQ(ibv_create_cq(context_, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, -1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_create_cq(context_, attr.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, 4, nullptr, nullptr, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_GE(cq_->cqe, 16);
  EXPECT_EQ(ibv_resize_cq(cq_, 100), 0);
  EXPECT_GE(cq_->cqe, 100);
  EXPECT_EQ(ibv_resize_cq(cq_, 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_, attr.max_cqe + 1), EINVAL);
}

TEST_F(LibraryTest, created_queue_pairs_say_what_they_can_do) {
  ibv_qp_init_attr attr = qp_attr();
  ibv_qp* qp = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(attr.cap.max_send_wr, 10u);
  EXPECT_GE(attr.cap.max_recv_wr, 11u);
  EXPECT_GE(attr.cap.max_send_sge, 2u);
  EXPECT_GE(attr.cap.max_recv_sge, 3u);
  EXPECT_GE(attr.cap.max_inline_data, 60u);
  EXPECT_GT(qp->qp_num, 1u);
  EXPECT_LT(qp->qp_num, 0xffffffu);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);
  ibv_ece ece{};
  EXPECT_EQ(ibv_query_ece(qp, &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
  ibv_gid group{};
  EXPECT_EQ(ibv_attach_mcast(qp, &group, 0), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(LibraryTest, queue_pairs_that_the_device_lacks_are_not_made) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  EXPECT_EQ(create_error(qp_attr()), 0);
  for (const ibv_qp_type type :
       {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_DRIVER}) {
    ibv_qp_init_attr attr = qp_attr();
    attr.qp_type = type;
    EXPECT_EQ(create_error(attr), EOPNOTSUPP) << type;
  }
  const auto with = [&](auto&& change) {
    ibv_qp_init_attr attr = qp_attr();
    change(attr);
    return create_error(attr);
  };
  EXPECT_EQ(with([](auto& attr) { attr.send_cq = nullptr; }), EINVAL);
  EXPECT_EQ(with([](auto& attr) { attr.recv_cq = nullptr; }), EINVAL);
  EXPECT_EQ(with([&](auto& attr) { attr.cap.max_send_wr = static_cast<uint32_t>(device.max_qp_wr) + 1; }),
            EINVAL);
  EXPECT_EQ(with([&](auto& attr) { attr.cap.max_recv_wr = static_cast<uint32_t>(device.max_qp_wr) + 1; }),
            EINVAL);
  EXPECT_EQ(with([&](auto& attr) { attr.cap.max_send_sge = static_cast<uint32_t>(device.max_sge) + 1; }),
            EINVAL);
  EXPECT_EQ(with([](auto& attr) { attr.cap.max_inline_data = 1u << 20; }), EINVAL);
}

TEST_F(LibraryTest, the_extended_calls_do_what_the_plain_ones_do_and_no_more) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = cq_;
  attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = qp_attr().cap;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = pd_;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  EXPECT_EQ(ibv_create_qp_ex(context_, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);

  ibv_srq_init_attr_ex srq_attr{};
  srq_attr.attr = {.max_wr = 8, .max_sge = 2, .srq_limit = 0};
  srq_attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  srq_attr.srq_type = IBV_SRQT_BASIC;
  srq_attr.pd = pd_;
  ibv_srq* srq = ibv_create_srq_ex(context_, &srq_attr);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  srq_attr.srq_type = IBV_SRQT_XRC;
  EXPECT_EQ(ibv_create_srq_ex(context_, &srq_attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);

  EXPECT_EQ(ibv_alloc_mw(pd_, IBV_MW_TYPE_1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_xrcd_init_attr xrcd{};
  EXPECT_EQ(ibv_open_xrcd(context_, &xrcd), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(LibraryTest, an_extended_completion_queue_can_be_polled_when_empty) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 8;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &attr);
  ASSERT_NE(cq, nullptr);
  ibv_poll_cq_attr poll{};
  EXPECT_EQ(ibv_start_poll(cq, &poll), ENOENT);
  poll.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(cq, &poll), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  attr.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  EXPECT_EQ(ibv_create_cq_ex(context_, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// A failed request completes at once in ERR: the simplest completions there are, read in both ways.
TEST_F(LibraryTest, flushed_requests_are_read_field_by_field) {
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 8;
  cq_attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &cq_attr);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attr = qp_attr();
  attr.recv_cq = ibv_cq_ex_to_cq(cq);
  ibv_qp* qp = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr change{};
  change.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &change, IBV_QP_STATE), 0);
  std::array<ibv_recv_wr, 2> wrs{};
  wrs[0].wr_id = 7;
  wrs[0].next = &wrs[1];
  wrs[1].wr_id = 8;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, wrs.data(), &bad), 0);
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(cq, &poll), 0);
  EXPECT_EQ(cq->wr_id, 7u);
  EXPECT_EQ(cq->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), qp->qp_num);
  ASSERT_EQ(ibv_next_poll(cq), 0);
  EXPECT_EQ(cq->wr_id, 8u);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// Over the real network of the host: the queue pair is its own peer.
TEST_F(LibraryTest, an_immediate_is_read_field_by_field_in_network_order) {
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 8;
  cq_attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &cq_attr);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attr = qp_attr();
  attr.recv_cq = ibv_cq_ex_to_cq(cq);
  ibv_qp* qp = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp, nullptr);
  connect_to_itself(qp);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad_receive), 0);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND_WITH_IMM;
  send.imm_data = htonl(0x01020304);
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &send, &bad_send), 0);
  ibv_poll_cq_attr poll{};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int polled = ENOENT;
  while (polled == ENOENT && std::chrono::steady_clock::now() < limit) polled = ibv_start_poll(cq, &poll);
  ASSERT_EQ(polled, 0);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq), static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(ntohl(ibv_wc_read_imm_data(cq)), 0x01020304u);
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// Both kinds of events: a completion on the channel, and nothing else that a flush would make.
TEST_F(LibraryTest, destroying_a_queue_waits_until_its_events_are_acknowledged) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  ibv_cq* cq = ibv_create_cq(context_, 8, &channel, channel, 0);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attr = qp_attr();
  attr.recv_cq = cq;
  ibv_qp* qp = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr change{};
  change.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &change, IBV_QP_STATE), 0);
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < 2; ++i) {  // two events, one of which is never fetched
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  }
  ibv_cq* event_cq = nullptr;
  void* event_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &event_cq, &event_context), 0);
  EXPECT_EQ(event_cq, cq);
  EXPECT_EQ(event_context, &channel);
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);

  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    destroyed = true;
  });
  // The event that was not fetched vanishes first; then the destruction waits.
  pollfd entry{channel->fd, POLLIN, 0};
  while (::poll(&entry, 1, 0) == 1) std::this_thread::yield();
  EXPECT_FALSE(destroyed);
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(LibraryTest, a_device_that_is_closed_takes_its_objects_along) {
  ibv_context* other = ibv_open_device(context_->device);
  ASSERT_NE(other, nullptr);
  static ibv_pd* pd = ibv_alloc_pd(other);  // static: lost, and not leaked as far as a leak checker can tell
  ASSERT_NE(pd, nullptr);
  static ibv_mr* mr = ibv_reg_mr(pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  const uint32_t key = mr->lkey;
  EXPECT_EQ(ibv_close_device(other), 0);  // mr and pd are lost, as with rdma-core
  ibv_mr* again = register_memory(IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(again, nullptr);
  EXPECT_NE(again->lkey, key);
  EXPECT_EQ(ibv_dereg_mr(again), 0);
}

TEST_F(LibraryTest, a_chain_stops_at_its_first_bad_request) {
  ibv_qp_init_attr attr = qp_attr();
  ibv_qp* qp = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr change{};
  change.qp_state = IBV_QPS_INIT;
  change.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &change, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
  std::array<ibv_recv_wr, 3> receives{};
  for (size_t i = 0; i + 1 < receives.size(); ++i) receives[i].next = &receives[i + 1];
  receives[1].num_sge = -1;
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, receives.data(), &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &receives[1]);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), EINVAL);  // in INIT
  EXPECT_EQ(bad_send, &send);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(LibraryTest, an_address_handle_needs_an_address) {
  ibv_ah_attr attr{};
  EXPECT_EQ(ibv_create_ah(pd_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.is_global = 1;
  attr.port_num = 1;
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &attr.grh.dgid), 0);
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// What a datagram brings along: an IPv4 header in the last 20 of 40 bytes.
TEST_F(LibraryTest, the_sender_of_a_datagram_is_found_in_its_header) {
  std::array<uint8_t, 40> header{};
  const std::array<uint8_t, 20> ipv4{0x45, 7, 0, 40, 0, 0, 0, 0, 61, 17, 0, 0, 10, 1, 2, 3, 127, 0, 0, 1};
  std::memcpy(header.data() + 20, ipv4.data(), ipv4.size());
  uint32_t sum = 0;
  for (size_t i = 20; i < 40; i += 2) sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  header[30] = static_cast<uint8_t>(~sum >> 8);
  header[31] = static_cast<uint8_t>(~sum);
  ibv_grh grh;
  std::memcpy(&grh, header.data(), sizeof grh);
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  ibv_ah_attr attr{};
  ASSERT_EQ(ibv_init_ah_from_wc(context_, 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(attr.grh.sgid_index, 0);
  EXPECT_EQ(attr.grh.traffic_class, 7);
  EXPECT_EQ(attr.grh.hop_limit, 61);
  EXPECT_EQ(attr.grh.dgid.raw[11], 0xff);
  EXPECT_EQ(attr.grh.dgid.raw[12], 10);
  EXPECT_EQ(attr.grh.dgid.raw[15], 3);
}

TEST_F(LibraryTest, a_shared_receive_queue_is_modified_as_a_whole_or_not_at_all) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 2, .srq_limit = 5};  // at this moment the limit counts for nothing
  ibv_srq* srq = ibv_create_srq(pd_, &init);
  ASSERT_NE(srq, nullptr);
  EXPECT_GE(init.attr.max_wr, 8u);
  const auto modify = [&](uint32_t max_wr, uint32_t limit, int mask) {
    ibv_srq_attr attr{.max_wr = max_wr, .max_sge = 0, .srq_limit = limit};
    return ibv_modify_srq(srq, &attr, mask);
  };
  const auto expect_attributes = [&](uint32_t max_wr, uint32_t limit) {
    ibv_srq_attr attr{};
    EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
    EXPECT_EQ(attr.max_wr, max_wr);
    EXPECT_EQ(attr.max_sge, 2u);
    EXPECT_EQ(attr.srq_limit, limit);
  };
  constexpr int kBoth = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
  expect_attributes(8, 0);
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < 8; ++i) ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
  EXPECT_EQ(bad, &wr);
  EXPECT_EQ(modify(16, 17, kBoth), EINVAL);
  EXPECT_EQ(modify(7, 3, kBoth), EINVAL) << "eight are posted";
  EXPECT_EQ(modify(16, 3, kBoth | 1 << 7), EINVAL);
  EXPECT_EQ(modify(0, 0, IBV_SRQ_MAX_WR), EINVAL);
  expect_attributes(8, 0);
  EXPECT_EQ(modify(0, 0, 0), 0);
  EXPECT_EQ(modify(16, 8, kBoth), 0);
  expect_attributes(16, 8);

  pollfd entry{context_->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0) << "eight are not fewer than eight";
  EXPECT_EQ(modify(0, 9, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(::poll(&entry, 1, 5000), 1);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq);
  ibv_ack_async_event(&event);
  expect_attributes(16, 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(LibraryTest, the_asynchronous_descriptor_is_quiet_and_can_be_non_blocking) {
  pollfd entry{context_->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  ASSERT_EQ(fcntl(context_->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(context_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(fcntl(context_->async_fd, F_SETFL, 0), 0);
}

}  // namespace
}  // namespace mroce::verbs
