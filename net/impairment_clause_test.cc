#include "net/impairment_clause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mroce::net {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ImpairmentClauses, the_full_example_is_understood) {
  const auto clauses = parse_clauses(
      "loss=1%,burst=0.5%:8,reorder=2%:200us,duplicate=1%,corrupt=0.1%,delay=100us:20us,rate=1G,queue=1M,ce="
      "1%,seed=7,"
      "dir=out,path=2");
  ASSERT_TRUE(clauses.has_value()) << clauses.error();
  ASSERT_EQ(clauses->size(), 1u);
  const ImpairmentClause& clause = clauses->front();
  EXPECT_DOUBLE_EQ(clause.loss, 0.01);
  EXPECT_DOUBLE_EQ(clause.burst_enter, 0.005);
  EXPECT_DOUBLE_EQ(clause.burst_packets, 8);
  EXPECT_DOUBLE_EQ(clause.reorder, 0.02);
  EXPECT_EQ(clause.reorder_by, micros(200));
  EXPECT_DOUBLE_EQ(clause.duplicate, 0.01);
  EXPECT_DOUBLE_EQ(clause.corrupt, 0.001);
  EXPECT_EQ(clause.delay, micros(100));
  EXPECT_EQ(clause.jitter, micros(20));
  EXPECT_EQ(clause.rate_bps, 1'000'000'000u);
  EXPECT_EQ(clause.queue_bytes, 1u << 20);
  EXPECT_DOUBLE_EQ(clause.ce, 0.01);
  EXPECT_EQ(clause.seed, 7u);
  EXPECT_EQ(clause.path, 2);
  EXPECT_TRUE(clause.out);
  EXPECT_FALSE(clause.in);
}

TEST(ImpairmentClauses, several_clauses_with_windows_and_directions) {
  const auto clauses =
      parse_clauses(" down=1s-3s, down=5s-, path=1 ; loss=0.02, dir=both, plane=3, during=500ms-1.5s;");
  ASSERT_TRUE(clauses.has_value()) << clauses.error();
  ASSERT_EQ(clauses->size(), 2u);
  const auto& down = (*clauses)[0].down;
  ASSERT_EQ(down.size(), 2u);
  EXPECT_TRUE(down[0].contains(seconds(1)));
  EXPECT_FALSE(down[0].contains(seconds(3)));
  EXPECT_TRUE(down[1].contains(seconds(100000)));
  EXPECT_TRUE((*clauses)[1].in && (*clauses)[1].out);
  EXPECT_EQ((*clauses)[1].plane, 3u);
  EXPECT_EQ((*clauses)[1].during.begin, millis(500));
  EXPECT_EQ((*clauses)[1].during.end, millis(1500));
}

TEST(ImpairmentClauses, nothing_is_no_impairment) {
  EXPECT_TRUE(parse_clauses("")->empty());
  EXPECT_TRUE(parse_clauses(" ")->empty());
}

TEST(ImpairmentClauses, mistakes_are_named_with_a_hint) {
  const std::vector<std::pair<const char*, const char*>> mistakes = {
      {"los=1%", "'los' is no impairment; there are loss"},
      {"loss", "'loss' has no '='"},
      {"loss=", "loss=: not a probability; write 1% or 0.01"},
      {"loss=abc", "not a probability"},
      {"loss=5", "above 100%; write 5%"},
      {"loss=101%", "above 100%"},
      {"loss=-1%", "not a probability"},
      {"loss=1%%", "not a probability"},
      {"loss=nan", "not a probability"},
      {"loss=1e-3", "not a probability"},
      {"loss=1%,,ce=1%", "has no '='"},
      {"burst=1%", "mean length"},
      {"burst=1%:0", "mean length"},
      {"reorder=1%", "how long"},
      {"delay=100", "'100' is not a time; write 100us"},
      {"delay=61s", "too long"},
      {"delay=10us:20us", "varies by more than itself"},
      {"rate=1", "not a rate"},
      {"rate=1T", "not a rate"},
      {"queue=1M", "impairs nothing"},
      {"loss=1%,queue=1M", "queue without a rate"},
      {"rate=1G,queue=0", "not a size"},
      {"path=2", "impairs nothing"},
      {"loss=1%,path=32", "must be 0 to 31"},
      {";", "no clause between the semicolons"},
      {" ; ", "no clause between the semicolons"},
      {"loss=1%,loss=90%", "loss stands twice in a clause; name it once, or begin another clause with ';'"},
      {"loss=1%,path=1,path=2", "path stands twice"},
      {"rate=1G queue=1M", "'rate=1G queue=1M' has two '='; separate items by commas: rate=1G,queue=1M"},
      {"rate=1G ,  loss=1%\t path=1", "separate items by commas: loss=1%,path=1"},
      {"loss=1%,plane=64", "must be 0 to 63"},
      {"loss=1%,dir=up", "must be out, in or both"},
      {"down=3s", "needs a '-'"},
      {"down=3s-1s", "ends before it begins"},
      {"down=1-3", "not a time"},
      {"loss=1%,seed=x", "seed=x"},
  };
  for (const auto& [text, cause] : mistakes) {
    const auto clauses = parse_clauses(text);
    ASSERT_FALSE(clauses.has_value()) << text;
    EXPECT_THAT(clauses.error(), StartsWith("impair: ")) << text;
    EXPECT_THAT(clauses.error(), HasSubstr(cause)) << text;
  }
}

TEST(ImpairmentClauses, every_item_of_the_table_is_known_to_the_parser_and_named_by_its_error) {
  const std::string listing = parse_clauses("nonsense=1").error();
  for (const ImpairmentItem& item : impairment_items()) {
    const auto clauses = parse_clauses(std::string(item.name) + "=?");
    ASSERT_FALSE(clauses.has_value());
    EXPECT_THAT(clauses.error(), ::testing::Not(HasSubstr("is no impairment"))) << item.name;
    EXPECT_THAT(listing, HasSubstr(std::string(item.name)));
  }
}

TEST(ImpairmentClauses, the_number_of_clauses_is_bounded) {
  std::string many;
  for (int i = 0; i < 65; ++i) many += "loss=1%;";
  EXPECT_THAT(parse_clauses(many).error(), HasSubstr("more than 64 clauses"));
}

}  // namespace
}  // namespace mroce::net
