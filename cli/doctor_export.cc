// mroce doctor export: counters for Prometheus, under one name for one meaning.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "cli/doctor_report.h"
#include "cli/finite_range.h"
#include "cli/stop_signals.h"
#include "cli/terminal.h"
#include "cli/write_file.h"
#include "doctor/analyze.h"
#include "doctor/collect/machine.h"
#include "doctor/collect/snapshot.h"
#include "doctor/export/server.h"
#include "doctor/ingest.h"

namespace mroce::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kFooter =
    R"(Without files: the counters of this machine, read anew for each scrape. With files (bundles, ethtool -S, rdma
statistic, statistics of mroce processes, folders of them): what they say, read anew when asked; --live adds this
machine. The address is of this machine only unless --listen says otherwise; there is neither encryption nor a
password. --textfile is for node_exporter's textfile collector, which reads the older text format.

Examples:
  mroce doctor export
  mroce doctor export --listen 10.0.0.7:9750
  mroce doctor export --textfile /var/lib/node_exporter/mroce.prom --interval 15
  MROCE_STATS_FILE=/run/mroce/%p.json mroce run -- ./job & mroce doctor export /run/mroce --live
  mroce doctor export before.json --once
  mroce doctor export --names

A dashboard for Grafana is docs/grafana/mroce-doctor.json.)";

struct ExportFlags {
  doctor::AnalyzeOptions options;
  std::string listen = "127.0.0.1:9750", textfile, format, root;
  double interval_s = 0;
  bool live = false, once = false, names = false;
};

// What is exported, read again when it is older than the interval.
class Readings {
 public:
  Readings(const ExportFlags& flags, double interval_s)
      : flags_(flags),
        age_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_s))) {}

  std::string text(doctor::MetricFormat format) {
    if (!read_ || Clock::now() - *read_ >= age_) read();
    return doctor::expose({{&files_, &gpus_}, {&machine_, &machine_gpus_}}, doctor::builtin_rulebook(),
                          state_, format);
  }

 private:
  void read() {
    const auto begin = Clock::now();
    const doctor::Rulebook& book = doctor::builtin_rulebook();
    if (!flags_.options.files.empty()) {
      files_ = doctor::gather(flags_.options, book);
      gpus_ = doctor::gpus_of(files_);
    }
    if (flags_.options.files.empty() || flags_.live) {
      doctor::CollectOptions options;
      options.root = flags_.root;
      const auto ports = doctor::find_ports(doctor::Tree(options.root));
      take(doctor::bundle_around(options, doctor::take_sample(options, ports)));
    }
    read_ = Clock::now();
    state_ = {MROCE_VERSION, std::chrono::duration<double>(*read_ - begin).count()};
  }

  void take(const doctor::Bundle& bundle) {
    machine_ = doctor::Evidence();
    machine_gpus_.clear();
    doctor::read_gpus(bundle, machine_gpus_);
    doctor::ingest({"this machine", "", to_json(bundle), false},
                   doctor::Context(machine_, doctor::builtin_rulebook()));
    doctor::assemble(machine_, doctor::builtin_rulebook());
  }

  const ExportFlags& flags_;
  Clock::duration age_;
  std::optional<Clock::time_point> read_;
  doctor::Evidence files_, machine_;
  std::vector<doctor::GpuReading> gpus_, machine_gpus_;
  doctor::ExporterState state_;
};

int print_names() {
  static constexpr std::string_view kKinds[] = {"counter", "gauge", "info"};
  Table table({"metric", "type", "unit", "meaning"});
  for (const auto& family : doctor::metric_families(doctor::builtin_rulebook().vendors))
    table.add({family.sample_name(), std::string(kKinds[static_cast<size_t>(family.kind)]),
               family.unit.empty() ? "-" : family.unit, family.help});
  fmt::print("{}", table.text(1));
  return kFine;
}

