// Text files of flows and topologies: read whole, up to a size, and cut into lines of words.
//
// None of it is trusted. Errors name file and line; what they quote of the file is short and printable.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace mroce::sim {

inline constexpr uint64_t kMaxTextBytes = 1ULL << 30;

// The error is a sentence with the path.
tl::expected<std::string, std::string> read_text(const std::string& path, uint64_t limit = kMaxTextBytes);

// Digits only, all of the word; none: anything else, or more than 64 bits.
std::optional<uint64_t> parse_whole(std::string_view word);
// A decimal number, finite and not negative.
std::optional<double> parse_decimal(std::string_view word);
// In quotes, at most 40 characters, what is not printable as '?'.
std::string quoted(std::string_view word);

// Lines that have words: '#' and what follows it on its line is a comment.
class TextLines {
 public:
  TextLines(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  bool next();  // false: the end
  // At most kMaxWords + 1 of them; no line of any format that is read here has as many.
  std::span<const std::string_view> words() const { return words_; }
  uint32_t line() const { return line_; }
  std::string at(uint32_t line) const;  // "flows.cm:12: "

  static constexpr size_t kMaxWords = 64;

 private:
  void split(std::string_view line);

  std::string_view name_;
  std::string_view text_;
  std::vector<std::string_view> words_;
  uint32_t line_ = 0;
};

}  // namespace mroce::sim
