// Each operation by itself: all sizes, 1 to 4 SGEs on either side, inline, zero length; every byte checked at
// both ends, and the bytes around it.
#include <algorithm>
#include <array>
#include <cstring>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {
namespace {

constexpr size_t kLargest = 4u << 20;
constexpr size_t kGuard = 64;
constexpr size_t kArea = kLargest + 2 * kGuard + 4096;
constexpr uint8_t kGuardByte = 0xa5;

// One message, as both sides draw it.
struct Message {
  uint32_t size = 0;
  uint64_t tag = 0;
  size_t local_offset = 0;
  size_t remote_offset = 0;
  uint32_t local_pieces = 1;
  uint32_t remote_pieces = 1;
  bool is_inline = false;
  uint32_t immediate = 0;
};

Message draw(Rng& rng, uint32_t size, uint32_t inline_limit) {
  Message message;
  message.size = size;
  message.tag = rng.next();
  message.local_offset = kGuard + rng.below(4096 - kGuard);
  message.remote_offset = kGuard + rng.below(4096 - kGuard);
  message.local_pieces = static_cast<uint32_t>(rng.between(1, 4));
  message.remote_pieces = static_cast<uint32_t>(rng.between(1, 4));
  message.is_inline = size <= inline_limit && rng.chance(0.5);
  message.immediate = static_cast<uint32_t>(rng.next());
  return message;
}

// [offset, offset + size) of the buffer in up to `pieces` parts, one of which may be empty.
std::vector<ibv_sge> split(const Buffer& buffer, size_t offset, uint32_t size, uint32_t pieces) {
  std::vector<ibv_sge> sges;
  uint32_t done = 0;
  for (uint32_t piece = 1; piece <= pieces; ++piece) {
    const uint32_t end = static_cast<uint32_t>(uint64_t{size} * piece * piece / (uint64_t{pieces} * pieces));
    sges.push_back(buffer.sge(offset + done, end - done));
    done = end;
  }
  return sges;
}

class Operation {
 public:
  explicit Operation(Side& side)
      : side_(side),
        local_(device_, kArea),
        area_(device_, kArea),
        cq_(device_.make_cq(256)),
        link_(device_, options()) {
    link_.connect(side);
    remote_ = side.control.exchange(remote_of(area_));
  }

  void guard(Buffer& buffer, size_t offset, uint32_t size) {
    std::memset(buffer.data() + offset - kGuard, kGuardByte, kGuard);
    std::memset(buffer.data() + offset + size, kGuardByte, kGuard);
  }
  void require_message(Buffer& buffer, size_t offset, const Message& message) {
    require_pattern(buffer.part(offset, message.size), message.tag, "payload");
    const auto intact = [](uint8_t byte) { return byte == kGuardByte; };
    REQUIRE(std::ranges::all_of(buffer.part(offset - kGuard, kGuard), intact),
            "bytes before the message changed");
    REQUIRE(std::ranges::all_of(buffer.part(offset + message.size, kGuard), intact),
            "bytes after the message changed");
  }

