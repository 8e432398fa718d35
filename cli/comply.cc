// mroce comply: the compliance suite on the command line. Wiring only.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/outcome.h"
#include "cli/stopwatch.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "cli/write_file.h"
#include "comply/control_server.h"
#include "comply/core_target.h"
#include "comply/report.h"
#include "comply/udp_target.h"
#include "core/base/text.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  mroce comply                                    this engine, in virtual time
  mroce comply --udp                              this engine over UDP, in a process of its own
  mroce comply --target 192.0.2.7:7700            somebody else's, see docs/comply-control.md
  mroce comply --serve 192.0.2.7:7700             be such a target, until a signal comes
  mroce comply --section 5.9 --section 7          parts of the specification
  mroce comply --only 5.3/duplicate-cpsn-placed-once --pcapng packets
  mroce comply --list --json                      what is tested, with the sentences of the rules)";

struct ComplyOptions {
  std::vector<std::string> sections, only;
  std::string json, junit, pcapng, target, from, serve;
  std::string seed = "1";
  bool udp = false, list = false, strict = false, packets = false;
};

// ---- terminal

void print_section(std::string_view section, std::string_view& last) {
  if (section == last) return;
  last = section;
  fmt::print("\n{}\n", styled(STDOUT_FILENO, Style::kBold, fmt::format("§{}", section)));
}

void print_list(const std::vector<const comply::Assertion*>& assertions, bool whole) {
  std::string_view section;
  for (const comply::Assertion* each : assertions) {
    print_section(each->section(), section);
    fmt::print("  {:<6} {}\n         {} \"{}\"\n", comply::name_of(each->level), each->id, each->rule,
               each->sentence);
  }
  fmt::print("\n{} assertions", assertions.size());
  const comply::Coverage coverage = comply::coverage_of(assertions);
  if (whole)
    fmt::print(" of {} of the {} MUST rules and {} of the {} SHOULD rules", coverage.must, comply::kMustRules,
               coverage.should, comply::kShouldRules);
  fmt::print("; {} need virtual time and are never run over sockets\n", coverage.virtual_time);
}

class Lines {
 public:
  explicit Lines(bool packets) : packets_(packets) {}

  void result(const comply::AssertionResult& result) {
    const comply::Assertion& assertion = *result.assertion;
    print_section(assertion.section(), section_);
    const std::string_view name = assertion.id.substr(assertion.id.find('/') + 1);
    const std::string what = fmt::format("{} {}: {}", assertion.rule, comply::name_of(assertion.level), name);
    switch (result.verdict) {
      case comply::Verdict::kPass:
        fmt::print("  {} {}\n", styled(STDOUT_FILENO, Style::kGood, "✔"), what);
        break;
      case comply::Verdict::kSkip:
        fmt::print("  {}\n", styled(STDOUT_FILENO, Style::kDim,
                                    fmt::format("- {} ({})", what, printable(result.reason))));
        break;
      case comply::Verdict::kFail:
        fmt::print("  {} {}\n      \"{}\"\n      {}\n", styled(STDOUT_FILENO, Style::kBad, "✘"), what,
                   assertion.sentence, styled(STDOUT_FILENO, Style::kBad, printable(result.reason, 1000)));
        break;
    }
    if (result.verdict == comply::Verdict::kFail || packets_)
      fmt::print("{}", comply::packet_lines(result.packets));
    std::fflush(stdout);
  }

 private:
  bool packets_;
  std::string_view section_;
};

void print_summary(const std::string& target, const std::vector<comply::AssertionResult>& results,
                   double took) {
  const comply::Summary summary = comply::summary_of(results);
  if (summary.fail != 0) {
    fmt::print("\n{}\n", styled(STDOUT_FILENO, Style::kBold, "What failed"));
    for (const comply::AssertionResult& each : results) {
      if (each.verdict == comply::Verdict::kFail)
        fmt::print("  {} ({}): {}\n", each.assertion->id, comply::name_of(each.assertion->level),
                   printable(each.reason));
    }
  }
  const std::string not_run = summary.not_run == 0 ? "" : fmt::format(" ({} not run)", summary.not_run);
  fmt::print("\n{}: {} assertions, {} passed, {} failed, {} skipped{}, {:.1f} s\n", printable(target),
             results.size(), summary.pass, summary.fail, summary.skip, not_run, took);
}

// ---- files

Outcome<void> write_pcapng(const std::string& folder, const std::vector<comply::AssertionResult>& results,
                           const comply::Target& target) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return failure(kEnvironment, fmt::format("cannot make the folder {}: {}", folder, error.message()),
                   "name a folder that you may write to");
  for (const comply::AssertionResult& each : results) {
    if (each.packets.empty()) continue;
    const auto bytes = comply::packets_pcapng(each.packets, target);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto path = std::filesystem::path(folder) / comply::pcapng_name(each.assertion->id);
    if (auto done = write_file(path.string(), text); !done) return done;
  }
  return {};
}

