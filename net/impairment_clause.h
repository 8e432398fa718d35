// The option string of the impairment layer, parsed: clauses separated by ';', each a list of items
// "name=value" separated by ','. The items, their forms and meanings stand once, in MROCE_IMPAIRMENT_ITEMS.
//
// P is "1%" or "0.01"; T has a unit: ns, us, ms, s; a window is "T-T" or "T-" and counts from the opening of
// the endpoint. Rates are decimal (1G = 10^9 bit/s), sizes binary (1M = 2^20 bytes). A plane is named by the
// index of the local address in the GID table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "core/base/time.h"

namespace mroce::net {

// X(name, form of the value, sentence). The first ones impair, those from `queue` on say how, where and when.
#define MROCE_IMPAIRMENT_ITEMS(X)                                                                      \
  X(loss, "P", "drop each packet with this probability")                                               \
  X(burst, "P:N", "begin with this probability to drop packets in a row, N of them on average")        \
  X(reorder, "P:T", "hold a packet back for T with this probability; others overtake it")              \
  X(duplicate, "P", "send a second copy with this probability")                                        \
  X(corrupt, "P", "flip one bit with this probability")                                                \
  X(delay, "T[:T]", "delay by the first time, more or less by up to the second; keeps a path's order") \
  X(rate, "bits/s", "serialise at this rate")                                                          \
  X(ce, "P", "mark CE with this probability what is marked ECT")                                       \
  X(down, "window", "drop everything in this time; may stand several times")                           \
  X(queue, "bytes", "what waits in front of rate before the tail is dropped; 1M if not given")         \
  X(path, "N", "only packets of this path")                                                            \
  X(plane, "N", "only packets of the local address with this GID index")                               \
  X(dir, "out|in|both", "what this endpoint sends (if not given), receives, or both")                  \
  X(during, "window", "the clause holds in this time only")                                            \
  X(seed, "N", "of the random choices, for all clauses; if not given, that of the endpoint")

struct ImpairmentItem {
  std::string_view name;
  std::string_view form;
  std::string_view sentence;
};
std::span<const ImpairmentItem> impairment_items();

struct TimeWindow {  // [begin, end) since the opening of the endpoint
  Nanos begin{0};
  Nanos end{Nanos::max()};
  bool contains(Nanos age) const { return age >= begin && age < end; }
};

struct ImpairmentClause {
  double loss = 0;
  double burst_enter = 0;    // probability of a bad state's beginning, for each packet
  double burst_packets = 1;  // its mean length
  double reorder = 0;
  Nanos reorder_by{0};
  double duplicate = 0;
  double corrupt = 0;
  Nanos delay{0};
  Nanos jitter{0};        // delay is uniform in delay +- jitter
  uint64_t rate_bps = 0;  // 0: unlimited
  uint64_t queue_bytes = 1 << 20;
  double ce = 0;
  std::vector<TimeWindow> down;

  std::optional<uint8_t> path;
  std::optional<uint32_t> plane;
  bool out = true;
  bool in = false;
  TimeWindow during;

  std::optional<uint64_t> seed;
};

// A blank text has no clauses, but one of semicolons alone is a mistake. Errors: one sentence with cause and
// hint.
tl::expected<std::vector<ImpairmentClause>, std::string> parse_clauses(std::string_view text);

}  // namespace mroce::net
