// mroce's own endpoints on this machine: which processes have one, and what they count.
//
// An endpoint binds UDP ports from 61440 on. Only if some are bound are processes looked at, as reading every
// process's maps takes long on a large host. A process that writes its statistics to a file while it runs
// (settings stats_file and stats_interval) has them read from there. The kernel's count of datagrams that
// found no room in a socket is read in any case.
#pragma once

#include <string>

#include "doctor/collect/tasks.h"
#include "doctor/collect/tree.h"

namespace mroce::doctor {

void read_endpoints(const Tree& tree, TaskOutput& out);

// The statistics files in a folder, one after the other; for a program that was started with
// MROCE_STATS_FILE=FOLDER/%p.json.
void read_statistics_folder(const std::string& folder, TaskOutput& out);

}  // namespace mroce::doctor
