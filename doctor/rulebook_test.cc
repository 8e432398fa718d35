#include "doctor/rulebook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/data.h"

namespace mroce::doctor {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view rules, std::string_view thresholds = kThresholdsToml) {
  const auto book = load_rulebook(kCountersToml, thresholds, rules);
  return book ? "" : book.error();
}

std::string rule_with(const std::string& line) {
  return "[[rule]]\nid = \"x\"\nnumber = 1\nlayer = \"host\"\nseverity = \"fault\"\nconfidence = "
         "\"high\"\nsentence = \"s\"\n"
         "next = \"n\"\nfix = \"f\"\n" +
         line + "\n";
}

TEST(Rulebook, the_built_in_one_is_whole) {
  const Rulebook& book = builtin_rulebook();
  EXPECT_GT(book.rules.size(), 63u);
  EXPECT_NE(book.rule("pfc-storm"), nullptr);
  EXPECT_EQ(book.rule("34"), book.rule("fabric-congestion"));
  for (int number = 1; number <= 62; ++number)
    EXPECT_NE(book.rule(std::to_string(number)), nullptr) << number;
}

TEST(Rulebook, mistakes_in_the_data_are_named) {
  EXPECT_EQ(error_of(rule_with("source = \"s\"\nwhen = \"hosts == 2\"")), "");
  EXPECT_THAT(error_of(rule_with("when = \"hosts == 2\"")), HasSubstr("source"));
  EXPECT_THAT(error_of(rule_with("source = \"s\"\nwhen = \"host == \"")), HasSubstr("missing"));
  EXPECT_THAT(error_of(rule_with("source = \"s\"\nwhen = \"any(port, d(nonsense) > 0)\"")),
              HasSubstr("nonsense"));
  EXPECT_THAT(error_of(rule_with("source = \"s\"\nwhen = \"hosts > limit.nonsense\"")),
              HasSubstr("no threshold"));
  EXPECT_THAT(error_of(rule_with("source = \"s\"\nwhen = \"hsots > 2\"")), HasSubstr("hsots"));
  EXPECT_THAT(error_of(rule_with("source = \"s\"\nwhen = \"hosts == 2\"\noutranks = [\"y\"]")),
              HasSubstr("no rule"));
  EXPECT_THAT(error_of("[[rule"), HasSubstr("rules.toml:1"));
  EXPECT_THAT(error_of("", "a = { value = 1 }"), HasSubstr("no source"));
}

TEST(VendorMap, one_name_is_found_for_its_vendor_with_its_priority) {
  const VendorMap& vendors = builtin_rulebook().vendors;
  const auto pause = vendors.find("mlx5", "ethtool", "rx_prio3_pause_duration");
  ASSERT_EQ(pause.size(), 1u);
  EXPECT_EQ(pause[0].entry->canonical, "rx_pause_us");
  EXPECT_EQ(pause[0].priority, 3);
  EXPECT_EQ(vendors.find("irdma", "hw_counters", "RNR sent").size(), 1u);
  EXPECT_EQ(vendors.find("irdma", "ethtool", "rx_priority_5_xoff.nic")[0].priority, 5);
  EXPECT_EQ(vendors.find("mlx5", "hw_counters", "packet_seq_err")[0].entry->width, 32);
  EXPECT_EQ(vendors.find("mlx5", "counters", "port_xmit_data")[0].entry->scale, 4);
  EXPECT_TRUE(vendors.find("mlx5", "ethtool", "rx_prio33_pause").empty());
  EXPECT_TRUE(vendors.find("bnxt", "hw_counters", "packet_seq_err").empty());
  EXPECT_EQ(vendors.vendor_of_driver("mlx5_core"), "mlx5");
  EXPECT_EQ(vendors.vendor_of_driver("bnxt_re0"), "bnxt");
}

TEST(VendorMap, every_name_of_every_vendor_is_found_again) {
  const VendorMap& vendors = builtin_rulebook().vendors;
  for (const VendorName& name : vendors.names()) {
    std::string text = name.name;
    if (const size_t at = text.find("{N}"); at != std::string::npos) text.replace(at, 3, "4");
    EXPECT_FALSE(vendors.find(name.vendor, name.from, text).empty()) << name.vendor << " " << text;
  }
}

}  // namespace
}  // namespace mroce::doctor
