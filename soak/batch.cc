#include "soak/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "soak/minimise.h"

namespace mroce::soak {

namespace {

constexpr uint64_t kRepeatEvery = 20;

// The same run once more: it must be the same in all that it drew and sent.
void repeat(const BatchPlan& plan, const RunOptions& options, SoakReport& report, RunResult& first) {
  ApartOptions how = plan.how;
  how.story = false;
  const ApartResult again = run_apart(options, how);
  report.stopped = again.stopped;
  if (again.stopped) return;
  ++report.repeated;
  if (again.run.final_draw == first.final_draw && again.run.hash == first.hash) return;
  first.violations.push_back(
      {"repeat",
       fmt::format("not the same when repeated: final draw {:016x} and {:016x}, hash {:016x} and {:016x}",
                   first.final_draw, again.run.final_draw, first.hash, again.run.hash)});
}

void make_smaller(const BatchPlan& plan, SoakReport& report) {
  const std::string kind = report.violations.front().kind;
  if (kind == "repeat") return;  // one run does not show it
  const double end = plan.elapsed() + plan.minimise_seconds;
  ApartOptions how = plan.how;
  how.quiet = true;
  how.story = false;
  how.same_process = false;
  uint64_t tries = 0;
  const auto fails = [&](const RunOptions& options) {
    if (plan.while_minimising) plan.while_minimising(++tries);
    const ApartResult result = run_apart(options, how);
    report.stopped = result.stopped;
    return !result.run.violations.empty() && result.run.violations.front().kind == kind;
  };
  const Minimised smallest =
      minimise(*report.failed, fails, [&] { return !report.stopped && plan.elapsed() < end; });
  report.smallest = smallest.options;
  report.tries = smallest.tries;
}

bool used_up(const BatchPlan& plan, const SoakReport& report) {
  if (report.stopped || report.nobody_listens) return true;
  if (plan.runs != 0 && report.runs >= plan.runs) return true;
  return plan.seconds > 0 && report.runs > 0 && plan.elapsed() >= plan.seconds;
}

}  // namespace

tl::expected<RunOptions, std::string> options_of(const BatchPlan& plan, uint64_t seed) {
  RunOptions options = draw_soak_options(seed);
  for (auto setting = plan.settings.begin(); setting != plan.settings.end(); ++setting) {
    const auto same = [&](const std::string& other) { return name_in(other) == name_in(*setting); };
    if (std::any_of(plan.settings.begin(), setting, same))
      return tl::unexpected(fmt::format("{} is set twice", name_in(*setting)));
    if (auto done = set_option(options, *setting); !done) return tl::unexpected(done.error());
  }
  return options;
}

tl::expected<SoakReport, std::string> run_batch(const BatchPlan& plan) {
  SoakReport report;
  report.seed = plan.seed;
  while (!used_up(plan, report)) {
    const uint64_t seed = plan.seed + report.runs;
    const auto options = options_of(plan, seed);
    if (!options) return tl::unexpected(options.error());
    if (plan.before_run) plan.before_run(report, seed);
    ApartResult result = run_apart(*options, plan.how);
    report.stopped = result.stopped;
    report.nobody_listens = result.nobody_listens;
    if (result.stopped || result.nobody_listens) break;
    const bool repeats = report.runs % kRepeatEvery == 0;
    report.add(result.run, result.cpu_s);
    if (repeats && result.run.violations.empty()) repeat(plan, *options, report, result.run);
    if (result.run.violations.empty()) continue;
    ++report.failed_runs;
    if (plan.after_failure) plan.after_failure(*options, result.run);
    if (!report.failed) {
      report.failed = *options;
      report.violations = result.run.violations;
    }
    if (!plan.keep_going) break;
  }
  if (report.failed && !plan.keep_going && !report.stopped) make_smaller(plan, report);
  return report;
}

}  // namespace mroce::soak
