// mroce doctor suite: the repeatable benchmark between hosts. Flags and tables; the work is in doctor/suite/.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "cli/doctor.h"
#include "cli/terminal.h"
#include "cli/write_file.h"
#include "doctor/suite/compare.h"
#include "doctor/suite/suite.h"
#include "net/say.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter =
    R"(Tests: single (one flow, and latency), multi (--qps queue pairs), incast (all other hosts to the first), bidir, rails
(all devices at once), collective (nccl-tests, rccl-tests or OSU through mpirun, if they are there). The first host
receives, the second one sends. Each test runs --repeat times between two snapshots of all its hosts; the medians count.
perftest has to be on the hosts, and mroce for the snapshots.

--launcher puts a command on a host: {host} is its name. ssh, rsh, pdsh and what ends in "-c" get the command as one
word, quoted for their shell, all others as words; {command} or {quoted} in the launcher says where it goes instead.
"local" is no launcher. Words are split as a shell does it, and no shell is involved.

--baseline compares with earlier results: figures against a threshold that comes from the spread of both, counters that
move newly or at another rate, settings that differ.

Exit code: 0 healthy, 1 a finding, a test that failed, or a figure worse than the baseline; 5 the evidence does not
suffice, 6 the test itself is invalid; 128 + n after a signal.

Examples:
  mroce doctor suite --hosts nodeA,nodeB -o today.json
  mroce doctor suite --hosts nodeA,nodeB --device mlx5_0,mlx5_1 --baseline last-month.json -o today.json
  mroce doctor suite --hosts n1,n2,n3 --launcher 'srun -N1 -n1 --overlap -w {host}' --tests single,incast
  mroce doctor suite --hosts A=10.0.0.1,B=10.0.0.2 --launcher 'ip netns exec {host}' --prefix 'mroce run --'
  mroce doctor suite --hosts nodeA,nodeB --dry-run)";

constexpr size_t kMaxBaseline = 256u << 20;

struct SuiteFlags {
  std::string hosts, launcher = "ssh {host}", device = "auto",
                     tests = "single,multi,incast,bidir,rails,collective";
  std::string prefix, mroce, collective, output, bundles, baseline;
  std::optional<uint32_t> gid, iterations;
  doctor::SuiteOptions options;
  bool json = false, dry_run = false;
};

Failure wrong(const std::string& flag, const std::string& cause) {
  return {kUsage, flag + ": " + cause, "see mroce doctor suite --help"};
}

// The mroce of the prefix is on the hosts; else it is in their PATH.
std::string mroce_on_hosts(const SuiteFlags& flags) {
  if (!flags.mroce.empty()) return flags.mroce;
  const auto run = doctor::mroce_run_in(flags.options.prefix);
  return run ? flags.options.prefix[*run - 1] : "mroce";
}

Outcome<void> read_flags(SuiteFlags& flags) {
  doctor::SuiteOptions& options = flags.options;
  const auto take = [](auto&& parsed, const char* flag, auto& into) -> Outcome<void> {
    if (!parsed) return tl::unexpected(wrong(flag, parsed.error()));
    into = std::move(*parsed);
    return {};
  };
  if (auto done = take(doctor::parse_hosts(flags.hosts), "--hosts", options.hosts); !done) return done;
  if (auto done = take(doctor::parse_rails(flags.device), "--device", options.rails); !done) return done;
  if (auto done = take(doctor::parse_tests(flags.tests), "--tests", options.tests); !done) return done;
  if (auto done = take(doctor::Launcher::parse(flags.launcher), "--launcher", options.launcher); !done)
    return done;
  if (auto done = take(doctor::split_words(flags.prefix), "--prefix", options.prefix); !done) return done;
  if (auto done = take(doctor::split_words(flags.collective), "--collective", options.collective); !done)
    return done;
  options.gid = flags.gid;
  options.iterations = flags.iterations;
  options.mroce = mroce_on_hosts(flags);
  if (!options.iterations && options.limit_s <= options.seconds)
    return tl::unexpected(wrong("--limit", "a step takes longer than that with --seconds"));
  return {};
}

std::string figure(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 1000 ? 2 : 0);
}

std::string tests_text(const doctor::SuiteResults& results) {
  Table table({"test", "", "median", "min", "max", "unit", "verdict"});
  std::string reasons;
  for (const doctor::TestResult& test : results.tests) {
    std::string verdict = test.verdict ? test.verdict->rule : "-";
    if (!test.skipped.empty()) reasons += fmt::format("{}: skipped, {}\n", test.name, test.skipped);
    if (!test.failed.empty())
      reasons +=
          styled(STDOUT_FILENO, Style::kBad, fmt::format("{}: failed, {}", test.name, test.failed)) + "\n";
    std::string name = test.name;
    for (const doctor::Metric& metric : test.metrics) {
      table.add({name, metric.name, figure(metric.median()), figure(metric.least()), figure(metric.most()),
                 metric.unit, verdict});
      name.clear();
      verdict.clear();
    }
  }
  return (table.empty() ? "" : table.text(5)) + reasons;
}

