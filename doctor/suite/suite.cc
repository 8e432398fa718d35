#include "doctor/suite/suite.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr std::string_view kCollectives[] = {"all_reduce_perf", "osu_allreduce"};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string joined(const std::vector<TestKind>& tests) {
  std::string out;
  for (const TestKind kind : tests) out += (out.empty() ? "" : ",") + std::string(to_string(kind));
  return out;
}

// perftest's box of asterisks around "Waiting for client to connect" looks like the banner of a host.
std::string without_waiting_box(const std::string& text) {
  std::string out;
  for (const std::string_view line : split(text, '\n')) {
    const bool stars = line.size() > 20 && line.find_first_not_of('*') == std::string_view::npos;
    if (!stars && !contains(line, "* Waiting for client")) out += std::string(line) + "\n";
  }
  return out;
}

// What --gid and --device leave open is filled in.
std::vector<Rail> completed(const SuiteOptions& options, const std::vector<Rail>& found) {
  std::vector<Rail> out = options.rails.empty() ? found : options.rails;
  for (Rail& rail : out) {
    if (rail.gid) continue;
    for (const Rail& known : found)
      if (known.device == rail.device && !rail.gid) rail.gid = known.gid;
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (options.gid && (options.rails.empty() || !options.rails[i].gid)) out[i].gid = options.gid;
  // Several GIDs of one device are no rails once all have the same.
  if (options.gid && options.rails.empty()) {
    std::vector<Rail> distinct;
    for (Rail& rail : out)
      if (std::none_of(distinct.begin(), distinct.end(),
                       [&](const Rail& r) { return r.device == rail.device; }))
        distinct.push_back(std::move(rail));
    out = std::move(distinct);
  }
  return out;
}

void add_commands(const SuiteOptions& options, const TestPlan& plan, std::vector<std::string>& out) {
  const auto add = [&](size_t host, const Words& words) {
    out.push_back(
        shell_quoted(options.launcher.command(options.hosts[host].name, bounded(words, options.limit_s))));
  };
  for (const Step& step : plan.steps) {
    for (const Flow& flow : step.flows) add(flow.server_host, flow.server);
    for (const Flow& flow : step.flows) add(flow.client_host, flow.client);
  }
}

}  // namespace

std::map<std::string, std::string> parameters_of(const SuiteOptions& options) {
  std::string hosts, rails;
  for (const SuiteHost& host : options.hosts) hosts += (hosts.empty() ? "" : ",") + host.name;
  for (const Rail& rail : options.rails)
    rails += (rails.empty() ? "" : ",") + rail.device + (rail.gid ? "@" + std::to_string(*rail.gid) : "");
  std::map<std::string, std::string> out = {{"hosts", hosts},
                                            {"device", rails.empty() ? "auto" : rails},
                                            {"tests", joined(options.tests)},
                                            {"prefix", shell_quoted(options.prefix)},
                                            {"size", std::to_string(options.size)},
                                            {"qps", std::to_string(options.qps)},
                                            {"repeat", std::to_string(options.repeat)}};
  if (options.gid) out["gid"] = std::to_string(*options.gid);
  if (options.iterations)
    out["iterations"] = std::to_string(*options.iterations);
  else
    out["seconds"] = std::to_string(options.seconds);
  return out;
}

std::string dry_run(const SuiteOptions& options) {
  RailsOfHosts rails(options.hosts.size(), completed(options, {{"DEVICE", std::nullopt}}));
  std::string out;
  const auto snapshot = [&](const std::vector<size_t>& hosts) {
    for (const size_t host : hosts)
      out += shell_quoted(options.launcher.command(
                 options.hosts[host].name, bounded({options.mroce, "doctor", "snapshot"}, options.limit_s))) +
             "\n";
  };
  for (const TestKind kind : options.tests) {
    const TestPlan plan = plan_test(options, rails, kind, 0);
    out += fmt::format("# {}{}\n", to_string(kind), plan.skipped.empty() ? "" : ": skipped, " + plan.skipped);
    if (!plan.skipped.empty()) continue;
    std::vector<size_t> hosts = {0, 1};
    for (size_t host = 2; host < options.hosts.size(); ++host)
      if (kind == TestKind::kIncast || kind == TestKind::kCollective) hosts.push_back(host);
    snapshot(hosts);
    std::vector<std::string> commands;
    add_commands(options, plan, commands);
    if (kind == TestKind::kCollective)
      commands.push_back(shell_quoted(options.launcher.command(
          options.hosts[0].name,
          bounded(collective_command(options, std::string(kCollectives[0])), options.limit_s))));
    for (const std::string& command : commands) out += command + "\n";
    snapshot(hosts);
  }
  return out;
}

std::vector<size_t> Suite::hosts_of(TestKind kind) const {
  const bool all = kind == TestKind::kIncast || kind == TestKind::kCollective;
  std::vector<size_t> out;
  for (size_t host = 0; host < (all ? options_.hosts.size() : 2); ++host) out.push_back(host);
  return out;
}

void Suite::look_around(SuiteResults& results) {
  say_("a first look at the hosts");
  std::vector<size_t> hosts;
  for (size_t host = 0; host < options_.hosts.size(); ++host) hosts.push_back(host);
  const auto snapshots = session_.snapshots(hosts, Phase::kStart);
  for (size_t host = 0; host < hosts.size(); ++host) {
    const Bundle& bundle = snapshots[host];
    for (const BundleSource& source : bundle.snapshots.front().sources)
      if (source.name == "mroce doctor snapshot" && !source.text)
        results.remarks.push_back(bundle.host + " gives no snapshots: " + source.missing);
    if (results.writer.empty()) results.writer = bundle.writer;
    rails_.push_back(completed(
        options_, rails_of(bundle, options_.hosts[host], mroce_run_in(options_.prefix).has_value(), book_)));
  }
  results.settings = settings_of(snapshots, book_);
}

