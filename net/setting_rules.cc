#include "net/setting_rules.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <vector>

#include "net/impairment_clause.h"
#include "net/settings.h"
#include "net/sockets.h"

namespace mroce::net {
namespace {

constexpr uint64_t kKi = 1024;
constexpr uint64_t kMi = kKi * kKi;
constexpr uint64_t kGi = kKi * kMi;
constexpr size_t kMaxPathLength = 4095;  // PATH_MAX without its zero
constexpr size_t kMaxNameLength = 63;    // IBV_SYSFS_NAME_MAX without its zero

struct NumberRule {
  std::string_view name;
  uint64_t low;
  uint64_t high;
  std::string_view range;  // as a person writes it
};
constexpr NumberRule kNumberRules[] = {
    {"paths", 1, 32, "1 to 32"},
    {"planes", 1, 8, "1 to 8"},
    {"base_port", 1024, 65535 - 255, "1024 to 65280 (slots need the 255 ports above it)"},
    {"max_payload", 1024, 4096, "1024 to 4096"},
    {"window", 64 * kKi, 64 * kMi, "64K to 64M"},
    {"receive_buffer", 64 * kKi, kGi, "64K to 1G"},
    {"key_update", 16, 8 * kMi, "16 to 8M (datagrams)"},
    {"stats_interval", 0, 3'600'000, "0 to 3600000 (milliseconds)"},
};

std::string_view default_of(std::string_view name) {
  for (const Setting& setting : all_settings()) {
    if (setting.name == name) return setting.default_text;
  }
  return "";
}

std::optional<std::string> refuse_number(const NumberRule& rule, std::string_view value) {
  const auto number = parse_number(value);
  if (!number) {
    return fmt::format("{} must be a number, {}; try {}", rule.name, rule.range, default_of(rule.name));
  }
  if (*number < rule.low || *number > rule.high) {
    return fmt::format("{} must be {}; try {}", rule.name, rule.range, default_of(rule.name));
  }
  return std::nullopt;
}

std::optional<std::string> refuse_addresses(std::string_view value) {
  std::vector<Gid> earlier;
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    const std::string_view part = trimmed(value.substr(0, comma));
    value.remove_prefix(std::min(comma + 1, value.size()));
    if (part.empty()) return "addresses has an empty part; separate addresses by single commas";
    const auto gid = parse_address(part);
    if (!gid) {
      return fmt::format(
          "addresses: '{}' is not an IP address; try one that `ip addr` shows, without /prefix", part);
    }
    if (std::find(earlier.begin(), earlier.end(), *gid) != earlier.end())
      return fmt::format("addresses: {} is named twice; name each address once", part);
    earlier.push_back(*gid);
  }
  return std::nullopt;
}

std::optional<std::string> refuse_device_name(std::string_view value) {
  const bool legal =
      !value.empty() && value.size() <= kMaxNameLength && std::all_of(value.begin(), value.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-';
      });
  if (legal) return std::nullopt;
  return fmt::format("device_name must be 1 to {} letters, digits, '_' or '-'; try mroce0", kMaxNameLength);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t unit = 1;
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (!text.empty()) {
    switch (text.back()) {
      case 'K':
      case 'k':
        unit = kKi;
        break;
      case 'M':
      case 'm':
        unit = kMi;
        break;
      case 'G':
      case 'g':
        unit = kGi;
        break;
      default:
        break;
    }
    if (unit != 1) text.remove_suffix(1);
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (number > UINT64_MAX / unit) return std::nullopt;
  return number * unit;
}

std::optional<bool> parse_flag(std::string_view text) {
  for (std::string_view yes : {"1", "true", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (std::string_view no : {"0", "false", "no", "off"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

std::optional<std::string> refusal(std::string_view name, std::string_view value) {
  for (const NumberRule& rule : kNumberRules) {
    if (rule.name == name) return refuse_number(rule, value);
  }
  if (name == "relaxed" || name == "ecn") {
    if (parse_flag(value)) return std::nullopt;
    return fmt::format("{} must be 0 or 1; try {}", name, default_of(name));
  }
  if (name == "seed") {
    if (value.empty() || parse_number(value)) return std::nullopt;
    return "seed must be a number below 2^64 or empty; try 1";
  }
  if (name == "log") {
    for (std::string_view level : {"error", "warn", "info", "debug"}) {
      if (value == level) return std::nullopt;
    }
    return "log must be error, warn, info or debug; try warn";
  }
  if (name == "security") {
    if (value == "off" || value == "prefer" || value == "require") return std::nullopt;
    return "security must be off, prefer or require; try require";
  }
  if (name == "addresses") return refuse_addresses(value);
  if (name == "device_name") return refuse_device_name(value);
  if (name == "impair") {
    const auto clauses = parse_clauses(value);
    if (!clauses) return clauses.error();
    return std::nullopt;
  }
  if (value.size() > kMaxPathLength) return fmt::format("{} is longer than a file name can be", name);
  return std::nullopt;
}

std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> names) {
  constexpr size_t kMost = 3;
  std::optional<std::string_view> found;
  size_t best = std::min(kMost, std::max<size_t>(1, word.size() / 3)) + 1;
  for (const std::string_view name : names) {
    if (name.size() > word.size() + kMost || word.size() > name.size() + kMost) continue;
    const size_t distance = edit_distance(word, name);
    if (distance >= best || distance >= name.size()) continue;
    best = distance;
    found = name;
  }
  return found;
}

std::optional<std::string_view> nearest_setting(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Setting& setting : all_settings()) names.push_back(setting.name);
  return nearest(name, names);
}

}  // namespace mroce::net