Outcome<void> write_reports(const ComplyOptions& options, const std::vector<comply::AssertionResult>& results,
                            const comply::Target& target) {
  if (!options.json.empty()) {
    const std::string text = comply::report_json(target.name(), results).dump(2) + "\n";
    if (auto done = write_file(options.json, text); !done) return done;
  }
  if (!options.junit.empty()) {
    if (auto done = write_file(options.junit, comply::report_junit(target.name(), results)); !done)
      return done;
  }
  if (!options.pcapng.empty()) return write_pcapng(options.pcapng, results, target);
  return {};
}

// ---- targets

// A target, and the process that serves it if that is our own.
struct Chosen {
  std::optional<comply::ServerProcess> server;
  std::unique_ptr<comply::Target> target;
};

Outcome<comply::HostPort> address_of(const char* option, const std::string& text) {
  const auto parsed = comply::parse_host_port(text);
  if (parsed) return *parsed;
  return failure(kUsage, fmt::format("{} {}: not ADDRESS:PORT", option, printable(text)),
                 "write 192.0.2.7:7700 or [2001:db8::7]:7700");
}

Outcome<Chosen> make_target(const ComplyOptions& options) {
  Chosen out;
  if (!options.udp && options.target.empty()) {
    out.target = std::make_unique<comply::CoreTarget>();
    return out;
  }
  comply::UdpTargetOptions how;
  if (options.udp) {
    auto server = comply::ServerProcess::start();
    if (!server) return failure(kEnvironment, server.error(), "the suite needs loopback: ip link set lo up");
    how.control = server->control();
    out.server.emplace(std::move(*server));
  } else {
    const auto control = address_of("--target", options.target);
    if (!control) return tl::unexpected(control.error());
    how.control = *control;
  }
  if (!options.from.empty()) {
    const auto from = net::parse_address(options.from);
    if (!from)
      return failure(kUsage, fmt::format("--from {}: not an IP address", printable(options.from)),
                     "name a local address of this host");
    how.from = *from;
  }
  auto opened = comply::UdpTarget::open(how);
  if (!opened)
    return failure(kEnvironment, "no run with this target: " + printable(opened.error()),
                   options.from.empty()
                       ? "it must speak the protocol of docs/comply-control.md at that address"
                       : "--from must be an address of this host, and at the address of "
                         "--target something must speak docs/comply-control.md");
  out.target = std::move(*opened);
  return out;
}

int run_server(const std::string& text) {
  const auto address = address_of("--serve", text);
  if (!address) return report(address.error());
  auto listener = comply::listen_tcp(*address);
  if (!listener)
    return report({kEnvironment, listener.error(), "name a local address and a free TCP port, or port 0"});
  const UdpAddress at = comply::local_address(listener->get());
  fmt::print("serving {} port {}\n", net::to_string(at.ip), at.port);
  std::fflush(stdout);
  comply::serve_control(std::move(*listener));
  return kFine;
}

// ---- the run

Outcome<std::vector<const comply::Assertion*>> chosen(const ComplyOptions& options,
                                                      const std::vector<comply::Assertion>& all) {
  for (const std::string& section : options.sections) {
    if (comply::select(all, {section}, {}).empty())
      return failure(kUsage, fmt::format("--section {}: no assertion there", printable(section)),
                     "mroce comply --list shows all");
  }
  for (const std::string& id : options.only) {
    if (comply::select(all, {}, {id}).empty())
      return failure(kUsage, fmt::format("--only {}: no such assertion", printable(id)),
                     "mroce comply --list shows all");
  }
  return comply::select(all, options.sections, options.only);
}

Outcome<void> check_together(const ComplyOptions& options) {
  const bool udp = options.udp, target = !options.target.empty(), serve = !options.serve.empty();
  if (udp && target) return failure(kUsage, "--udp and --target at once", "choose one");
  if (serve && (udp || target || options.list))
    return failure(kUsage, "--serve is a target, and runs no assertion",
                   "leave out --udp, --target and --list, and start the run in another process");
  if (!options.from.empty() && !udp && !target)
    return failure(kUsage,
                   "--from without --udp or --target: this engine in virtual time has its own addresses",
                   "add --udp or --target");
  if (options.json == "-" && options.junit == "-")
    return failure(kUsage, "--json and --junit both to standard output", "name a file for one of them");
  return {};
}

Outcome<uint64_t> seed_of(const ComplyOptions& options) {
  uint64_t seed = 0;
  const char* const end = options.seed.data() + options.seed.size();
  const auto [stopped, error] = std::from_chars(options.seed.data(), end, seed);
  if (error == std::errc{} && stopped == end) return seed;
  return failure(kUsage, fmt::format("--seed {}: not a number from 0 to 2^64-1", printable(options.seed)),
                 "name one, as --seed 42");
}

