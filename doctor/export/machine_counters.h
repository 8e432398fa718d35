// The counters of this machine that cost little to read: sysfs of RDMA devices and of interfaces.
#pragma once

#include <string>

#include "doctor/bundle.h"

namespace mroce::doctor {

// A bundle of one snapshot, phase "sample". `root` is put before /sys and /proc, for recorded trees.
Bundle read_machine_counters(const std::string& root = "");

}  // namespace mroce::doctor
