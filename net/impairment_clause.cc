#include "net/impairment_clause.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "core/base/text.h"
#include "net/setting_rules.h"

namespace mroce::net {
namespace {

using Problem = std::optional<std::string>;  // nothing: fine

constexpr auto kItems = std::to_array<ImpairmentItem>({
#define MROCE_IMPAIRMENT_ITEM(name, form, sentence) ImpairmentItem{#name, form, sentence},
    MROCE_IMPAIRMENT_ITEMS(MROCE_IMPAIRMENT_ITEM)
#undef MROCE_IMPAIRMENT_ITEM
});

constexpr size_t kMaxClauses = 64;
constexpr size_t kMaxWindows = 64;
constexpr uint64_t kLastPath = 31;  // of the 32 that the setting `paths` allows
constexpr Nanos kMaxHold = seconds(60);
constexpr Nanos kMaxWindow = seconds(1'000'000);

// A plain decimal number and what stands behind it. strtod would also take "inf", "nan" and hexadecimal.
std::optional<double> leading_decimal(std::string_view text, std::string_view& rest) {
  const size_t length = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string digits(text.substr(0, length));
  if (digits.empty() || digits.size() > 32 || std::count(digits.begin(), digits.end(), '.') > 1 ||
      digits == ".") {
    return std::nullopt;
  }
  rest = text.substr(length);
  return std::strtod(digits.c_str(), nullptr);
}

Problem read_probability(std::string_view key, std::string_view text, double& out) {
  std::string_view unit;
  const auto number = leading_decimal(text, unit);
  if (!number || (unit != "" && unit != "%")) {
    return fmt::format("{}={}: not a probability; write 1% or 0.01", key, text);
  }
  out = unit == "%" ? *number / 100 : *number;
  if (out > 1)
    return fmt::format("{}={}: above 100%; write {}% or a fraction up to 1", key, text,
                       std::min(*number, 100.0));
  return std::nullopt;
}

Problem read_duration(std::string_view key, std::string_view text, Nanos limit, Nanos& out) {
  std::string_view unit;
  const auto number = leading_decimal(text, unit);
  double scale = 0;
  if (unit == "ns") scale = 1;
  if (unit == "us") scale = 1e3;
  if (unit == "ms") scale = 1e6;
  if (unit == "s") scale = 1e9;
  if (!number || scale == 0) return fmt::format("{}: '{}' is not a time; write 100us, 5ms or 1s", key, text);
  if (*number * scale > static_cast<double>(limit.count())) {
    return fmt::format("{}: {} is too long; the limit is {} s", key, text, limit.count() / 1'000'000'000);
  }
  out = Nanos{static_cast<int64_t>(std::llround(*number * scale))};
  return std::nullopt;
}

Problem read_window(std::string_view key, std::string_view text, TimeWindow& out) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    return fmt::format("{}={}: a window needs a '-'; write {}=1s-3s, or {}=1s- for no end", key, text, key,
                       key);
  }
  if (auto problem = read_duration(key, trimmed(text.substr(0, dash)), kMaxWindow, out.begin)) return problem;
  const std::string_view end = trimmed(text.substr(dash + 1));
  if (end.empty()) return std::nullopt;
  if (auto problem = read_duration(key, end, kMaxWindow, out.end)) return problem;
  if (out.end <= out.begin)
    return fmt::format("{}={}: ends before it begins; write the earlier time first", key, text);
  return std::nullopt;
}

// Both parts of "first:second"; the second is empty if there is no colon.
std::pair<std::string_view, std::string_view> at_colon(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}};
  return {trimmed(text.substr(0, colon)), trimmed(text.substr(colon + 1))};
}

