// `mroce soak`: random applications on random networks in virtual time, judged by an oracle. Wiring only.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include "cli/finite_range.h"
#include "cli/outcome.h"
#include "cli/stop_signals.h"
#include "cli/stopwatch.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "net/say.h"
#include "soak/batch.h"
#include "soak/seed.h"
#include "soak/story.h"

namespace mroce::cli {

namespace {

constexpr double kDefaultSeconds = 60;

constexpr const char* kFooter = R"(Examples:
  mroce soak                                         for a minute, from seed 1 on
  mroce soak --commit $(git rev-parse HEAD) --seconds 120
  mroce soak --seed 42 --runs 1 --verbose            one run, told line by line
  mroce soak --seed 42 --runs 1 --set endpoints=2 --set loss=0.1
  mroce soak --seconds 600 --json | jq .faults
Each run draws everything from its seed; docs/soak.md explains options, legend and violations.)";

struct SoakOptions {
  std::string seed = "1";
  std::string commit;
  uint64_t runs = 0;
  double seconds = 0;
  bool verbose = false;
  bool packets = false;
  bool keep_going = false;
  bool same_process = false;
  bool json = false;
  std::vector<std::string> settings;
};

std::string faults_text(const soak::SoakReport& report) {
  Table table({"fault", "times", ""});
  for (size_t i = 0; i < soak::kFaultKinds; ++i) {
    const auto kind = static_cast<soak::FaultKind>(i);
    table.add({std::string(soak::name_of(kind)), grouped(report.faults.of(kind)),
               std::string(soak::sentence_of(kind))});
  }
  return table.text(2);
}

std::string summary(const soak::SoakReport& report) {
  std::string text = faults_text(report);
  if (report.stopped) text += "stopped before the end\n";
  if (report.runs == 0) return text + fmt::format("no run of seed {} has ended\n", report.seed);
  text += fmt::format(
      "seeds {} to {}: {} runs, {} repeated; {} operations, {} completions, {} packets in {:.1f} simulated "
      "seconds\n{:.1f} CPU seconds, {} packets a CPU second; a connection held at most {}, when idle {}\n",
      report.seed, report.seed + report.runs - 1, grouped(report.runs), grouped(report.repeated),
      grouped(report.operations), grouped(report.completions), grouped(report.packets), report.simulated_s,
      report.cpu_s, grouped(static_cast<uint64_t>(report.packets_per_cpu_s())),
      bytes_text(report.most_memory), bytes_text(report.most_idle_memory));
  text += fmt::format("final draw {:016x}, packet hash {:016x}\n", report.final_draw, report.packet_hash);
  if (report.failed) text += fmt::format("again:    {}\n", soak::command_of(*report.failed));
  if (report.smallest)
    text += fmt::format("smallest: {}\n          (after {} tries)\n", soak::command_of(*report.smallest),
                        report.tries);
  return text;
}

void tell_failure(const soak::RunOptions& options, const soak::RunResult& result) {
  say("{}\n", soak::describe(options));
  for (const soak::Violation& violation : result.violations)
    say("  {}: {}\n", violation.kind, violation.text);
}

Outcome<soak::BatchPlan> plan_of(const SoakOptions& options) {
  const auto seed =
      options.commit.empty() ? soak::parse_seed(options.seed) : soak::parse_commit(options.commit);
  if (!seed && !options.commit.empty())
    return failure(kUsage, "--commit: " + seed.error(), "git rev-parse HEAD prints one");
  if (!seed) return failure(kUsage, "--seed: " + seed.error(), "write 42, 0x2a or a commit's hash");
  soak::BatchPlan plan;
  plan.seed = *seed;
  plan.runs = options.runs;
  plan.seconds = options.runs == 0 && options.seconds <= 0 ? kDefaultSeconds : options.seconds;
  plan.keep_going = options.keep_going;
  plan.settings = options.settings;
  plan.how.story = options.verbose || options.packets;
  plan.how.packets = options.packets;
  plan.how.same_process = options.same_process;
  if (plan.how.story && options.json) return failure(kUsage, "--verbose and --json at once", "choose one");
  return plan;
}

// What is printed while it runs.
void tell(soak::BatchPlan& plan, Progress& progress) {
  plan.before_run = [&](const soak::SoakReport& report, uint64_t seed) {
    if (plan.how.story) {
      fmt::print("{}\n", soak::describe(*soak::options_of(plan, seed)));
      return;
    }
    progress.show(fmt::format("seed {}: {} runs, {} packets, {} violations", seed, grouped(report.runs),
                              grouped(report.packets), report.failed_runs));
  };
  plan.after_failure = [&](const soak::RunOptions& run, const soak::RunResult& result) {
    progress.wipe();
    tell_failure(run, result);
  };
  plan.while_minimising = [&](uint64_t tries) {
    progress.show(fmt::format("making the failing run smaller: {} tries", tries));
  };
}

// Ends as a program does whose reader has gone; where that signal is ignored, with the status that it would
// have.
int end_unheard() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
  return 128 + SIGPIPE;
}

