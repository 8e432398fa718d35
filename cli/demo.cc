// mroce demo: what this is good for, measured here and now.
#include "cli/demo.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "cli/perftest.h"
#include "cli/process_pair.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFooter = R"(Examples:
  mroce demo
  mroce demo --short
  mroce demo --json > demo.json)";

std::string next_steps() {
  const auto place = perftest_place();
  const std::string index = place ? std::to_string(place->gid_index) : "0";
  return fmt::format(
      "Try next:\n"
      "  ./mroce run --loss 1 --stats -- ibv_rc_pingpong -g {0} &\n"
      "  ./mroce run --loss 1 -- ibv_rc_pingpong -g {0} 127.0.0.1\n"
      "  ./mroce info              devices, settings, and what this machine can do\n"
      "  ./mroce bench endpoint    goodput, latency, processor time, next to TCP\n",
      index);
}

// A note when others use the cores as well; empty otherwise.
std::string load_note() {
  double load = 0;
  const size_t cores = usable_cores().size();
  if (::getloadavg(&load, 1) != 1 || load < 0.5 * static_cast<double>(cores)) return "";
  return fmt::format("This machine is busy (load {:.1f} on {} cores): figures will vary.\n\n", load, cores);
}

struct Part {
  const char* name;
  Outcome<DemoPart> (*run)(const DemoOptions&);
};
constexpr Part kParts[] = {
    {"programs", demo_programs},
    {"path_failure", demo_path_failure},
    {"verified_data", demo_verified_data},
};

// Found out before the first part, not after a minute.
Outcome<void> all_parts_ready() {
  if (auto ready = demo_programs_ready(); !ready) return ready;
  return demo_verified_data_ready();
}

int run_demo(const DemoOptions& options) {
  ordered_json all = {{"schema", "mroce-demo-1"}};
  std::vector<std::string> findings;
  if (auto ready = all_parts_ready(); !ready) return report(ready.error());
  if (!options.json) {
    fmt::print("RDMA over UDP between two processes of this machine (127.0.0.1),\nprograms unmodified.\n\n{}",
               load_note());
  }
  for (const Part& part : kParts) {
    const auto done = part.run(options);
    if (!done) return report(done.error());
    all[part.name] = done->json;
    findings.insert(findings.end(), done->findings.begin(), done->findings.end());
    if (!options.json) fmt::print("{}\n", done->text);
    std::fflush(stdout);
  }
  if (options.json) {
    all["findings"] = findings;
    fmt::print("{}\n", all.dump(2));
  } else {
    for (const std::string& one : findings)
      fmt::print("{} {}\n", styled(STDOUT_FILENO, Style::kBad, "Not as it should be:"), one);
    fmt::print("{}", next_steps());
  }
  return findings.empty() ? kFine : kFindings;
}

}  // namespace

void add_demo(CLI::App& app, int& exit_code) {
  CLI::App* demo =
      app.add_subcommand("demo", "Show loss, a failing path and checked data with unmodified programs");
  auto options = std::make_shared<DemoOptions>();
  demo->add_flag("--short", options->quick, "15 seconds instead of a minute");
  demo->add_flag("--json", options->json, "as JSON");
  demo->footer(kFooter);
  demo->callback([options, &exit_code] { exit_code = run_demo(*options); });
}

}  // namespace mroce::cli
