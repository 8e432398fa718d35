#include "soak/seed.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace mroce::soak {

namespace {

constexpr size_t kHashDigits = 40;
constexpr size_t kShortHashDigits = 7;
constexpr size_t kMostShown = 60;

std::optional<uint64_t> number(std::string_view digits, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

}  // namespace

tl::expected<uint64_t, std::string> parse_seed(std::string_view text) {
  if (text.size() < kHashDigits) {
    if (const auto value = number(text, 10)) return *value;
    if (text.starts_with("0x")) {
      if (const auto value = number(text.substr(2), 16)) return *value;
    }
  }
  const bool has_letter = std::any_of(text.begin(), text.end(), [](char c) { return c > '9'; });
  if (has_letter || text.size() == kHashDigits) {
    if (const auto value = parse_commit(text)) return *value;
  }
  return tl::unexpected(
      fmt::format("\"{}\" is neither a number nor the hash of a commit", text.substr(0, kMostShown)));
}

tl::expected<uint64_t, std::string> parse_commit(std::string_view text) {
  if (text.size() >= kShortHashDigits && text.size() <= kHashDigits && is_hex(text))
    return *number(text.substr(0, kShortHashDigits), 16);
  return tl::unexpected(
      fmt::format("\"{}\" is not the hash of a commit, which has {} to {} hexadecimal digits",
                  text.substr(0, kMostShown), kShortHashDigits, kHashDigits));
}

}  // namespace mroce::soak