Outcome<int> run_soak(const SoakOptions& options) {
  auto plan = plan_of(options);
  if (!plan) return tl::unexpected(plan.error());
  Progress progress;
  const auto began = SteadyClock::now();
  plan->elapsed = [&] { return seconds_since(began); };
  tell(*plan, progress);
  std::optional<StopSignals> signals;
  if (!options.same_process) plan->how.stop_fd = signals.emplace().fd();
  if (plan->how.story) fmt::print("{}", soak::Story::legend());
  const auto report = soak::run_batch(*plan);
  progress.wipe();
  const std::optional<int> signal = signals ? signals->take() : std::nullopt;
  signals.reset();
  if (!report)
    return failure(kUsage, "--set: " + report.error(), "mroce soak --runs 1 --verbose lists them all");
  if (report->nobody_listens) return end_unheard();
  fmt::print("{}", options.json ? soak::report_to_json(*report).dump(2) + "\n" : summary(*report));
  std::fflush(stdout);
  if (report->failed_runs == 0) return report->stopped && signal ? 128 + *signal : kFine;
  return failure(kFindings,
                 fmt::format("{} of {} runs violated the contract", report->failed_runs, report->runs),
                 soak::command_of(report->smallest.value_or(*report->failed)));
}

}  // namespace

void add_soak(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("soak", "Random applications under random faults, judged by an oracle");
  auto options = std::make_shared<SoakOptions>();
  CLI::Option* seed =
      verb->add_option("--seed", options->seed, "of the first run: a number, or the hash of a commit; 1")
          ->type_name("N|HASH");
  verb->add_option("--commit", options->commit, "the same, by a hash even if it has no letters")
      ->type_name("HASH")
      ->excludes(seed);
  verb->add_option("--runs", options->runs, "so many runs, of this seed and those after it")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1000000000}));
  verb->add_option("--seconds", options->seconds, "runs until so much time is over; 60 without --runs")
      ->check(finite_range(0.001, 1e9));
  verb->add_option("--set", options->settings,
                   "an option of the runs, instead of what the seed draws; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb->add_flag("--verbose", options->verbose, "a line for each event, after a legend");
  verb->add_flag("--packets", options->packets, "the same, with a line for each datagram");
  verb->add_flag("--keep-going", options->keep_going,
                 "do not stop at the first violation, nor make it smaller");
  verb->add_flag("--same-process", options->same_process, "no process for each run, for a debugger");
  verb->add_flag("--json", options->json, "as JSON");
  verb->footer(kFooter);
  verb->callback([options, &exit_code] {
    const auto done = run_soak(*options);
    exit_code = done ? *done : report(done.error());
  });
}

}  // namespace mroce::cli
