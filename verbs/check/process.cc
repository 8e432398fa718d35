// What happens to a process happens to its peers: killed, ended, forked.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {
namespace {

struct Setup {
  explicit Setup(Side& side)
      : local(device, 1 << 20),
        area(device, 1 << 20),
        cq(device.make_cq(64)),
        link(device, {.send_cq = cq.get(), .recv_cq = cq.get(), .timeout = 12}) {
    link.connect(side);
    remote = side.control.exchange(remote_of(area));
  }
  void write(uint64_t id, size_t length) {
    std::array sge{local.sge(0, length)};
    ibv_send_wr wr = rdma_wr(IBV_WR_RDMA_WRITE, id, sge, remote, 0);
    link.post_send(wr);
  }
  Device device;
  Buffer local;
  Buffer area;
  CqPtr cq;
  Link link;
  Remote remote;
};

// Writes until one fails; that must be soon, with `retry exceeded`, and the rest is flushed.
void require_broken_soon(Setup& setup) {
  const Deadline soon(std::chrono::seconds(20));
  for (uint64_t id = 0;; ++id) {
    setup.write(id, 1000);
    const ibv_wc wc = next_completion(setup.cq.get(), soon);
    if (wc.status == IBV_WC_SUCCESS) continue;  // the peer was still there
    REQUIRE(wc.status == IBV_WC_RETRY_EXC_ERR, "{}", ibv_wc_status_str(wc.status));
    break;
  }
  setup.write(1, 10);
  const ibv_wc wc = next_completion(setup.cq.get());
  REQUIRE(wc.status == IBV_WC_WR_FLUSH_ERR, "{}", ibv_wc_status_str(wc.status));
}

}  // namespace

void case_peer_killed(Side& side) {
  Setup setup(side);
  if (!side.initiator) raise(SIGKILL);
  require_broken_soon(setup);
}

// The responder ends without cleaning anything up.
void case_peer_exits(Side& side) {
  Setup setup(side);
  if (side.initiator) {
    setup.write(1, 1 << 20);
    next_success(setup.cq.get());
    side.control.barrier();
    require_broken_soon(setup);
  } else {
    side.control.barrier();
    std::exit(0);
  }
}

// A child process: the parent's objects are dead there, a device that the child opens is its own, and the
// parent does not notice anything.
void case_fork(Side& side) {
  Setup setup(side);
  if (side.initiator) {
    const pid_t child = fork();
    REQUIRE(child >= 0, "fork: {}", std::strerror(errno));
    if (child == 0) {
      ibv_wc wc{};
      int failed = 0;
      if (ibv_poll_cq(setup.cq.get(), 1, &wc) >= 0) failed |= 1;
      ibv_port_attr port{};
      if (ibv_query_port(setup.device.context.get(), 1, &port) != ENODEV) failed |= 2;
      if (ibv_alloc_pd(setup.device.context.get()) != nullptr || errno != ENODEV) failed |= 4;
      try {
        Device own;
        CqPtr cq = own.make_cq(4);
        require_empty(cq.get());
      } catch (const Failure&) {
        failed |= 8;
      }
      _exit(failed);
    }
    for (uint64_t id = 0; id < 200; ++id) {
      setup.write(id, 5000);
      next_success(setup.cq.get());
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child, "waitpid: {}", std::strerror(errno));
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with {:#x}", status);
    setup.write(1, 1 << 20);
    next_success(setup.cq.get());
  }
  side.control.barrier();
}

}  // namespace mroce::check
