// Words from files and the command line: numbers, units, and how a message quotes them.
//
// None of it is trusted. A number is the whole word or nothing; what a message quotes is short and printable.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mroce::sim {

// Digits only, all of the word; none: anything else, or more than 64 bits.
std::optional<uint64_t> parse_whole(std::string_view word);
// A decimal number, finite and not negative.
std::optional<double> parse_decimal(std::string_view word);

struct Unit {
  std::string_view name;
  double factor;
};
// A decimal number with one of the units right behind it, times the unit's factor. A unit with an empty name
// stands for none.
std::optional<double> parse_scaled(std::string_view word, std::span<const Unit> units);

// In quotes, at most 40 characters, what is not printable as '?'.
std::string quoted(std::string_view word);

// For options that are set by words: false leaves `out` as it was.
template <class T>
bool set_whole(std::string_view word, uint64_t low, uint64_t high, T& out) {
  const auto value = parse_whole(word);
  if (!value || *value < low || *value > high || *value > uint64_t{std::numeric_limits<T>::max()}) {
    return false;
  }
  out = static_cast<T>(*value);
  return true;
}

bool set_flag(std::string_view word, bool& out);  // "0", "1"

}  // namespace mroce::sim
