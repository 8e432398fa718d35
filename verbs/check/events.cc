// Completion channels: solicited events, several queues on one channel, descriptors that are polled and
// non-blocking.
#include <fcntl.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {
namespace {

bool readable(const ibv_comp_channel* channel, int milliseconds) {
  pollfd entry{channel->fd, POLLIN, 0};
  return ::poll(&entry, 1, milliseconds) == 1;
}

// Fetches one event, acknowledges it and returns its queue.
ibv_cq* next_event(ibv_comp_channel* channel) {
  const int patience = static_cast<int>(std::chrono::milliseconds(kPatience).count());
  REQUIRE(readable(channel, patience), "no completion event came");
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(channel, &cq, &context) == 0, "ibv_get_cq_event: {}", std::strerror(errno));
  REQUIRE(context == cq->cq_context, "the context of another queue");
  ibv_ack_cq_events(cq, 1);
  return cq;
}

void arm(ibv_cq* cq, bool solicited_only) {
  REQUIRE(ibv_req_notify_cq(cq, solicited_only ? 1 : 0) == 0, "ibv_req_notify_cq");
}

void send_small(Link& link, Buffer& memory, uint64_t id, unsigned int flags) {
  std::array sge{memory.sge(0, 32)};
  ibv_send_wr wr = send_wr(IBV_WR_SEND, id, sge, IBV_SEND_SIGNALED | flags);
  link.post_send(wr);
}

}  // namespace

// Armed for solicited completions only: ordinary ones make no event, a solicited one makes exactly one. The
// receiver does not poll its queue meanwhile: progress is the library's business.
void case_solicited_events(Side& side) {
  Device device;
  Buffer memory(device, 4096);
  ChannelPtr channel = device.make_channel();
  CqPtr recv_cq = device.make_cq(64, channel.get());
  CqPtr send_cq = device.make_cq(64);
  Link link(device, {.send_cq = send_cq.get(), .recv_cq = recv_cq.get()});
  link.connect(side);
  for (uint32_t round = 0; round < 20 * side.iterations; ++round) {
    if (side.initiator) {
      side.control.barrier();
      for (uint64_t i = 0; i < 3; ++i) send_small(link, memory, i, 0);
      for (uint64_t i = 0; i < 3; ++i) next_success(send_cq.get());
      side.control.barrier();  // three have arrived
      side.control.barrier();
      send_small(link, memory, 3, IBV_SEND_SOLICITED);
      next_success(send_cq.get());
    } else {
      std::array sge{memory.sge(64, 64)};
      for (uint64_t i = 0; i < 4; ++i) link.post_recv(i, sge);
      arm(recv_cq.get(), true);
      side.control.barrier();
      side.control.barrier();
      REQUIRE(!readable(channel.get(), 0), "an event for a completion that is not solicited");
      side.control.barrier();
      REQUIRE(next_event(channel.get()) == recv_cq.get(), "an event of another queue");
      for (uint64_t i = 0; i < 4; ++i)
        REQUIRE(next_success(recv_cq.get()).wr_id == i, "completions out of order");
      REQUIRE(!readable(channel.get(), 0), "a second event");
    }
    side.control.barrier();
  }
}

// Eight queues on a non-blocking channel: each event names its queue, none is lost and none comes twice.
void case_channel_of_many(Side& side) {
  constexpr uint32_t kQueues = 8;
  constexpr uint32_t kEach = 50;
  Device device;
  Buffer memory(device, 4096);
  ChannelPtr channel = device.make_channel();
  REQUIRE(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl: {}", std::strerror(errno));
  CqPtr send_cq = device.make_cq(kQueues * 8);
  std::vector<CqPtr> queues;
  std::vector<std::unique_ptr<Link>> links;
  for (uint32_t q = 0; q < kQueues; ++q) {
    queues.push_back(device.make_cq(kEach * 2, channel.get()));
    links.push_back(
        std::make_unique<Link>(device, QpOptions{.send_cq = send_cq.get(), .recv_cq = queues[q].get()}));
    links[q]->connect(side);
  }
  ibv_cq* none = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(channel.get(), &none, &context) == -1 && errno == EAGAIN, "{}",
          std::strerror(errno));
  REQUIRE(ibv_destroy_comp_channel(channel.get()) == EBUSY, "a channel with queues was destroyed");
  if (side.initiator) {
    side.control.barrier();
    // In bursts of random length, so that events find the receiver asleep, awake, or busy with another queue.
    Rng rng = side.common(400);
    uint32_t in_flight = 0;
    for (uint32_t i = 0; i < kEach * kQueues; ++i) {
      send_small(*links[i % kQueues], memory, i, 0);
      ++in_flight;
      if (in_flight < 32 && i + 1 < kEach * kQueues && rng.chance(0.7)) continue;
      for (; in_flight > 0; --in_flight) next_success(send_cq.get());
    }
  } else {
    std::array sge{memory.sge(64, 64)};
    for (uint32_t q = 0; q < kQueues; ++q) {
      for (uint64_t i = 0; i < kEach; ++i) links[q]->post_recv(i, sge);
      arm(queues[q].get(), false);
    }
    side.control.barrier();
    std::vector<uint32_t> got(kQueues);
    uint32_t total = 0;
    while (total < kEach * kQueues) {
      ibv_cq* cq = next_event(channel.get());
      uint32_t q = 0;
      while (q < kQueues && queues[q].get() != cq) ++q;
      REQUIRE(q < kQueues, "an event of no queue");
      arm(cq, false);  // then poll: what comes in between makes another event
      ibv_wc wc{};
      while (ibv_poll_cq(cq, 1, &wc) == 1) {
        REQUIRE(wc.status == IBV_WC_SUCCESS && wc.wr_id == got[q], "queue {}: completion {}", q, wc.wr_id);
        ++got[q];
        ++total;
      }
    }
  }
  side.control.barrier();
}

}  // namespace mroce::check