int serve(const ExportFlags& flags) {
  const auto address = doctor::listen_address(flags.listen);
  if (!address)
    return report({kUsage, address.error(), "--listen takes ADDRESS:PORT, such as 127.0.0.1:9750"});
  Readings readings(flags, flags.interval_s > 0 ? flags.interval_s : 1);
  doctor::ScrapeServer server([&](doctor::MetricFormat format) { return readings.text(format); });
  if (const auto listening = server.listen(*address); !listening)
    return report({kEnvironment, listening.error(), "choose another with --listen ADDRESS:PORT"});
  const bool six = address->host.find(':') != std::string::npos;
  fmt::print("http://{}{}{}:{}/metrics\n", six ? "[" : "", address->host, six ? "]" : "", server.port());
  std::fflush(stdout);
  StopSignals stop;
  server.serve(stop.fd());
  while (stop.take()) {  // obeyed
  }
  return kFine;
}

int keep_writing(const ExportFlags& flags, doctor::MetricFormat format) {
  const double interval_s = flags.interval_s > 0 ? flags.interval_s : 15;
  Readings readings(flags, 0);
  StopSignals stop;
  pollfd stopped{stop.fd(), POLLIN, 0};
  int code = kFine;
  do {
    if (const auto written = write_file(flags.textfile, readings.text(format)); !written) {
      code = report(written.error());
      break;
    }
  } while (!flags.once && ::poll(&stopped, 1, static_cast<int>(interval_s * 1000)) <= 0);
  while (stop.take()) {  // obeyed
  }
  return code;
}

int run_export(const ExportFlags& flags) {
  using doctor::MetricFormat;
  if (flags.names) return print_names();
  const bool standard_input =
      std::find(flags.options.files.begin(), flags.options.files.end(), "-") != flags.options.files.end();
  if (standard_input && !flags.once)
    return report({kUsage, "standard input can be read once only", "add --once"});
  const bool old = flags.format == "text" || (flags.format.empty() && !flags.textfile.empty());
  const MetricFormat format = old ? MetricFormat::kText : MetricFormat::kOpenMetrics;
  if (!flags.textfile.empty()) return keep_writing(flags, format);
  if (!flags.once) return serve(flags);
  Readings readings(flags, 0);
  fmt::print("{}", readings.text(format));
  return kFine;
}

}  // namespace

void add_doctor_export(CLI::App& doctor, int& exit_code) {
  CLI::App* verb = doctor.add_subcommand(
      "export", "Serve counters as OpenMetrics under one name for all vendors, for Prometheus");
  auto flags = std::make_shared<ExportFlags>();
  verb->add_option("files", flags->options.files,
                   "files or folders; this machine's counters if there are none")
      ->type_name("FILE…");
  CLI::Option* listen = verb->add_option("--listen", flags->listen, "where to answer GET /metrics")
                            ->type_name("ADDRESS:PORT")
                            ->capture_default_str();
  verb->add_option("--textfile", flags->textfile, "write this file again and again instead")
      ->type_name("FILE")
      ->excludes(listen);
  verb->add_option(
          "--interval", flags->interval_s,
          "seconds: files and counters are read again when older (1 if not given), or between two writings "
          "of the text file (15)")
      ->type_name("S")
      ->check(finite_range(0.01, 86400));
  verb->add_flag("--live", flags->live, "this machine's counters beside those of the files");
  verb->add_flag("--once", flags->once, "print to standard output, or write the text file, and end");
  verb->add_option("--format", flags->format, "of --once and --textfile: openmetrics, text (0.0.4)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"openmetrics", "text"}));
  verb->add_flag("--names", flags->names, "print all metrics that there can be, with their meaning");
  verb->add_option("--root", flags->root, "a recorded tree instead of this machine")->type_name("DIR");
  verb->footer(kFooter);
  verb->callback([flags, &exit_code] { exit_code = run_export(*flags); });
}

}  // namespace mroce::cli
