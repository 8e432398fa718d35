// Errors: the right status at the requester, the right event at the responder, and nothing written.
#include <algorithm>
#include <array>
#include <cstring>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {
namespace {

constexpr size_t kArea = 8192;

struct Setup {
  explicit Setup(Side& side, unsigned int qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                                      IBV_ACCESS_REMOTE_ATOMIC)
      : local(device, kArea),
        area(device, kArea),
        read_only(device, kArea, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
        cq(device.make_cq(64)),
        link(device, {.send_cq = cq.get(), .recv_cq = cq.get(), .access = qp_access}) {
    fill_pattern(local.part(0, kArea), 1);
    link.connect(side);
    remote = side.control.exchange(remote_of(area));
    remote_read_only = side.control.exchange(remote_of(read_only));
  }
  Device device;
  Buffer local;
  Buffer area;
  Buffer read_only;
  CqPtr cq;
  Link link;
  Remote remote;
  Remote remote_read_only;
};

ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  REQUIRE(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
  return attr.qp_state;
}

// One faulty request and one behind it: the first fails with `status`, the second is flushed, both queue
// pairs are in ERR, the responder gets `event`.
struct Fault {
  const char* what;
  ibv_wr_opcode opcode;
  bool read_only_target;
  uint64_t offset;
  uint32_t length;
  uint32_t key_change;
  ibv_wc_status status;
  ibv_event_type event;
  unsigned int qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
};

constexpr unsigned int kReadOnly = IBV_ACCESS_REMOTE_READ;
constexpr std::array kFaults{
    Fault{"WRITE with an unknown key", IBV_WR_RDMA_WRITE, false, 0, 100, 0x5555, IBV_WC_REM_ACCESS_ERR,
          IBV_EVENT_QP_ACCESS_ERR},
    Fault{"WRITE beyond the end", IBV_WR_RDMA_WRITE, false, kArea - 10, 11, 0, IBV_WC_REM_ACCESS_ERR,
          IBV_EVENT_QP_ACCESS_ERR},
    Fault{"WRITE of many packets beyond the end", IBV_WR_RDMA_WRITE, false, 1, kArea, 0,
          IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
    Fault{"WRITE before the beginning", IBV_WR_RDMA_WRITE, false, ~uint64_t{0}, 5, 0, IBV_WC_REM_ACCESS_ERR,
          IBV_EVENT_QP_ACCESS_ERR},
    Fault{"WRITE to a region that may only be read", IBV_WR_RDMA_WRITE, true, 0, 100, 0,
          IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
    Fault{"READ with an unknown key", IBV_WR_RDMA_READ, false, 0, 100, 0x5555, IBV_WC_REM_ACCESS_ERR,
          IBV_EVENT_QP_ACCESS_ERR},
    Fault{"READ beyond the end", IBV_WR_RDMA_READ, false, 8, kArea, 0, IBV_WC_REM_ACCESS_ERR,
          IBV_EVENT_QP_ACCESS_ERR},
    Fault{"fetch-and-add on a region that may only be read", IBV_WR_ATOMIC_FETCH_AND_ADD, true, 0, 8, 0,
          IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
    Fault{"fetch-and-add on an odd address", IBV_WR_ATOMIC_FETCH_AND_ADD, false, 4, 8, 0,
          IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR},
    Fault{"WRITE to a queue pair that may only be read from", IBV_WR_RDMA_WRITE, false, 0, 100, 0,
          IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, kReadOnly}};

void try_fault(Side& side, const Fault& fault) {
  Setup setup(side, fault.qp_access);
  if (side.initiator) {
    std::array sge{setup.local.sge(0, std::min<size_t>(fault.length, kArea))};
    Remote remote = fault.read_only_target ? setup.remote_read_only : setup.remote;
    remote.rkey ^= fault.key_change;
    ibv_send_wr bad = fault.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
                          ? fetch_add_wr(1, sge, remote, fault.offset, 1)
                          : rdma_wr(fault.opcode, 1, sge, remote, fault.offset);
    ibv_send_wr behind = rdma_wr(IBV_WR_RDMA_WRITE, 2, sge, setup.remote, 0);
    bad.next = &behind;
    setup.link.post_send(bad);
    ibv_wc wc = next_completion(setup.cq.get());
    REQUIRE(wc.wr_id == 1 && wc.status == fault.status, "{}", ibv_wc_status_str(wc.status));
    wc = next_completion(setup.cq.get());
    REQUIRE(wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR, "{}: {}", fault.what,
            ibv_wc_status_str(wc.status));
    REQUIRE(state_of(setup.link.qp()) == IBV_QPS_ERR, "the requester is not in ERR");
  } else {
    const ibv_async_event event = next_async_event(setup.device.context.get());
    REQUIRE(event.event_type == fault.event, "{}", ibv_event_type_str(event.event_type));
    REQUIRE(event.element.qp == setup.link.qp(), "another queue pair");
    REQUIRE(state_of(setup.link.qp()) == IBV_QPS_ERR, "the responder is not in ERR");
  }
  side.control.barrier();
  const auto untouched = [](uint64_t word) { return word == 0; };
  REQUIRE(side.initiator || std::ranges::all_of(setup.read_only.words, untouched), "memory changed");
}

}  // namespace

void case_access_errors(Side& side) {
  for (const Fault& fault : kFaults) {
    try {
      try_fault(side, fault);
    } catch (const Failure& failure) {
      throw Failure(fmt::format("{}: {}", fault.what, failure.what()));
    }
  }
}

// Faults of the requester's own memory; the peer hears of the broken stream only by the queue pair's end.
void case_local_errors(Side& side) {
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Setup setup(side);
    std::array sge{setup.local.sge(0, 100)};
    if (!side.initiator) setup.link.post_recv(9, sge);  // a SEND starts only where there is one
    side.control.barrier();
    if (side.initiator) {
      sge[0].lkey ^= 0x777;
      ibv_send_wr wr = rdma_wr(opcode, 1, sge, setup.remote, 0);
      setup.link.post_send(wr);
      const ibv_wc wc = next_completion(setup.cq.get());
      REQUIRE(wc.status == IBV_WC_LOC_PROT_ERR, "opcode {}: {}", static_cast<int>(opcode),
              ibv_wc_status_str(wc.status));
    }
    side.control.barrier();
  }
}

// A message longer than its receive: both sides learn of it.
void case_short_receive(Side& side) {
  Setup setup(side);
  if (side.initiator) {
    side.control.barrier();
    std::array sge{setup.local.sge(0, 101)};
    ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, sge);
    setup.link.post_send(wr);
    const ibv_wc wc = next_completion(setup.cq.get());
    REQUIRE(wc.status == IBV_WC_REM_INV_REQ_ERR, "{}", ibv_wc_status_str(wc.status));
  } else {
    std::array sge{setup.area.sge(0, 100)};
    setup.link.post_recv(5, sge);
    side.control.barrier();
    const ibv_wc wc = next_completion(setup.cq.get());
    REQUIRE(wc.wr_id == 5 && wc.status == IBV_WC_LOC_LEN_ERR, "{}", ibv_wc_status_str(wc.status));
    REQUIRE(setup.area.data()[100] == 0, "a byte behind the receive changed");
  }
  side.control.barrier();
}

}  // namespace mroce::check
