#include "doctor/suite/harvest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mroce::doctor {
namespace {

std::string bandwidth_table(const std::string& average) {
  return "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n"
         " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
         " 65536      1000             0.00               " +
         average + "   \t\t     0.181\n";
}

EndOutput client(std::string text) {
  return {1, true, {}, 0, std::move(text)};
}

const Rulebook& book() {
  return builtin_rulebook();
}

TEST(HarvestStep, goodput_is_the_sum_of_all_clients) {
  TestResult test;
  const Step step{"bandwidth", std::vector<Flow>(2)};
  EXPECT_TRUE(harvest_step(step,
                           {client(bandwidth_table("40.5")),
                            {0, false, {}, 0, bandwidth_table("99")},
                            client(bandwidth_table("50"))},
                           book(), test));
  ASSERT_EQ(test.metrics.size(), 1u);
  EXPECT_DOUBLE_EQ(test.metrics[0].median(), 90.5);
  EXPECT_DOUBLE_EQ(test.payload_bytes, 2.0 * 65536 * 1000);
}

TEST(HarvestStep, a_client_without_a_result_leaves_no_sum) {
  TestResult test;
  EXPECT_FALSE(harvest_step({"bandwidth", std::vector<Flow>(2)},
                            {client(bandwidth_table("40.5")), client("Couldn't connect to A:18515\n")},
                            book(), test));
  EXPECT_TRUE(test.metrics.empty());
}

TEST(HarvestStep, latency_is_the_typical_one) {
  TestResult test;
  const std::string text =
      "                    RDMA_Write Latency Test\n"
      " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
      "99% "
      "percentile[usec]   99.9% percentile[usec] \n"
      " 8       1000          1.10           9.80         1.25     \t       1.30        \t0.20   \t\t2.50    "
      "\t\t9.80 \n";
  EXPECT_TRUE(harvest_step({"latency", std::vector<Flow>(1)}, {client(text)}, book(), test));
  EXPECT_DOUBLE_EQ(test.metric("latency", "us", false).median(), 1.25);
  EXPECT_DOUBLE_EQ(test.metric("latency_p99", "us", false).median(), 2.5);
}

TEST(HarvestCollective, osu_is_read) {
  TestResult test;
  EXPECT_TRUE(harvest_collective(
      "# OSU MPI Allreduce Latency Test\n# Size       Avg Latency(us)\n4   10.5\n1048576 912.25\n", book(),
      test));
  EXPECT_DOUBLE_EQ(test.metric("collective_latency", "us", false).median(), 912.25);
  EXPECT_FALSE(harvest_collective("4 10.5\n", book(), test));
}

TEST(HarvestCollective, nccl_tests_are_read) {
  TestResult test;
  const std::string text =
      "#                                                              out-of-place                       "
      "in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw "
      "  busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s) "
      " (GB/s)\n"
      "     1048576        262144     float     sum      -1    60.00   17.48   26.21      0    61.00   17.19 "
      "  25.78      0\n"
      "  1073741824     268435456     float     sum      -1  9000.00  119.30  178.96      0  9000.00  119.30 "
      " 178.96      0\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 102.7\n";
  EXPECT_TRUE(harvest_collective(text, book(), test));
  EXPECT_DOUBLE_EQ(test.metric("bus_bandwidth", "GB/s", true).median(), 178.96);
  EXPECT_DOUBLE_EQ(test.metric("average_bus_bandwidth", "GB/s", true).median(), 102.7);
}

Bundle bundle_with(std::vector<std::pair<std::string, std::string>> sources, Phase phase = Phase::kStart) {
  Bundle out;
  out.host = "A";
  Snapshot snapshot;
  snapshot.phase = phase;
  snapshot.time_ns = phase == Phase::kStart ? 1'700'000'000'000'000'000 : 1'700'000'005'000'000'000;
  for (auto& [name, text] : sources) {
    BundleSource source;
    source.name = name;
    source.text = text;
    snapshot.sources.push_back(std::move(source));
  }
  out.snapshots.push_back(std::move(snapshot));
  return out;
}

std::string port_tree(const std::string& counter) {
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
  return port + "state:4: ACTIVE\n" + port + "gids/0:fe80:0000:0000:0000:0000:0000:0000:0001\n" + port +
         "gid_attrs/types/0:RoCE v2\n" + port + "gids/2:0000:0000:0000:0000:0000:ffff:0a00:0001\n" + port +
         "gid_attrs/types/2:IB/RoCE v1\n" + port + "gids/3:0000:0000:0000:0000:0000:ffff:0a00:0001\n" + port +
         "gid_attrs/types/3:RoCE v2\n" + port + "hw_counters/out_of_sequence:" + counter + "\n";
}

constexpr const char* kTree = "grep -r . /sys/class/infiniband";

TEST(RailsOf, a_device_gets_the_gid_of_the_host_s_address) {
  const Bundle bundle = bundle_with({{kTree, port_tree("0")}});
  const auto rails = rails_of(bundle, {"A", "10.0.0.1"}, false, book());
  ASSERT_EQ(rails.size(), 1u);
  EXPECT_EQ(rails[0].device, "mlx5_0");
  EXPECT_EQ(rails[0].gid, 3u);
}

TEST(RailsOf, under_mroce_every_ipv4_address_is_a_rail) {
  const Bundle bundle = bundle_with(
      {{"mroce info --json",
        R"({"device": "mroce0", "gids": [{"index": 0, "address": "127.0.0.1"}, {"index": 1, "address": "10.1.0.1"},
            {"index": 2, "address": "10.0.0.1"}, {"index": 3, "address": "fe80::1"}]})"}});
  const auto rails = rails_of(bundle, {"A", "10.0.0.1"}, true, book());
  ASSERT_EQ(rails.size(), 2u);
  EXPECT_EQ(rails[0].gid, 2u);
  EXPECT_EQ(rails[1].gid, 1u);
}

TEST(HarvestCounters, what_moves_between_the_snapshots_is_kept) {
  TestBundles test{TestKind::kSingle, {bundle_with({{kTree, port_tree("100")}})}};
  test.bundles[0].snapshots.push_back(bundle_with({{kTree, port_tree("142")}}, Phase::kEnd).snapshots[0]);
  SuiteOptions options;
  options.hosts = {{"A", "A"}, {"B", "B"}};
  const std::string statistics =
      R"([{"schema": "mroce-stats-1", "pid": 7, "connections": [{"counters": {"retransmissions": 5}}]}])";
  TestResult out;
  harvest_counters(test, {client(statistics), client("noise\n" + statistics)}, options, book(), out);
  std::map<std::string, double> moved;
  for (const MovedCounter& counter : out.counters)
    moved[counter.host + " " + counter.port + " " + counter.name()] = counter.delta;
  EXPECT_EQ(moved["A mlx5_0/1 out_of_sequence"], 42);
  EXPECT_EQ(moved["B mroce0 retransmits"], 10) << "two processes of one host add up";
}

TEST(SettingsOf, gids_and_boot_do_not_count_as_settings) {
  const auto settings = settings_of({bundle_with({{kTree, port_tree("0")}})}, book());
  ASSERT_EQ(settings.count("A mlx5_0/1"), 1u);
  const SettingsOfPlace& port = settings.at("A mlx5_0/1");
  EXPECT_EQ(port.count("link.state"), 1u);
  EXPECT_EQ(port.count("gid.3.type"), 0u);
}

}  // namespace
}  // namespace mroce::doctor
