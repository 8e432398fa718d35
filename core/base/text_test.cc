#include "core/base/text.h"

#include <gtest/gtest.h>

namespace mroce {
namespace {

TEST(Printable, keeps_printable_ascii_and_nothing_else) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable(" az~"), " az~");
  EXPECT_EQ(printable("a\x1b[1m\n\t\x7f"), "a?[1m???");
  EXPECT_EQ(printable("\xc3\xa9\xff"), "???");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "?x");
}

TEST(Printable, says_that_it_cut) {
  EXPECT_EQ(printable("12345", 5), "12345");
  EXPECT_EQ(printable("123456", 5), "12345...");
  EXPECT_EQ(printable(std::string(1000, 'x')), std::string(300, 'x') + "...");
}

TEST(MarkupText, cannot_end_an_element_or_an_attribute) {
  EXPECT_EQ(markup_text("a<b>&\"'c"), "a&lt;b&gt;&amp;&quot;&#39;c");
  EXPECT_EQ(markup_text("→ §1\n"), "→ §1\n");
  EXPECT_EQ(markup_text("&amp;"), "&amp;amp;");
}

}  // namespace
}  // namespace mroce
