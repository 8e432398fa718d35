// Atomics are executed exactly once, whatever is lost or repeated on the way: several queue pairs count one
// word up, with many operations in flight, and every value in between is returned to exactly one of them.
#include <array>
#include <memory>

#include "verbs/check/cases.h"
#include "verbs/check/device.h"

namespace mroce::check {
namespace {

constexpr uint32_t kQps = 4;
constexpr uint32_t kDepth = 16;
constexpr uint32_t kAdds = 1000;  // of a queue pair, in each iteration

struct Counters {
  explicit Counters(Side& side)
      : words(device, 2 * 8), results(device, kQps * kDepth * 8), cq(device.make_cq(kQps * kDepth * 2)) {
    for (uint32_t q = 0; q < kQps; ++q) {
      links.push_back(std::make_unique<Link>(device, QpOptions{.send_cq = cq.get(), .recv_cq = cq.get()}));
      links[q]->connect(side);
    }
    remote = side.control.exchange(remote_of(words));
  }
  Device device;
  Buffer words;    // 0: fetch-and-add, 1: compare-and-swap
  Buffer results;  // one for each operation in flight
  CqPtr cq;
  std::vector<std::unique_ptr<Link>> links;
  Remote remote;
};

// Keeps every queue pair full; `step` posts with the result slot given, `take` gets each result.
template <class Post, class Take>
void keep_full(Counters& counters, uint32_t each, Post&& post, Take&& take) {
  uint32_t left = each * kQps;
  std::array<uint32_t, kQps> posted{};
  const auto post_next = [&](uint32_t q) {
    const uint32_t slot = q * kDepth + posted[q] % kDepth;
    post(q, slot);
    ++posted[q];
  };
  for (uint32_t q = 0; q < kQps; ++q) {
    while (posted[q] < kDepth && posted[q] < each) post_next(q);
  }
  while (left > 0) {
    const auto slot = static_cast<uint32_t>(next_success(counters.cq.get()).wr_id);
    --left;
    take(slot, counters.results.words[slot]);
    if (posted[slot / kDepth] < each) post_next(slot / kDepth);
  }
}

}  // namespace

void case_atomics_exactly_once(Side& side) {
  Counters counters(side);
  const uint32_t each = kAdds * side.iterations;
  uint64_t swapped = 0;
  if (side.initiator) {
    const auto sge_of = [&](uint32_t slot) { return std::array{counters.results.sge(slot * 8, 8)}; };
    std::vector<bool> seen(each * kQps);
    keep_full(
        counters, each,
        [&](uint32_t q, uint32_t slot) {
          auto sge = sge_of(slot);
          ibv_send_wr wr = fetch_add_wr(slot, sge, counters.remote, 0, 1);
          counters.links[q]->post_send(wr);
        },
        [&](uint32_t, uint64_t value) {
          REQUIRE(value < seen.size() && !seen[value], "the value {} was returned twice or is too large",
                  value);
          seen[value] = true;
        });
    // Compare-and-swap from the value seen last: some fail, and each that succeeds adds one.
    std::vector<uint64_t> compared(kQps * kDepth);
    uint64_t latest = 0;
    keep_full(
        counters, each,
        [&](uint32_t q, uint32_t slot) {
          auto sge = sge_of(slot);
          compared[slot] = latest;
          ibv_send_wr wr = compare_swap_wr(slot, sge, counters.remote, 8, latest, latest + 1);
          counters.links[q]->post_send(wr);
        },
        [&](uint32_t slot, uint64_t value) {
          if (value == compared[slot]) ++swapped;
          latest = std::max(latest, value == compared[slot] ? value + 1 : value);
        });
    REQUIRE(swapped > 0, "no compare-and-swap succeeded");
  }
  const uint64_t expected = side.control.exchange(swapped);
  if (!side.initiator) {
    REQUIRE(counters.words.words[0] == each * kQps, "{} additions", counters.words.words[0]);
    REQUIRE(counters.words.words[1] == expected, "{} swaps instead of {}", counters.words.words[1], expected);
  }
  side.control.barrier();
}

}  // namespace mroce::check
