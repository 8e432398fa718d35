// mroce run: a program with our verbs library, our view of the devices, impairments and statistics.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "cli/device.h"
#include "cli/launch.h"
#include "cli/run_options.h"
#include "cli/stats.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "cli/write_file.h"
#include "net/say.h"

namespace mroce::cli {
namespace {

std::string json_text(const nlohmann::json& all) {
  return all.dump(2) + "\n";
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
    if (auto written = write_file(file, json_text(process)); !written) return written;
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
  // Opened before: hours of work should not end in a file that nobody can write.
  OutputFile json(options.json_file);
  if (!options.json_file.empty()) {
    if (auto opened = json.open(); !opened) return tl::unexpected(opened.error());
  }

  SignalRelay relay;
  const auto started = start_program(*plan);
  if (!started) return tl::unexpected(started.error());
  if (!started->view_refused.empty()) {
    say("mroce: no /sys/class/infiniband and /dev/infiniband for the program ({}); most run without\n",
        started->view_refused);
  }
  const int status = relay.wait_for(started->pid);
  if (collect) {
    const nlohmann::json all = folder->collect();
    if (auto written = write_for_environment(all); !written) return tl::unexpected(written.error());
    if (options.stats) say("{}", stats_text(all));
    if (!options.json_file.empty()) {
      if (all.empty() && !options.stats) say("mroce: {}", stats_text(all));
      json.write(json_text(all));
      if (auto written = json.finish(); !written) return tl::unexpected(written.error());
    }
  }
  return status;
}

}  // namespace

void add_run(CLI::App& app, const Rest& rest, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Run an unmodified verbs program over UDP");
  add_run_options(*run, *options);
  run->prefix_command();
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
