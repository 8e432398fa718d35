#include "soak/minimise.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mroce::soak {

namespace {

// Where an option is at its least; all others are at their least with 0.
struct Least {
  std::string_view name;
  uint64_t value;
};
constexpr Least kLeast[] = {{"endpoints", 2}, {"links", 1}, {"operations", 1},
                            {"planes", 1},    {"paths", 1}, {"max_sge", 1}};
// What is not smaller when its number is smaller.
constexpr std::string_view kLeftAlone[] = {
    "max_payload", "cpsn_window", "window_bytes", "initial_window", "ack_every",     "held_bytes",
    "tail_hold",   "ecn",         "max_send_wr",  "max_recv_wr",    "rd_atomic",     "rnr_retry",
    "coalesce",    "queue_bytes", "largest",      "longest_work",   "min_rnr_timer", "read_buffer_bytes",
    "pace_us",     "latency",     "bytes"};

uint64_t least_of(std::string_view name) {
  for (const Least& least : kLeast) {
    if (least.name == name) return least.value;
  }
  return 0;
}

bool left_alone(std::string_view name) {
  for (const std::string_view each : kLeftAlone) {
    if (each == name) return true;
  }
  return false;
}

// Smaller values of a member, the smallest first.
std::vector<std::string> smaller(std::string_view name, bool value) {
  (void)name;
  return value ? std::vector<std::string>{"0"} : std::vector<std::string>{};
}
std::vector<std::string> smaller(std::string_view name, double value) {
  (void)name;
  return value > 0 ? std::vector<std::string>{"0"} : std::vector<std::string>{};
}
std::vector<std::string> smaller(std::string_view name, Nanos value) {
  // Lengths of what does not happen are of no interest.
  if ((name != "span" && name != "longest_outage" && name != "jitter") || value <= millis(1)) return {};
  return {"1ms", fmt::format("{}ns", value.count() / 2)};
}
template <class Number>
std::vector<std::string> smaller(std::string_view name, Number number) {
  const uint64_t least = least_of(name);
  const uint64_t value = number;
  std::vector<std::string> values;
  for (uint64_t part : {uint64_t{0}, (value - std::min(value, least)) / 2}) {
    const std::string text = fmt::format("{}", least + part);
    if (least + part < value && (values.empty() || values.back() != text)) values.push_back(text);
  }
  if (value > least + 1) values.push_back(fmt::format("{}", value - 1));
  return values;
}

std::vector<std::string> candidates(const RunOptions& options) {
  std::vector<std::string> result;
  each_option(options, [&](std::string_view name, const auto& member) {
    if (left_alone(name)) return;
    for (const std::string& value : smaller(name, member))
      result.push_back(fmt::format("{}={}", name, value));
  });
  return result;
}

}  // namespace

Minimised minimise(const RunOptions& failing, const std::function<bool(const RunOptions&)>& fails,
                   const std::function<bool()>& may_go_on) {
  Minimised best{failing, 0};
  for (bool progress = true; progress;) {
    progress = false;
    std::string done;  // of this option a smaller value was found already
    for (const std::string& assignment : candidates(best.options)) {
      if (name_in(assignment) == done) continue;
      if (!may_go_on()) return best;
      RunOptions smaller_options = best.options;
      if (!set_option(smaller_options, assignment)) continue;
      ++best.tries;
      if (!fails(smaller_options)) continue;
      best.options = smaller_options;
      done = name_in(assignment);
      progress = true;
    }
  }
  return best;
}

}  // namespace mroce::soak
