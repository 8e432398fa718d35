#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/outcome.h"
#include "net/say.h"

namespace mroce::cli {
namespace {

bool colourful(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && ::isatty(fd) == 1;
}

const char* code_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return "0";
    case Style::kBold:
      return "1";
    case Style::kDim:
      return "2";
    case Style::kGood:
      return "32";
    case Style::kBad:
      return "31";
  }
  return "0";
}

}  // namespace

int report(const Failure& failure) {
  const char* between = failure.hint.empty() ? "" : failure.cause.ends_with('?') ? " " : "; ";
  say("{} {}{}{}\n", styled(STDERR_FILENO, Style::kBad, "mroce:"), failure.cause, between, failure.hint);
  return failure.code;
}

std::string styled(int fd, Style style, std::string_view text) {
  if (style == Style::kPlain || !colourful(fd)) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", code_of(style), text);
}

Progress::Progress() : enabled_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  wipe();
}

void Progress::show(std::string_view text) {
  if (!enabled_) return;
  say("\r\033[K{}", text);
  std::fflush(stderr);
  dirty_ = true;
}

void Progress::wipe() {
  if (!dirty_) return;
  say("\r\033[K");
  std::fflush(stderr);
  dirty_ = false;
}

std::string Table::text(size_t left_from, std::string_view indent) const {
  std::vector<size_t> widths(header_.size(), 0);
  const auto widen = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  };
  widen(header_);
  for (const auto& row : rows_) widen(row);

  std::string out;
  const auto print = [&](const std::vector<std::string>& row) {
    std::string line(indent);
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      if (i > 0) line += "  ";
      const bool left = i == 0 || i >= left_from;
      line += left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  print(header_);
  for (const auto& row : rows_) print(row);
  return out;
}

std::string grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, kUnits[unit]);
}

std::string nanos_text(uint64_t nanos) {
  const double value = static_cast<double>(nanos);
  if (value < 1e6) return fmt::format("{:.1f} us", value / 1e3);
  if (value < 1e9) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::string percent_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.2f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace mroce::cli
