// What programs rely on beyond completions: the order in which written bytes become visible to somebody who
// polls memory, and the order of operations on one queue pair.
#include <array>
#include <atomic>
#include <cstring>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {
namespace {

constexpr size_t kArea = 1u << 20;
constexpr size_t kFlag = kArea;  // a word behind the area

// Two sides that write into each other's memory.
struct Pair {
  explicit Pair(Side& side)
      : local(device, kArea + 64),
        area(device, kArea + 64),
        cq(device.make_cq(64)),
        link(device, {.send_cq = cq.get(), .recv_cq = cq.get()}) {
    link.connect(side);
    remote = side.control.exchange(remote_of(area));
  }

  void write(uint64_t id, size_t local_offset, size_t remote_offset, size_t length, unsigned int flags) {
    std::array sge{local.sge(local_offset, length)};
    ibv_send_wr wr = rdma_wr(IBV_WR_RDMA_WRITE, id, sge, remote, remote_offset, flags);
    link.post_send(wr);
  }

  Device device;
  Buffer local;
  Buffer area;
  CqPtr cq;
  Link link;
  Remote remote;
};

// Polls memory that a peer writes. Progress comes from whoever polls a completion queue, or from the
// library's helper thread: every second round leaves it to the latter.
template <class T, class Ready>
void poll_memory(Pair& pair, const uint8_t* at, bool poll_queue, Ready&& ready) {
  const Deadline deadline;
  for (;;) {
    const T value =
        std::atomic_ref<T>(*reinterpret_cast<T*>(const_cast<uint8_t*>(at))).load(std::memory_order_acquire);
    if (ready(value)) return;
    if (poll_queue) require_empty(pair.cq.get());
    REQUIRE(!deadline.passed(), "nothing was written, or it never became visible");
  }
}

// Tells the writer that message `round` was checked, and waits for it there.
void answer(Side& side) {
  side.control.barrier();
}

}  // namespace

// The reader sees the last byte of a message change and takes the rest for granted, as perftest's
// ib_write_lat and the eager protocol of MPI libraries do.
void case_last_byte_polling(Side& side) {
  Pair pair(side);
  Rng rng = side.common(3);
  for (uint32_t round = 0; round < 200 * side.iterations; ++round) {
    const size_t size = rng.chance(0.1) ? rng.between(2, kArea) : rng.between(2, 30'000);
    const uint64_t tag = rng.next();
    const auto last = static_cast<uint8_t>(1 + round % 255);
    if (side.initiator) {
      fill_pattern(pair.local.part(0, size - 1), tag);
      pair.local.data()[size - 1] = last;
      side.control.barrier();
      pair.write(round, 0, 0, size, IBV_SEND_SIGNALED);
      next_success(pair.cq.get());
      answer(side);
    } else {
      std::memset(pair.area.data(), 0, size);
      side.control.barrier();
      poll_memory<uint8_t>(pair, pair.area.data() + size - 1, round % 2 == 0,
                           [&](uint8_t v) { return v == last; });
      require_pattern(pair.area.part(0, size - 1), tag, "bytes before the last one");
      answer(side);
    }
  }
}

// A data WRITE, then a small WRITE of a flag on the same queue pair; the reader polls the flag.
void case_data_then_flag(Side& side) {
  Pair pair(side);
  Rng rng = side.common(4);
  for (uint64_t round = 1; round <= 200 * side.iterations; ++round) {
    const size_t size = rng.chance(0.1) ? rng.between(1, kArea) : rng.between(1, 30'000);
    const uint64_t tag = rng.next();
    if (side.initiator) {
      fill_pattern(pair.local.part(0, size), tag);
      std::memcpy(pair.local.data() + kFlag, &round, sizeof round);
      side.control.barrier();
      pair.write(0, 0, 0, size, 0);
      pair.write(round, kFlag, kFlag, sizeof round, IBV_SEND_SIGNALED);
      next_success(pair.cq.get());
      answer(side);
    } else {
      side.control.barrier();
      poll_memory<uint64_t>(pair, pair.area.data() + kFlag, round % 2 == 0,
                            [&](uint64_t v) { return v == round; });
      require_pattern(pair.area.part(0, size), tag, "data in front of the flag");
      answer(side);
    }
  }
}

// The completion of a receive implies that all earlier WRITEs of the queue pair are placed.
void case_send_after_write(Side& side) {
  Pair pair(side);
  Rng rng = side.common(5);
  for (uint64_t round = 1; round <= 100 * side.iterations; ++round) {
    const size_t size = rng.between(1, kArea / 8);
    const uint64_t tag = rng.next();
    if (side.initiator) {
      fill_pattern(pair.local.part(0, size), tag);
      side.control.barrier();
      for (size_t part = 0; part < 8; ++part) {
        const size_t begin = size * part / 8;
        pair.write(0, begin, begin, size * (part + 1) / 8 - begin, 0);
      }
      ibv_send_wr wr = send_wr(IBV_WR_SEND, round, {});
      pair.link.post_send(wr);
      REQUIRE(next_success(pair.cq.get()).wr_id == round, "completion of another request");
      answer(side);
    } else {
      pair.link.post_recv(round, {});
      side.control.barrier();
      REQUIRE(next_success(pair.cq.get()).byte_len == 0, "a SEND without data has some");
      require_pattern(pair.area.part(0, size), tag, "data written before the SEND");
      answer(side);
    }
  }
}

// A READ, then a fenced SEND of what it brought.
void case_fenced_send_after_read(Side& side) {
  Pair pair(side);
  Rng rng = side.common(6);
  for (uint64_t round = 1; round <= 100 * side.iterations; ++round) {
    const size_t size = rng.between(1, 50'000);
    const uint64_t tag = rng.next();
    if (side.initiator) {
      side.control.barrier();
      std::memset(pair.local.data(), 0, size);
      std::array sge{pair.local.sge(0, size)};
      ibv_send_wr read = rdma_wr(IBV_WR_RDMA_READ, 1, sge, pair.remote, 0, 0);
      ibv_send_wr send = send_wr(IBV_WR_SEND, 2, sge, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
      read.next = &send;
      pair.link.post_send(read);
      REQUIRE(next_success(pair.cq.get()).wr_id == 2, "the READ was not to be reported");
      answer(side);
    } else {
      fill_pattern(pair.area.part(0, size), tag);
      std::array sge{pair.local.sge(0, size)};
      pair.link.post_recv(round, sge);
      side.control.barrier();
      REQUIRE(next_success(pair.cq.get()).byte_len == size, "length");
      require_pattern(pair.local.part(0, size), tag, "what was read and sent back");
      answer(side);
    }
  }
}

}  // namespace mroce::check
