// Words of a text file with their line, and errors that name file and line.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace mroce::sim {

class TextInput {
 public:
  TextInput(std::string_view file, std::string_view text) : file_(file), rest_(text) {}

  // Words of the next line that has any; false: the end.
  bool next_line(std::vector<std::string_view>& words) {
    words.clear();
    while (!rest_.empty() && words.empty()) {
      ++line_;
      const size_t end = rest_.find('\n');
      split(rest_.substr(0, end), words);
      rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    }
    return !words.empty();
  }

  template <class... Args>
  tl::unexpected<std::string> error(fmt::format_string<Args...> format, Args&&... args) const {
    return tl::unexpected(
        fmt::format("{}:{}: {}", file_, line_, fmt::format(format, std::forward<Args>(args)...)));
  }

  const std::string& file() const { return file_; }

  // For messages: what the file says, shortened, without control characters.
  static std::string shown(std::string_view word) {
    std::string out;
    for (const char c : word.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
    if (word.size() > 40) out += "...";
    return out;
  }

  static std::optional<uint64_t> integer(std::string_view word) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value;
  }
  // Not negative, finite.
  static std::optional<double> number(std::string_view word) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value) || value < 0) {
      return std::nullopt;
    }
    return value;
  }

 private:
  static void split(std::string_view line, std::vector<std::string_view>& words) {
    if (const size_t comment = line.find('#'); comment != std::string_view::npos)
      line = line.substr(0, comment);
    constexpr std::string_view kBlank = " \t\r\v\f";
    for (size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;) {
      const size_t end = std::min(line.find_first_of(kBlank, at), line.size());
      words.push_back(line.substr(at, end - at));
      at = line.find_first_not_of(kBlank, end);
    }
  }

  std::string file_;
  std::string_view rest_;
  uint32_t line_ = 0;
};

}  // namespace mroce::sim
