// What procfs and sysfs have on the host as a whole.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "doctor/collect/machine.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxInterrupts = 4096;

void put(const Tree& tree, const std::string& path, TaskOutput& out) {
  const auto text = tree.read(path, 8192);
  if (!text) return;
  const std::string_view value = trim(*text);
  if (!value.empty()) out.line(path + ":" + std::string(before(value, "\n")));
}

}  // namespace

void read_interrupts(const Tree& tree, const std::vector<NetDevice>& netdevs, TaskOutput& out) {
  std::set<std::string> ours;
  for (const NetDevice& netdev : netdevs) {
    const std::string folder = "/sys/class/net/" + netdev.name + "/device/msi_irqs";
    for (const std::string& number : tree.names(folder)) {
      if (ours.size() == kMaxInterrupts) break;
      if (!ours.insert(number).second) continue;
      for (const char* what : {"effective_affinity_list", "smp_affinity_list", "node"})
        put(tree, "/proc/irq/" + number + "/" + what, out);
    }
  }
  // Of the table only the rows of the adapters: it has a column for each processor.
  const auto table = tree.read("/proc/interrupts", 4u << 20);
  if (!table) return out.missing("/proc/interrupts", table.error());
  for (const std::string_view line : split(*table, '\n')) {
    const std::string number(trim(before(line, ":")));
    if (ours.contains(number)) out.line("interrupt " + std::string(trim(line)));
  }
}

void read_modules(const Tree& tree, TaskOutput& out) {
  static constexpr std::array kModules = {
      "ib_core",   "ib_uverbs",  "rdma_cm",        "rdma_ucm",    "ib_umad", "mlx5_core", "mlx5_ib",
      "mlx4_core", "mlx4_ib",    "bnxt_en",        "bnxt_re",     "ice",     "irdma",     "i40e",
      "ionic",     "ionic_rdma", "mana",           "mana_ib",     "efa",     "hns3",      "hns_roce_hw_v2",
      "cxgb4",     "iw_cxgb4",   "qede",           "qedr",        "erdma",   "siw",       "rdma_rxe",
      "nvidia",    "gdrdrv",     "nvidia_peermem", "nv_peer_mem", "amdgpu",  "mlx_compat"};
  for (const char* module : kModules) {
    const std::string folder = std::string("/sys/module/") + module;
    if (!tree.is_folder(folder)) continue;
    out.line(folder + ":" + std::string(trim(tree.read(folder + "/initstate", 64).value_or("present"))));
    put(tree, folder + "/version", out);
    put(tree, folder + "/srcversion", out);
    for (const std::string& name : tree.names(folder + "/parameters"))
      put(tree, folder + "/parameters/" + name, out);
  }
}

// Access Control Services are an extended capability (number 0x000d) of PCI bridges, whose control register
// is at offset 6 of it. Only root may read that far into the configuration space.
void read_access_control(const Tree& tree, TaskOutput& out) {
  constexpr size_t kPlainBytes = 64, kFirstExtended = 0x100, kAllBytes = 4096;
  static constexpr std::array kBits = {"SrcValid",    "TransBlk",   "ReqRedir",   "CmpltRedir",
                                       "UpstreamFwd", "EgressCtrl", "DirectTrans"};
  bool denied = false;
  out.line("access control of PCI bridges");
  for (const std::string& device : tree.names("/sys/bus/pci/devices")) {
    const std::string folder = "/sys/bus/pci/devices/" + device;
    if (!tree.read(folder + "/class", 64).value_or("").starts_with("0x0604")) continue;
    const auto config = tree.read(folder + "/config", kAllBytes);
    if (!config || config->size() <= kPlainBytes) {
      denied = true;
      continue;
    }
    const auto word = [&](size_t at) {
      return at + 1 < config->size() ? static_cast<unsigned char>((*config)[at]) |
                                           (static_cast<unsigned char>((*config)[at + 1]) << 8)
                                     : 0;
    };
    size_t at = kFirstExtended;
    for (int steps = 0; at >= kFirstExtended && at + 8 <= config->size() && steps < 64; ++steps) {
      if (word(at) == 0x000d) {
        std::string flags;
        for (size_t bit = 0; bit < kBits.size(); ++bit)
          flags += fmt::format(" {}{}", kBits[bit], (word(at + 6) >> bit & 1) != 0 ? '+' : '-');
        out.line(device + " ACSCtl:" + flags);
      }
      at = static_cast<size_t>(word(at + 2)) >> 4;
    }
  }
  if (denied) out.missing("/sys/bus/pci/devices/*/config", "only root may read the whole");
}

