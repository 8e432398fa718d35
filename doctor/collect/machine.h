// What of a machine the doctor looks at: its ports, and the functions that read what sysfs and procfs have on
// them. Lines are "path:value", as of `grep -r . FOLDER`; an empty GID and a file without content are left
// out.
#pragma once

#include <string>
#include <vector>

#include "doctor/collect/tasks.h"
#include "doctor/collect/tree.h"

namespace mroce::doctor {

struct NetDevice {
  std::string name, driver, rdma_device;  // the latter two empty if there is none
  bool physical = false;                  // a function of a bus, or a bond of some
};

struct MachinePorts {
  std::vector<std::string> rdma_devices;
  std::vector<NetDevice> netdevs;  // without loopback
};
MachinePorts find_ports(const Tree& tree);

// `counters_only` is for samples.
void read_rdma_device(const Tree& tree, const std::string& device, bool counters_only, TaskOutput& out);
void read_netdev(const Tree& tree, const std::string& netdev, bool counters_only, TaskOutput& out);

void read_interrupts(const Tree& tree, const std::vector<NetDevice>& netdevs, TaskOutput& out);
void read_modules(const Tree& tree, TaskOutput& out);
void read_access_control(const Tree& tree, TaskOutput& out);  // PCI bridges: "BDF ACSCtl: SrcValid+ …"
void read_numa(const Tree& tree, TaskOutput& out);
void read_iommu(const Tree& tree, TaskOutput& out);
void read_container_signs(const Tree& tree, TaskOutput& out);
void read_environment(const Tree& tree, TaskOutput& out);  // NAME=value of what steers RDMA and collectives

}  // namespace mroce::doctor
