#include "cli/record.h"

#include <gtest/gtest.h>

namespace mroce::cli {
namespace {

TEST(OutputRecord, a_line_is_not_cut_by_one_of_the_other_stream) {
  OutputRecord record;
  record.add(0, "one ");
  record.add(1, "error\n");
  record.add(0, "line\n");
  EXPECT_EQ(record.text(), "error\none line\n");
}

TEST(OutputRecord, what_has_no_newline_at_the_end_is_kept) {
  OutputRecord record;
  record.add(0, "last words");
  EXPECT_EQ(record.text(), "last words");
}

TEST(OutputRecord, of_too_much_beginning_and_end_are_kept_and_the_gap_is_named) {
  OutputRecord record(10, 12);
  for (int i = 0; i < 10; ++i) record.add(0, "line" + std::to_string(i) + "\n");
  EXPECT_EQ(record.text(), "line0\n# 42 bytes of the output are not kept\nline8\nline9\n");
}

TEST(OutputRecord, an_endless_line_does_not_fill_the_memory) {
  OutputRecord record(1000, 200'000);
  for (int i = 0; i < 1000; ++i) record.add(0, std::string(10'000, 'x'));
  EXPECT_LT(record.text().size(), 300'000u);
}

}  // namespace
}  // namespace mroce::cli
