// mroce bench sim: what the simulator costs.
//
// A permutation of 2 MiB a host over a full three-tier fat tree. Each transport runs over its usual fabric,
// and next to it a fixed window of packets with no protocol at all ("blaster"): what it costs is the
// fabric's. The cost of a transport is what its run costs beyond as many hops of the blaster on the same
// fabric settings, for each packet that hosts send. Runs are interleaved, round by round; rows show medians.
#include "cli/bench_sim.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/measure.h"
#include "cli/sim_fabric.h"
#include "cli/sim_inputs.h"
#include "cli/stopwatch.h"
#include "cli/terminal.h"
#include "net/sockets.h"
#include "sim/test_transport.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFooter = R"(Examples:
  mroce bench sim
  mroce bench sim --quick --json
  mroce bench sim --large --runs 1)";

constexpr const char* kMethod =
    R"(Permutation of 2 MiB a host, full three-tier fat tree, 400 Gbit/s, 1 us a link, 64 B beside the
payload of a packet, one thread, each run in a process of its own. blaster/T: a fixed window of 225
packets, an acknowledgement for every four, over a fabric like that of T. set-up: CPU s before time
zero, not in CPU s. B/host: peak of the process by hosts. B/conn: of the transport, at the end.
ns/packet: CPU time beyond the blaster's at equal hops, by packets that hosts sent.)";

struct Options {
  bool json = false;
  bool quick = false;
  bool large = false;
  uint32_t runs = 3;
};

// What one run says; plain, as it comes through a pipe.
struct Figures {
  double cpu_s = 0;    // without set-up
  double setup_s = 0;  // of connections
  uint64_t hops = 0;
  uint64_t events = 0;
  uint64_t packets = 0;  // that hosts sent
  uint64_t transport_bytes = 0;
  uint64_t peak_bytes = 0;  // of the process
};

struct Row {
  uint32_t hosts = 0;
  std::string name;
  std::string reference;  // of the row with the same fabric and no protocol; empty: it is one
  std::vector<Figures> runs;

  double middle(double Figures::*member) const {
    std::vector<double> values;
    for (const Figures& run : runs) values.push_back(run.*member);
    return median(std::move(values));
  }
  const Figures& any() const { return runs.front(); }  // for what is the same in all
  double mhops() const { return static_cast<double>(any().hops) / middle(&Figures::cpu_s) / 1e6; }
};

// The transport is replaced by the blaster if `blast`.
Outcome<Figures> run_here(uint32_t hosts, const std::string& name, bool blast) {
  auto topology = make_topology(fmt::format("fat-tree:hosts={}", hosts), 1);
  auto workload = make_workload("permutation:size=2M", hosts, 1);
  auto transport = transport_named(name);
  if (!topology || !workload || !transport) return failure(kInternal, "the benchmark cannot be set up", "");
  FabricSettings settings;
  settings.header_bytes = 64;
  sim::RunOptions options;
  if (auto done = set_fabric(options, *transport, settings, *topology); !done)
    return tl::unexpected(done.error());
  TransportMaker maker(*transport, workload->flows);
  sim::TransportFactory factory = maker.factory();
  if (blast) {
    sim::TestTransportOptions fixed;
    fixed.window = 225;
    fixed.spray = transport->is_mroce();
    // Nothing is sent again, so nothing may be lost; what matters is the work of the same kind of fabric.
    options.fabric.queue_bytes = options.fabric.queue_bytes != 0 ? uint64_t{1} << 40 : 0;
    options.fabric.pfc.classes = options.fabric.pfc.classes != 0 ? uint8_t{1} : uint8_t{0};
    factory = [fixed](const sim::HostContext& context) {
      return std::make_unique<sim::TestTransport>(context, fixed);
    };
  } else {
    maker.prepare(options);
  }
  const double begin = cpu_seconds();
  const auto result = sim::run(*topology, options, workload->flows, factory, workload->scheduler.get());
  if (!result) return failure(kInternal, result.error(), "this is a bug of mroce");
  if (!result->complete) return failure(kInternal, fmt::format("{}: {}", name, result->trouble), "");
  const sim::TransportCounters& c = result->transport;
  Figures figures;
  figures.setup_s = maker.setup_cpu_s();
  figures.cpu_s = cpu_seconds() - begin - figures.setup_s;
  figures.hops = result->fabric.hops;
  figures.events = result->fabric.events;
  figures.packets = std::max<uint64_t>(1, c.data_packets + c.acks + c.nacks + c.cnps);
  figures.transport_bytes = result->transport_bytes;
  return figures;
}

