// Shared receive queues, and receivers that are late.
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {
namespace {

constexpr uint32_t kQps = 6;
constexpr uint32_t kEntries = 32;
constexpr size_t kSlot = 16 << 10;

SrqPtr make_srq(Device& device, uint32_t entries) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = entries, .max_sge = 2, .srq_limit = 0};
  SrqPtr srq(ibv_create_srq(device.pd.get(), &attr));
  REQUIRE(srq != nullptr, "ibv_create_srq: {}", std::strerror(errno));
  REQUIRE(attr.attr.max_wr >= entries && attr.attr.max_sge >= 2, "smaller than asked for");
  return srq;
}

void post(ibv_srq* srq, uint64_t id, const Buffer& buffer, size_t offset, size_t length) {
  std::array sge{buffer.sge(offset, length)};
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = sge.data();
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_srq_recv(srq, &wr, &bad);
  REQUIRE(error == 0, "ibv_post_srq_recv: {}", std::strerror(error));
}

struct Message {
  uint32_t size;
  uint64_t tag;
};
Message draw(Rng& rng) {
  return {static_cast<uint32_t>(rng.chance(0.2) ? rng.below(kSlot) : rng.below(200)), rng.next()};
}

}  // namespace

// Several queue pairs share fewer receives than they have messages; each keeps its order, none is starved.
void case_srq(Side& side) {
  constexpr uint32_t kEach = 200;
  Device device;
  Buffer memory(device, kQps * kEntries * kSlot);
  CqPtr cq = device.make_cq(1024);
  SrqPtr srq = make_srq(device, kEntries);
  std::vector<std::unique_ptr<Link>> links;
  std::vector<Rng> scripts;
  for (uint32_t q = 0; q < kQps; ++q) {
    QpOptions options{.send_cq = cq.get(), .recv_cq = cq.get()};
    if (!side.initiator) options.srq = srq.get();
    links.push_back(std::make_unique<Link>(device, options));
    links[q]->connect(side);
    scripts.push_back(side.common(200 + q));
  }
  const uint32_t each = kEach * side.iterations;
  if (side.initiator) {
    std::vector<uint32_t> posted(kQps);
    std::vector<uint32_t> finished(kQps);
    const auto post_next = [&](uint32_t q) {
      const Message message = draw(scripts[q]);
      const size_t offset = (q * kEntries + posted[q] % kEntries) * kSlot;
      fill_pattern(memory.part(offset, message.size), message.tag);
      std::array sge{memory.sge(offset, message.size)};
      ibv_send_wr wr = send_wr(IBV_WR_SEND, uint64_t{q} << 32 | posted[q]++, sge);
      links[q]->post_send(wr);
    };
    for (uint32_t i = 0; i < 16; ++i) {
      for (uint32_t q = 0; q < kQps; ++q) post_next(q);
    }
    for (uint32_t done = 0; done < each * kQps; ++done) {
      const ibv_wc wc = next_success(cq.get());
      const auto q = static_cast<uint32_t>(wc.wr_id >> 32);
      REQUIRE((wc.wr_id & 0xffffffff) == finished[q], "completions out of order on queue pair {}", q);
      ++finished[q];
      if (posted[q] < each) post_next(q);
    }
  } else {
    for (uint32_t i = 0; i < kEntries; ++i) post(srq.get(), i, memory, i * kSlot, kSlot);
    for (uint32_t done = 0; done < each * kQps; ++done) {
      const ibv_wc wc = next_success(cq.get());
      uint32_t q = 0;
      while (q < kQps && links[q]->qp()->qp_num != wc.qp_num) ++q;
      REQUIRE(q < kQps, "completion for an unknown queue pair {}", wc.qp_num);
      const Message message = draw(scripts[q]);
      REQUIRE(wc.byte_len == message.size, "queue pair {}: {} bytes instead of {}", q, wc.byte_len,
              message.size);
      require_pattern(memory.part(wc.wr_id * kSlot, message.size), message.tag, "message through the SRQ");
      post(srq.get(), wc.wr_id, memory, wc.wr_id * kSlot, kSlot);
    }
  }
  side.control.barrier();
  require_empty(cq.get());
}

