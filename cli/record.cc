#include "cli/record.h"

#include <fmt/format.h>

namespace mroce::cli {
namespace {

constexpr size_t kMaxLine = 64u << 10;  // one without an end is cut into several

}  // namespace

void OutputRecord::add(size_t stream, std::string_view text) {
  std::string& unfinished = unfinished_[stream];
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view piece = text.substr(0, end == std::string_view::npos ? end : end + 1);
    unfinished += piece;
    text.remove_prefix(piece.size());
    if (end == std::string_view::npos && unfinished.size() < kMaxLine) break;
    add_line(unfinished);
    unfinished.clear();
  }
}

void OutputRecord::add_line(std::string_view line) {
  if (tail_.empty() && left_out_ == 0 && head_.size() + line.size() <= head_bytes_) {
    head_ += line;
    return;
  }
  tail_.emplace_back(line);
  tail_size_ += line.size();
  while (tail_size_ > tail_bytes_ && !tail_.empty()) {
    tail_size_ -= tail_.front().size();
    left_out_ += tail_.front().size();
    tail_.pop_front();
  }
}

std::string OutputRecord::text() {
  for (std::string& unfinished : unfinished_) {
    if (!unfinished.empty()) add_line(unfinished);
    unfinished.clear();
  }
  std::string out = head_;
  if (left_out_ > 0) out += fmt::format("# {} bytes of the output are not kept\n", left_out_);
  for (const std::string& line : tail_) out += line;
  return out;
}

}  // namespace mroce::cli
