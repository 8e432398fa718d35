// The bundle: everything that was read on one host, as it was read.
//
// `mroce doctor snapshot` and `mroce doctor run` write it, `analyze`, `diff`, `inventory` and `merge` read
// it. Sources are kept verbatim and parsed only on reading, so that a newer doctor finds more in an old
// bundle, and a wrong parser can be repaired afterwards. A source that could not be read says why in place of
// its text. Version 1:
//
//   { "schema": "mroce.doctor.bundle/1",
//     "writer": "mroce 0.1.0",
//     "host": "nodeA",  "boot_id": "…",  "role": "sender" | "receiver" | "switch" | absent,
//     "redacted": false,
//     "snapshots": [ { "phase": "start" | "end" | "sample", "time_ns": 1700000000000000000,
//                      "sources": [ { "name": "ethtool -S eth0", "netdev": "eth0", "text": "NIC statistics:…"
//                      },
//                                   { "name": "/sys/class/infiniband/mlx5_0/ports/1/state", "text": "4:
//                                   ACTIVE\n" }, { "name": "nvidia-smi -q", "missing": "no such program" } ]
//                                   } ],
//     "command": { "argv": ["ib_write_bw", …], "exit_status": 0, "output": "…", "begin_ns": …, "end_ns": … }
//     }
//
// A source's name is the path of a file, or the command line as one would type it; `device` and `netdev` say
// which port it is about where the name or the text does not. The sources below one folder may share one
// entry: name it "grep -r . /sys/class/infiniband" with lines "path:value". One snapshot alone has the phase
// "start". Samples have the phase "sample" and the same form, usually with fewer sources. Several bundles: an
// array of them, or one after the other in a file; { "schema": "mroce.doctor.bundles/1", "bundles": […] } is
// what `merge` writes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/evidence.h"

namespace mroce::doctor {

struct JsonValue;

inline constexpr std::string_view kBundleSchema = "mroce.doctor.bundle/1";
inline constexpr std::string_view kBundlesSchema = "mroce.doctor.bundles/1";

struct BundleSource {
  std::string name;
  std::string device, netdev;       // empty where name or text say it
  std::optional<std::string> text;  // verbatim, or
  std::string missing;              // why there is none
};

struct Snapshot {
  Phase phase = Phase::kStart;
  int64_t time_ns = 0;
  std::vector<BundleSource> sources;
};

struct CommandRun {
  std::vector<std::string> argv;
  int exit_status = 0;
  std::string output;  // standard output and error, cut to what `doctor run` keeps
  int64_t begin_ns = 0, end_ns = 0;
};

struct Bundle {
  std::string writer, host, boot_id;
  Role role = Role::kUnknown;
  bool redacted = false;
  std::vector<Snapshot> snapshots;
  std::optional<CommandRun> command;
};

std::string to_json(const Bundle& bundle);

// Is this a bundle, or several? Then each goes to `take`, with the line it begins at. What is wrong with one
// goes to `problem`.
bool read_bundles(JsonValue&& value, const std::function<void(Bundle&&, uint32_t)>& take,
                  const std::function<void(uint32_t, std::string)>& problem);

}  // namespace mroce::doctor