Problem read_burst(std::string_view text, ImpairmentClause& clause) {
  const auto [probability, mean] = at_colon(text);
  std::string_view rest;
  const auto packets = leading_decimal(mean, rest);
  if (!packets || !rest.empty() || *packets < 1 || *packets > 1e6) {
    return fmt::format("burst={}: needs a mean length of 1 to 1000000 packets; write burst=0.5%:8", text);
  }
  clause.burst_packets = *packets;
  return read_probability("burst", probability, clause.burst_enter);
}

Problem read_reorder(std::string_view text, ImpairmentClause& clause) {
  const auto [probability, by] = at_colon(text);
  if (by.empty())
    return fmt::format("reorder={}: needs how long to hold a packet; write reorder=2%:200us", text);
  if (auto problem = read_probability("reorder", probability, clause.reorder)) return problem;
  return read_duration("reorder", by, kMaxHold, clause.reorder_by);
}

Problem read_delay(std::string_view text, ImpairmentClause& clause) {
  const auto [delay, jitter] = at_colon(text);
  if (auto problem = read_duration("delay", delay, kMaxHold, clause.delay)) return problem;
  if (jitter.empty()) return std::nullopt;
  if (auto problem = read_duration("delay", jitter, kMaxHold, clause.jitter)) return problem;
  if (clause.jitter > clause.delay)
    return fmt::format("delay={}: varies by more than itself; make the second time the smaller one", text);
  return std::nullopt;
}

Problem read_rate(std::string_view text, ImpairmentClause& clause) {
  std::string_view unit;
  const auto number = leading_decimal(text, unit);
  double scale = 0;
  if (unit.empty()) scale = 1;
  if (unit == "K" || unit == "k") scale = 1e3;
  if (unit == "M" || unit == "m") scale = 1e6;
  if (unit == "G" || unit == "g") scale = 1e9;
  const double bits = number ? *number * scale : 0;
  if (bits < 1000 || bits > 1e13)
    return fmt::format("rate={}: not a rate of 1K to 10000G bit/s; write 100M or 1G", text);
  clause.rate_bps = static_cast<uint64_t>(std::llround(bits));
  return std::nullopt;
}

Problem read_queue(std::string_view text, ImpairmentClause& clause) {
  const auto bytes = parse_number(text);
  if (!bytes || *bytes == 0 || *bytes > (uint64_t{1} << 30)) {
    return fmt::format("queue={}: not a size of 1 to 1G bytes; write 256K or 1M", text);
  }
  clause.queue_bytes = *bytes;
  return std::nullopt;
}

Problem read_limit(std::string_view key, std::string_view text, uint64_t most, uint64_t& out) {
  const auto number = parse_number(text);
  if (!number || *number > most)
    return fmt::format("{}={}: must be 0 to {}; write {}=0", key, text, most, key);
  out = *number;
  return std::nullopt;
}

Problem read_direction(std::string_view text, ImpairmentClause& clause) {
  if (text != "out" && text != "in" && text != "both") {
    return fmt::format("dir={}: must be out, in or both; write dir=both", text);
  }
  clause.out = text != "in";
  clause.in = text != "out";
  return std::nullopt;
}

Problem read_down(std::string_view text, ImpairmentClause& clause) {
  if (clause.down.size() >= kMaxWindows)
    return fmt::format("down: more than {} windows in a clause", kMaxWindows);
  TimeWindow window;
  if (auto problem = read_window("down", text, window)) return problem;
  clause.down.push_back(window);
  return std::nullopt;
}

