// Options as words: printed in full, set by name.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "soak/options.h"

namespace mroce::soak {

namespace {

constexpr size_t kLineWidth = 110;

std::string text_of(bool value) {
  return value ? "1" : "0";
}
std::string text_of(double value) {
  return fmt::format("{:.17g}", value);
}
std::string text_of(Nanos value) {
  return fmt::format("{}ns", value.count());
}
template <class Number>
std::string text_of(Number value) {
  return fmt::format("{}", value);
}

template <class Number>
bool read(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return false;
  }
  return error == std::errc{} && end == text.data() + text.size();
}
bool read(std::string_view text, bool& value) {
  value = text == "1";
  return text == "0" || text == "1";
}
bool read(std::string_view text, Nanos& value) {
  constexpr int64_t kMost = int64_t{1} << 50;  // two weeks
  constexpr std::array<std::pair<std::string_view, int64_t>, 4> kUnits = {
      {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}}};
  for (const auto& [unit, ns] : kUnits) {
    int64_t count = 0;
    if (!text.ends_with(unit) || !read(text.substr(0, text.size() - unit.size()), count)) continue;
    if (count < 0 || count > kMost / ns) return false;
    value = Nanos{count * ns};
    return true;
  }
  return false;
}

// What a run can stand. Everything else is as its type allows.
struct Range {
  std::string_view name;
  double low;
  double high;
};
constexpr Range kRanges[] = {{"endpoints", 2, 8},
                             {"sharing", 0, 8},
                             {"links", 1, 64},
                             {"operations", 1, 10000},
                             {"largest", 1, 1 << 22},
                             {"bytes", 0, 1 << 30},
                             {"planes", 1, 8},
                             {"paths", 1, 32},
                             {"max_payload", 512, 4096},
                             {"cpsn_window", 64, 1 << 20},
                             {"window_bytes", 4096, 1 << 28},
                             {"initial_window", 1, 4096},
                             {"ack_every", 1, 4096},
                             {"max_send_wr", 1, 4096},
                             {"max_recv_wr", 1, 4096},
                             {"max_sge", 1, 16},
                             {"max_inline", 0, 1024},
                             {"rd_atomic", 1, 16},
                             {"rnr_retry", 0, 7},
                             {"min_rnr_timer", 0, 31},
                             {"overcommit", 0, 100},
                             {"read_buffer_bytes", 10000, 1 << 30},
                             {"pace_us", 0, 1e6},
                             {"spread", 0, 100},
                             {"loss", 0, 0.9},
                             {"burst_loss", 0, 0.5},
                             {"reorder", 0, 1},
                             {"duplicate", 0, 1},
                             {"late_duplicate", 0, 1},
                             {"corrupt", 0, 0.9},
                             {"truncate", 0, 0.9},
                             {"ce", 0, 1},
                             {"queue_bytes", 10000, 1 << 30}};
constexpr uint64_t kMostFaults = 10000;  // of a kind

bool within_range(std::string_view name, double value) {
  for (const Range& range : kRanges) {
    if (range.name == name) return value >= range.low && value <= range.high;
  }
  return true;
}

bool is_count_of_faults(std::string_view name) {
  constexpr std::string_view kCounts[] = {"path_outages", "blackouts", "cut_links",   "silent_links",
                                          "freezes",      "crashes",   "clogs",       "cuts",
                                          "dead_paths",   "storms",    "clock_jumps", "slow_reads"};
  return std::find(std::begin(kCounts), std::end(kCounts), name) != std::end(kCounts);
}

template <class Value>
bool allowed(std::string_view name, Value value) {
  if constexpr (std::is_same_v<Value, Nanos> || std::is_same_v<Value, bool>) {
    return true;
  } else {
    if (is_count_of_faults(name) && static_cast<double>(value) > kMostFaults) return false;
    return within_range(name, static_cast<double>(value));
  }
}

// The values that an option may have, in words.
template <class Value>
std::string allowed_text(std::string_view name, Value) {
  if constexpr (std::is_same_v<Value, Nanos>) {
    return "a time such as 20ms, with ns, us, ms or s, of at most two weeks";
  } else if constexpr (std::is_same_v<Value, bool>) {
    return "0 or 1";
  } else {
    const char* const kind = std::is_floating_point_v<Value> ? "a number" : "a whole number";
    if (is_count_of_faults(name)) return fmt::format("{} from 0 to {}", kind, kMostFaults);
    for (const Range& range : kRanges) {
      if (range.name == name) return fmt::format("{} from {:.10g} to {:.10g}", kind, range.low, range.high);
    }
    using Limits = std::numeric_limits<Value>;
    return fmt::format("{} from {} to {}", kind, Limits::lowest(), Limits::max());
  }
}

}  // namespace

std::string_view name_in(std::string_view assignment) {
  return assignment.substr(0, assignment.find('='));
}

std::string describe(const RunOptions& options) {
  std::string text = fmt::format("seed {}:", options.seed);
  size_t width = text.size();
  each_option(options, [&](std::string_view name, const auto& value) {
    const std::string word = fmt::format(" {}={}", name, text_of(value));
    if (width + word.size() > kLineWidth) {
      text += "\n ";
      width = 1;
    }
    text += word;
    width += word.size();
  });
  return text;
}

tl::expected<void, std::string> set_option(RunOptions& options, std::string_view assignment) {
  const std::string_view wanted = name_in(assignment);
  if (wanted.size() == assignment.size())
    return tl::unexpected(fmt::format("\"{}\" has no '=': write NAME=VALUE", assignment));
  const std::string_view value = assignment.substr(wanted.size() + 1);
  bool known = false;
  bool good = false;
  std::string may_be;
  each_option(options, [&](std::string_view name, auto& member) {
    if (name != wanted) return;
    known = true;
    auto copy = member;
    good = read(value, copy) && allowed(name, copy);
    if (good) {
      member = copy;
    } else {
      may_be = allowed_text(name, member);
    }
  });
  if (!known) return tl::unexpected(fmt::format("there is no option \"{}\"", wanted));
  if (!good)
    return tl::unexpected(fmt::format("\"{}\" is no value for {}, which is {}", value, wanted, may_be));
  return {};
}

std::string option_text(const RunOptions& options, std::string_view wanted) {
  std::string text;
  each_option(options, [&](std::string_view name, const auto& member) {
    if (name == wanted) text = text_of(member);
  });
  return text;
}

}  // namespace mroce::soak
