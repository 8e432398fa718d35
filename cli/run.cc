// mroce run: a program with our verbs library, our view of the devices, impairments and statistics.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "cli/device.h"
#include "cli/launch.h"
#include "cli/stats.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace mroce::cli {
namespace {

constexpr const char* kImpairText =
    R"(Impairments (--impair): CLAUSE;CLAUSE…, each a list of these, separated by commas
  loss=P           drop at random; P is 1% or 0.01
  burst=P:N        losses in a row: with probability P the next N packets (on average)
  reorder=P:T      hold a packet for the time T (ns, us, ms, s) and let others overtake it
  duplicate=P      send twice
  corrupt=P        flip one bit
  delay=T[:T]      delay by the first time, give or take the second
  rate=R queue=B   a link of R bit/s (K, M, G) with a queue of B bytes
  ce=P             mark Congestion Experienced
  down=T-[T]       nothing passes between these times after the start
  path=N plane=N dir=out|in|both during=T-[T]
                   to which packets and when the clause applies; default: all that are sent, always

)";

constexpr const char* kFooter =
    R"(The program follows "--". Its exit status becomes ours; 127: not found, 126: not executable.

Examples:
  mroce run -- ibv_devinfo
  mroce run --loss 1 --stats -- ib_write_bw -d mroce0 -x 1 -s 1M        (then a client with the host)
  mroce run --impair 'burst=0.1%:20;down=1s-2s,path=1' --json out.json -- ibv_rc_pingpong -g 1)";

struct RunOptions {
  std::string loss;
  std::string impair;
  std::string paths;
  std::string planes;
  std::string json_file;
  std::string trace_file;
  std::vector<std::string> sets;
  bool stats = false;
  bool no_view = false;
};

Outcome<std::vector<Override>> overrides_of(const RunOptions& options) {
  std::vector<Override> overrides;
  const auto add = [&](std::string_view setting, const std::string& value, std::string_view flag) {
    if (!value.empty()) overrides.push_back({std::string(setting), value, fmt::format("flag {}", flag)});
  };
  add("paths", options.paths, "--paths");
  add("planes", options.planes, "--planes");
  std::string impair = options.impair;
  if (!options.loss.empty()) impair += fmt::format("{}loss={}%", impair.empty() ? "" : ";", options.loss);
  add("impair", impair, "--impair");
  // The program may change its folder before it opens the device.
  if (!options.trace_file.empty())
    add("trace", std::filesystem::absolute(options.trace_file).string(), "--trace");
  for (const std::string& pair : options.sets) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return failure(kUsage, fmt::format("--set {}: no '='", pair), "write --set NAME=VALUE");
    }
    overrides.push_back(
        {pair.substr(0, equals), pair.substr(equals + 1), "flag --set " + pair.substr(0, equals)});
  }
  return overrides;
}

Outcome<void> write_json(const std::string& file, const nlohmann::json& all) {
  const std::string text = all.dump(2) + "\n";
  if (file == "-") {
    fmt::print("{}", text);
    return {};
  }
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) return failure(kEnvironment, "cannot write " + file, "name a file that you may write to");
  return {};
}

// Whoever started us may want the statistics as well: `mroce doctor run`, or a person. Only the file's name
// was ours.
Outcome<void> write_for_environment(const nlohmann::json& all) {
  const char* pattern = std::getenv(environment_name("stats_file").c_str());
  if (pattern == nullptr || *pattern == '\0') return {};
  for (const nlohmann::json& process : all) {
    std::string file = pattern;
    const std::string pid = std::to_string(number_at(process, "pid"));
    for (size_t at = file.find("%p"); at != std::string::npos; at = file.find("%p", at + pid.size()))
      file.replace(at, 2, pid);
    if (auto written = write_json(file, process); !written) return written;
  }
  return {};
}