std::string change_text(const doctor::MetricChange& metric) {
  const std::string text = fmt::format("{:+.1f} %", 100 * metric.relative);
  if (metric.change == doctor::Change::kSame) return text;
  return styled(STDOUT_FILENO, metric.change == doctor::Change::kWorse ? Style::kBad : Style::kGood, text);
}

std::string amount(double value) {
  return value < 100 && value != std::floor(value) ? fmt::format("{:.1f}", value)
                                                   : grouped(static_cast<uint64_t>(value + 0.5));
}

std::string counters_text(const std::vector<doctor::CounterShift>& shifts) {
  Table table({"counter", "before", "now", "per GiB before", "now", "  test", "host", "port", ""});
  for (const doctor::CounterShift& shift : shifts) {
    const auto rate = [](const std::optional<double>& value) {
      return value ? amount(*value) : std::string("-");
    };
    table.add({shift.name, amount(shift.before), amount(shift.now), rate(shift.before_per_gib),
               rate(shift.now_per_gib), "  " + shift.test, shift.host, shift.port,
               shift.is_new ? "new" : ""});
  }
  return table.empty() ? "" : table.text(5);
}

std::string comparison_text(const doctor::Comparison& comparison) {
  std::string out = styled(STDOUT_FILENO, Style::kBold, "Since " + comparison.baseline_started) + "\n";
  for (const std::string& remark : comparison.remarks) out += remark + "\n";
  Table metrics({"test", "", "before", "now", "change", "noise", "unit", ""});
  for (const doctor::MetricChange& metric : comparison.metrics)
    metrics.add({metric.test, metric.metric, figure(metric.before), figure(metric.now), change_text(metric),
                 fmt::format("{:.1f} %", 100 * metric.threshold), metric.unit,
                 metric.change == doctor::Change::kSame     ? ""
                 : metric.change == doctor::Change::kBetter ? "better"
                                                            : "worse"});
  if (!metrics.empty()) out += metrics.text(6);
  out += comparison.counters.empty() ? "No counter moves that did not, or at another rate.\n"
                                     : counters_text(comparison.counters);
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("(not there)") : text; };
  for (const doctor::SettingShift& shift : comparison.settings)
    out += fmt::format("{}: {}: {} -> {}\n", shift.place, shift.name, shown(shift.before), shown(shift.now));
  if (comparison.settings.empty()) out += "No setting differs.\n";
  return out;
}

Outcome<void> write_bundles(const std::string& folder, const std::vector<doctor::TestBundles>& tests) {
  for (const doctor::TestBundles& test : tests) {
    const std::filesystem::path place = std::filesystem::path(folder) / doctor::to_string(test.kind);
    std::error_code error;
    std::filesystem::create_directories(place, error);
    if (error)
      return failure(kEnvironment, fmt::format("cannot make {}: {}", place.string(), error.message()),
                     "name a folder that you may write to");
    for (const doctor::Bundle& bundle : test.bundles) {
      // Names of hosts are plain: is_plain_name() has no slash.
      if (auto done = write_file((place / (bundle.host + ".json")).string(), doctor::to_json(bundle)); !done)
        return done;
    }
  }
  return {};
}

Outcome<std::optional<doctor::SuiteResults>> read_baseline(const std::string& file) {
  if (file.empty()) return std::nullopt;
  const auto text = read_whole(file, kMaxBaseline);
  if (!text)
    return failure(kEnvironment, fmt::format("{}: {}", file, text.error()), "name results of an earlier run");
  auto results = doctor::read_suite_results(*text);
  if (!results)
    return failure(kEnvironment, fmt::format("{}: {}", file, results.error()),
                   "name results of an earlier run");
  return std::optional(std::move(*results));
}

int code_of(const doctor::Suite& suite, const doctor::SuiteResults& results, bool worse) {
  bool failed = worse;
  for (const doctor::TestResult& test : results.tests) failed = failed || !test.failed.empty();
  return failed ? static_cast<int>(kFindings) : doctor::exit_code_of(suite.diagnosis().outcome);
}