std::string Suite::repeat_flows(TestKind kind, TestResult& into, std::vector<EndOutput>& outputs) {
  for (uint32_t repetition = 0; repetition < options_.repeat; ++repetition) {
    say_(fmt::format("{}, {} of {}", to_string(kind), repetition + 1, options_.repeat));
    const TestPlan plan = plan_test(options_, rails_, kind, repetition);
    if (repetition == 0) add_commands(options_, plan, into.commands);
    for (const Step& step : plan.steps) {
      std::vector<EndOutput> of_step;
      const auto done = session_.run(step, of_step);
      const bool understood = harvest_step(step, of_step, book_, into);
      for (EndOutput& output : of_step) outputs.push_back(std::move(output));
      if (!done) return step.name + ": " + done.error();
      if (!understood) return step.name + ": the clients printed no result";
    }
  }
  return {};
}

std::string Suite::find_collective(std::string& why) {
  if (!options_.collective.empty()) return options_.collective.front();
  std::vector<size_t> hosts = hosts_of(TestKind::kCollective);
  Words look = {"which", "mpirun"};
  for (const auto program : kCollectives) look.emplace_back(program);
  const auto answers = session_.on_hosts(hosts, std::vector<Words>(hosts.size(), look), options_.limit_s);
  if (!contains(answers[0].output, "/mpirun")) {
    why = "mpirun is not in PATH on " + options_.hosts[0].name + "; --collective names another command";
    return {};
  }
  for (const auto program : kCollectives)
    if (std::all_of(answers.begin(), answers.end(),
                    [&](const Ran& ran) { return contains(ran.output, "/" + std::string(program)); }))
      return std::string(program);
  why =
      "neither all_reduce_perf (nccl-tests, rccl-tests) nor osu_allreduce is in PATH on all hosts; "
      "--collective "
      "names another command";
  return {};
}

std::string Suite::repeat_collective(TestResult& into, std::vector<EndOutput>& outputs) {
  const std::string program = find_collective(into.skipped);
  if (program.empty()) return {};
  const Words command = collective_command(options_, program);
  into.commands.push_back(
      shell_quoted(options_.launcher.command(options_.hosts[0].name, bounded(command, options_.limit_s))));
  for (uint32_t repetition = 0; repetition < options_.repeat; ++repetition) {
    say_(fmt::format("collective, {} of {}", repetition + 1, options_.repeat));
    const Ran ran = session_.on_hosts({0}, {command}, options_.limit_s).front();
    outputs.push_back({0, true, command, ran.status, ran.output + ran.errors});
    if (!ran.problem.empty()) return ran.problem;
    if (!harvest_collective(ran.output, book_, into)) return "its output is not understood";
  }
  return {};
}

// The end of the bracket, and what was printed within it.
void Suite::close(TestBundles& test, const std::vector<size_t>& hosts,
                  const std::vector<EndOutput>& outputs) {
  const auto ends = session_.snapshots(hosts, Phase::kEnd);
  for (size_t i = 0; i < hosts.size(); ++i) {
    Bundle& bundle = test.bundles[i];
    for (const Snapshot& snapshot : ends[i].snapshots) bundle.snapshots.push_back(snapshot);
    CommandRun command;
    bool sends = false, receives = false;
    for (const EndOutput& output : outputs) {
      if (output.host != hosts[i]) continue;
      (output.is_client ? sends : receives) = true;
      if (command.argv.empty()) command.argv = output.words;
      command.exit_status = std::max(command.exit_status, output.status);
      command.output += without_waiting_box(output.text);
      if (!command.output.ends_with('\n')) command.output += '\n';
    }
    if (sends != receives && test.kind != TestKind::kCollective)
      bundle.role = sends ? Role::kSender : Role::kReceiver;
    if (command.argv.empty()) continue;
    command.begin_ns = bundle.snapshots.front().time_ns;
    command.end_ns = now_ns();
    bundle.command = std::move(command);
  }
}

TestResult Suite::run_test(TestKind kind) {
  TestResult out;
  out.name = to_string(kind);
  out.skipped = plan_test(options_, rails_, kind, 0).skipped;
  if (!out.skipped.empty()) return out;
  const std::vector<size_t> hosts = hosts_of(kind);
  TestBundles test{kind, session_.snapshots(hosts, Phase::kStart)};
  std::vector<EndOutput> outputs;
  out.failed =
      kind == TestKind::kCollective ? repeat_collective(out, outputs) : repeat_flows(kind, out, outputs);
  if (!out.skipped.empty()) return out;
  close(test, hosts, outputs);
  harvest_counters(test, outputs, options_, book_, out);
  out.verdict = verdict_of(diagnose({test}, book_));
  bundles_.push_back(std::move(test));
  return out;
}

SuiteResults Suite::run() {
  SuiteResults results;
  results.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  results.parameters = parameters_of(options_);
  look_around(results);
  for (const TestKind kind : options_.tests) {
    if (session_.interrupted()) break;
    results.tests.push_back(run_test(kind));
  }
  join_brackets(bundles_);
  diagnosis_ = diagnose(bundles_, book_);
  results.diagnosis = to_json(diagnosis_);
  return results;
}

}  // namespace mroce::doctor
