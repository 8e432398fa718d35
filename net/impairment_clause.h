// The option string of the impairment layer, parsed.
//
//   impair   := clause { ";" clause }
//   clause   := item { "," item }
//   item     := effect | limit | "seed=" number
//   effect   := "loss=" P | "burst=" P ":" mean | "reorder=" P ":" T | "duplicate=" P | "corrupt=" P
//             | "delay=" T [ ":" T ] | "rate=" bits/s | "queue=" bytes | "ce=" P | "down=" T "-" [ T ]
//   limit    := "path=" N | "plane=" N | "dir=" ( "out" | "in" | "both" ) | "during=" T "-" [ T ]
//
// P is "1%" or "0.01"; T has a unit: ns, us, ms, s. `down` may stand several times. Times of windows count
// from the opening of the endpoint. Rates are decimal (1G = 10^9 bit/s), sizes binary (1M = 2^20 bytes).
// `plane` is the index of the local address in the GID table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "core/base/time.h"

namespace mroce::net {

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

// An empty text has no clauses. Errors: one sentence with cause and hint.
tl::expected<std::vector<ImpairmentClause>, std::string> parse_clauses(std::string_view text);

}  // namespace mroce::net
