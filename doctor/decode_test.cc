#include "doctor/decode.h"

#include <gtest/gtest.h>

#include "doctor/ingest.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {
namespace {

std::string utf16(std::string_view text, bool little, bool mark) {
  std::string out;
  if (mark) out = little ? "\xff\xfe" : "\xfe\xff";
  for (const char c : text) {
    if (!little) out += '\0';
    out += c;
    if (little) out += '\0';
  }
  return out;
}

TEST(Decode, utf16_is_read_in_both_orders_with_and_without_a_mark) {
  for (const bool little : {true, false})
    for (const bool mark : {true, false}) {
      std::string text = utf16("NIC statistics:\r\n     rx_discards_phy: 5\r\n", little, mark);
      EXPECT_TRUE(decode_text(text).empty());
      EXPECT_EQ(text, "NIC statistics:\r\n     rx_discards_phy: 5\r\n");
    }
}

TEST(Decode, surrogates_become_one_letter_and_halves_of_them_a_replacement) {
  std::string pair("\xff\xfe\x3d\xd8\x00\xde", 6), half("\xff\xfe\x3d\xd8\x41\x00", 6);
  decode_text(pair);
  decode_text(half);
  EXPECT_EQ(pair, "\xf0\x9f\x98\x80");
  EXPECT_EQ(half,
            "\xef\xbf\xbd"
            "A");
}

TEST(Decode, what_is_odd_is_named_with_its_first_line) {
  std::string zeros("a\nb\0c\n", 6), latin("a\n\nK\xfchler\n");
  const auto zero_remarks = decode_text(zeros), latin_remarks = decode_text(latin);
  ASSERT_EQ(zero_remarks.size(), 1u);
  EXPECT_EQ(zero_remarks[0].line, 2u);
  ASSERT_EQ(latin_remarks.size(), 1u);
  EXPECT_EQ(latin_remarks[0].line, 3u);
  std::string fine("K\xc3\xbchler\n");
  EXPECT_TRUE(decode_text(fine).empty());
}

TEST(Decode, very_long_lines_and_very_many_are_cut_with_a_named_problem) {
  Evidence evidence;
  ingest({"long.txt", "", "ok\n" + std::string(kMaxTextLine + 10, 'x') + "\nrx_discards_phy: 5\n", false},
         Context(evidence, builtin_rulebook()));
  ASSERT_EQ(evidence.problems.size(), 1u);
  EXPECT_EQ(evidence.problems[0].where.line, 2u);
  EXPECT_EQ(evidence.hosts.size(), 1u) << "what follows is read";
  const Lines many = lines_of(std::string(kMaxTextLines + 5, '\n'));
  EXPECT_TRUE(many.cut);
  EXPECT_EQ(many.size(), kMaxTextLines);
  EXPECT_FALSE(lines_of(std::string(10, '\n')).cut);
}

TEST(Decode, a_document_in_one_long_line_is_read_whole) {
  std::string json = "[{\"schema\": \"mroce-stats-1\", \"pid\": 7, \"note\": \"" +
                     std::string(2 * kMaxTextLine, 'x') + "\", \"receive_buffer_bytes\": 4096}]";
  Evidence evidence;
  ingest({"one.json", "", std::move(json), false}, Context(evidence, builtin_rulebook()));
  EXPECT_TRUE(evidence.problems.empty());
  ASSERT_EQ(evidence.hosts.size(), 1u);
  EXPECT_NE(last_setting(evidence.hosts[0].ports[0].settings, "mroce.receive_buffer_bytes"), nullptr);
}

}  // namespace
}  // namespace mroce::doctor