void read_numa(const Tree& tree, TaskOutput& out) {
  for (const char* file : {"online", "isolated", "nohz_full", "smt/active"})
    put(tree, std::string("/sys/devices/system/cpu/") + file, out);
  put(tree, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", out);
  put(tree, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", out);
  for (const std::string& node : tree.names("/sys/devices/system/node"))
    if (node.starts_with("node"))
      for (const char* file : {"cpulist", "distance"})
        put(tree, "/sys/devices/system/node/" + node + "/" + file, out);
}

void read_iommu(const Tree& tree, TaskOutput& out) {
  const auto units = tree.names("/sys/class/iommu");
  for (const std::string& unit : units) out.line("/sys/class/iommu/" + unit + ":present");
  if (units.empty()) out.line("/sys/class/iommu:none");
  const auto groups = tree.names("/sys/kernel/iommu_groups");
  out.line(fmt::format("/sys/kernel/iommu_groups:{}", groups.size()));
  std::set<std::string> types;
  for (const std::string& group : groups)
    types.insert(
        std::string(trim(tree.read("/sys/kernel/iommu_groups/" + group + "/type", 64).value_or("unknown"))));
  for (const std::string& type : types) out.line("/sys/kernel/iommu_groups/type:" + type);
}

void read_container_signs(const Tree& tree, TaskOutput& out) {
  for (const char* file : {"/.dockerenv", "/run/.containerenv", "/run/systemd/container"})
    out.line(std::string(file) + ":" + (tree.exists(file) ? "present" : "absent"));
  const auto cgroup = tree.read("/proc/self/cgroup", 4096);
  if (cgroup) out.line("/proc/self/cgroup:" + std::string(before(trim(*cgroup), "\n")));
  const auto verbs = tree.names("/dev/infiniband");
  std::string list;
  for (const std::string& name : verbs) list += (list.empty() ? "" : " ") + name;
  out.line("/dev/infiniband:" + (verbs.empty() ? "absent" : list));
  const auto status = tree.read("/proc/self/status", 8192);
  if (!status) return;
  for (const std::string_view line : split(*status, '\n'))
    if (line.starts_with("CapEff:") || line.starts_with("Cpus_allowed_list:") ||
        line.starts_with("Mems_allowed_list:"))
      out.line("/proc/self/status:" + std::string(before(line, ":")) + "=" +
               std::string(trim(after(line, ":"))));
}

void read_environment(const Tree& tree, TaskOutput& out) {
  static constexpr std::array kPrefixes = {"NCCL_",
                                           "RCCL_",
                                           "UCX_",
                                           "MROCE_",
                                           "FI_",
                                           "OMPI_MCA_",
                                           "MLX5_",
                                           "RDMAV_",
                                           "IBV_",
                                           "SLURM_JOB_ID",
                                           "SLURM_NODELIST",
                                           "LD_LIBRARY_PATH",
                                           "LD_PRELOAD",
                                           "CUDA_VISIBLE_DEVICES",
                                           "ROCR_VISIBLE_DEVICES",
                                           "KUBERNETES_SERVICE_HOST",
                                           "HSA_"};
  const auto all = tree.read("/proc/self/environ", 1u << 20);
  if (!all) return out.missing("/proc/self/environ", all.error());
  std::vector<std::string> kept;
  for (const std::string_view variable : split(*all, '\0'))
    for (const std::string_view prefix : kPrefixes)
      if (variable.starts_with(prefix) && contains(variable, "=") && !contains(variable, "\n"))
        kept.emplace_back(variable);
  std::sort(kept.begin(), kept.end());
  out.line(fmt::format("# {} variables that steer RDMA and collectives", kept.size()));
  for (const std::string& variable : kept) out.line(variable);
}

}  // namespace mroce::doctor
