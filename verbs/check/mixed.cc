// Everything at once: both sides post random operations on several queue pairs with deep queues, and both
// know from the common generators what must arrive, in which order, and what memory must hold in the end.
#include <array>
#include <cstring>
#include <deque>
#include <memory>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {
namespace {

constexpr uint32_t kQps = 4;
constexpr uint32_t kDepth = 32;     // requests in flight on a queue pair
constexpr uint32_t kReceives = 64;  // posted on a queue pair
constexpr size_t kSlot = 32 << 10;  // most bytes of a message
// Of the peer's memory, for each queue pair, written in turn: more than there are requests in flight, because
// WRITEs of several packets that overlap and are in flight together have no order.
constexpr uint32_t kWriteSlots = 64;
constexpr size_t kStatic = 256 << 10;
constexpr uint32_t kMessages = 400;  // of a queue pair, in each iteration

enum class Kind : uint32_t { kSend, kSendImm, kWrite, kWriteImm, kRead, kFetchAdd };

struct Step {
  Kind kind = Kind::kSend;
  uint32_t size = 0;
  uint64_t tag = 0;
  uint32_t slot = 0;  // WRITE
  size_t offset = 0;  // READ, a multiple of 8
  uint64_t add = 0;   // fetch-and-add
  bool takes_receive() const {
    return kind == Kind::kSend || kind == Kind::kSendImm || kind == Kind::kWriteImm;
  }
  bool is_write() const { return kind == Kind::kWrite || kind == Kind::kWriteImm; }
};

// The stream of steps that one side posts on one queue pair.
class Script {
 public:
  Script(const Side& side, bool of_initiator, uint32_t qp) : rng_(side.common(100 + qp * 2 + of_initiator)) {}
  Step next() {
    Step step;
    step.kind = static_cast<Kind>(rng_.below(6));
    step.size = static_cast<uint32_t>(rng_.chance(0.2) ? rng_.below(kSlot) : rng_.below(300));
    step.tag = rng_.next();
    if (step.is_write()) step.slot = writes_++ % kWriteSlots;
    step.offset = rng_.below((kStatic - kSlot) / 8) * 8;
    step.add = rng_.below(1000);
    return step;
  }

 private:
  Rng rng_;
  uint32_t writes_ = 0;
};

uint64_t static_tag(const Side& side, bool of_initiator) {
  return side.seed + 17 + of_initiator;
}

struct Remotes {
  Remote area;
  Remote fixed;
  Remote counters;
};

class Mixed {
 public:
  explicit Mixed(Side& side)
      : side_(side),
        total_(kMessages * side.iterations),
        area_(device_, kQps * kWriteSlots * kSlot),
        fixed_(device_, kStatic),
        counters_(device_, kQps * 8),
        source_(device_, kQps * kDepth * kSlot),
        sink_(device_, kQps * kReceives * kSlot),
        cq_(device_.make_cq(kQps * (kDepth + kReceives) * 2)) {
    fill_pattern(fixed_.part(0, kStatic), static_tag(side, side.initiator));
    for (uint32_t q = 0; q < kQps; ++q) {
      flows_.push_back(
          std::make_unique<Flow>(side, q, device_, QpOptions{.send_cq = cq_.get(), .recv_cq = cq_.get()}));
      flows_[q]->link.connect(side);
      for (uint32_t r = 0; r < kReceives; ++r) post_receive(q, r);
    }
    remote_ = side.control.exchange(Remotes{remote_of(area_), remote_of(fixed_), remote_of(counters_)});
  }

