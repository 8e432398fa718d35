// The part of a machine's file system that RDMA programs look at outside the verbs library, for one process
// tree.
//
// ibstat, UCX and others read /sys/class/infiniband and look for character devices in /dev/infiniband. A
// private mount namespace gets both: a tmpfs covers /sys/class (and /dev), every entry that was there before
// is bound into it again, and ours are added. Everything lives in memory of that namespace: nothing to clean
// up, nothing visible outside, and /dev/shm, /dev/pts and the rest stay the very same file systems. The
// mounts need CAP_SYS_ADMIN; an ordinary user gets it inside a user namespace that maps only the own uid and
// gid to themselves, and loses it again on exec.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace mroce::cli {

struct ViewGid {
  std::string text;       // "fe80:0000:…:0001", eight groups of four digits
  std::string interface;  // "eth0"
};

struct DeviceView {
  std::string device = "mroce0";
  std::string node_guid = "0200:0000:0000:0001";
  std::string firmware;
  std::vector<ViewGid> gids;
};

// Moves the calling process, which must have one thread, into a namespace with this view. After an error the
// process may be half-way there and should only report it and exit.
tl::expected<void, std::string> enter_view(const DeviceView& view);

}  // namespace mroce::cli
