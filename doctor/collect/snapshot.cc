#include "doctor/collect/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "doctor/collect/endpoints.h"
#include "doctor/text.h"

#ifndef MROCE_VERSION
#define MROCE_VERSION "unknown"
#endif

namespace mroce::doctor {
namespace {

// Interfaces whose programs are asked; others (virtual ones of containers, mostly) have their files read
// only.
constexpr size_t kMaxAsked = 64;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Plan {
 public:
  Plan(const CollectOptions& options, const Tree& tree) : options_(options), tree_(tree) {}

  // A program, by its command line; words are separated by blanks and need no quoting.
  void run(const std::string& command_line, const std::string& device = "", const std::string& netdev = "",
           const std::string& missing = "") {
    Task task{command_line, device, netdev, {}, {}, missing};
    if (tree_.recorded()) {
      const std::string file = Tree::command_file(command_line);
      task.missing.clear();
      if (tree_.exists(file)) {
        task.read = [tree = tree_, file, bound = options_.limits.bytes](TaskOutput& out) {
          put_whole(tree, file, bound, out);
        };
      } else {
        task.missing = missing.empty() ? "not in the recorded tree" : missing;
      }
    } else {
      for (const auto word : words_of(command_line)) task.arguments.emplace_back(word);
    }
    tasks.push_back(std::move(task));
  }

  void file(const std::string& path, size_t bound = 256u << 10) {
    tasks.push_back({path,
                     "",
                     "",
                     {},
                     [tree = tree_, path, bound](TaskOutput& out) { put_whole(tree, path, bound, out); },
                     ""});
  }

  void lines(std::string name, std::function<void(TaskOutput&)> read) {
    tasks.push_back({std::move(name), "", "", {}, std::move(read), ""});
  }

  std::vector<Task> tasks;

 private:
  static void put_whole(const Tree& tree, const std::string& path, size_t bound, TaskOutput& out) {
    const auto text = tree.read(path, bound);
    if (!text) return out.missing("", text.error());
    if (text->empty()) return out.missing("", "empty");
    std::string_view all = *text;
    if (all.ends_with('\n')) all.remove_suffix(1);
    out.line(all);
    if (text->size() == bound) out.missing("", fmt::format("longer than {} bytes", bound));
  }

  const CollectOptions& options_;
  const Tree& tree_;
};

void plan_rdma(Plan& plan, const Tree& tree, const MachinePorts& ports) {
  const std::string none =
      ports.rdma_devices.empty() ? "there is no RDMA device in /sys/class/infiniband" : "";
  for (const std::string& device : ports.rdma_devices)
    plan.lines("grep -r . /sys/class/infiniband/" + device,
               [tree, device](TaskOutput& out) { read_rdma_device(tree, device, false, out); });
  if (!none.empty()) plan.tasks.push_back({"grep -r . /sys/class/infiniband", "", "", {}, {}, none});
  for (const char* command : {"rdma -j link show", "rdma -j statistic show", "rdma -j dev show",
                              "rdma system show", "rdma -j resource show", "ibstat", "ibv_devinfo"})
    plan.run(command, "", "", none);
}

std::string pci_address_of(const Tree& tree, const std::string& netdev) {
  const std::string name = tree.link_name("/sys/class/net/" + netdev + "/device");
  const bool pci = name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
  return pci ? name : "";
}

void plan_netdev(Plan& plan, const Tree& tree, const NetDevice& netdev) {
  const std::string& name = netdev.name;
  plan.lines("grep -r . /sys/class/net/" + name,
             [tree, name](TaskOutput& out) { read_netdev(tree, name, false, out); });
  if (!netdev.physical && netdev.rdma_device.empty()) return;
  for (const char* what :
       {"", "-S ", "-i ", "-I -a ", "-I --show-fec ", "-g ", "-l ", "-c ", "-k ", "--show-priv-flags "})
    plan.run(fmt::format("ethtool {}{}", what, name), "", name);
  for (const char* what : {"-s pfc", "app", "ets", "buffer", "apptrust"})
    plan.run(fmt::format("dcb {} show dev {}", what, name), "", name);
  if (netdev.driver.starts_with("mlx5") || tree.recorded()) plan.run("mlnx_qos -i " + name, "", name);
  const std::string address = pci_address_of(tree, name);
  if (!address.empty()) plan.run("lspci -vv -s " + address, "", name);
}

void plan_host(Plan& plan, const Tree& tree, const MachinePorts& ports) {
  for (const char* path :
       {"/proc/sys/kernel/osrelease", "/proc/version", "/proc/cmdline", "/proc/self/limits", "/proc/loadavg",
        "/proc/uptime", "/proc/meminfo", "/proc/net/snmp", "/proc/net/netstat", "/proc/net/softnet_stat",
        "/proc/modules", "/proc/driver/nvidia/version"})
    plan.file(path);
  plan.lines("grep -r . /sys/module", [tree](TaskOutput& out) { read_modules(tree, out); });
  plan.lines("interrupts of adapters",
             [tree, ports](TaskOutput& out) { read_interrupts(tree, ports.netdevs, out); });
  plan.lines("grep -r . /sys/devices/system/node", [tree](TaskOutput& out) { read_numa(tree, out); });
  plan.lines("grep -r . /sys/kernel/iommu_groups", [tree](TaskOutput& out) { read_iommu(tree, out); });
  plan.lines("access control of PCI bridges", [tree](TaskOutput& out) { read_access_control(tree, out); });
  plan.lines("signs of a container", [tree](TaskOutput& out) { read_container_signs(tree, out); });
  plan.lines("env", [tree](TaskOutput& out) { read_environment(tree, out); });
  plan.run("nvidia-smi -q");
  plan.run("nvidia-smi topo -m");
  plan.run("rocm-smi --showuse --showclocks --showpower --showbus --showtopo");
}

void plan_mroce(Plan& plan, const Tree& tree, const CollectOptions& options) {
  plan.lines("mroce endpoints", [tree](TaskOutput& out) { read_endpoints(tree, out); });
  if (!options.own_program.empty() && !tree.recorded()) {
    plan.run("mroce info --json");
    plan.tasks.back().arguments.front() = options.own_program;
  }
  if (!options.statistics_folder.empty())
    plan.lines("mroce statistics", [folder = options.statistics_folder](TaskOutput& out) {
      read_statistics_folder(folder, out);
    });
}

Snapshot snapshot_of(const Tree& tree, const std::vector<Task>& tasks, const TaskLimits& limits,
                     Phase phase) {
  Snapshot out;
  out.phase = phase;
  out.time_ns = now_ns();
  if (tree.recorded())
    if (const auto then = whole_number(tree.read("/time_ns", 64).value_or("")))
      out.time_ns = static_cast<int64_t>(std::min<uint64_t>(*then, INT64_MAX));
  out.sources = run_tasks(tasks, limits);
  return out;
}

}  // namespace

std::vector<Task> snapshot_tasks(const CollectOptions& options, const Tree& tree, const MachinePorts& ports) {
  Plan plan(options, tree);
  plan_rdma(plan, tree, ports);
  size_t asked = 0;
  for (const NetDevice& netdev : ports.netdevs)
    if (asked++ < kMaxAsked) plan_netdev(plan, tree, netdev);
  plan_host(plan, tree, ports);
  plan_mroce(plan, tree, options);
  return std::move(plan.tasks);
}

Snapshot take_snapshot(const CollectOptions& options, Phase phase) {
  const Tree tree(options.root);
  const MachinePorts ports = find_ports(tree);
  return snapshot_of(tree, snapshot_tasks(options, tree, ports), options.limits, phase);
}

Snapshot take_sample(const CollectOptions& options, const MachinePorts& ports) {
  const Tree tree(options.root);
  Plan plan(options, tree);
  for (const std::string& device : ports.rdma_devices)
    plan.lines("grep -r . /sys/class/infiniband/" + device,
               [tree, device](TaskOutput& out) { read_rdma_device(tree, device, true, out); });
  for (const NetDevice& netdev : ports.netdevs) {
    plan.lines("grep -r . /sys/class/net/" + netdev.name,
               [tree, name = netdev.name](TaskOutput& out) { read_netdev(tree, name, true, out); });
    if (netdev.physical || !netdev.rdma_device.empty())
      plan.run("ethtool -S " + netdev.name, "", netdev.name);
  }
  if (!find_program("nvidia-smi").empty())
    plan.run(
        "nvidia-smi --query-gpu=index,utilization.gpu,power.draw,clocks.sm,temperature.gpu --format=csv");
  if (!options.statistics_folder.empty())
    plan.lines("mroce statistics", [folder = options.statistics_folder](TaskOutput& out) {
      read_statistics_folder(folder, out);
    });
  return snapshot_of(tree, plan.tasks, options.limits, Phase::kSample);
}

Bundle bundle_around(const CollectOptions& options, Snapshot snapshot) {
  const Tree tree(options.root);
  Bundle out;
  out.writer = "mroce " MROCE_VERSION;
  out.host = std::string(trim(tree.read("/proc/sys/kernel/hostname", 256).value_or("")));
  out.boot_id = std::string(trim(tree.read("/proc/sys/kernel/random/boot_id", 256).value_or("")));
  out.role = options.role;
  out.snapshots.push_back(std::move(snapshot));
  return out;
}

}  // namespace mroce::doctor
