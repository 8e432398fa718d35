// mroce sim: a transport on a simulated data centre network.
#include "cli/sim.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/sim_fabric.h"
#include "cli/sim_faults.h"
#include "cli/sim_ideal.h"
#include "cli/sim_inputs.h"
#include "cli/sim_words.h"
#include "cli/stopwatch.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "net/say.h"
#include "sim/words.h"

namespace mroce::cli {
namespace {

uint64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) << 10;
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

Outcome<void> check_choices(const SimOptions& options) {
  if (options.topology_file.empty() == options.fabric.empty()) {
    return failure(kUsage, "which network?", "give either --topo FILE or --fabric NAME:KEY=VALUE,…");
  }
  if (options.flow_file.empty() == options.load.empty()) {
    return failure(kUsage, "which flows?", "give either --cm FILE or --load NAME:KEY=VALUE,…");
  }
  if (options.json && options.csv) return failure(kUsage, "--json and --csv at once", "choose one");
  return check_traces(options.traces);
}

// On every link of the fabric, in both directions: data and acknowledgements alike.
Outcome<double> set_loss(sim::Topology& topology, const std::string& text) {
  if (text.empty()) return 0;
  const auto loss = parse_share(text);
  if (!loss || *loss >= 1) {
    return failure(kUsage, fmt::format("--loss {}: not a probability below 1", sim::quoted(text)),
                   "write 1% or 0.01");
  }
  for (sim::LinkSpec& link : topology.links) link.loss = *loss;
  return *loss;
}

// Without what differs between runs of the same input.
std::string trace_about(const SimReport& report) {
  nlohmann::ordered_json about = {{"transport", report.transport},
                                  {"topology", report.topology},
                                  {"load", report.load},
                                  {"fabric", report.fabric},
                                  {"seed", report.seed}};
  about["trouble"] = report.trouble();
  return about.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Outcome<Simulation> simulate(const SimOptions& options,
                             const std::function<void(sim::SimTime, uint64_t, uint64_t)>& progress) {
  if (auto done = check_choices(options); !done) return tl::unexpected(done.error());
  auto transport = transport_named(options.transport);
  if (!transport) return tl::unexpected(transport.error());
  FabricSettings settings;
  for (const std::string& each : options.sets) {
    if (auto done = set_any(*transport, settings, each); !done) return tl::unexpected(done.error());
  }
  auto topology = options.fabric.empty() ? read_topology(options.topology_file, options.planes)
                                         : make_topology(options.fabric, options.planes);
  if (!topology) return tl::unexpected(topology.error());
  auto workload = options.load.empty() ? read_workload(options.flow_file, topology->hosts)
                                       : make_workload(options.load, topology->hosts, options.seed);
  if (!workload) return tl::unexpected(workload.error());
  const auto limit = parse_time(options.limit);
  if (!limit || *limit == 0) {
    return failure(kUsage, fmt::format("--limit {}: not a time", sim::quoted(options.limit)),
                   "write 10ms or 2s");
  }
  const auto loss = set_loss(*topology, options.loss);
  if (!loss) return tl::unexpected(loss.error());
  sim::FaultPlan faults;
  for (const std::string& each : options.faults) {
    if (auto done = add_fault(faults, *topology, each, *loss, *limit); !done)
      return tl::unexpected(done.error());
  }

  Simulation out;
  out.flows = std::move(workload->flows);
  sim::RunOptions run;
  run.threads = options.threads;
  run.seed = options.seed;
  run.limit = *limit;
  if (auto done = set_fabric(run, *transport, settings, *topology); !done)
    return tl::unexpected(done.error());
  TransportMaker maker(*transport, out.flows);
  if (std::string error = maker.check(topology->hosts); !error.empty()) {
    return failure(kUsage, error, "take a smaller one");
  }
  maker.prepare(run);
  std::unique_ptr<SimTraces> traces;
  if (options.traces.any()) {
    auto opened = SimTraces::open(options.traces, *topology, transport->protocol());
    if (!opened) return tl::unexpected(opened.error());
    traces = std::move(*opened);
    run.trace = traces->run_options();
  }
  if (progress) {
    run.progress = [&](sim::SimTime now, uint64_t finished) { progress(now, finished, out.flows.size()); };
  }
  const double cpu = cpu_seconds();
  auto result = sim::run(*topology, run, out.flows, maker.factory(), workload->scheduler.get(), faults);
  if (!result) return failure(kUsage, result.error(), "see mroce sim --help");

  SimReport& report = out.report;
  report.cpu_s = cpu_seconds() - cpu;
  report.setup_cpu_s = maker.setup_cpu_s();
  report.peak_rss_bytes = peak_rss_bytes();
  report.transport = options.transport;
  report.topology = options.fabric.empty() ? file_name(options.topology_file) : options.fabric;
  report.load = options.load.empty() ? file_name(options.flow_file) : options.load;
  report.fabric = fabric_text(run.fabric);
  report.seed = options.seed;
  report.flows = sim::summarise(out.flows);
  out.wire = run.wire;
  out.payload_mtu = run.payload_mtu;
  report.result = std::move(*result);
  if (traces != nullptr) {
    if (auto done = traces->write(out.flows, trace_about(report)); !done) return tl::unexpected(done.error());
    out.written = traces->written();
    out.notices = traces->notices();
  }
  out.topology = std::move(*topology);
  return out;
}

namespace {

constexpr const char* kFooter = R"(Examples:
  mroce sim --fabric fat-tree:hosts=128 --load permutation:size=2M
  mroce sim --topo ft128_400.topo --cm incast64_2M.cm --transport rocev2 --json
  mroce sim --fabric leaf-spine:leaves=8 --planes 4 --load ring:size=64M \
            --fault "down plane 1 at 100us until 1ms" --flows flows.csv
  mroce sim --fabric fat-tree:hosts=128 --load incast:senders=64,size=2M --transport rocev2 \
            --perfetto incast.json --queues incast.csv --watch 16 --sample 5us
  mroce sim --fabric leaf-spine --load permutation:size=1M --pcapng leaf2.pcapng \
            --capture "leaf 2 -> spine 1" --capture "host 3")";

constexpr const char* kTransportHelp =
    R"(Transports, and the fabric that each gets unless --set says otherwise
  mroce, tcp        queues of 151 full packets a port, ECN from 31 to 121 of them
  dctcp             the same, ECN from 31 on (a step)
  rocev2, hpcc, conweave, cx
                    a shared buffer of 151 packets for each port, PFC on the class of the data (3),
                    headroom as the links need; ECN as RED, 100 to 400 KB per 25 Gbit/s, 20 %
  rocev2-lossy, irn, conweave-irn
                    the same without PFC
  ib                credits, no ECN; no adaptive_routing: go-back-N needs packets in order
)";

std::string settings_help() {
  Table table({"", "", ""});
  for (const FabricKey& key : fabric_keys()) {
    table.add({"  " + std::string(key.name), std::string(key.wanted), std::string(key.sentence)});
  }
  std::string text = "Settings of the fabric (--set)" + table.text(1);
  text += "Settings of a transport: an unknown one lists them all; see docs/sim.md and docs/rocev2.md\n";
  return text;
}

Outcome<void> write_flows(const Simulation& simulation, const std::string& path) {
  std::ofstream out(path);
  const IdealTimes ideal(simulation.topology, simulation.payload_mtu, simulation.wire);
  sim::write_flow_table(out, simulation.flows, [&](const sim::Flow& flow) { return ideal.fct(flow); });
  out.close();
  if (!out) return failure(kEnvironment, "cannot write " + path, "name a file that you may write to");
  return {};
}

std::string files_text(const Simulation& simulation) {
  std::string text;
  for (const std::string& line : simulation.written) text += fmt::format("  {:<16} {}\n", "wrote", line);
  return text;
}

Outcome<int> run_sim(const SimOptions& options) {
  Progress progress;
  auto last = SteadyClock::now();
  const auto show = [&](sim::SimTime now, uint64_t finished, uint64_t flows) {
    if (seconds_since(last) < 0.2) return;
    last = SteadyClock::now();
    progress.show(fmt::format("{:.1f} us simulated, {} of {} flows finished", static_cast<double>(now) / 1e6,
                              grouped(finished), grouped(flows)));
  };
  const auto simulation = simulate(options, show);
  progress.wipe();
  if (!simulation) return tl::unexpected(simulation.error());
  const SimReport& report = simulation->report;
  if (!options.flow_table.empty()) {
    if (auto written = write_flows(*simulation, options.flow_table); !written)
      return tl::unexpected(written.error());
  }
  if (options.json)
    fmt::print("{}\n", sim_json(report).dump(2));
  else if (options.csv)
    fmt::print("{}", sim_csv(sim_json(report)));
  else
    fmt::print("{}", sim_table(report) + files_text(*simulation));
  std::fflush(stdout);
  for (const std::string& notice : simulation->notices) say("mroce: {}\n", notice);
  if (report.result.complete) return kFine;
  const bool late = report.result.limit_reached;
  return failure(kFindings, report.trouble(), late ? "see --limit" : "");
}

}  // namespace

