// What is printed where: colour and progress only on a terminal, never with NO_COLOR.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mroce::cli {

enum class Style : uint8_t { kPlain, kBold, kDim, kGood, kBad };

// `text` in this style if descriptor `fd` is a terminal and NO_COLOR is not set, else as it is.
std::string styled(int fd, Style style, std::string_view text);

// A line on standard error that the next one overwrites. Silent unless standard error is a terminal.
class Progress {
 public:
  Progress();
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::string_view text);
  void wipe();

 private:
  bool enabled_;
  bool dirty_ = false;
};

// Columns of text, aligned: the first to the left, all others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  // Columns from `left_from` on are text and aligned to the left again; the default has none.
  std::string text(size_t left_from = SIZE_MAX, std::string_view indent = "") const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// Figures as people read them: "12,345", "1.25 MiB", "83.1 us", "1.02 %".
std::string grouped(uint64_t value);
std::string bytes_text(uint64_t bytes);
std::string nanos_text(uint64_t nanos);
std::string percent_text(uint64_t part, uint64_t whole);

}  // namespace mroce::cli