  void run() {
    const Deadline deadline(kPatience * side_.iterations);
    for (;;) {
      bool finished = true;
      for (uint32_t q = 0; q < kQps; ++q) {
        Flow& flow = *flows_[q];
        while (flow.issued < total_ && flow.in_flight.size() < kDepth) issue(q);
        finished = finished && flow.issued == total_ && flow.in_flight.empty() && flow.peer_seen == total_;
      }
      if (finished) break;
      std::array<ibv_wc, 16> batch;
      const int got = ibv_poll_cq(cq_.get(), static_cast<int>(batch.size()), batch.data());
      REQUIRE(got >= 0, "ibv_poll_cq returned {}", got);
      for (int i = 0; i < got; ++i) handle(batch[static_cast<size_t>(i)]);
      REQUIRE(!deadline.passed(), "the traffic does not come to its end");
    }
    side_.control.barrier();
    for (uint32_t q = 0; q < kQps; ++q) require_final_memory(q);
    side_.control.barrier();
    require_empty(cq_.get());
  }

 private:
  struct Flow {
    Flow(const Side& side, uint32_t q, Device& device, const QpOptions& options)
        : link(device, options), mine(side, side.initiator, q), theirs(side, !side.initiator, q) {}
    Link link;
    Script mine;
    Script theirs;
    uint32_t issued = 0;
    std::deque<Step> in_flight;
    uint64_t added = 0;      // by fetch-and-adds that have been reported
    uint32_t received = 0;   // receive completions
    uint32_t peer_seen = 0;  // steps of the peer that are accounted for
  };

  static uint64_t id_of(uint32_t q, bool receive, uint32_t index) {
    return uint64_t{q} << 40 | uint64_t{receive} << 32 | index;
  }
  size_t source_offset(uint32_t q, uint32_t index) const { return (q * kDepth + index % kDepth) * kSlot; }
  size_t sink_offset(uint32_t q, uint32_t index) const { return (q * kReceives + index % kReceives) * kSlot; }
  static size_t area_offset(uint32_t q, uint32_t slot) { return (q * kWriteSlots + slot) * kSlot; }

  void post_receive(uint32_t q, uint32_t index) {
    std::array sge{sink_.sge(sink_offset(q, index), kSlot)};
    flows_[q]->link.post_recv(id_of(q, true, index), sge);
  }

  void issue(uint32_t q) {
    Flow& flow = *flows_[q];
    const Step step = flow.mine.next();
    const uint32_t index = flow.issued++;
    const size_t at = source_offset(q, index);
    const uint32_t length = step.kind == Kind::kFetchAdd ? 8 : step.size;
    std::array sge{source_.sge(at, length)};
    const uint64_t id = id_of(q, false, index);
    if (step.kind != Kind::kRead && step.kind != Kind::kFetchAdd)
      fill_pattern(source_.part(at, length), step.tag);
    ibv_send_wr wr{};
    switch (step.kind) {
      case Kind::kSend:
        wr = send_wr(IBV_WR_SEND, id, sge);
        break;
      case Kind::kSendImm:
        wr = send_wr(IBV_WR_SEND_WITH_IMM, id, sge);
        break;
      case Kind::kWrite:
        wr = rdma_wr(IBV_WR_RDMA_WRITE, id, sge, remote_.area, area_offset(q, step.slot));
        break;
      case Kind::kWriteImm:
        wr = rdma_wr(IBV_WR_RDMA_WRITE_WITH_IMM, id, sge, remote_.area, area_offset(q, step.slot));
        break;
      case Kind::kRead:
        wr = rdma_wr(IBV_WR_RDMA_READ, id, sge, remote_.fixed, step.offset);
        break;
      case Kind::kFetchAdd:
        wr = fetch_add_wr(id, sge, remote_.counters, q * 8, step.add);
        break;
    }
    wr.imm_data = static_cast<uint32_t>(step.tag);
    flow.link.post_send(wr);
    flow.in_flight.push_back(step);
  }

  void handle(const ibv_wc& wc) {
    REQUIRE(wc.status == IBV_WC_SUCCESS, "work request {:#x} ended with: {}", wc.wr_id,
            ibv_wc_status_str(wc.status));
    const auto q = static_cast<uint32_t>(wc.wr_id >> 40);
    if ((wc.wr_id >> 32 & 1) != 0) {
      handle_receive(q, wc);
    } else {
      handle_sent(q, wc);
    }
  }

