// What a command prints, passed through as it comes and kept for later, up to a bound.
//
// The two streams of a command are kept as one text, whole lines in the order in which they ended, so that a
// message on standard error does not cut a table in two. Of more than the bound the beginning and the end are
// kept, with a line between that says how much is not there.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <string_view>

namespace mroce::cli {

class OutputRecord {
 public:
  explicit OutputRecord(size_t head_bytes = 2u << 20, size_t tail_bytes = 4u << 20)
      : head_bytes_(head_bytes), tail_bytes_(tail_bytes) {}
  void add(size_t stream, std::string_view text);  // 0: standard output, 1: standard error
  std::string text();                              // with what has not ended in a newline

 private:
  void add_line(std::string_view line);
  size_t head_bytes_, tail_bytes_;
  std::array<std::string, 2> unfinished_;
  std::string head_;
  std::deque<std::string> tail_;
  size_t tail_size_ = 0, left_out_ = 0;
};

}  // namespace mroce::cli
