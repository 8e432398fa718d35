// What is known about a job: the model between the parsers and the rules.
//
// Parsers read text and add readings, settings, results and events; `assemble` (assemble.h) turns the
// readings into deltas; the rules see all of it as facts (facts.h). Everything remembers where it was read.
// What was not read is absent: an empty vector, an empty optional, no entry in a map. Nothing here is ever
// zero for want of an answer.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mroce::doctor {

// A line of a source. `source` is an index into Evidence::sources; 0 is "nowhere". Lines begin at 1; 0 is the
// whole.
struct Where {
  uint32_t source = 0;
  uint32_t line = 0;
};

struct SourceName {
  std::string file;   // as named by the user, "-" for standard input
  std::string inner;  // what it is inside of a bundle: "ethtool -S eth0", "/sys/class/…"; else empty
};

// When a reading was taken, as far as the bundle or the name of the file says.
enum class Phase : uint8_t { kUnknown, kStart, kSample, kEnd };

struct Reading {
  uint64_t value = 0;
  int64_t time_ns = 0;  // since 1970; 0 if unknown
  Phase phase = Phase::kUnknown;
  Where where;
};

enum class CounterKind : uint8_t { kCounter, kGauge };

enum class DeltaState : uint8_t {
  kNone,     // one reading only: a total since the driver was loaded, which says nothing about the run
  kOk,       // grew or stayed
  kWrapped,  // 32 bits in hardware; the difference is modulo 2^32
  kReset,    // went back: there is no delta, and the run is invalid for this counter
};

struct Counter {
  std::string canonical;    // name in counters.toml; empty if the vendor map does not have it
  std::string vendor_name;  // as printed, "rx_prio3_pause"
  std::string from;         // "ethtool", "hw_counters", "counters", "dev_hw_counters", "netdev", "mroce"
  int8_t priority = -1;     // 0…7 if the name carries one
  uint8_t width = 64;
  uint8_t scale = 1;  // value × scale is in the unit of the canonical name
  CounterKind kind = CounterKind::kCounter;
  std::vector<Reading> readings;  // by time once assembled
  DeltaState state = DeltaState::kNone;
  std::optional<double> delta;  // in the unit of the canonical name
};

// A fact that is no counter. Text, because most are words; a number is a text that is one.
struct Setting {
  std::string text;
  Phase phase = Phase::kUnknown;
  Where where;
};

// Name → values in the order of reading; a second one only if it differs ("the link changed its speed in the
// run").
//
// Of a port:  link.state link.phys_state link.rate_gbps link.layer link.expected_gbps netdev.carrier
// netdev.operstate
//             mtu.active mtu.max mtu.netdev  pcie.speed_gts pcie.speed_max_gts pcie.width pcie.width_max
//             numa.node pfc.enabled ("3", "3,4", "none")  qos.trust  pause.rx pause.tx ("on"/"off")  ecn.np
//             ecn.rp ("0"/"1") fec.active  gid.N.type gid.N.address  driver.name driver.version firmware
//             function.virtual ("1")  iommu.type  qos.dscp_of_prio.N qos.buffer_of_prio.N qos.buffer_bytes.N
// Of a host:  boot.id kernel acs ("on"/"off")  iommu ("off"/"on"/"pass-through"/"translated")  memlock
//             container ("1"/"0") verbs.files capability.ipc_lock ("1"/"0")  module.NAME.version
//             module.NAME.PARAMETER  gpu.throttle gpu.xid gpu.util_pct gpu.sm_active_pct
//             topo.gpus topo.far_gpus topo.farthest ("PIX"…"SYS")  env.NAME  peermem ("1")
using Settings = std::map<std::string, std::vector<Setting>, std::less<>>;

// One port of one device: an RDMA device with its netdev, or what is known of either.
struct Port {
  std::string device;  // "mlx5_0", or empty
  uint32_t number = 1;
  std::string netdev;  // "eth0", or empty
  std::string vendor;  // "mlx5", "bnxt", …; empty if unknown
  Settings settings;
  std::vector<Counter> counters;
  bool complete_dump = false;  // an untruncated `ethtool -S` of a physical function was read
  std::string name() const;    // "mlx5_0/1", "eth0", or "port"
};

enum class Role : uint8_t { kUnknown, kSender, kReceiver, kSwitch };

struct Host {
  std::string name;
  Role role = Role::kUnknown;
  Settings settings;
  std::deque<Port> ports;
};

// One row of perftest (or of mroce bench), with what its preamble says.
struct PerftestRow {
  std::string host;
  std::string test;     // "write_bw", "read_lat"
  std::string device;   // "mlx5_0", or empty
  std::string variant;  // words of the file name that tell runs apart: "cuda", "pinned", "rail0-rail1", "8qp"
  std::optional<double> bytes, iterations, peak_gbps, goodput_gbps, message_rate_mpps, cpu_pct;
  std::optional<double> bare_number;  // a bandwidth without a unit: cannot be scored
  std::optional<double> latency_us, latency_p99_us;
  std::optional<double> mtu_bytes, qps, gid_index, duration_s;
  bool bidirectional = false, gpu_memory = false, duration_mode = false;
  std::string link_layer, unit;
  Where where;
};

// One table of nccl-tests or rccl-tests: from its header to its trailer.
struct CollectiveRow {
  double bytes = 0;
  std::optional<double> time_us, busbw_gBps, time_in_us, busbw_in_gBps, wrong;
  Where where;
};
struct CollectiveTable {
  std::string host;
  std::string name;     // "all_reduce", or empty
  std::string variant;  // as of PerftestRow
  std::string version;  // of the library
  uint32_t headers = 0, trailers = 0, times_rank_zero = 0, ranks = 0;
  std::vector<std::string> hosts;  // that its ranks run on
  std::vector<CollectiveRow> rows;
  std::optional<double> avg_busbw_gBps, wrong, warmup;
  bool out_of_bounds_failed = false;
  Where where, second_header, average_where, wrong_where;
};

// A line of a log that means something: kind is a word of the list in parse/nccl_log.cc, "wc-error" for
// example.
struct Event {
  std::string host, kind, detail;
  std::optional<double> status, time_s;  // work completion status; seconds since the log began
  std::map<std::string, std::string, std::less<>> fields;
  Where where;
};

struct Problem {
  Where where;
  std::string reason;
};

struct Evidence {
  std::vector<SourceName> sources{SourceName{}};
  std::deque<Host> hosts;
  std::vector<PerftestRow> perftest;
  std::vector<CollectiveTable> collectives;
  std::vector<Event> events;
  std::vector<Problem> problems;
  std::optional<double> seconds;  // of the run
  Where seconds_where;

  Host& host(std::string_view name);  // found or added
  // At most kMaxHosts and kMaxPorts of a host: what is beyond them goes into one that nobody looks at, and is
  // a problem.
  static constexpr size_t kMaxHosts = 50'000, kMaxPorts = 1024;
  // The port of the host that has this device or this netdev; either may be empty. Found or added; a port
  // that so far had only one of the names gets the other.
  Port& port(Host& host, std::string_view device, uint32_t number, std::string_view netdev);

 private:
  void complain_once(std::string reason);
  std::map<std::string, size_t, std::less<>> by_name_;  // of hosts
  Host beyond_host_;  // never destroyed before the evidence is, as readers keep references
  Port beyond_port_;
};

void add_setting(Settings& settings, std::string_view name, std::string_view text, Phase phase, Where where);
const Setting* last_setting(const Settings& settings, std::string_view name);  // or null

}  // namespace mroce::doctor
