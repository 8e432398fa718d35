#include "sim/flow_results.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace mroce::sim {
namespace {

Flow done(uint32_t id, uint64_t bytes, SimTime started, SimTime received, SimTime finished) {
  Flow flow;
  flow.id = id;
  flow.source = id;
  flow.destination = id + 1;
  flow.bytes = bytes;
  flow.started = started;
  flow.received = received;
  flow.finished = finished;
  return flow;
}

TEST(FlowResults, the_table_has_a_line_a_flow_and_blanks_for_what_did_not_happen) {
  const std::vector<Flow> flows = {
      done(1, 1000, 0, 1'234'567, 2'000'001),
      done(2, 500, 5'000'000, 6'000'000, kEndOfTime),
      done(3, 10, kEndOfTime, kEndOfTime, kEndOfTime),
  };
  std::ostringstream out;
  write_flow_table(out, flows, [](const Flow&) { return SimTime{1'000'000}; });
  EXPECT_EQ(out.str(),
            "id,src,dst,bytes,start_us,fct_us,received_us,slowdown\n"
            "1,1,2,1000,0.000000,2.000001,1.234567,2.0000\n"
            "2,2,3,500,5.000000,,1.000000,\n"
            "3,3,4,10,,,,\n");
}

TEST(FlowResults, percentiles_are_nearest_rank) {
  std::vector<SimTime> values;
  EXPECT_EQ(nearest_rank(values, 50), 0);
  for (SimTime i = 1; i <= 200; ++i) values.push_back(i);
  EXPECT_EQ(nearest_rank(values, 50), 100);
  EXPECT_EQ(nearest_rank(values, 99), 198);
  EXPECT_EQ(nearest_rank(values, 100), 200);
  EXPECT_EQ(nearest_rank(values, 0), 1);
  values.resize(5);
  EXPECT_EQ(nearest_rank(values, 50), 3);
  EXPECT_EQ(nearest_rank(values, 99), 5);
}

TEST(FlowResults, jain_is_one_for_equals_and_one_nth_for_a_monopoly) {
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{5, 5, 5, 5}), 1);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{8, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{1, 2, 3}), 36.0 / 42.0);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{}), 0);
}

TEST(FlowResults, the_summary_is_of_flows_that_finished) {
  std::vector<Flow> flows;
  for (uint32_t i = 1; i <= 4; ++i) flows.push_back(done(i, 1000, 1'000'000, 1, 1'000'000 + i * 1'000'000));
  flows.push_back(done(5, 1000, 1'000'000, kEndOfTime, kEndOfTime));
  const FlowSummary summary = summarise(flows);
  EXPECT_EQ(summary.flows, 5u);
  EXPECT_EQ(summary.finished, 4u);
  EXPECT_DOUBLE_EQ(summary.fct_mean_us, 2.5);
  EXPECT_DOUBLE_EQ(summary.fct_p50_us, 2);
  EXPECT_DOUBLE_EQ(summary.fct_p99_us, 4);
  EXPECT_DOUBLE_EQ(summary.fct_max_us, 4);
  EXPECT_DOUBLE_EQ(summary.goodput_bps, 4000 * 8 / 4e-6);
  EXPECT_EQ(summarise({}).finished, 0u);
}

TEST(FlowResults, a_flow_alone_takes_its_serialisation_and_a_round_trip) {
  const IdealPath path{
      .rate_bps = 400'000'000'000, .payload_mtu = 4096, .packet_overhead = 64, .base_rtt = microseconds(12)};
  EXPECT_EQ(path.fct(4096), microseconds(12));
  EXPECT_EQ(path.fct(1), microseconds(12));
  EXPECT_EQ(path.fct(2 << 20), microseconds(12) + 511 * serialisation(4160, path.rate_bps));
}

}  // namespace
}  // namespace mroce::sim
