// What the fuzzers have in common: the input as text, and what must hold for every refusal.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace mroce::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Ends the program when `holds` is false, so that the fuzzer keeps the input.
inline void require(bool holds, std::string_view what, std::string_view seen = {}) {
  if (holds) return;
  fmt::print(stderr, "{}: {}\n", what, seen);
  std::abort();
}

// A refusal can be shown on a terminal, whatever the input was: ASCII, but for the ellipsis of our own texts.
inline void require_sentence(std::string_view error) {
  require(!error.empty(), "a refusal says nothing");
  require(error.size() < 4096, "a refusal is too long", error);
  constexpr std::string_view kEllipsis = "\u2026";
  for (size_t at = 0; at < error.size();) {
    const bool ellipsis = error.substr(at).starts_with(kEllipsis);
    require(ellipsis || (error[at] >= ' ' && error[at] <= '~'), "a refusal is not printable", error);
    at += ellipsis ? kEllipsis.size() : 1;
  }
}

inline constexpr std::string_view kFile = "f";  // the name under which readers get their text

// A refusal of a file begins with its name and a line that it has.
inline void require_place(std::string_view error, std::string_view text) {
  require_sentence(error);
  require(error.starts_with("f:"), "a refusal without the file", error);
  size_t line = 0;
  size_t at = 2;
  for (; at < error.size() && error[at] >= '0' && error[at] <= '9'; ++at) {
    line = 10 * line + static_cast<size_t>(error[at] - '0');
  }
  require(at > 2 && error.substr(at, 2) == ": ", "a refusal without a line", error);
  const auto lines = static_cast<size_t>(std::ranges::count(text, '\n')) + 1;
  require(line >= 1 && line <= lines, "a refusal of a line that is not there", error);
}

}  // namespace mroce::fuzz