Problem read_item(std::string_view key, std::string_view value, ImpairmentClause& clause, bool& effect) {
  effect = effect || (key != "path" && key != "plane" && key != "dir" && key != "during" && key != "queue");
  uint64_t number = 0;
  if (key == "loss") return read_probability(key, value, clause.loss);
  if (key == "duplicate") return read_probability(key, value, clause.duplicate);
  if (key == "corrupt") return read_probability(key, value, clause.corrupt);
  if (key == "ce") return read_probability(key, value, clause.ce);
  if (key == "burst") return read_burst(value, clause);
  if (key == "reorder") return read_reorder(value, clause);
  if (key == "delay") return read_delay(value, clause);
  if (key == "rate") return read_rate(value, clause);
  if (key == "queue") return read_queue(value, clause);
  if (key == "down") return read_down(value, clause);
  if (key == "during") return read_window(key, value, clause.during);
  if (key == "dir") return read_direction(value, clause);
  if (key == "path") {
    auto problem = read_limit(key, value, kLastPath, number);
    clause.path = static_cast<uint8_t>(number);
    return problem;
  }
  if (key == "plane") {
    auto problem = read_limit(key, value, 63, number);
    clause.plane = static_cast<uint32_t>(number);
    return problem;
  }
  if (key == "seed") {
    auto problem = read_limit(key, value, UINT64_MAX, number);
    clause.seed = number;
    return problem;
  }
  std::string names;
  for (const ImpairmentItem& item : kItems)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", item.name);
  return fmt::format("'{}' is no impairment; there are {}", key, names);
}

// "rate=1G queue=1M" as it has to be written.
std::string with_commas(std::string_view item) {
  std::string text;
  for (size_t at = 0; at < item.size(); ++at) {
    const bool blank = item[at] == ' ' || item[at] == '\t';
    if (!blank) text += item[at];
    if (blank && !text.ends_with(',')) text += ',';
  }
  return text;
}

// What is wrong with an item "key=value" before anybody looks at the value.
Problem refuse_item(std::string_view item, std::span<const std::string_view> earlier) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) return fmt::format("'{}' has no '='; write e.g. loss=1%", item);
  if (item.find('=', equals + 1) != std::string_view::npos)
    return fmt::format("'{}' has two '='; separate items by commas: {}", item, with_commas(item));
  const std::string_view key = trimmed(item.substr(0, equals));
  if (key != "down" && std::find(earlier.begin(), earlier.end(), key) != earlier.end())
    return fmt::format("{} stands twice in a clause; name it once, or begin another clause with ';'", key);
  return std::nullopt;
}

Problem read_clause(std::string_view text, ImpairmentClause& clause) {
  const std::string_view whole = text;
  std::vector<std::string_view> keys;
  bool effect = false;
  bool queue = false;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (auto problem = refuse_item(item, keys)) return problem;
    const size_t equals = item.find('=');
    const std::string_view key = keys.emplace_back(trimmed(item.substr(0, equals)));
    queue = queue || key == "queue";
    if (auto problem = read_item(key, trimmed(item.substr(equals + 1)), clause, effect)) return problem;
  }
  if (!effect) return fmt::format("'{}' impairs nothing; add e.g. loss=1%", whole);
  if (queue && clause.rate_bps == 0)
    return fmt::format("'{}' has a queue without a rate; add e.g. rate=1G", whole);
  return std::nullopt;
}

}  // namespace

std::span<const ImpairmentItem> impairment_items() {
  return kItems;
}

tl::expected<std::vector<ImpairmentClause>, std::string> parse_clauses(std::string_view text) {
  std::vector<ImpairmentClause> clauses;
  const bool blank = trimmed(text).empty();
  while (!trimmed(text).empty()) {
    const size_t semicolon = std::min(text.find(';'), text.size());
    const std::string_view part = trimmed(text.substr(0, semicolon));
    text.remove_prefix(std::min(semicolon + 1, text.size()));
    if (part.empty()) continue;
    if (clauses.size() == kMaxClauses) {
      return tl::unexpected(fmt::format("impair: more than {} clauses; merge some of them", kMaxClauses));
    }
    ImpairmentClause clause;
    if (auto problem = read_clause(part, clause))
      return tl::unexpected(printable("impair: " + *problem, kLongestMessage));
    clauses.push_back(std::move(clause));
  }
  if (clauses.empty() && !blank)
    return tl::unexpected<std::string>(
        "impair: there is no clause between the semicolons; write e.g. loss=1%");
  return clauses;
}

}  // namespace mroce::net