// In a process of its own, so that its peak of memory is known.
Outcome<Figures> run_apart(uint32_t hosts, const std::string& name, bool blast) {
  int ends[2];
  if (::pipe(ends) != 0) return failure(kEnvironment, "no pipe can be made", "");
  const net::FileDescriptor in(ends[0]);
  net::FileDescriptor out(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return failure(kEnvironment, "no process can be started", "");
  if (child == 0) {
    const auto figures = run_here(hosts, name, blast);
    const bool written = figures && ::write(out.get(), &*figures, sizeof *figures) == sizeof *figures;
    if (!figures) report(figures.error());
    ::_exit(written ? 0 : 1);
  }
  out = net::FileDescriptor();
  Figures figures;
  const bool whole = ::read(in.get(), &figures, sizeof figures) == sizeof figures;
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  if (!whole || status != 0) {
    return failure(kInternal, fmt::format("the run of {} on {} hosts ended early", name, hosts),
                   "is there enough memory?");
  }
  figures.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) << 10;
  return figures;
}

Outcome<std::vector<Row>> run_all(const Options& options) {
  std::vector<uint32_t> sizes = {128};
  if (!options.quick) sizes.push_back(1024);
  if (options.large) sizes.push_back(8192);
  std::vector<Row> rows;
  for (const uint32_t hosts : sizes) {
    for (const char* name : {"mroce", "rocev2", "dctcp"}) {
      rows.push_back({hosts, fmt::format("blaster/{}", name), "", {}});
      rows.push_back({hosts, name, rows.back().name, {}});
    }
  }
  Progress progress;
  for (uint32_t round = 0; round < options.runs; ++round) {
    for (Row& row : rows) {
      progress.show(
          fmt::format("round {} of {}: {} hosts, {}", round + 1, options.runs, row.hosts, row.name));
      const bool blast = row.reference.empty();
      auto figures = run_apart(row.hosts, blast ? row.name.substr(row.name.find('/') + 1) : row.name, blast);
      if (!figures) return tl::unexpected(figures.error());
      row.runs.push_back(*figures);
    }
  }
  return rows;
}

double ns_per_packet(const Row& row, const std::vector<Row>& rows) {
  for (const Row& other : rows) {
    if (other.hosts != row.hosts || other.name != row.reference) continue;
    const double fabric = static_cast<double>(row.any().hops) / (other.mhops() * 1e6);
    return (row.middle(&Figures::cpu_s) - fabric) * 1e9 / static_cast<double>(row.any().packets);
  }
  return 0;
}

ordered_json to_json(const Row& row, const std::vector<Row>& rows) {
  const Figures& any = row.any();
  ordered_json out = {{"hosts", row.hosts},
                      {"name", row.name},
                      {"hops", any.hops},
                      {"events", any.events},
                      {"cpu_s", row.middle(&Figures::cpu_s)},
                      {"setup_cpu_s", row.middle(&Figures::setup_s)},
                      {"mhops_per_s", row.mhops()},
                      {"peak_bytes_per_host", any.peak_bytes / row.hosts},
                      {"transport_bytes_per_connection", any.transport_bytes / row.hosts},
                      {"runs", row.runs.size()}};
  out["transport_ns_per_packet"] =
      row.reference.empty() ? ordered_json() : ordered_json(ns_per_packet(row, rows));
  return out;
}

std::string table_text(const std::vector<Row>& rows) {
  Table table({"", "hosts", "hops", "events", "CPU s", "set-up", "Mhops/s", "B/host", "B/conn", "ns/packet"});
  for (const Row& row : rows) {
    const Figures& any = row.any();
    table.add({row.name, grouped(row.hosts), grouped(any.hops), grouped(any.events),
               fmt::format("{:.3f}", row.middle(&Figures::cpu_s)),
               fmt::format("{:.2f}", row.middle(&Figures::setup_s)), fmt::format("{:.2f}", row.mhops()),
               grouped(any.peak_bytes / row.hosts), grouped(any.transport_bytes / row.hosts),
               row.reference.empty() ? "-" : fmt::format("{:.0f}", ns_per_packet(row, rows))});
  }
  return table.text();
}

Outcome<void> run_bench(const Options& options) {
  const auto rows = run_all(options);
  if (!rows) return tl::unexpected(rows.error());
  if (!options.json) {
    fmt::print("{}\n{}\n", table_text(*rows), kMethod);
    return {};
  }
  ordered_json out = {{"schema", "mroce-bench-sim-1"}, {"method", kMethod}, {"rows", ordered_json::array()}};
  for (const Row& row : *rows) out["rows"].push_back(to_json(row, *rows));
  fmt::print("{}\n", out.dump(2));
  return {};
}

}  // namespace

void add_bench_sim(CLI::App& bench, int& exit_code) {
  CLI::App* sim = bench.add_subcommand("sim", "What the simulator costs: CPU time, memory, by transport");
  auto options = std::make_shared<Options>();
  sim->add_flag("--json", options->json, "as JSON");
  sim->add_flag("--quick", options->quick, "128 hosts only");
  sim->add_flag("--large", options->large, "8192 hosts too (minutes, gigabytes)");
  sim->add_option("--runs", options->runs, "rounds")->capture_default_str()->check(CLI::Range(1U, 100U));
  sim->footer(kFooter);
  sim->callback([options, &exit_code] {
    if (const auto done = run_bench(*options); !done) exit_code = report(done.error());
  });
}

}  // namespace mroce::cli
