#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace mroce::cli {
namespace {

TEST(Table, columns_are_as_wide_as_their_widest_cell_and_figures_stand_right) {
  Table table({"name", "value"});
  table.add({"a", "12345"});
  table.add({"longer", "1"});
  EXPECT_EQ(table.text(),
            "name    value\n"
            "a       12345\n"
            "longer      1\n");
}

TEST(Table, text_columns_stand_left_and_lines_do_not_end_in_spaces) {
  Table table({"n", "count", "why"});
  table.add({"x", "7", ""});
  table.add({"y", "10", "because"});
  EXPECT_EQ(table.text(2, "  "),
            "  n  count  why\n"
            "  x      7\n"
            "  y     10  because\n");
}

TEST(Table, a_row_with_too_many_cells_loses_them) {
  Table table({"a"});
  table.add({"1", "2", "3"});
  EXPECT_EQ(table.text(), "a\n1\n");
}

TEST(Figures, thousands_are_grouped) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST(Figures, units_grow_with_the_value) {
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(1 << 20), "1.0 MiB");
  EXPECT_EQ(bytes_text(300u << 20), "300 MiB");
  EXPECT_EQ(nanos_text(83100), "83.1 us");
  EXPECT_EQ(nanos_text(2'500'000), "2.50 ms");
  EXPECT_EQ(nanos_text(3'000'000'000), "3.00 s");
}

TEST(Figures, a_share_of_nothing_is_no_number) {
  EXPECT_EQ(percent_text(0, 0), "-");
  EXPECT_EQ(percent_text(1, 100), "1.00 %");
}

TEST(Style, without_a_terminal_there_is_no_colour) {
  EXPECT_EQ(styled(-1, Style::kBad, "x"), "x");
}

}  // namespace
}  // namespace mroce::cli
