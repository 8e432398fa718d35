// RDMA devices and network interfaces in sysfs.
#include <algorithm>
#include <array>

#include "doctor/collect/machine.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxDevices = 256;

// One file of sysfs has one value; those with several lines keep their first ones in one.
void put_file(const Tree& tree, const std::string& path, TaskOutput& out, bool wanted) {
  const auto text = tree.read(path, 4096);
  if (!text) {
    if (wanted) out.missing(path, text.error());
    return;
  }
  const std::string_view value = trim(*text);
  if (value.empty()) return;
  for (const std::string_view line : split(value, '\n')) out.line(path + ":" + std::string(trim(line)));
}

void put_folder(const Tree& tree, const std::string& folder, TaskOutput& out) {
  for (const std::string& name : tree.names(folder)) put_file(tree, folder + "/" + name, out, true);
}

template <size_t N>
void put_files(const Tree& tree, const std::string& folder, const std::array<const char*, N>& names,
               TaskOutput& out) {
  for (const char* name : names)
    if (tree.exists(folder + "/" + name)) put_file(tree, folder + "/" + name, out, false);
}

void put_link(const Tree& tree, const std::string& path, TaskOutput& out) {
  if (const std::string target = tree.link(path); !target.empty()) out.line(path + ":" + target);
}

void put_bus(const Tree& tree, const std::string& device, TaskOutput& out) {
  static constexpr std::array kFiles = {"vendor",
                                        "device",
                                        "subsystem_vendor",
                                        "subsystem_device",
                                        "revision",
                                        "current_link_speed",
                                        "current_link_width",
                                        "max_link_speed",
                                        "max_link_width",
                                        "numa_node",
                                        "local_cpulist",
                                        "sriov_numvfs",
                                        "sriov_totalvfs",
                                        "power_state",
                                        "reset_method",
                                        "iommu_group/type",
                                        "aer_dev_correctable",
                                        "aer_dev_fatal",
                                        "aer_dev_nonfatal"};
  put_files(tree, device, kFiles, out);
  put_link(tree, device + "/physfn", out);
  put_link(tree, device + "/driver", out);
  put_link(tree, device + "/iommu_group", out);
  put_link(tree, device, out);
}

constexpr std::string_view kEmptyGid = "0000:0000:0000:0000:0000:0000:0000:0000";

void put_gids(const Tree& tree, const std::string& port, TaskOutput& out) {
  for (const std::string& index : tree.names(port + "/gids")) {
    const auto gid = tree.read(port + "/gids/" + index, 256);
    if (!gid || trim(*gid) == kEmptyGid || trim(*gid).empty()) continue;
    out.line(port + "/gids/" + index + ":" + std::string(trim(*gid)));
    put_file(tree, port + "/gid_attrs/types/" + index, out, false);
    put_file(tree, port + "/gid_attrs/ndevs/" + index, out, false);
  }
}

std::string rdma_device_of(const Tree& tree, const std::string& netdev,
                           const std::vector<std::string>& devices) {
  const auto below = tree.names("/sys/class/net/" + netdev + "/device/infiniband");
  if (!below.empty()) return below.front();
  for (const std::string& device : devices)
    if (tree.exists("/sys/class/infiniband/" + device + "/device/net/" + netdev) ||
        trim(tree.read("/sys/class/infiniband/" + device + "/ports/1/gid_attrs/ndevs/0", 256).value_or("")) ==
            netdev)
      return device;
  return {};
}

}  // namespace

MachinePorts find_ports(const Tree& tree) {
  MachinePorts out;
  out.rdma_devices = tree.names("/sys/class/infiniband");
  if (out.rdma_devices.size() > kMaxDevices) out.rdma_devices.resize(kMaxDevices);
  for (const std::string& name : tree.names("/sys/class/net")) {
    const std::string folder = "/sys/class/net/" + name;
    if (name == "lo" || !tree.is_folder(folder) || out.netdevs.size() == kMaxDevices) continue;
    NetDevice netdev;
    netdev.name = name;
    netdev.physical = tree.exists(folder + "/device") || tree.is_folder(folder + "/bonding");
    netdev.driver = tree.link_name(folder + "/device/driver");
    netdev.rdma_device = rdma_device_of(tree, name, out.rdma_devices);
    out.netdevs.push_back(std::move(netdev));
  }
  return out;
}

void read_rdma_device(const Tree& tree, const std::string& device, bool counters_only, TaskOutput& out) {
  const std::string folder = "/sys/class/infiniband/" + device;
  static constexpr std::array kOfDevice = {"fw_ver",    "hca_type",       "board_id",  "hw_rev",
                                           "node_guid", "sys_image_guid", "node_type", "node_desc"};
  static constexpr std::array kOfPort = {"state", "phys_state", "rate",           "link_layer",
                                         "lid",   "sm_lid",     "lid_mask_count", "cap_mask"};
  if (!counters_only) put_files(tree, folder, kOfDevice, out);
  put_folder(tree, folder + "/hw_counters", out);
  for (const std::string& number : tree.names(folder + "/ports")) {
    const std::string port = folder + "/ports/" + number;
    if (counters_only) {
      // What joins the port with its netdev, and what a counter has to be compared with.
      for (const char* name : {"/state", "/rate", "/link_layer", "/gid_attrs/ndevs/0"})
        if (tree.exists(port + name)) put_file(tree, port + name, out, false);
    } else {
      put_files(tree, port, kOfPort, out);
    }
    put_folder(tree, port + "/counters", out);
    put_folder(tree, port + "/hw_counters", out);
    if (!counters_only) put_gids(tree, port, out);
  }
  if (!counters_only) put_bus(tree, folder + "/device", out);
}

void read_netdev(const Tree& tree, const std::string& netdev, bool counters_only, TaskOutput& out) {
  const std::string folder = "/sys/class/net/" + netdev;
  static constexpr std::array kFiles = {"mtu",
                                        "operstate",
                                        "carrier",
                                        "carrier_changes",
                                        "carrier_up_count",
                                        "speed",
                                        "duplex",
                                        "address",
                                        "flags",
                                        "carrier_down_count",
                                        "type",
                                        "ifindex",
                                        "dev_port",
                                        "phys_port_name",
                                        "phys_switch_id",
                                        "tx_queue_len",
                                        "bonding/mode",
                                        "bonding/slaves",
                                        "bonding/xmit_hash_policy"};
  static constexpr std::array kSampled = {"operstate", "carrier", "carrier_changes", "carrier_down_count",
                                          "speed"};
  if (counters_only)
    put_files(tree, folder, kSampled, out);
  else
    put_files(tree, folder, kFiles, out);
  put_folder(tree, folder + "/statistics", out);
  if (counters_only) return;
  for (const char* side : {"roce_np", "roce_rp"}) put_folder(tree, folder + "/ecn/" + side + "/enable", out);
  put_link(tree, folder + "/master", out);
  put_bus(tree, folder + "/device", out);
}

}  // namespace mroce::doctor
