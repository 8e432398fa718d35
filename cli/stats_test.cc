#include "cli/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace mroce::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::filesystem::path file_in(const StatsFolder& folder, const std::string& pid) {
  std::string path = folder.file_pattern();
  return path.replace(path.find("%p"), 2, pid);
}

json one_process() {
  return json::parse(R"({"schema": "mroce-stats-1", "pid": 42, "program": "ib_write_bw",
    "impairment": {"out": {"offered": 100000, "dropped": 1012, "dropped_loss": 1000, "dropped_down": 12}},
    "connections": [{"local": "127.0.0.1", "remote": "127.0.0.1", "remote_port": 61440, "state": "open", "payload_mtu_bytes": 4096,
      "goodput_sent_gbps": 21.5, "goodput_received_gbps": 0, "counters": {"retransmissions": 1040, "duplicates": 28, "rnr": 3},
      "paths": [{"id": 0, "plane": 1, "gid_index": 5, "state": "active", "srtt_ns": 83100, "cwnd_bytes": 262144,
        "counters": {"sent": 25000, "acked": 24700, "lost": 300, "retransmitted": 310, "spurious": 10,
          "ce_marked": 250, "rx_reported": 24700}}]}]})");
}

TEST(StatsText, shows_the_impairment_the_connection_and_each_path) {
  const std::string text = stats_text(json::array({one_process()}));
  EXPECT_THAT(text, HasSubstr("ib_write_bw (process 42)"));
  EXPECT_THAT(text, HasSubstr("100,000 datagrams offered to be sent, 1,012 dropped (1.01 %), dropped_loss "
                              "1,000, dropped_down 12"));
  EXPECT_THAT(text, HasSubstr("sent 21.50 Gbit/s"));
  EXPECT_THAT(text, HasSubstr("1,040 packets sent again, 28 duplicates received, 3 waits"));
  EXPECT_THAT(text, testing::ContainsRegex(
                        "0 +1 +5 +25,000 +24,700 +300 +310 +10 +83.1 us +256 KiB +1.01 % +active"));
}

TEST(StatsText, survives_every_missing_or_wrong_member) {
  const json whole = one_process();
  const json flat = whole.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    for (const json& wrong : {json(), json(-1), json("text"), json::array({1}), json::object()}) {
      json damaged = flat;
      damaged[pointer] = wrong.is_primitive() ? wrong : json();
      EXPECT_FALSE(stats_text(json::array({damaged.unflatten()})).empty()) << pointer;
    }
  }
  for (const char* member : {"impairment", "connections", "pid"}) {
    for (const json& wrong :
         {json(), json(7), json("x"), json::array({1, "x", nullptr}), json::object({{"a", 1}})}) {
      json damaged = whole;
      damaged[member] = wrong;
      EXPECT_FALSE(stats_text(json::array({damaged})).empty()) << member;
    }
  }
}

TEST(StatsText, a_trace_is_named_with_what_is_missing_in_it) {
  json process = one_process();
  EXPECT_THAT(stats_text(json::array({process})), testing::Not(HasSubstr("trace:")));
  process["trace"] = {
      {"file", "/tmp/x"}, {"packets", 1234U}, {"bytes", 2048U}, {"left_out", 0U}, {"error", nullptr}};
  EXPECT_THAT(stats_text(json::array({process})), HasSubstr("  trace: /tmp/x, 1,234 packets, 2.0 KiB\n"));
  process["trace"]["left_out"] = 99U;
  process["trace"]["error"] = "cannot write it: No space left on device";
  EXPECT_THAT(stats_text(json::array({process})),
              HasSubstr("2.0 KiB; 99 packets are missing: cannot write it: No space left on device\n"));
}

TEST(StatsText, says_so_when_there_is_nothing) {
  EXPECT_THAT(stats_text(json::array()), HasSubstr("no statistics"));
}

TEST(StatsFolder, collects_in_order_of_processes_and_skips_what_is_no_json) {
  auto folder = StatsFolder::make();
  ASSERT_TRUE(folder);
  std::ofstream(file_in(*folder, "101")) << R"({"pid": 101})";
  std::ofstream(file_in(*folder, "99")) << R"({"pid": 99})";
  std::ofstream(file_in(*folder, "100")) << R"({"pid": 10)";
  std::ofstream(file_in(*folder, "102")) << "[]";
  const json all = folder->collect();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["pid"], 99);
  EXPECT_EQ(all[1]["pid"], 101);
}

TEST(StatsFolder, leaves_nothing_behind) {
  std::filesystem::path where;
  {
    auto folder = StatsFolder::make();
    ASSERT_TRUE(folder);
    std::ofstream(file_in(*folder, "1")) << "{}";
    where = std::filesystem::path(folder->file_pattern()).parent_path();
    EXPECT_TRUE(std::filesystem::exists(where));
  }
  EXPECT_FALSE(std::filesystem::exists(where));
}

}  // namespace
}  // namespace mroce::cli
