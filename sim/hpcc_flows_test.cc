#include "sim/hpcc_flows.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/base/rng.h"
#include "sim/text_lines.h"

namespace mroce::sim {
namespace {

std::string data(const std::string& file) {
  return std::string(MROCE_TEST_DATA) + "/" + file;
}

TEST(HpccFlows, reads_flows_from_their_first_start_on) {
  const auto workload = read_hpcc_flows(data("hpcc_incast64_2M.txt"));
  ASSERT_TRUE(workload) << workload.error();
  EXPECT_EQ(workload->flows.size(), 64u);
  EXPECT_EQ(workload->hosts, 127u);  // one more than the last sender
  EXPECT_EQ(workload->origin, 2'000'000'000'000);
  for (const Flow& flow : workload->flows) {
    EXPECT_EQ(flow.start, 0);
    EXPECT_EQ(flow.priority, 3u);
    EXPECT_EQ(flow.bytes, 2'097'152u);
  }
  EXPECT_EQ(workload->destination_ports, std::vector<uint16_t>(64, 100));
}

TEST(HpccFlows, reads_lines_without_a_port) {
  const auto workload = parse_hpcc_flows("f", "2\n0 1 3 500 2.5\n1 2 0 7 2.000001\n", 3);
  ASSERT_TRUE(workload) << workload.error();
  EXPECT_EQ(workload->flows[0].start, 499'999'000'000);
  EXPECT_EQ(workload->flows[1].bytes, 7u);
  EXPECT_TRUE(workload->destination_ports.empty());
}

TEST(HpccFlows, says_where_and_what_is_wrong) {
  const std::pair<const char*, const char*> refusals[] = {
      {"", "f:1: the file should begin with the number of flows"},
      {"0\n", "f:1: the file should begin with the number of flows"},
      {"2\n0 1 3 100 5 2\n", "f:1: the file says 2 flows and has 1"},
      {"1\n0 1 3 100 5 2\n0 1 3 100 5 2\n", "f:3: more flows than the 1 of line 1"},
      {"2\n0 1 3 100 5 2\n0 1 3 5 2\n", "f:3: 5 words; a flow is"},
      {"1\n0 9 3 100 5 2\n", "f:2: dst should be a whole number up to 7, not '9'"},
      {"1\n0 1 8 100 5 2\n", "f:2: prio should be a whole number up to 7"},
      {"1\n0 1 3 65536 5 2\n", "f:2: dport should be a whole number up to 65535"},
      {"1\n0 1 3 100 0 2\n", "f:2: the flow has no bytes"},
      {"1\n0 0 3 100 5 2\n", "f:2: host 0 sends to itself"},
      {"1\n0 1 3 100 5 -2\n", "f:2: start_s should be seconds"},
      {"1\n0 1 3 100 5 inf\n", "f:2: start_s should be seconds"},
  };
  for (const auto& [text, says] : refusals) {
    const auto workload = parse_hpcc_flows("f", text, 8);
    ASSERT_FALSE(workload) << text;
    EXPECT_EQ(workload.error().substr(0, std::string(says).size()), says) << text;
  }
}

TEST(HpccFlows, writes_completion_times_as_hpcc_does) {
  auto workload = parse_hpcc_flows("f", "3\n0 1 3 100 500 2\n0 1 3 101 600 2\n300 0 3 100 5 2\n");
  ASSERT_TRUE(workload);
  for (Flow& flow : workload->flows) flow.started = flow.start;
  workload->flows[0].finished = 9'000'000;
  workload->flows[1].finished = 8'000'999;
  std::ostringstream out;
  write_hpcc_fct(out, *workload, [](const Flow& flow) { return nanos(static_cast<int64_t>(flow.bytes)); });
  EXPECT_EQ(out.str(),
            "0b000001 0b000101 10001 101 600 2000000000 8000 600\n"
            "0b000001 0b000101 10000 100 500 2000000000 9000 500\n");
}

TEST(HpccFlows, survives_truncated_and_damaged_files) {
  for (const char* file : {"hpcc_incast64_2M.txt", "hpcc_one100M.txt"}) {
    const auto text = read_text(data(file));
    ASSERT_TRUE(text);
    for (size_t length = 0; length < text->size(); ++length) {
      const auto cut = parse_hpcc_flows("f", text->substr(0, length));
      if (!cut) {
        EXPECT_EQ(cut.error().substr(0, 2), "f:");
      }
    }
    Rng rng(5);
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = *text;
      for (int change = 0; change < 3; ++change)
        damaged[rng.below(damaged.size())] =
            static_cast<char>(rng.chance(0.5) ? rng.next() : '0' + rng.below(10));
      const auto workload = parse_hpcc_flows("f", damaged, 128);
      if (!workload) continue;
      for (const Flow& flow : workload->flows) {
        ASSERT_LT(std::max(flow.source, flow.destination), 128u);
        ASSERT_GE(flow.start, 0);
      }
    }
  }
}

}  // namespace
}  // namespace mroce::sim