Outcome<int> run_suite(SuiteFlags& flags) {
  if (auto read = read_flags(flags); !read) return tl::unexpected(read.error());
  if (flags.dry_run) {
    fmt::print("{}", doctor::dry_run(flags.options));
    return kFine;
  }
  const auto baseline = read_baseline(flags.baseline);
  if (!baseline) return tl::unexpected(baseline.error());

  doctor::SuiteSignals signals;
  Progress progress;
  doctor::Suite suite(flags.options, doctor::builtin_rulebook(), signals,
                      [&](const std::string& text) { progress.show(text); });
  doctor::SuiteResults results = suite.run();
  progress.wipe();
  if (suite.interrupted()) {
    say("mroce: interrupted; what was started has been ended, nothing is written\n");
    return 128 + signals.received();
  }
  std::optional<doctor::Comparison> comparison;
  if (*baseline) comparison = doctor::compare(**baseline, results);
  if (comparison) results.comparison = doctor::to_json(*comparison);
  if (!flags.output.empty())
    if (auto done = write_file(flags.output, doctor::to_json(results)); !done)
      return tl::unexpected(done.error());
  if (!flags.bundles.empty())
    if (auto done = write_bundles(flags.bundles, suite.bundles()); !done) return tl::unexpected(done.error());
  if (flags.json) {
    if (flags.output != "-") fmt::print("{}", doctor::to_json(results));
  } else {
    fmt::print("{}", tests_text(results));
    for (const std::string& remark : results.remarks) fmt::print("{}\n", remark);
    if (comparison) fmt::print("\n{}", comparison_text(*comparison));
    fmt::print("\n{}\n", doctor::page_of(suite.diagnosis(), styled_ink));
  }
  return code_of(suite, results, comparison && comparison->worse());
}

void add_measure_flags(CLI::App& suite, SuiteFlags& flags) {
  doctor::SuiteOptions& options = flags.options;
  suite.add_option("--size", options.size, "bytes of a message")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30));
  auto* seconds = suite.add_option("--seconds", options.seconds, "length of a bandwidth test")
                      ->capture_default_str()
                      ->check(CLI::Range(1, 86400));
  suite.add_option("--iters", flags.iterations, "messages of a bandwidth test, in place of a time")
      ->check(CLI::Range(5, 100'000'000))
      ->excludes(seconds);
  suite.add_option("--latency-iters", options.latency_iterations, "messages of the latency test")
      ->capture_default_str()
      ->check(CLI::Range(5, 10'000'000));
  suite.add_option("--qps", options.qps, "queue pairs of the test multi")
      ->capture_default_str()
      ->check(CLI::Range(2, 4096));
  suite.add_option("--repeat", options.repeat, "runs of each test")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  suite.add_option("--port", options.port, "first TCP port of perftest; 8192 from here on are used")
      ->capture_default_str()
      ->check(CLI::Range(1024, 49151));
  suite.add_option("--limit", options.limit_s, "seconds until a step counts as hanging")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
}

}  // namespace

void add_doctor_suite(CLI::App& doctor, int& exit_code) {
  CLI::App* suite =
      doctor.add_subcommand("suite", "Benchmark hosts the same way each time, and say what changed");
  auto flags = std::make_shared<SuiteFlags>();
  suite->add_option("--hosts", flags->hosts, "two or more; =ADDRESS where the name is not one")
      ->type_name("A[=ADDRESS],B,…")
      ->required();
  suite->add_option("--launcher", flags->launcher, "what puts a command on a host")
      ->type_name("WORDS")
      ->capture_default_str();
  suite->add_option("--device", flags->device, "RDMA devices, one rail each; auto: all with a link")
      ->type_name("DEV[@GID],…")
      ->capture_default_str();
  suite->add_option("--gid", flags->gid, "GID index on all hosts; else it is read from the snapshots")
      ->type_name("N")
      ->check(CLI::Range(0, 255));
  suite->add_option("--tests", flags->tests, "which, and in which order")
      ->type_name("TEST,…")
      ->capture_default_str();
  suite->add_option("--prefix", flags->prefix, "in front of perftest: \"mroce run --\", \"numactl -N 1\"")
      ->type_name("WORDS");
  suite
      ->add_option("--collective", flags->collective,
                   "command of the test collective; {hosts} and {np} are filled in")
      ->type_name("WORDS");
  suite->add_option("--mroce", flags->mroce, "mroce on the hosts, for the snapshots")->type_name("PROGRAM");
  add_measure_flags(*suite, *flags);
  suite->add_option("-o,--output", flags->output, "keep the results in this file")->type_name("FILE");
  suite->add_option("--bundles", flags->bundles, "keep all bundles in this folder, for analyze")
      ->type_name("FOLDER");
  suite->add_option("--baseline", flags->baseline, "results of an earlier run to compare with")
      ->type_name("FILE");
  suite->add_flag("--json", flags->json, "the results as JSON");
  suite->add_flag("--dry-run", flags->dry_run,
                  "show the commands of the first run of each test, and run none");
  suite->footer(kFooter);
  suite->callback([flags, &exit_code] {
    const auto code = run_suite(*flags);
    exit_code = code ? *code : report(code.error());
  });
}

}  // namespace mroce::cli