  // Runs `one` for every size, several times.
  template <class One>
  void all_sizes(One&& one) {
    Rng rng = side_.common(1);
    for (uint32_t iteration = 0; iteration < side_.iterations; ++iteration) {
      for (const uint32_t size : interesting_sizes()) one(draw(rng, size, 128));
      for (int i = 0; i < 100; ++i) one(draw(rng, static_cast<uint32_t>(rng.below(20'000)), 128));
    }
    side_.control.barrier();
    require_empty(cq_.get());
  }

  void send(ibv_wr_opcode opcode, const Message& message, uint32_t third) {
    fill_pattern(local_.part(message.local_offset, message.size), message.tag);
    auto sges = split(local_, message.local_offset, message.size, message.local_pieces);
    const unsigned int flags = IBV_SEND_SIGNALED | (message.is_inline ? unsigned{IBV_SEND_INLINE} : 0u);
    ibv_send_wr wr = rdma_wr(opcode, message.tag, sges, remote_, message.remote_offset, flags);
    wr.imm_data = third;
    link_.post_send(wr);
    // Inline data is the library's own from now on.
    if (message.is_inline) std::memset(local_.data() + message.local_offset, 0, message.size);
  }

  void require_sent(const Message& message, ibv_wc_opcode opcode) {
    const ibv_wc wc = next_success(cq_.get());
    REQUIRE(wc.wr_id == message.tag, "completion of another request");
    REQUIRE(wc.opcode == opcode, "opcode {}", static_cast<int>(wc.opcode));
    REQUIRE(wc.qp_num == link_.qp()->qp_num, "queue pair {}", wc.qp_num);
  }

  ibv_wc require_received(uint64_t id, ibv_wc_opcode opcode, uint32_t bytes, unsigned int flags,
                          uint32_t third) {
    const ibv_wc wc = next_success(cq_.get());
    REQUIRE(wc.wr_id == id, "completion of another request");
    REQUIRE(wc.opcode == opcode, "opcode {}", static_cast<int>(wc.opcode));
    REQUIRE(wc.byte_len == bytes, "{} bytes instead of {}", wc.byte_len, bytes);
    REQUIRE(wc.wc_flags == flags, "flags {:#x}", wc.wc_flags);
    REQUIRE(flags == 0 || wc.imm_data == third, "immediate data {:#x} instead of {:#x}", wc.imm_data, third);
    REQUIRE(wc.qp_num == link_.qp()->qp_num, "queue pair {}", wc.qp_num);
    return wc;
  }

  void sends(ibv_wr_opcode opcode, unsigned int flags) {
    // What SEND with invalidate names; nobody uses it for anything else.
    Buffer victim(device_, 64);
    const uint32_t victim_key = side_.control.exchange(victim.mr->rkey);
    all_sizes([&](const Message& message) {
      const uint32_t third = opcode == IBV_WR_SEND_WITH_INV ? victim_key : message.immediate;
      if (side_.initiator) {
        side_.control.barrier();
        send(opcode, message, third);
        require_sent(message, IBV_WC_SEND);
      } else {
        guard(area_, message.remote_offset, message.size);
        link_.post_recv(message.tag,
                        split(area_, message.remote_offset, message.size, message.remote_pieces));
        side_.control.barrier();
        const uint32_t expected = opcode == IBV_WR_SEND_WITH_INV ? victim.mr->rkey : third;
        require_received(message.tag, IBV_WC_RECV, message.size, flags, expected);
        require_message(area_, message.remote_offset, message);
      }
    });
  }

  void writes(ibv_wr_opcode opcode) {
    const bool with_imm = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    all_sizes([&](const Message& message) {
      if (side_.initiator) {
        side_.control.barrier();
        send(opcode, message, message.immediate);
        require_sent(message, IBV_WC_RDMA_WRITE);
        side_.control.barrier();
      } else {
        guard(area_, message.remote_offset, message.size);
        if (with_imm) link_.post_recv(message.tag, {});
        side_.control.barrier();
        if (with_imm) {
          require_received(message.tag, IBV_WC_RECV_RDMA_WITH_IMM, message.size, IBV_WC_WITH_IMM,
                           message.immediate);
          require_message(area_, message.remote_offset, message);
        }
        side_.control.barrier();
        require_message(area_, message.remote_offset, message);
      }
    });
  }

  void reads() {
    all_sizes([&](const Message& message) {
      if (!side_.initiator) {
        fill_pattern(area_.part(message.remote_offset, message.size), message.tag);
        side_.control.barrier();
        side_.control.barrier();
        return;
      }
      side_.control.barrier();
      guard(local_, message.local_offset, message.size);
      auto sges = split(local_, message.local_offset, message.size, message.local_pieces);
      ibv_send_wr wr = rdma_wr(IBV_WR_RDMA_READ, message.tag, sges, remote_, message.remote_offset);
      link_.post_send(wr);
      require_sent(message, IBV_WC_RDMA_READ);
      require_message(local_, message.local_offset, message);
      side_.control.barrier();
    });
  }

  // One atomic at a time on a random word; both sides know what it must become.
  template <class Step>
  void atomics(Step&& step) {
    Rng rng = side_.common(2);
    std::array<uint64_t, 64> expected;
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = rng.next();
    if (!side_.initiator) std::memcpy(area_.data(), expected.data(), sizeof expected);
    side_.control.barrier();
    for (uint32_t i = 0; i < 300 * side_.iterations; ++i) {
      const size_t word = rng.below(expected.size());
      step(rng, i, word, expected[word]);
    }
    side_.control.barrier();
    if (side_.initiator) return;
    REQUIRE(std::memcmp(area_.data(), expected.data(), sizeof expected) == 0, "a counter has a wrong value");
  }

  void atomic(ibv_send_wr wr, ibv_wc_opcode opcode, uint64_t before) {
    if (!side_.initiator) return;
    link_.post_send(wr);
    const ibv_wc wc = next_success(cq_.get());
    REQUIRE(wc.opcode == opcode, "opcode {}", static_cast<int>(wc.opcode));
    REQUIRE(local_.words[8] == before, "returned {:#x} instead of {:#x}", local_.words[8], before);
  }

  void fetch_adds() {
    std::array sge{local_.sge(64, 8)};
    atomics([&](Rng& rng, uint32_t i, size_t word, uint64_t& value) {
      const uint64_t add = rng.next();
      atomic(fetch_add_wr(i, sge, remote_, word * 8, add), IBV_WC_FETCH_ADD, value);
      value += add;
    });
  }

  void compare_swaps() {
    std::array sge{local_.sge(64, 8)};
    atomics([&](Rng& rng, uint32_t i, size_t word, uint64_t& value) {
      const bool hit = rng.chance(0.5);
      const uint64_t swap = rng.next();
      const uint64_t compare = hit ? value : value ^ (1 + rng.below(1000));
      atomic(compare_swap_wr(i, sge, remote_, word * 8, compare, swap), IBV_WC_COMP_SWAP, value);
      if (hit) value = swap;
    });
  }

 private:
  QpOptions options() const { return {.send_cq = cq_.get(), .recv_cq = cq_.get()}; }

  Side& side_;
  Device device_;
  Buffer local_;
  Buffer area_;
  CqPtr cq_;
  Link link_;
  Remote remote_;
};

}  // namespace

void case_send(Side& side) {
  Operation(side).sends(IBV_WR_SEND, 0);
}
void case_send_imm(Side& side) {
  Operation(side).sends(IBV_WR_SEND_WITH_IMM, IBV_WC_WITH_IMM);
}
void case_send_inv(Side& side) {
  Operation(side).sends(IBV_WR_SEND_WITH_INV, IBV_WC_WITH_INV);
}
void case_write(Side& side) {
  Operation(side).writes(IBV_WR_RDMA_WRITE);
}
void case_write_imm(Side& side) {
  Operation(side).writes(IBV_WR_RDMA_WRITE_WITH_IMM);
}
void case_read(Side& side) {
  Operation(side).reads();
}
void case_compare_swap(Side& side) {
  Operation(side).compare_swaps();
}
void case_fetch_add(Side& side) {
  Operation(side).fetch_adds();
}

}  // namespace mroce::check
