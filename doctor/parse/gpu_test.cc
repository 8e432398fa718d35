#include <gtest/gtest.h>

#include "doctor/ingest.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {
namespace {

Evidence read(std::string text) {
  Evidence evidence;
  ingest({"a.txt", "a.txt", std::move(text), false}, Context(evidence, builtin_rulebook()));
  assemble(evidence, builtin_rulebook());
  return evidence;
}

std::string fact(const Evidence& evidence, std::string_view name) {
  if (evidence.hosts.empty()) return "no host";
  const Setting* setting = last_setting(evidence.hosts[0].settings, name);
  return setting == nullptr ? "unknown" : setting->text;
}

double number(const Evidence& evidence, std::string_view name) {
  return real_number(fact(evidence, name)).value_or(-1);
}

TEST(Gpu, dcgm_tables_give_the_mean_of_all_rows) {
  const auto evidence = read(
      "#Entity   GPUTL        SMACT\nID\nGPU 0     100          0.100\nGPU 1     98           0.300\n"
      "#Entity   GPUTL        SMACT\nID\nGPU 0     100          N/A\nGPU 1     98           0.200\n");
  EXPECT_NEAR(number(evidence, "gpu.util_pct"), 99, 1e-6);
  EXPECT_NEAR(number(evidence, "gpu.sm_active_pct"), 20, 1e-6);
}

TEST(Gpu, metrics_of_dcgm_exporter_are_read_whatever_their_labels_hold) {
  const auto evidence = read(
      "# HELP DCGM_FI_DEV_GPU_UTIL busy\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",name=\"a } b\"} 90\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\"} 100\n"
      "DCGM_FI_PROF_SM_ACTIVE{gpu=\"0\"} 0.25 1700000000000\n"
      "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"} 0\nDCGM_FI_DEV_XID_ERRORS{gpu=\"1\"} 79\n"
      "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 4\nDCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"1\"} 68\n");
  EXPECT_NEAR(number(evidence, "gpu.util_pct"), 95, 1e-6);
  EXPECT_NEAR(number(evidence, "gpu.sm_active_pct"), 25, 1e-6);
  EXPECT_EQ(fact(evidence, "gpu.xid"), "79");
  EXPECT_EQ(fact(evidence, "gpu.throttle"), "HW Thermal Slowdown");
}

TEST(Gpu, a_power_cap_that_somebody_chose_is_no_fault) {
  EXPECT_EQ(fact(read("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 4\n"), "gpu.throttle"), "none");
}

TEST(Gpu, tools_of_both_vendors_give_the_same_fact) {
  for (const char* text :
       {"index, utilization.gpu [%], power.draw [W]\n0, 96 %, 301.20 W\n1, 98 %, 299.10 W\n",
        "GPU[0]\t\t: GPU use (%): 96\nGPU[1]\t\t: GPU use (%): 98\n",
        "GPU: 0\n    USAGE:\n        GFX_ACTIVITY: 96 %\n        UMC_ACTIVITY: 3 %\nGPU: 1\n    USAGE:\n"
        "        GFX_ACTIVITY: 98 %\n"})
    EXPECT_NEAR(number(read(text), "gpu.util_pct"), 97, 1e-6) << text;
}

TEST(Gpu, topology_tells_how_far_adapters_are) {
  const auto evidence = read(
      "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
      "GPU0\t X \tNV18\tPIX\tSYS\t0-31\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\tSYS\t32-63\t1\t\tN/A\n"
      "NIC0\tPIX\tSYS\t X \tSYS\nNIC1\tSYS\tSYS\tSYS\t X \n\nLegend:\n\n  X    = Self\n");
  EXPECT_EQ(fact(evidence, "topo.gpus"), "2");
  EXPECT_EQ(fact(evidence, "topo.far_gpus"), "1");
  EXPECT_EQ(fact(evidence, "topo.farthest"), "SYS");
  EXPECT_EQ(fact(read("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-31\n"), "topo.gpus"), "no host");
}

}  // namespace
}  // namespace mroce::doctor
