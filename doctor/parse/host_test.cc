// What snapshots have on the host as a whole, and on its ports beside their counters.
#include <gtest/gtest.h>

#include "doctor/facts.h"
#include "doctor/ingest.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {
namespace {

Evidence read(const std::vector<std::pair<std::string, std::string>>& texts) {
  Evidence evidence;
  for (const auto& [name, text] : texts)
    ingest({name, name, text, false}, Context(evidence, builtin_rulebook()));
  assemble(evidence, builtin_rulebook());
  return evidence;
}

std::string fact(const Evidence& evidence, std::string_view name) {
  const Setting* setting = last_setting(evidence.hosts.at(0).settings, name);
  return setting == nullptr ? "unknown" : setting->text;
}

std::string port_fact(const Evidence& evidence, std::string_view name) {
  const Setting* setting = last_setting(evidence.hosts.at(0).ports.at(0).settings, name);
  return setting == nullptr ? "unknown" : setting->text;
}

TEST(Signs, the_strictest_use_of_the_iommu_counts) {
  EXPECT_EQ(fact(read({{"a.txt", "/sys/class/iommu:none\n/sys/kernel/iommu_groups:0\n"}}), "iommu"), "off");
  EXPECT_EQ(fact(read({{"a.txt",
                        "/sys/class/iommu/dmar0:present\n/sys/kernel/iommu_groups:80\n"
                        "/sys/kernel/iommu_groups/type:DMA-FQ\n/sys/kernel/iommu_groups/type:identity\n"}}),
                 "iommu"),
            "translated");
  EXPECT_EQ(
      fact(read({{"a.txt", "/sys/class/iommu/dmar0:present\n/sys/kernel/iommu_groups/type:identity\n"}}),
           "iommu"),
      "pass-through");
}

TEST(Signs, one_file_of_a_container_manager_makes_a_container) {
  const auto inside = read({{"a.txt",
                             "/.dockerenv:absent\n/run/.containerenv:present\n/run/systemd/container:absent\n"
                             "/dev/infiniband:rdma_cm uverbs0 uverbs1\n"
                             "/proc/self/status:CapEff=00000000a80425fb\n"}});
  EXPECT_EQ(fact(inside, "container"), "1");
  EXPECT_EQ(fact(inside, "verbs.files"), "2");
  EXPECT_EQ(fact(inside, "capability.ipc_lock"), "0");
  EXPECT_EQ(
      fact(read({{"a.txt", "/.dockerenv:absent\n/proc/self/status:CapEff=000001ffffffffff\n"}}), "container"),
      "0");
}

TEST(Signs, modules_tell_versions_parameters_and_gpu_direct) {
  const auto evidence =
      read({{"a.txt",
             "/sys/module/mlx5_core:live\n/sys/module/mlx5_core/version:24.04-0.6.6\n"
             "/sys/module/mlx5_core/parameters/prof_sel:2\n/sys/module/nvidia_peermem:live\n"}});
  EXPECT_EQ(fact(evidence, "module.mlx5_core.version"), "24.04-0.6.6");
  EXPECT_EQ(fact(evidence, "module.mlx5_core.prof_sel"), "2");
  EXPECT_EQ(fact(evidence, "peermem"), "1");
}

TEST(Signs, errors_that_the_kernel_reports_of_pcie_are_counters) {
  const std::string path = "/sys/class/infiniband/mlx5_0/device/aer_dev_correctable:";
  const auto evidence =
      read({{"a-before.txt", path + "RxErr 0\n" + path + "BadTLP 3\n" + path + "TOTAL_ERR_COR 3\n"},
            {"a-after.txt", path + "RxErr 1\n" + path + "BadTLP 90\n" + path + "TOTAL_ERR_COR 91\n"}});
  const World world(evidence, builtin_rulebook());
  const auto& ports = world.members("port", world.run());
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(std::get<double>(ports[0]->deltas.find("pcie_corrected")->second.value), 88);
}

TEST(Signs, a_virtual_function_without_pause_counters_does_not_say_that_pfc_is_off) {
  std::string dump = "NIC statistics:\n";
  for (int i = 0; i < 120; ++i) dump += "     rx" + std::to_string(i) + "_packets: 1\n";
  dump += "     rx_vport_rdma_unicast_bytes: 5\n     tx_vport_rdma_unicast_bytes: 5\n";
  const auto off = [&](const std::string& more) {
    const Evidence evidence =
        read({{"a.txt", "/sys/class/infiniband/mlx5_0/device/net/eth0:x\n" + more + dump}});
    const World world(evidence, builtin_rulebook());
    const auto& ports = world.members("port", world.run());
    const Fact* fact = ports.at(0)->find("pfc_off");
    return fact != nullptr && std::get<bool>(fact->value);
  };
  EXPECT_TRUE(off("driver: mlx5_core\n\n"));
  EXPECT_FALSE(off("driver: mlx5_core\n\n/sys/class/net/port/device/physfn:../0000:1a:00.0\n"));
}

TEST(Signs, buffers_of_mlnx_qos_belong_to_priorities) {
  const auto evidence =
      read({{"a-eth0.txt",
             "Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=1027728\n"
             "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
             "\tenabled     0   0   0   1   0   0   0   0   \n"
             "\tbuffer      0   0   0   1   0   0   0   0   \n"}});
  EXPECT_EQ(port_fact(evidence, "qos.buffer_bytes.1"), "156096");
  EXPECT_EQ(port_fact(evidence, "qos.buffer_of_prio.3"), "1");
  const World world(evidence, builtin_rulebook());
  const Fact* smallest = world.members("port", world.run()).at(0)->find("lossless_buffer_bytes");
  ASSERT_NE(smallest, nullptr);
  EXPECT_EQ(std::get<double>(smallest->value), 156096);
}

TEST(Signs, drops_of_endpoints_sockets_are_summed_and_no_half_of_an_interface) {
  const auto evidence = read({{"a.txt",
                               "/sys/class/net/eth0/statistics/rx_bytes:5\n"
                               "socket port 61440 local 10.0.0.1 queued 00000000:00000000 drops 5\n"
                               "socket port 61441 local 10.0.1.1 queued 00000000:00000000 drops 7\n"
                               "process 42 python3\n"}});
  ASSERT_EQ(evidence.hosts.at(0).ports.size(), 2u);
  const Port& endpoint = evidence.hosts[0].ports[1];
  EXPECT_EQ(endpoint.vendor, "mroce");
  ASSERT_EQ(endpoint.counters.size(), 1u);
  EXPECT_EQ(endpoint.counters[0].canonical, "rx_discard");
  EXPECT_EQ(endpoint.counters[0].delta, 12.0);
}

TEST(Gids, tables_are_read_with_and_without_address_and_interface) {
  const auto evidence =
      read({{"a.txt",
             "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\n"
             "mlx5_0\t1\t0\tfe80:0000:0000:0000:0e42:a1ff:fe00:1200\t\t\tv1\teth0\n"
             "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0007\t10.0.0.7\tv2\teth0\n"
             "mlx5_0\t1\t4\t0000:0000:0000:0000:0000:ffff:0a00:0008\t10.0.0.8\tv2\n"
             "mlx5_0\t1\t5\tfe80:0000:0000:0000:0e42:a1ff:fe00:1201\tv2\nn_gids_found=4\n"}});
  EXPECT_EQ(port_fact(evidence, "gid.0.type"), "IB/RoCE v1");
  EXPECT_EQ(port_fact(evidence, "gid.3.address"), "10.0.0.7");
  EXPECT_EQ(port_fact(evidence, "gid.4.type"), "RoCE v2");
  EXPECT_EQ(port_fact(evidence, "gid.5.address"), "fe80:0000:0000:0000:0e42:a1ff:fe00:1201");
  EXPECT_EQ(evidence.hosts[0].ports.size(), 1u);
}

TEST(Gids, ibv_devinfo_lists_them_too) {
  const auto evidence =
      read({{"a.txt",
             "hca_id:\tmlx5_0\n\tfw_ver:\t28.39.1002\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n"
             "\t\t\tGID[  0]:\t\tfe80::e42:a1ff:fe00:1200, RoCE v1\n"
             "\t\t\tGID[  3]:\t\t::ffff:10.0.0.7, RoCE v2\n"}});
  EXPECT_EQ(port_fact(evidence, "gid.3.address"), "::ffff:10.0.0.7");
  EXPECT_EQ(port_fact(evidence, "gid.0.type"), "IB/RoCE v1");
}

}  // namespace
}  // namespace mroce::doctor