// A run that says less than it seems to: nothing of the target was tested, or a part of it was not.
std::optional<Failure> not_tested(const std::vector<comply::AssertionResult>& results) {
  const comply::Summary summary = comply::summary_of(results);
  if (summary.not_run == 0 && summary.pass + summary.fail != 0) return std::nullopt;
  const auto first = std::find_if(results.begin(), results.end(), [&](const comply::AssertionResult& each) {
    return each.not_run == (summary.not_run != 0) && each.verdict == comply::Verdict::kSkip;
  });
  const std::string reason = first == results.end() ? "" : printable(first->reason);
  if (summary.not_run == 0)
    return Failure{kEnvironment,
                   fmt::format("nothing was tested: all {} were skipped ({})", results.size(), reason),
                   "docs/comply-control.md says which commands and features the assertions need"};
  return Failure{
      kEnvironment,
      fmt::format("{} of {} assertions were not run ({})", summary.not_run, results.size(), reason),
      "look whether the target still runs, answers in time, and UDP passes in both directions"};
}

int exit_code_of(const ComplyOptions& options, const std::vector<comply::AssertionResult>& results) {
  if (const auto why = not_tested(results)) return report(*why);
  const comply::Summary summary = comply::summary_of(results);
  return (options.strict ? summary.fail : summary.must_fail) == 0 ? kFine : kFindings;
}

int run_comply(const ComplyOptions& options) {
  if (const auto good = check_together(options); !good) return report(good.error());
  const auto seed = seed_of(options);
  if (!seed) return report(seed.error());
  if (!options.serve.empty()) return run_server(options.serve);
  const std::vector<comply::Assertion> all = comply::all_assertions();
  const auto assertions = chosen(options, all);
  if (!assertions) return report(assertions.error());
  if (options.list) {
    if (options.json.empty()) {
      print_list(*assertions, assertions->size() == all.size());
    } else if (auto done = write_file(options.json, comply::list_json(*assertions).dump(2) + "\n"); !done) {
      return report(done.error());
    }
    return kFine;
  }
  const auto chosen_target = make_target(options);
  if (!chosen_target) return report(chosen_target.error());
  comply::Target& target = *chosen_target->target;
  const bool quiet = options.json == "-" || options.junit == "-";
  Lines lines(options.packets);
  comply::RunOptions run;
  run.seed = *seed;
  run.keep_packets = options.packets || !options.pcapng.empty();
  if (!quiet) run.on_result = [&](const comply::AssertionResult& result) { lines.result(result); };
  const auto began = SteadyClock::now();
  const auto results = comply::run(*assertions, target, run);
  if (!quiet)
    print_summary(target.name(), results, std::chrono::duration<double>(SteadyClock::now() - began).count());
  if (auto done = write_reports(options, results, target); !done) return report(done.error());
  return exit_code_of(options, results);
}

}  // namespace

void add_comply(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ComplyOptions>();
  CLI::App* verb = app.add_subcommand("comply", "Test an implementation against the specification");
  verb->add_flag("--udp", options->udp, "this engine over UDP on loopback, in a process of its own");
  verb->add_option("--target", options->target, "control address of somebody else's")
      ->type_name("ADDRESS:PORT");
  verb->add_option("--from", options->from, "local address of the tester, for --udp and --target")
      ->type_name("ADDRESS");
  verb->add_option("--serve", options->serve, "be a target: answer the control protocol there")
      ->type_name("ADDRESS:PORT");
  verb->add_flag("--list", options->list, "show the assertions and their rules, run nothing");
  verb->add_option("--section", options->sections,
                   "only this section, as 5 or 5.3; may be repeated, and adds to --only")
      ->type_name("SECTION");
  verb->add_option("--only", options->only,
                   "only the assertion of this name; may be repeated, and adds to --section")
      ->type_name("NAME");
  verb->add_flag("--strict", options->strict, "a SHOULD that fails counts, too");
  verb->add_flag("--packets", options->packets, "show the packets of every assertion");
  verb->add_option("--json", options->json, "write the results as JSON to this file; without a name, here")
      ->expected(0, 1)
      ->default_str("-")
      ->type_name("FILE");
  verb->add_option("--junit", options->junit, "write the results as JUnit XML to this file")
      ->type_name("FILE");
  verb->add_option("--pcapng", options->pcapng, "write the packets of each assertion into this folder")
      ->type_name("FOLDER");
  verb->add_option("--seed", options->seed, "of the tester's random choices")
      ->type_name("N")
      ->capture_default_str();
  verb->footer(kFooter);
  verb->callback([options, verb, &exit_code] {
    if (verb->count("--json") != 0 && options->json.empty()) options->json = "-";
    exit_code = run_comply(*options);
  });
}

}  // namespace mroce::cli