// The limit event comes once, when fewer receives than the limit are left; attributes come back.
void case_srq_limit(Side& side) {
  Device device;
  Buffer memory(device, 4096);
  CqPtr cq = device.make_cq(64);
  SrqPtr srq = make_srq(device, 16);
  QpOptions options{.send_cq = cq.get(), .recv_cq = cq.get()};
  if (!side.initiator) options.srq = srq.get();
  Link link(device, options);
  if (!side.initiator) {
    for (uint32_t i = 0; i < 8; ++i) post(srq.get(), i, memory, i * 64, 64);
    ibv_srq_attr attr{};
    attr.srq_limit = 6;
    REQUIRE(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT) == 0, "arming the limit");
    attr = {};
    REQUIRE(ibv_query_srq(srq.get(), &attr) == 0, "ibv_query_srq");
    REQUIRE(attr.srq_limit == 6 && attr.max_wr >= 16 && attr.max_sge >= 2, "limit {}", attr.srq_limit);
    attr.max_wr = 32;
    REQUIRE(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR) == 0, "resizing");
  }
  link.connect(side);
  for (uint32_t i = 0; i < 4; ++i) {
    if (side.initiator) {
      std::array sge{memory.sge(0, 16)};
      ibv_send_wr wr = send_wr(IBV_WR_SEND, i, sge);
      link.post_send(wr);
    }
    next_success(cq.get());
  }
  if (!side.initiator) {
    const ibv_async_event event = next_async_event(device.context.get());
    REQUIRE(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED, "{}", ibv_event_type_str(event.event_type));
    REQUIRE(event.element.srq == srq.get(), "another SRQ");
    ibv_srq_attr attr{};
    REQUIRE(ibv_query_srq(srq.get(), &attr) == 0 && attr.srq_limit == 0, "the limit fires once");
  }
  side.control.barrier();
}

// The receiver posts after the sender has; every message waits for its receive.
void case_receiver_not_ready(Side& side) {
  Device device;
  Buffer memory(device, 64 << 10);
  CqPtr cq = device.make_cq(64);
  Link link(device, {.send_cq = cq.get(), .recv_cq = cq.get()});
  link.connect(side);
  Rng rng = side.common(210);
  for (uint32_t round = 0; round < 20 * side.iterations; ++round) {
    const size_t size = rng.below(20'000);
    const uint64_t tag = rng.next();
    if (side.initiator) {
      fill_pattern(memory.part(0, size), tag);
      std::array sge{memory.sge(0, size)};
      ibv_send_wr wr = send_wr(IBV_WR_SEND, round, sge);
      link.post_send(wr);
      // Long enough for it to arrive, if it can: nothing may complete.
      const Deadline early(std::chrono::milliseconds(2));
      while (!early.passed()) require_empty(cq.get());
      side.control.barrier();
      next_success(cq.get());
    } else {
      side.control.barrier();
      std::array sge{memory.sge(0, size)};
      link.post_recv(round, sge);
      REQUIRE(next_success(cq.get()).byte_len == size, "length");
      require_pattern(memory.part(0, size), tag, "late message");
    }
    side.control.barrier();
  }
}

// rnr_retry 0 and no receive: an error after a bounded time, and the receiver is none the worse.
void case_receiver_never_ready(Side& side) {
  Device device;
  Buffer memory(device, 4096);
  CqPtr cq = device.make_cq(64);
  Link link(device, {.send_cq = cq.get(), .recv_cq = cq.get(), .rnr_retry = 0, .min_rnr_timer = 12});
  link.connect(side);
  if (side.initiator) {
    std::array sge{memory.sge(0, 100)};
    ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, sge);
    link.post_send(wr);
    const ibv_wc wc = next_completion(cq.get(), Deadline(std::chrono::seconds(30)));
    REQUIRE(wc.status == IBV_WC_RNR_RETRY_EXC_ERR, "{}", ibv_wc_status_str(wc.status));
  }
  side.control.barrier();
  require_empty(cq.get());
}

}  // namespace mroce::check
