// The life of queue pairs: many at once, one after the other, through ERR, and their attributes.
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {

// Each of many queue pairs carries its own messages.
void case_many_qps(Side& side) {
  constexpr uint32_t kQps = 200;
  constexpr size_t kSlot = 2048;
  Device device;
  Buffer memory(device, 2 * kQps * kSlot);
  CqPtr cq = device.make_cq(4 * kQps);
  std::vector<std::unique_ptr<Link>> links;
  const ibv_qp_cap cap{
      .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  for (uint32_t q = 0; q < kQps; ++q) {
    links.push_back(
        std::make_unique<Link>(device, QpOptions{.send_cq = cq.get(), .recv_cq = cq.get(), .cap = cap}));
    links[q]->to_init();
  }
  std::vector<QpAddress> addresses;
  for (const auto& link : links) addresses.push_back(side.control.exchange(link->address()));
  for (uint32_t q = 0; q < kQps; ++q) {
    links[q]->to_rtr(addresses[q]);
    links[q]->to_rts();
  }
  side.control.barrier();
  Rng rng = side.common(300);
  for (uint32_t round = 0; round < 3 * side.iterations; ++round) {
    std::vector<uint64_t> tags;
    for (uint32_t q = 0; q < kQps; ++q) tags.push_back(rng.next());
    const auto tag_of = [&](uint32_t q, bool from_initiator) { return tags[q] + from_initiator; };
    for (uint32_t q = 0; q < kQps; ++q) {
      std::array sge{memory.sge((kQps + q) * kSlot, kSlot)};
      links[q]->post_recv(kQps + q, sge);
    }
    side.control.barrier();
    for (uint32_t q = 0; q < kQps; ++q) {
      const size_t size = 1 + tags[q] % kSlot;
      fill_pattern(memory.part(q * kSlot, size), tag_of(q, side.initiator));
      std::array sge{memory.sge(q * kSlot, size)};
      ibv_send_wr wr = send_wr(IBV_WR_SEND, q, sge);
      links[q]->post_send(wr);
    }
    std::vector<bool> seen(2 * kQps);
    for (uint32_t done = 0; done < 2 * kQps; ++done) {
      const ibv_wc wc = next_success(cq.get());
      REQUIRE(wc.wr_id < seen.size() && !seen[wc.wr_id], "completion {} twice", wc.wr_id);
      seen[wc.wr_id] = true;
      if (wc.wr_id < kQps) continue;
      const auto q = static_cast<uint32_t>(wc.wr_id) - kQps;
      REQUIRE(wc.byte_len == 1 + tags[q] % kSlot, "length");
      require_pattern(memory.part(wc.wr_id * kSlot, wc.byte_len), tag_of(q, !side.initiator), "message");
    }
    side.control.barrier();
  }
}

// Queue pairs come and go while traffic runs; what belongs to an old one never reaches a new one.
void case_recreate(Side& side) {
  Device device;
  Buffer memory(device, 256 << 10);
  Buffer target(device, 256 << 10);
  const Remote remote = side.control.exchange(remote_of(target));
  CqPtr cq = device.make_cq(512);
  Rng rng = side.common(310);
  for (uint32_t round = 0; round < 40 * side.iterations; ++round) {
    const uint64_t tag = rng.next();
    const size_t size = rng.between(1, 60'000);
    const bool leave_traffic = rng.chance(0.5);
    auto link = std::make_unique<Link>(device, QpOptions{.send_cq = cq.get(), .recv_cq = cq.get()});
    std::array receive{memory.sge(128 << 10, 128 << 10)};
    link->to_init();
    link->post_recv(round, receive);
    link->connect(side);
    fill_pattern(memory.part(0, size), tag + side.initiator);
    std::array sge{memory.sge(0, size)};
    ibv_send_wr wr = send_wr(IBV_WR_SEND, 1'000'000 + round, sge);
    link->post_send(wr);
    for (int done = 0; done < 2; ++done) {
      const ibv_wc wc = next_success(cq.get());
      REQUIRE(wc.wr_id == round || wc.wr_id == 1'000'000 + round, "completion {} of an old queue pair",
              wc.wr_id);
      REQUIRE(wc.qp_num == link->qp()->qp_num, "queue pair {}", wc.qp_num);
      if (wc.wr_id != round) continue;
      REQUIRE(wc.byte_len == size, "length");
      require_pattern(memory.part(128 << 10, size), tag + !side.initiator, "message");
    }
    if (leave_traffic && side.initiator) {
      for (uint64_t i = 0; i < 20; ++i) {
        ibv_send_wr write = rdma_wr(IBV_WR_RDMA_WRITE, 2'000'000, sge, remote, 0);
        link->post_send(write);
      }
    }
    if (!leave_traffic) side.control.barrier();
    link.reset();  // with its traffic
    require_empty(cq.get());
    side.control.barrier();
  }
}

// In ERR everything posted is flushed, in order, also what is posted afterwards; after RESET the queue pair
// works again.
void case_flush(Side& side) {
  Device device;
  Buffer memory(device, 4096);
  CqPtr send_cq = device.make_cq(128);
  CqPtr recv_cq = device.make_cq(128);
  Link link(device, {.send_cq = send_cq.get(), .recv_cq = recv_cq.get()});
  std::array sge{memory.sge(0, 64)};
  for (uint32_t round = 0; round < 2; ++round) {
    link.connect(side);
    for (uint64_t i = 0; i < 10; ++i) link.post_recv(i, sge);
    side.control.barrier();
    link.to_error();
    for (uint64_t i = 10; i < 15; ++i) link.post_recv(i, sge);
    for (uint64_t i = 0; i < 5; ++i) {
      ibv_send_wr wr = send_wr(IBV_WR_SEND, i, sge, 0);  // errors are reported even if not signaled
      link.post_send(wr);
    }
    for (uint64_t i = 0; i < 15; ++i) {
      const ibv_wc wc = next_completion(recv_cq.get());
      REQUIRE(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i, "{}: {}", wc.wr_id,
              ibv_wc_status_str(wc.status));
    }
    for (uint64_t i = 0; i < 5; ++i) {
      const ibv_wc wc = next_completion(send_cq.get());
      REQUIRE(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i, "{}: {}", wc.wr_id,
              ibv_wc_status_str(wc.status));
    }
    require_empty(send_cq.get());
    require_empty(recv_cq.get());
    side.control.barrier();
    link.to_reset();
    side.control.barrier();
  }
  link.connect(side);
  if (side.initiator) {
    ibv_send_wr wr = send_wr(IBV_WR_SEND, 7, sge);
    side.control.barrier();
    link.post_send(wr);
    next_success(send_cq.get());
  } else {
    link.post_recv(8, sge);
    side.control.barrier();
    next_success(recv_cq.get());
  }
  side.control.barrier();
}

// query_qp returns what was set; wrong transitions and attributes are refused with EINVAL.
void case_attributes(Side& side) {
  Device device;
  CqPtr cq = device.make_cq(16);
  QpOptions options{.send_cq = cq.get(),
                    .recv_cq = cq.get(),
                    .timeout = 17,
                    .retry_count = 5,
                    .rnr_retry = 3,
                    .min_rnr_timer = 21};
  Link link(device, options);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  REQUIRE(ibv_modify_qp(link.qp(), &attr, IBV_QP_STATE) == EINVAL, "RESET to RTS");
  link.connect(side);
  ibv_qp_init_attr init{};
  REQUIRE(ibv_query_qp(link.qp(), &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
  REQUIRE(attr.qp_state == IBV_QPS_RTS && link.qp()->state == IBV_QPS_RTS, "state {}",
          static_cast<int>(attr.qp_state));
  REQUIRE(attr.path_mtu == IBV_MTU_4096 && attr.port_num == 1 && attr.pkey_index == 0, "path");
  REQUIRE(attr.timeout == 17 && attr.retry_cnt == 5 && attr.rnr_retry == 3 && attr.min_rnr_timer == 21,
          "timers");
  REQUIRE(attr.max_rd_atomic == 16 && attr.max_dest_rd_atomic == 16, "depths");
  REQUIRE(attr.qp_access_flags == options.access, "access flags {:#x}", attr.qp_access_flags);
  REQUIRE(attr.sq_psn == link.address().psn, "sq_psn {:#x}", attr.sq_psn);
  REQUIRE(attr.ah_attr.is_global == 1 && attr.ah_attr.grh.hop_limit == 64, "address");
  REQUIRE(init.qp_type == IBV_QPT_RC && init.send_cq == cq.get() && init.recv_cq == cq.get(),
          "creation attributes");
  REQUIRE(init.cap.max_send_wr >= 128 && init.cap.max_send_sge >= 4 && init.cap.max_inline_data >= 128,
          "capabilities");
  attr.pkey_index = 1;
  REQUIRE(ibv_modify_qp(link.qp(), &attr, IBV_QP_PKEY_INDEX) == EINVAL,
          "an attribute that RTS does not allow");
  side.control.barrier();
}

}  // namespace mroce::check