  void handle_sent(uint32_t q, const ibv_wc& wc) {
    Flow& flow = *flows_[q];
    const uint32_t index = flow.issued - static_cast<uint32_t>(flow.in_flight.size());
    REQUIRE(wc.wr_id == id_of(q, false, index), "completions out of order");
    const Step step = flow.in_flight.front();
    flow.in_flight.pop_front();
    const size_t at = source_offset(q, index);
    if (step.kind == Kind::kRead) {
      const auto bytes = source_.part(at, step.size);
      const size_t bad = pattern_mismatch(bytes, static_tag(side_, !side_.initiator), step.offset);
      REQUIRE(bad == bytes.size(), "READ {} on queue pair {}: byte {} of {}", index, q, bad, bytes.size());
    } else if (step.kind == Kind::kFetchAdd) {
      uint64_t before = 0;
      std::memcpy(&before, source_.data() + at, sizeof before);
      REQUIRE(before == flow.added, "fetch-and-add returned {} instead of {}", before, flow.added);
      flow.added += step.add;
    }
  }

  void handle_receive(uint32_t q, const ibv_wc& wc) {
    Flow& flow = *flows_[q];
    const uint32_t index = flow.received++;
    REQUIRE(wc.wr_id == id_of(q, true, index), "receives out of order");
    Step step = flow.theirs.next();
    ++flow.peer_seen;
    while (!step.takes_receive()) {
      step = flow.theirs.next();
      ++flow.peer_seen;
    }
    REQUIRE(wc.byte_len == step.size, "message {} on queue pair {} has {} bytes instead of {}", index, q,
            wc.byte_len, step.size);
    const bool with_imm = step.kind != Kind::kSend;
    REQUIRE(((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == with_imm, "immediate data");
    REQUIRE(!with_imm || wc.imm_data == static_cast<uint32_t>(step.tag), "immediate data {:#x}", wc.imm_data);
    if (step.kind != Kind::kWriteImm) {
      require_pattern(sink_.part(sink_offset(q, index), step.size), step.tag, "received message");
    }
    skip_silent_tail(flow);
    post_receive(q, index + kReceives);
  }

  // Steps that take no receive and after which none comes that does are accounted for when the last receive
  // is.
  void skip_silent_tail(Flow& flow) {
    if (flow.peer_seen == total_) return;
    Script ahead = flow.theirs;
    for (uint32_t seen = flow.peer_seen; seen < total_; ++seen) {
      if (ahead.next().takes_receive()) return;
    }
    flow.peer_seen = total_;
  }

  void require_final_memory(uint32_t q) {
    Script script(side_, !side_.initiator, q);
    std::array<std::deque<Step>, kWriteSlots> written;
    uint64_t added = 0;
    for (uint32_t i = 0; i < total_; ++i) {
      const Step step = script.next();
      if (step.is_write()) written[step.slot].push_back(step);
      if (step.kind == Kind::kFetchAdd) added += step.add;
    }
    for (uint32_t slot = 0; slot < kWriteSlots; ++slot) {
      std::vector<uint8_t> expected(kSlot, 0);
      for (const Step& step : written[slot]) fill_pattern(std::span(expected).first(step.size), step.tag);
      const auto actual = area_.part(area_offset(q, slot), kSlot);
      REQUIRE(std::memcmp(actual.data(), expected.data(), kSlot) == 0,
              "slot {} of queue pair {} after {} WRITEs", slot, q, written[slot].size());
    }
    REQUIRE(counters_.words[q] == added, "counter {} is {} instead of {}", q, counters_.words[q], added);
  }

  Side& side_;
  uint32_t total_;
  Device device_;
  Buffer area_;
  Buffer fixed_;
  Buffer counters_;
  Buffer source_;
  Buffer sink_;
  CqPtr cq_;
  std::vector<std::unique_ptr<Flow>> flows_;
  Remotes remote_;
};

}  // namespace

void case_mixed(Side& side) {
  Mixed(side).run();
}

}  // namespace mroce::check