namespace {

void add_trace_options(CLI::App& sim, SimTraceOptions& options) {
  sim.add_option("--pcapng", options.pcapng, "write the packets on the links of --capture")
      ->type_name("FILE");
  sim.add_option("--capture", options.captures, "links for --pcapng; may be repeated")
      ->type_name("LINKS")
      ->allow_extra_args(false);
  sim.add_option("--snaplen", options.snap_bytes, "bytes of a packet, at least its headers; 0")
      ->type_name("BYTES")
      ->check(CLI::Range(0U, 65535U));
  sim.add_option("--queues", options.queues, "write queues, throughput and pauses over time")
      ->type_name("FILE.csv");
  sim.add_option("--perfetto", options.perfetto, "write what happened, for ui.perfetto.dev")
      ->type_name("FILE.json");
  sim.add_option("--watch", options.watches, "links for these two, or how many; 8; may be repeated")
      ->type_name("LINKS|N")
      ->allow_extra_args(false);
  sim.add_option("--sample", options.sample, "time between samples for these two; 1us")->type_name("TIME");
}

}  // namespace

void add_sim(CLI::App& app, int& exit_code) {
  CLI::App* sim = app.add_subcommand("sim", "Simulate a transport on a data centre network");
  auto options = std::make_shared<SimOptions>();
  sim->add_option("--topo", options->topology_file, "network: .topo of htsim, or topology of HPCC/ConWeave")
      ->type_name("FILE");
  sim->add_option("--fabric", options->fabric, "or made to order: see below")->type_name("SPEC");
  sim->add_option("--cm", options->flow_file, "flows: .cm of htsim, or flow file of HPCC/ConWeave")
      ->type_name("FILE");
  sim->add_option("--load", options->load, "or made to order: see below")->type_name("SPEC");
  sim->add_option("--transport", options->transport, "one of those below; mroce")->type_name("NAME");
  sim->add_option("--planes", options->planes, "multiply the network; each host has a port on each plane")
      ->check(CLI::Range(1U, 8U));
  sim->add_option("--loss", options->loss, "on every link, each direction: data and acknowledgements alike")
      ->type_name("1%|0.01");
  sim->add_option("--fault", options->faults, "see below; may be repeated")
      ->type_name("SENTENCE")
      ->allow_extra_args(false);
  sim->add_option("--set", options->sets,
                  "a setting of the transport or the fabric: see below; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sim->add_option("--seed", options->seed, "of all that is random; 1");
  sim->add_option("--threads", options->threads, "the result does not depend on it; 1")
      ->check(CLI::Range(1U, sim::kMaxThreads));
  sim->add_option("--limit", options->limit, "end of simulated time; 10s")->type_name("TIME");
  sim->add_option("--flows", options->flow_table, "write a line for each flow")->type_name("FILE.csv");
  add_trace_options(*sim, options->traces);
  sim->add_flag("--json", options->json, "as JSON");
  sim->add_flag("--csv", options->csv, "as a line of CSV, with a header");
  sim->footer(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", kTransportHelp, kFabricHelp, kLoadHelp, kFaultHelp,
                          kTraceHelp, settings_help(), kFooter));
  sim->callback([options, &exit_code] {
    const auto done = run_sim(*options);
    exit_code = done ? *done : report(done.error());
  });
}

}  // namespace mroce::cli
