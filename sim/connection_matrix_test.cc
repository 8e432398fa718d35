#include "sim/connection_matrix.h"

#include <gtest/gtest.h>

#include "core/base/rng.h"
#include "sim/text_lines.h"
#include "sim/workload_replay.h"

namespace mroce::sim {
namespace {

std::string data(const std::string& file) {
  return std::string(MROCE_TEST_DATA) + "/" + file;
}

TEST(ConnectionMatrix, reads_an_incast) {
  const auto workload = read_connection_matrix(data("incast64_2M.cm"));
  ASSERT_TRUE(workload) << workload.error();
  EXPECT_EQ(workload->hosts, 128u);
  ASSERT_EQ(workload->flows.size(), 64u);
  EXPECT_EQ(workload->flows[63].id, 64u);
  EXPECT_EQ(workload->flows[2].source, 4u);
  for (const Flow& flow : workload->flows) {
    EXPECT_EQ(flow.destination, 0u);
    EXPECT_EQ(flow.bytes, 2'097'152u);
    EXPECT_EQ(flow.start, 0);
  }
  EXPECT_EQ(workload->scheduler, nullptr);
}

TEST(ConnectionMatrix, fires_triggers_of_every_kind) {
  auto workload = read_connection_matrix(data("triggers.cm"));
  ASSERT_TRUE(workload) << workload.error();
  EXPECT_EQ(workload->flows[1].priority, 3u);
  EXPECT_EQ(workload->flows[1].start, 2501);
  WorkloadReplay replay(*workload);
  const auto started = [&](uint32_t id) { return workload->flows[id - 1].started; };
  constexpr SimTime kAck = WorkloadReplay::kAck;
  constexpr SimTime kSignal = WorkloadReplay::kSignal;
  const SimTime both = 1000 + kAck + kSignal;  // flow 1 was sent; flow 2 comes later and changes nothing
  EXPECT_EQ(started(3), both);
  EXPECT_EQ(started(4), both);
  EXPECT_EQ(started(5), both + 1000 + kAck + kSignal);  // the first signal of the multishot
  EXPECT_EQ(started(6), started(5));                    // the second, at the same moment
  const SimTime barrier = started(5) + 5000 + kSignal;  // flow 5 is the slower one
  EXPECT_EQ(started(7), barrier);
  EXPECT_EQ(started(9), barrier);
  EXPECT_EQ(started(8), barrier + 100 + kAck);  // on one host: at once
}

TEST(ConnectionMatrix, numbers_flows_that_have_no_ids) {
  const auto workload = parse_connection_matrix("x.cm",
                                                "Nodes 4\r\nConnections 2\r\n0->1 start 5 size 7\r\n\r\n"
                                                "  2->3\tstart 1e3 size 8");
  ASSERT_TRUE(workload) << workload.error();
  EXPECT_EQ(workload->flows[0].id, 1u);
  EXPECT_EQ(workload->flows[1].id, 2u);
  EXPECT_EQ(workload->flows[1].start, 1000);
}

struct Refusal {
  const char* text;
  const char* says;
};

TEST(ConnectionMatrix, says_where_and_what_is_wrong) {
  const std::string head = "Nodes 4\nConnections 1\n";
  const Refusal refusals[] = {
      {"", "x.cm:1: there is no line 'Nodes N'"},
      {"Nodes 4\n", "x.cm:1: there is no line 'Connections N'"},
      {"Nodes 4\nConnections 0\n", "x.cm:2: there are no flows"},
      {"Nodes 1\n", "x.cm:1: Nodes must be 2 or more"},
      {"Nodes four\n", "x.cm:1: Nodes needs one whole number up to 1048576"},
      {"Nodes 4 5\n", "x.cm:1: Nodes needs one whole number"},
      {"Nodes 4\nNodes 4\n", "x.cm:2: Nodes is in line 1 already"},
      {"0->1 id 1 start 0 size 1\n", "x.cm:1: a flow before 'Nodes N'"},
      {"Nodes 4\nConnections 2\n0->1 start 0 size 1\n",
       "x.cm:2: Connections says 2, but the file has 1 flows"},
      {"Nodes 4\nConnections 1\nTriggers 1\n0->1 start 0 size 1\n",
       "x.cm:3: Triggers says 1, but the file has 0"},
      {"Nodes 4\nConnections 1\nFailures 1\n0->1 start 0 size 1\n", "x.cm:3: Failures says 1"},
      {"Nodes 4\nfailure switch_type TOR switch_id 0 link_id 0\n", "x.cm:2: failures are not supported yet"},
      {"Connectoins 1\n", "x.cm:1: 'Connectoins' begins no line of a connection matrix"},
      {"+0->4 start 0 size 1\n", "x.cm:3: host 4 is not below Nodes 4; the last host is 3"},
      {"+0->0 start 0 size 1\n", "x.cm:3: host 0 sends to itself"},
      {"+0->x start 0 size 1\n", "x.cm:3: '0->x' should be two hosts"},
      {"+0->-1 start 0 size 1\n", "x.cm:3: '0->-1' should be two hosts"},
      {"+0->1 size 1\n", "x.cm:3: the flow has neither 'start' nor 'trigger'"},
      {"+0->1 start 0\n", "x.cm:3: the flow has no 'size'"},
      {"+0->1 start 0 size 0\n",
       "x.cm:3: 'size' needs a whole number from 1 to 1099511627776 behind it, not '0'"},
      {"+0->1 start 0 size 99999999999999\n", "x.cm:3: 'size' needs a whole number"},
      {"+0->1 start 0 size\n", "x.cm:3: 'size' needs a whole number from 1 to 1099511627776 behind it"},
      {"+0->1 start -1 size 1\n", "x.cm:3: 'start' needs picoseconds"},
      {"+0->1 start nan size 1\n", "x.cm:3: 'start' needs picoseconds"},
      {"+0->1 start 1e300 size 1\n", "x.cm:3: 'start' needs picoseconds"},
      {"+0->1 start 0 start 0 size 1\n", "x.cm:3: 'start' stands here twice"},
      {"+0->1 id 0 start 0 size 1\n", "x.cm:3: 'id' needs a whole number from 1"},
      {"+0->1 start 0 size 1 prio 8\n", "x.cm:3: 'prio' needs a whole number from 0 to 7"},
      {"+0->1 start 0 size 1 addon\n", "x.cm:3: unknown word 'addon'; a flow has id, start"},
      {"+0->1 start 0 size 1 trigger 1\n", "x.cm:3: the flow has both"},
      {"+0->1 start 0 size 1 send_done_trigger 9\n", "x.cm:3: there is no trigger with id 9"},
      {"Nodes 4\nConnections 2\n0->1 id 5 start 0 size 1\n0->2 id 5 start 0 size 1\n",
       "x.cm:4: flow id 5 is taken in line 3"},
      {"Nodes 4\nConnections 2\n0->1 id 5 start 0 size 1\n0->2 start 0 size 1\n",
       "x.cm:4: this flow has no id"},
      {"+trigger id 1\n", "x.cm:3: the trigger has no kind"},
      {"+trigger oneshot\n", "x.cm:3: the trigger has no 'id'"},
      {"+trigger id 1 oneshot barrier\n", "x.cm:3: the trigger has two kinds"},
      {"+trigger id 1 barrier\n", "x.cm:3: a barrier needs 'count N'"},
      {"+trigger id 1 barrier count 0\n", "x.cm:3: 'count' needs a whole number from 1"},
      {"+trigger id 1 sometimes\n", "x.cm:3: unknown word 'sometimes'"},
      {"Nodes 4\nConnections 1\nTriggers 2\n0->1 start 0 size 1\ntrigger id 1 oneshot\ntrigger id 1 "
       "oneshot\n",
       "x.cm:6: trigger id 1 is taken in line 5"},
      {"Nodes 4\nConnections 1\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 1\ntrigger id 1 oneshot\n",
       "x.cm:5: trigger 1 starts no flow"},
      {"Nodes 4\nConnections 1\nTriggers 1\n0->1 trigger 1 size 1\ntrigger id 1 oneshot\n",
       "x.cm:5: trigger 1 cannot start all its flows: it needs 1 signals and 0 flows"},
      {"Nodes 4\nConnections 2\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 1\n0->1 trigger 1 size 1\n"
       "trigger id 1 barrier count 2\n",
       "x.cm:6: trigger 1 cannot start all its flows: it needs 2 signals and 1 flows"},
      {"Nodes 4\nConnections 3\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 1\n0->1 trigger 1 size 1\n"
       "0->1 trigger 1 size 1\ntrigger id 1 multishot\n",
       "x.cm:7: trigger 1 cannot start all its flows: it needs 2 signals and 1 flows"},
      {"Nodes 4\nConnections 2\nTriggers 2\n0->1 trigger 1 size 1 send_done_trigger 2\n"
       "1->0 trigger 2 size 1 send_done_trigger 1\ntrigger id 1 oneshot\ntrigger id 2 oneshot\n",
       "x.cm:4: flow 1 can never start"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string text = refusal.text[0] == '+' ? head + (refusal.text + 1) : refusal.text;
    const auto workload = parse_connection_matrix("x.cm", text);
    ASSERT_FALSE(workload) << text;
    EXPECT_EQ(workload.error().substr(0, std::string(refusal.says).size()), refusal.says) << text;
  }
}

TEST(ConnectionMatrix, names_a_file_that_it_cannot_read) {
  const auto missing = read_connection_matrix("/does/not/exist.cm");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error(), "/does/not/exist.cm: cannot be opened: No such file or directory");
  EXPECT_FALSE(read_connection_matrix("/"));
  EXPECT_FALSE(read_text(data("incast64_2M.cm"), 100));
}

TEST(ConnectionMatrix, survives_truncated_and_damaged_files) {
  for (const char* file : {"triggers.cm", "incast64_2M.cm"}) {
    const auto text = read_text(data(file));
    ASSERT_TRUE(text);
    for (size_t length = 0; length < text->size(); length += 1 + length / 400) {
      const auto cut = parse_connection_matrix("x.cm", text->substr(0, length));
      if (!cut) {
        EXPECT_EQ(cut.error().substr(0, 5), "x.cm:");
      }
    }
    Rng rng(11);
    for (int round = 0; round < 3000; ++round) {
      std::string damaged = *text;
      for (uint64_t changes = rng.between(1, 8); changes > 0; --changes) {
        const size_t at = rng.below(damaged.size());
        switch (rng.below(4)) {
          case 0:
            damaged[at] = static_cast<char>(rng.next());
            break;
          case 1:
            damaged[at] = static_cast<char>('0' + rng.below(10));
            break;
          case 2:
            damaged.erase(at, rng.below(20));
            break;
          default:
            damaged.insert(at, damaged.substr(rng.below(damaged.size()), rng.below(30)));
        }
      }
      const auto workload = parse_connection_matrix("x.cm", damaged);
      if (!workload) {
        EXPECT_EQ(workload.error().substr(0, 5), "x.cm:");
        continue;
      }
      for (const Flow& flow : workload->flows) {
        ASSERT_LT(flow.source, workload->hosts);
        ASSERT_LT(flow.destination, workload->hosts);
        ASSERT_NE(flow.source, flow.destination);
        ASSERT_GT(flow.bytes, 0u);
      }
    }
  }
}

TEST(ConnectionMatrix, does_not_repeat_hostile_bytes_in_its_errors) {
  std::string text = "\x1b[2J";
  text += std::string(1'000'000, 'x');
  const auto workload = parse_connection_matrix("x.cm", text);
  ASSERT_FALSE(workload);
  EXPECT_LT(workload.error().size(), 300u);
  for (const char c : workload.error()) EXPECT_TRUE(c >= ' ' && c <= '~');
}

}  // namespace
}  // namespace mroce::sim
