// Reading of untrusted text: lines, words, numbers. No locale, no regular expressions, no allocation for each
// line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mroce::doctor {

std::string_view trim(std::string_view text);
std::vector<std::string_view> words_of(std::string_view line);  // by blanks and tabs
std::vector<std::string_view> split(std::string_view text, char at);
bool contains(std::string_view text, std::string_view part);
bool contains_word(std::string_view text, std::string_view word);  // not as a part of a longer word
std::string lowered(std::string_view text);
std::string_view after(std::string_view text,
                       std::string_view mark);  // what follows the first `mark`; empty if none
std::string_view before(std::string_view text,
                        std::string_view mark);  // what precedes it; everything if none

// The whole of `text` (trimmed) as a number. Thousands separators are taken; "0x1f" too; 2^64-1 and "N/A" are
// no numbers: drivers give them for what they cannot read.
std::optional<uint64_t> whole_number(std::string_view text);
std::optional<double> real_number(std::string_view text);
std::optional<double> leading_number(std::string_view text);  // "400 Gb/sec" → 400

// Longer lines are cut: nothing but JSON has such. Where launchers put their prefix before each line, JSON is
// put together again from lines, which may be longer.
inline constexpr size_t kMaxTextLine = 1u << 20, kMaxPrefixedLine = 16u << 20;

// Lines without carriage returns, colours and the prefixes of launchers ("[1,0]<stdout>:", "nodeA: " if every
// line has one). Views into `storage`, which holds the cleaned text.
struct Lines {
  std::unique_ptr<const std::string> storage;  // behind a pointer: a short string moves with its text
  std::vector<std::string_view> lines;
  std::vector<uint32_t> numbers;   // in the original
  std::vector<std::string> hosts;  // of each line if a launcher said so; else empty
  bool truncated_last = false;     // the last line does not end
  bool cut = false;                // there were more lines than kMaxTextLines
  size_t longest = kMaxTextLine;   // bytes of a line; what is behind them is in `storage` only
  size_t size() const { return lines.size(); }
  std::string_view operator[](size_t i) const { return lines[i]; }
};
inline constexpr size_t kMaxTextLines = 4'000'000;
Lines lines_of(std::string_view text);

}  // namespace mroce::doctor
