#include "doctor/suite/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace mroce::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SuiteOptions options_with(std::string_view hosts) {
  SuiteOptions out;
  out.hosts = parse_hosts(hosts).value();
  out.mroce = "mroce";
  return out;
}

RailsOfHosts same_rails(const SuiteOptions& options, const std::vector<Rail>& rails) {
  return RailsOfHosts(options.hosts.size(), rails);
}

std::string joined(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

TEST(ParseHosts, takes_names_with_and_without_addresses) {
  const auto hosts = parse_hosts("A, root@B ,C=10.0.0.3");
  ASSERT_TRUE(hosts);
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[0].address, "A");
  EXPECT_EQ((*hosts)[1].name, "root@B");
  EXPECT_EQ((*hosts)[1].address, "B");
  EXPECT_EQ((*hosts)[2].address, "10.0.0.3");
}

TEST(ParseHosts, refuses_options_doubles_and_lonely_hosts) {
  for (const char* bad : {"", "A", "A,A", "A,,B", "A,-oProxyCommand=id", "A,B=-x", "A,B;id", "A,B="})
    EXPECT_FALSE(parse_hosts(bad)) << bad;
}

TEST(ParseRails, takes_devices_with_gids) {
  const auto rails = parse_rails("mlx5_0,mlx5_1@3");
  ASSERT_TRUE(rails);
  EXPECT_EQ((*rails)[0].gid, std::nullopt);
  EXPECT_EQ((*rails)[1].device, "mlx5_1");
  EXPECT_EQ((*rails)[1].gid, 3u);
  EXPECT_TRUE(parse_rails("auto").value().empty());
  for (const char* bad : {"", "mlx5_0@", "mlx5_0@x", "mlx5_0@256", "-d"})
    EXPECT_FALSE(parse_rails(bad)) << bad;
}

TEST(ParseTests, names_those_that_there_are) {
  EXPECT_THAT(parse_tests("incast,single,incast").value(), ElementsAre(TestKind::kIncast, TestKind::kSingle));
  EXPECT_THAT(parse_tests("singel").error(), HasSubstr("there are single, multi"));
}

TEST(Plan, single_is_a_bandwidth_and_a_latency_test_from_the_second_host_to_the_first) {
  SuiteOptions options = options_with("A=10.0.0.1,B");
  const TestPlan plan = plan_test(options, same_rails(options, {{"mlx5_0", 3}}), TestKind::kSingle, 0);
  ASSERT_EQ(plan.steps.size(), 2u);
  const Flow& flow = plan.steps[0].flows.at(0);
  EXPECT_EQ(flow.server_host, 0u);
  EXPECT_EQ(flow.client_host, 1u);
  EXPECT_EQ(joined(flow.server), "ib_write_bw -F --report_gbits -s 65536 -D 5 -d mlx5_0 -x 3 -p 18515");
  EXPECT_EQ(joined(flow.client), joined(flow.server) + " 10.0.0.1");
  EXPECT_THAT(joined(plan.steps[1].flows.at(0).client), HasSubstr("ib_write_lat -F -s 8 -n 1000"));
}

TEST(Plan, each_test_differs_where_it_should) {
  SuiteOptions options = options_with("A,B,C");
  options.iterations = 100;
  options.qps = 16;
  const auto rails = same_rails(options, {{"mlx5_0", std::nullopt}, {"mlx5_1", std::nullopt}});
  EXPECT_THAT(joined(plan_test(options, rails, TestKind::kMulti, 0).steps[0].flows[0].client),
              HasSubstr("-n 100 -q 16"));
  EXPECT_THAT(joined(plan_test(options, rails, TestKind::kBidirectional, 0).steps[0].flows[0].client),
              HasSubstr(" -b "));
  const auto incast = plan_test(options, rails, TestKind::kIncast, 0).steps[0].flows;
  ASSERT_EQ(incast.size(), 2u);
  EXPECT_EQ(incast[0].client_host, 1u);
  EXPECT_EQ(incast[1].client_host, 2u);
  EXPECT_NE(incast[0].port, incast[1].port);
  const auto all = plan_test(options, rails, TestKind::kRails, 0).steps[0].flows;
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(joined(all[1].client), HasSubstr("-d mlx5_1"));
}

TEST(Plan, skips_with_a_reason) {
  SuiteOptions options = options_with("A,B");
  const auto one = same_rails(options, {{"mlx5_0", 3}});
  EXPECT_EQ(plan_test(options, one, TestKind::kIncast, 0).skipped, "N:1 takes three hosts or more");
  EXPECT_THAT(plan_test(options, one, TestKind::kRails, 0).skipped, HasSubstr("one rail"));
  EXPECT_EQ(plan_test(options, {{{"mlx5_0", 3}}, {}}, TestKind::kSingle, 0).skipped,
            "no RDMA device is known on B");
}

TEST(Plan, no_two_flows_of_two_repetitions_share_a_port) {
  const SuiteOptions options = options_with("A,B,C,D");
  const auto rails = same_rails(options, {{"mlx5_0", 3}});
  std::set<uint32_t> ports;
  for (uint32_t repetition = 0; repetition < 5; ++repetition) {
    const auto plan = plan_test(options, rails, TestKind::kIncast, repetition);
    for (const Flow& flow : plan.steps[0].flows) EXPECT_TRUE(ports.insert(flow.port).second);
  }
}

TEST(Plan, statistics_are_asked_for_under_mroce_run_and_nowhere_else) {
  SuiteOptions options = options_with("A,B");
  const auto rails = same_rails(options, {{"mroce0", 1}});
  const auto server = [&](const Words& prefix) {
    options.prefix = prefix;
    return joined(plan_test(options, rails, TestKind::kMulti, 0).steps[0].flows[0].server);
  };
  EXPECT_THAT(server({"/opt/bin/mroce", "run", "--loss", "1", "--"}),
              HasSubstr("/opt/bin/mroce run --json - --loss 1 -- ib_write_bw"));
  EXPECT_THAT(server({"mroce", "run", "--json", "x", "--"}), HasSubstr("mroce run --json x -- ib_write_bw"));
  EXPECT_THAT(server({"numactl", "-N", "1"}), HasSubstr("numactl -N 1 ib_write_bw"));
}

TEST(Plan, the_collective_gets_all_hosts) {
  SuiteOptions options = options_with("A=10.0.0.1,B=10.0.0.2");
  EXPECT_EQ(joined(collective_command(options, "osu_allreduce")),
            "mpirun -np 2 --host 10.0.0.1,10.0.0.2 osu_allreduce");
  options.collective = {"prun", "-n{np}", "-H", "{hosts}"};
  EXPECT_EQ(joined(collective_command(options, "")), "prun -n2 -H 10.0.0.1,10.0.0.2");
}

}  // namespace
}  // namespace mroce::doctor
