// A snapshot of a host: everything that can be read without root and without changing anything.
//
// What there is to read is found in sysfs first (RDMA devices, interfaces); then all sources are read side by
// side (tasks.h). A program that is not there, a file that may not be read, a source that did not answer in
// time: each is in the bundle as missing, with the reason.
//
// Programs are run only to show. `rdma`, `ibstat` and `ibv_devinfo` are not run where there is no
// /sys/class/infiniband, as opening their kind of socket makes the kernel load modules.
#pragma once

#include <string>
#include <vector>

#include "doctor/bundle.h"
#include "doctor/collect/machine.h"
#include "doctor/collect/tasks.h"

namespace mroce::doctor {

struct CollectOptions {
  std::string root;               // of a recorded tree (tree.h); empty: this machine
  std::string own_program;        // the binary that answers `info --json`; empty: do not ask
  std::string statistics_folder;  // of mroce processes that the caller started; empty: none
  Role role = Role::kUnknown;
  TaskLimits limits;
};

Snapshot take_snapshot(const CollectOptions& options, Phase phase);
// The same with the sources that have counters and cost little: for a look each second.
Snapshot take_sample(const CollectOptions& options, const MachinePorts& ports);

// Around a snapshot: name of the host, boot id, role.
Bundle bundle_around(const CollectOptions& options, Snapshot snapshot);

std::vector<Task> snapshot_tasks(const CollectOptions& options, const Tree& tree, const MachinePorts& ports);

}  // namespace mroce::doctor
