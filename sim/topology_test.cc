// Generated fabrics and the readers of files: good ones, bad ones with the exact error, hostile bytes.

#include "sim/topology.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/base/rng.h"
#include "sim/hpcc_topology.h"
#include "sim/routing.h"
#include "sim/test_run.h"
#include "sim/topo_file.h"

namespace mroce::sim {
namespace {

std::string data(const std::string& name) {
  std::ifstream file(std::string(MROCE_TEST_DATA) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

TEST(TopoFile, reads_the_fabrics_of_htsim) {
  struct Expected {
    const char* file;
    uint32_t hosts;
    size_t switches;
    size_t links;
    SimTime longest;
  };
  const SimTime hop = microseconds(1) + serialisation(4160, 400'000'000'000);
  for (const Expected& e :
       {Expected{"ls64_400.topo", 64, 16, 256, 4 * hop}, Expected{"ft128_400.topo", 128, 80, 768, 6 * hop},
        Expected{"ft1024_400.topo", 1024, 320, 6144, 6 * hop}}) {
    const auto spec = parse_topo(e.file, data(e.file));
    ASSERT_TRUE(spec) << spec.error();
    const Topology topology = make_fat_tree(*spec).value();
    EXPECT_EQ(topology.hosts, e.hosts);
    EXPECT_EQ(topology.switches.size(), e.switches);
    EXPECT_EQ(topology.links.size(), e.links);
    std::vector<Flow> flows{make_flow(0, 0, e.hosts - 1, 4096)};
    test_run(topology, test_options(), flows);
    EXPECT_EQ(flows[0].received, e.longest);
  }
}

TEST(TopoFile, reads_queues_oversubscription_and_fractions) {
  const auto spec =
      parse_topo("x",
                 "NODES 8 # hosts\nTiers 2\n\nTier 0\ndownlink_speed_gbps 12.5\nRadix_Up 2\nRadix_Down 4\n"
                 "Downlink_Latency_ns 0.5\nOversubscribed 0.5\nQueue_up 1000\nQueue_down 2000\n"
                 "Tier 1\nDownlink_speed_Gbps 50\nRadix_Down 2\nDownlink_Latency_ns 1\n");
  ASSERT_TRUE(spec) << spec.error();
  EXPECT_EQ(spec->tier[0].down_rate_bps, 12'500'000'000U);
  EXPECT_EQ(spec->tier[0].down_delay, 500);
  const Topology topology = make_fat_tree(*spec).value();
  const SwitchSpec& leaf = topology.switches[0];
  EXPECT_EQ(topology.links[leaf.first_link].queue_bytes, 2000U);
  EXPECT_EQ(topology.links[leaf.first_link + 4].queue_bytes, 1000U);
}

struct Bad {
  const char* text;
  const char* error;
};

TEST(TopoFile, names_file_line_and_cause_of_every_error) {
  const std::string tier = "Downlink_speed_Gbps 400\nRadix_Up 4\nRadix_Down 4\nDownlink_Latency_ns 1000\n";
  const Bad table[] = {
      {"", "f:1: the file ends after 0 tiers; \"Nodes\", \"Tiers\" and a part for each tier are needed"},
      {"Nodes", "f:1: a line is a name and a value, this one has 1 words"},
      {"Nodes 4 5", "f:1: a line is a name and a value, this one has 3 words"},
      {"Nodes x", "f:1: nodes is 'x'; it must be a whole number from 2 to 1048576"},
      {"Nodes -4", "f:1: nodes is '-4'; it must be a whole number from 2 to 1048576"},
      {"Nodes 1e99", "f:1: nodes is '1e99'; it must be a whole number from 2 to 1048576"},
      {"Nodes nan", "f:1: nodes is 'nan'; it must be a whole number from 2 to 1048576"},
      {"Nodes 4\nNodes 4", "f:2: nodes is given twice"},
      {"\n\nTiers 4", "f:3: tiers is '4'; it must be a whole number from 2 to 3"},
      {"Radix_Up 4", "f:1: radix_up stands before the first \"Tier\" line"},
      {"Tier 0", "f:1: \"Nodes\" and \"Tiers\" must come before the first tier"},
      {"Nodes 4\nTiers 2\nTier 1", "f:3: tier '1' where tier 0 should begin"},
      {"Nodes 4\nTiers 2\nTier 0\nNodes 3", "f:4: nodes stands after the first tier; it belongs before"},
      {"Nodes 4\nTiers 2\nTier 0\nTier 1", "f:4: tier 0 has no downlink_speed_gbps"},
      {"Nodes 4\nTiers 2\nTier 0\nBundle 0", "f:4: bundle is '0'; it must be a whole number from 1 to 65535"},
      {"Nodes 4\nTiers 2\nTier 0\nRadix_Up 2.5",
       "f:4: radix_up is '2.5'; it must be a whole number from 1 to 65535"},
      {"Nodes 4\nTiers 2\nTier 0\nDownlink_speed_Gbps 0",
       "f:4: downlink_speed_gbps is '0'; it must be a number from 0.001 to 10000"},
  };
  for (const Bad& bad : table) {
    const auto spec = parse_topo("f", bad.text);
    ASSERT_FALSE(spec) << bad.text;
    EXPECT_EQ(spec.error(), bad.error);
  }
  const auto error = [](const std::string& text) { return parse_topo("f", text).error(); };
  EXPECT_EQ(error("Nodes 16\nTiers 2\nTier 0\n" + tier + "Tier 1\n" + tier),
            "f:12: tier 1 is the highest and has no Radix_Up");
  const std::string top = "Tier 1\nDownlink_speed_Gbps 400\nRadix_Down 4\nDownlink_Latency_ns 1000\n";
  EXPECT_EQ(error("Nodes 15\nTiers 2\nTier 0\n" + tier + top),
            "f:11: 15 hosts are not a multiple of 4 hosts a leaf");
  EXPECT_EQ(error("Nodes 20\nTiers 2\nTier 0\n" + tier + top),
            "f:11: tier 1 has 4 ports downwards, but 5 leaves with 1 cables each are below");
  EXPECT_EQ(error("Nodes 16\nTiers 2\nTier 0\n" + tier + "Oversubscribed 2\n" + top),
            "f:12: tier 0 says Oversubscribed 2, but its speeds and radixes give 1");
  EXPECT_EQ(error("Nodes 16\nTiers 2\nTier 0\n" + tier + top + "Tier 2"),
            "f:12: tier 2 is one more than \"Tiers 2\" allows");
  EXPECT_EQ(error("Nodes 16\nTiers 3\nTier 0\n" + tier + "Tier 1\n" + tier +
                  "Tier 2\nDownlink_speed_Gbps 400\n"
                  "Radix_Down 4\nDownlink_Latency_ns 1000\n"),
            "f:16: three tiers need a Podsize");
  EXPECT_TRUE(error("Color 4").starts_with("f:1: 'color' is not known; did you mean one of Nodes, Tiers,"));
  EXPECT_TRUE(error(std::string("\x01\x02 4"))
                  .starts_with("f:1: '?"
                               "?' is not known"));
}

TEST(HpccTopology, reads_the_star_and_the_fat_tree) {
  const TopologyResult star = parse_hpcc_topology("hpcc_star.txt", data("hpcc_star.txt"));
  ASSERT_TRUE(star) << star.error();
  EXPECT_EQ(star->hosts, 2U);
  EXPECT_DOUBLE_EQ(star->links[0].loss, 0.01);
  EXPECT_EQ(star->links[0].delay, microseconds(3));
  const TopologyResult tree = parse_hpcc_topology("hpcc_ft128_400.txt", data("hpcc_ft128_400.txt"));
  ASSERT_TRUE(tree) << tree.error();
  EXPECT_EQ(tree->hosts, 128U);
  EXPECT_EQ(tree->switches.size(), 80U);
  EXPECT_EQ(tree->links.size(), 768U);
  EXPECT_EQ(tree->node_name(130), "switch 130");
}

TEST(HpccTopology, has_the_same_times_as_the_generated_tree) {
  const Topology graph = parse_hpcc_topology("f", data("hpcc_ft128_400.txt")).value();
  const Topology tree = make_fat_tree(parse_topo("f", data("ft128_400.topo")).value()).value();
  EXPECT_EQ(graph.base_rtt(4160, 64), tree.base_rtt(4160, 64));
  for (const uint32_t to : {1U, 5U, 15U, 17U, 127U}) {
    std::vector<Flow> a{make_flow(0, 0, to, 100'000)};
    std::vector<Flow> b = a;
    test_run(graph, test_options(), a);
    test_run(tree, test_options(), b);
    EXPECT_EQ(a[0].received, b[0].received) << to;
  }
}

TEST(HpccTopology, names_file_line_and_cause_of_every_error) {
  const Bad table[] = {
      {"", "f:1: the file is empty; it should begin with \"nodes switches links\""},
      {"3 1", "f:1: the first line has 2 words; it should be \"nodes switches links\""},
      {"3 one 2", "f:1: 'one' is not a whole number"},
      {"3 0 2", "f:1: 0 switches among 3 nodes; a switch and two hosts are the least"},
      {"2 1 2", "f:1: 1 switches among 2 nodes; a switch and two hosts are the least"},
      {"99999999 1 2", "f:1: 99999999 nodes; the limit is 65536"},
      {"3 18446744073709551615 2",
       "f:1: 18446744073709551615 switches among 3 nodes; a switch and two hosts are the least"},
      {"3 1 99999999", "f:1: 99999999 links; the limit is 1048576"},
      {"65000 32000 2", "f:1: 32000 switches and 33000 hosts are too many: their product may be 67108864"},
      {"3 1 2\n", "f:1: the file ends where 1 more switch ids should follow"},
      {"3 1 2\n3", "f:2: '3' is not the id of a node, 0 to 2"},
      {"3 1 2\n1 2", "f:2: 2 switch ids where 1 should follow"},
      {"3 1 2\n0", "f:2: switch 0 has a lower number than the last host; hosts must be 0 to 1"},
      {"4 2 2\n2 2", "f:2: switch 2 is named twice"},
      {"3 1 2\n2\n0 2 400Gbps 1us 0", "f:3: the file ends where 1 more links should follow"},
      {"3 1 1\n2\n0 2 400Gbps 1us 0\n1 2 400Gbps 1us 0",
       "f:4: more lines than the 1 links of the first line"},
      {"3 1 2\n2\n0 2 400Gbps 1us", "f:3: a link is \"node node rate delay loss\", this line has 4 words"},
      {"3 1 2\n2\n0 9 400Gbps 1us 0", "f:3: '9' is not the id of a node, 0 to 2"},
      {"3 1 2\n2\n2 2 400Gbps 1us 0", "f:3: node 2 is linked to itself"},
      {"3 1 2\n2\n0 1 400Gbps 1us 0", "f:3: hosts 0 and 1 are linked directly; a switch must be between"},
      {"3 1 2\n2\n0 2 400 1us 0", "f:3: '400' is no rate from 1Mbps to 10Tbps"},
      {"3 1 2\n2\n0 2 0Gbps 1us 0", "f:3: '0Gbps' is no rate from 1Mbps to 10Tbps"},
      {"3 1 2\n2\n0 2 400Gbps -1us 0", "f:3: '-1us' is no delay from 0ns to 1s"},
      {"3 1 2\n2\n0 2 400Gbps 5 0", "f:3: '5' is no delay from 0ns to 1s"},
      {"3 1 2\n2\n0 2 400Gbps 1us 1.5", "f:3: '1.5' is no probability from 0 to 1"},
      {"3 1 2\n2\n0 2 400Gbps 1us 0\n0 2 400Gbps 1us 0", "f:4: host 0 has 2 links, not 1"},
  };
  for (const Bad& bad : table) {
    const TopologyResult topology = parse_hpcc_topology("f", bad.text);
    ASSERT_FALSE(topology) << bad.text;
    EXPECT_EQ(topology.error(), bad.error);
  }
}

// Truncated, overwritten and shuffled files end in a topology or in an error with a line, never in a crash.
TEST(Readers, survive_hostile_bytes) {
  Rng rng(7);
  int good = 0;
  for (const char* name : {"ls64_400.topo", "ft128_400.topo", "hpcc_star.txt", "hpcc_ft128_400.txt"}) {
    const std::string original = data(name);
    for (int i = 0; i < 1500; ++i) {
      std::string text = original.substr(0, rng.chance(0.3) ? rng.below(original.size()) : original.size());
      for (uint64_t changes = rng.below(6); changes > 0 && !text.empty(); --changes) {
        const size_t at = rng.below(text.size());
        switch (rng.below(4)) {
          case 0:
            text[at] = static_cast<char>(rng.below(256));
            break;
          case 1:
            text[at] = static_cast<char>('0' + rng.below(10));
            break;
          case 2:
            text.insert(at, 1 + rng.below(12), static_cast<char>('0' + rng.below(10)));
            break;
          default:
            text.erase(at, 1 + rng.below(20));
        }
      }
      std::string error;
      if (std::string_view(name).ends_with(".topo")) {
        const auto spec = parse_topo("f", text);
        const TopologyResult topology = spec && spec->hosts < 5000 ? make_fat_tree(*spec) : TopologyResult();
        if (!spec) error = spec.error();
        good += spec ? 1 : 0;
        EXPECT_TRUE(topology) << "what the reader accepts can be built";
      } else {
        const TopologyResult topology = parse_hpcc_topology("f", text);
        if (!topology) error = topology.error();
        good += topology ? 1 : 0;
      }
      EXPECT_TRUE(error.empty() || error.starts_with("f:")) << error;
    }
  }
  EXPECT_GT(good, 100);
}

// Two ends with four equal ways between them.
TEST(HpccTopology, the_sets_of_equal_ways_are_bounded) {
  const Topology topology =
      parse_hpcc_topology("f",
                          "4 2 6\n2 3\n0 2 1Gbps 1us 0\n1 3 1Gbps 1us 0\n2 3 1Gbps 1us 0\n2 3 1Gbps 1us 0\n"
                          "2 3 1Gbps 1us 0\n2 3 1Gbps 1us 0\n")
          .value();
  EXPECT_EQ(topology.graph->members.size(), 10U);  // 1 + 4 at each switch
  EXPECT_TRUE(shortest_routes(topology, 10));
  EXPECT_FALSE(shortest_routes(topology, 9));
}

TEST(Readers, refuse_what_would_take_much_memory_before_they_take_it) {
  EXPECT_EQ(parse_topo("f", "Nodes 4000000000").error(),
            "f:1: nodes is '4000000000'; it must be a whole number from 2 to 1048576");
  EXPECT_EQ(parse_hpcc_topology("f", "4000000000 1 2").error(), "f:1: 4000000000 nodes; the limit is 65536");
  EXPECT_EQ(parse_hpcc_topology("f", "65536 1 1048576\n65535").error(),
            "f:2: the file ends where 1048576 more links should follow");
}

TEST(Generators, count_the_cables_of_a_fat_tree_exactly) {
  FatTreeSpec spec = full_fat_tree(128, 400'000'000'000, 0);  // half a million hosts
  EXPECT_EQ(check_fat_tree(spec), "");
  spec.planes = 8;
  EXPECT_EQ(check_fat_tree(spec), "12582912 cables are too many; the limit is 8388608");
}

TEST(Generators, refuse_impossible_shapes_with_a_sentence) {
  LeafSpineSpec spec;
  spec.planes = 9;
  EXPECT_EQ(make_leaf_spine(spec).error(), "9 planes; 1 to 8 are possible");
  spec = {};
  spec.rails = 3;
  EXPECT_EQ(make_leaf_spine(spec).error(), "8 leaves are not a multiple of 3 rails");
  spec = {};
  spec.host_rate_bps = 0;
  EXPECT_EQ(make_leaf_spine(spec).error(), "a rate of 0 bit/s; 1 Mbit/s to 10 Tbit/s are possible");
  spec = {};
  spec.leaves = spec.spines = spec.hosts_per_leaf = 16384;
  EXPECT_EQ(make_leaf_spine(spec).error(),
            "268435456 hosts and 268435456 cables between switches are too many");
}

}  // namespace
}  // namespace mroce::sim
