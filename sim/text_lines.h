// Text files of flows and topologies: read whole, up to a size, and cut into lines of words. Errors name file
// and line.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace mroce::sim {

inline constexpr uint64_t kMaxTextBytes = 1ULL << 30;

// The error is a sentence with the path.
tl::expected<std::string, std::string> read_text(const std::string& path, uint64_t limit = kMaxTextBytes);

// Lines that have words: '#' and what follows it on its line is a comment.
class TextLines {
 public:
  static constexpr size_t kMaxWords = 64;

  TextLines(std::string_view name, std::string_view text, size_t max_words = kMaxWords)
      : name_(name), text_(text), max_words_(max_words) {}

  bool next();  // false: the end
  // One more than max_words at most, however long the line is.
  std::span<const std::string_view> words() const { return words_; }
  const std::string& name() const { return name_; }
  uint32_t line() const { return std::max(line_, 1U); }  // an empty file ends in its first line
  std::string at(uint32_t line) const;                   // "flows.cm:12: "

  template <class... Args>
  tl::unexpected<std::string> error(fmt::format_string<Args...> format, Args&&... args) const {
    return tl::unexpected(at(line()) + fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void split(std::string_view line);

  std::string name_;
  std::string_view text_;
  size_t max_words_;
  std::vector<std::string_view> words_;
  uint32_t line_ = 0;
};

}  // namespace mroce::sim
