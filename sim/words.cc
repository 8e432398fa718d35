#include "sim/words.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/text.h"

namespace mroce::sim {
namespace {

// A decimal number at the beginning of a word, and what stands behind it.
std::optional<double> leading_decimal(std::string_view word, std::string_view& rest) {
  double value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || !std::isfinite(value) || std::signbit(value)) return std::nullopt;
  rest = std::string_view(stop, static_cast<size_t>(end - stop));
  return value;
}

}  // namespace

std::optional<uint64_t> parse_whole(std::string_view word) {
  uint64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::optional<double> parse_decimal(std::string_view word) {
  std::string_view rest;
  const auto value = leading_decimal(word, rest);
  return rest.empty() ? value : std::nullopt;
}

std::optional<double> parse_scaled(std::string_view word, std::span<const Unit> units) {
  std::string_view rest;
  const auto value = leading_decimal(word, rest);
  if (!value) return std::nullopt;
  const auto unit = std::ranges::find(units, rest, &Unit::name);
  if (unit == units.end()) return std::nullopt;
  return *value * unit->factor;
}

std::string quoted(std::string_view word) {
  constexpr size_t kShown = 40;
  return "'" + printable(word, kShown) + "'";
}

bool set_flag(std::string_view word, bool& out) {
  if (word != "0" && word != "1") return false;
  out = word == "1";
  return true;
}

}  // namespace mroce::sim
