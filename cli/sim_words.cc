#include "cli/sim_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/words.h"

namespace mroce::cli {
namespace {

using sim::quoted;

// Rounded; at most `most`.
std::optional<uint64_t> scaled(std::string_view text, std::initializer_list<sim::Unit> units, double most) {
  const auto value = sim::parse_scaled(text, units);
  if (!value || *value > most) return std::nullopt;
  return static_cast<uint64_t>(std::llround(*value));
}

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
  constexpr double kMost = 1LL << 50;
  return scaled(text,
                {{"", 1},
                 {"B", 1},
                 {"K", 1LL << 10},
                 {"KB", 1LL << 10},
                 {"KiB", 1LL << 10},
                 {"M", 1LL << 20},
                 {"MB", 1LL << 20},
                 {"MiB", 1LL << 20},
                 {"G", 1LL << 30},
                 {"GB", 1LL << 30},
                 {"GiB", 1LL << 30},
                 {"T", 1LL << 40}},
                kMost);
}

std::optional<uint64_t> parse_rate(std::string_view text) {
  if (text.ends_with("bps")) text.remove_suffix(3);
  return scaled(text, {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}}, 1e13);
}

std::optional<sim::SimTime> parse_time(std::string_view text) {
  if (text == "0") return 0;
  constexpr double kDay = 86'400e12;
  const auto value = scaled(text, {{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}}, kDay);
  if (!value) return std::nullopt;
  return static_cast<sim::SimTime>(*value);
}

std::optional<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  const auto value = sim::parse_decimal(text);
  if (!value) return std::nullopt;
  const double share = percent ? *value / 100 : *value;
  if (share > 1) return std::nullopt;
  return share;
}

std::optional<uint64_t> parse_count(std::string_view text, uint64_t low, uint64_t high) {
  const auto value = sim::parse_whole(text);
  if (!value || *value < low || *value > high) return std::nullopt;
  return value;
}

std::optional<bool> parse_switch(std::string_view text) {
  if (text == "on" || text == "1") return true;
  if (text == "off" || text == "0") return false;
  return std::nullopt;
}

std::vector<std::string_view> split_words(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Outcome<NamedList> NamedList::parse(std::string_view flag, std::string_view text) {
  NamedList list;
  list.flag_ = flag;
  const size_t colon = text.find(':');
  list.name_ = text.substr(0, colon);
  if (colon == std::string_view::npos) return list;
  for (const std::string_view word : split_words(text.substr(colon + 1), ',')) {
    const size_t equals = word.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return failure(kUsage, fmt::format("{}: {} is not key=value", flag, quoted(word)),
                     "see mroce sim --help");
    }
    const std::string key(word.substr(0, equals));
    if (list.has(key)) {
      return failure(kUsage, fmt::format("{}: {} is there twice", flag, quoted(key)), "leave one of them");
    }
    list.pairs_.push_back({key, std::string(word.substr(equals + 1)), false});
  }
  return list;
}

bool NamedList::has(std::string_view key) const {
  return std::any_of(pairs_.begin(), pairs_.end(), [&](const Pair& pair) { return pair.key == key; });
}

const std::string* NamedList::take(std::string_view key, std::string_view what) {
  known_.push_back(fmt::format("{}={}", key, what));
  for (Pair& pair : pairs_) {
    if (pair.key != key) continue;
    pair.used = true;
    return &pair.value;
  }
  return nullptr;
}

void NamedList::bad(std::string_view key, std::string_view value, std::string_view wanted) {
  if (trouble_.empty()) trouble_ = fmt::format("{} is not {} for {}", quoted(value), wanted, key);
}

void NamedList::size(std::string_view key, uint64_t& out) {
  const std::string* const text = take(key, "SIZE");
  if (text == nullptr) return;
  if (const auto value = parse_size(*text))
    out = *value;
  else
    bad(key, *text, "a size (as 64K or 2M)");
}

void NamedList::rate(std::string_view key, uint64_t& out) {
  const std::string* const text = take(key, "RATE");
  if (text == nullptr) return;
  if (const auto value = parse_rate(*text); value && *value > 0)
    out = *value;
  else
    bad(key, *text, "a rate (as 400G)");
}

void NamedList::time(std::string_view key, sim::SimTime& out) {
  const std::string* const text = take(key, "TIME");
  if (text == nullptr) return;
  if (const auto value = parse_time(*text))
    out = *value;
  else
    bad(key, *text, "a time (as 500ns or 1us)");
}

void NamedList::count(std::string_view key, uint32_t& out, uint32_t low, uint32_t high) {
  const std::string* const text = take(key, "N");
  if (text == nullptr) return;
  if (const auto value = parse_count(*text, low, high))
    out = static_cast<uint32_t>(*value);
  else
    bad(key, *text, fmt::format("a number from {} to {}", low, high));
}

Outcome<void> NamedList::end() const {
  for (const Pair& pair : pairs_) {
    if (pair.used) continue;
    return failure(kUsage, fmt::format("{} {}: unknown key {}", flag_, quoted(name_), quoted(pair.key)),
                   fmt::format("it has {}", fmt::join(known_, ", ")));
  }
  if (!trouble_.empty())
    return failure(kUsage, fmt::format("{} {}: {}", flag_, quoted(name_), trouble_), "see mroce sim --help");
  return {};
}

}  // namespace mroce::cli