Outcome<LaunchPlan> plan_of(const RunOptions& options, const std::vector<std::string>& program,
                            std::vector<Override> overrides) {
  const auto settings = settings_with(overrides);
  if (!settings) return tl::unexpected(settings.error());
  const auto libraries = library_folder();
  if (!libraries) return tl::unexpected(libraries.error());
  const auto view = device_view(*settings, *libraries);
  if (!view) return tl::unexpected(view.error());

  LaunchPlan plan;
  plan.arguments = program;
  plan.environment.emplace_back("LD_LIBRARY_PATH", library_path_with(*libraries));
  for (const Override& one : overrides)
    plan.environment.emplace_back(environment_name(one.setting), one.value);
  if (!options.no_view) plan.view = *view;
  return plan;
}

Outcome<int> run_program(const RunOptions& options, const std::vector<std::string>& program) {
  auto overrides = overrides_of(options);
  if (!overrides) return tl::unexpected(overrides.error());
  const bool collect = options.stats || !options.json_file.empty();
  std::optional<StatsFolder> folder;
  if (collect) {
    auto made = StatsFolder::make();
    if (!made) return tl::unexpected(made.error());
    folder.emplace(std::move(*made));
    overrides->push_back(
        {"stats_file", folder->file_pattern(), options.stats ? "flag --stats" : "flag --json"});
  }
  const auto plan = plan_of(options, program, *overrides);
  if (!plan) return tl::unexpected(plan.error());

  SignalRelay relay;
  const auto started = start_program(*plan);
  if (!started) return tl::unexpected(started.error());
  if (!started->view_refused.empty()) {
    fmt::print(stderr,
               "mroce: no /sys/class/infiniband and /dev/infiniband for the program ({}); most run without\n",
               started->view_refused);
  }
  const int status = relay.wait_for(started->pid);
  if (collect) {
    const nlohmann::json all = folder->collect();
    if (auto written = write_for_environment(all); !written) return tl::unexpected(written.error());
    if (options.stats) fmt::print(stderr, "{}", stats_text(all));
    if (!options.json_file.empty()) {
      if (auto written = write_json(options.json_file, all); !written) return tl::unexpected(written.error());
    }
  }
  return status;
}

std::string settings_text() {
  Table table({"Settings (--set)", "default", ""});
  for (const net::Setting& setting : net::all_settings()) {
    table.add(
        {"  " + std::string(setting.name), std::string(setting.default_text), std::string(setting.sentence)});
  }
  return table.text(1) + "\n";
}

}  // namespace

void add_run(CLI::App& app, const Rest& rest, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Run an unmodified verbs program over UDP");
  run->add_option("--loss", options->loss, "drop this percentage of the packets that the program sends")
      ->type_name("PERCENT");
  run->add_option("--impair", options->impair, "a bad network, on purpose: see below")->type_name("SPEC");
  run->add_option("--paths", options->paths, "paths of one connection in each direction")->type_name("N");
  run->add_option("--planes", options->planes, "pairs of addresses that one connection may use")
      ->type_name("N");
  run->add_flag("--stats", options->stats,
                "print a table of paths and connections when the program has ended");
  run->add_option("--json", options->json_file, "write the statistics as JSON; - is standard output")
      ->type_name("FILE");
  run->add_option("--trace", options->trace_file, "write all packets to this file; %p is the process id")
      ->type_name("FILE.pcapng");
  run->add_option("--set", options->sets, "any other setting: see below; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  run->add_flag("--no-view", options->no_view, "leave /sys/class/infiniband and /dev/infiniband as they are");
  run->prefix_command();
  run->footer(kImpairText + settings_text() + kFooter);
  run->callback([run, options, &rest, &exit_code] {
    std::vector<std::string> program = run->remaining();
    program.insert(program.end(), rest.begin(), rest.end());
    if (!program.empty() && program.front().starts_with('-')) {
      exit_code = report({kUsage, "unknown option " + program.front(), "see mroce run --help"});
      return;
    }
    if (program.empty()) {
      exit_code =
          report({kUsage, "which program?", "write mroce run -- PROGRAM ARGUMENTS, see mroce run --help"});
      return;
    }
    const auto status = run_program(*options, program);
    exit_code = status ? *status : report(status.error());
  });
}

}  // namespace mroce::cli
