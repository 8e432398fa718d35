// mroce doctor: which layer is the bottleneck of this RoCE job. Wiring; the work is in doctor/.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/doctor_report.h"
#include "cli/finite_range.h"
#include "cli/outcome.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "doctor/analyze.h"
#include "doctor/judge.h"
#include "doctor/page.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  mroce doctor run -- ib_write_bw -d mlx5_0 -D 10 nodeB
  mroce doctor snapshot -o nodeA.json
  mroce doctor analyze before/ after/ perftest.txt
  ethtool -S eth0 | mroce doctor analyze
  mroce doctor analyze --explain pfc-storm)";

constexpr const char* kAnalyzeFooter =
    R"(Files may be bundles, ethtool -S, rdma statistic, listings of /sys/class/infiniband, ibstat, lspci -vv,
mlnx_qos, dcb, perftest, nccl-tests and NCCL logs, in any mix. Whose they are is read from the text or from
the name: nodeA/ethtool-before.txt, receiver_after.txt.

Exit code: 0 healthy, 1 a finding, 5 the evidence does not suffice, 6 the test itself is invalid.

Examples:
  mroce doctor analyze sender-before.txt sender-after.txt receiver-before.txt receiver-after.txt
  mroce doctor analyze run1/ --json
  mroce doctor analyze run1/ --report run1.html
  mroce doctor analyze --explain fabric-congestion)";

struct AnalyzeFlags {
  doctor::AnalyzeOptions options;
  double seconds = 0;
  bool json = false;
  std::string explain, report;
};

int explain_rule(const std::string& name) {
  const doctor::Rulebook& book = doctor::builtin_rulebook();
  const doctor::Rule* rule = book.rule(name);
  if (rule != nullptr) {
    fmt::print("{}", doctor::explain(*rule, book));
    return kFine;
  }
  std::string all;
  for (const auto& each : book.rules) all += " " + each.id;
  return report({kUsage, "no rule is called " + name, "there are:" + all});
}

int run_analyze(AnalyzeFlags& flags) {
  if (!flags.explain.empty()) return explain_rule(flags.explain);
  if (flags.options.files.empty()) {
    if (::isatty(STDIN_FILENO) == 1)
      return report({kUsage, "which files?", "see mroce doctor analyze --help"});
    flags.options.files = {"-"};
  }
  if (flags.seconds > 0) flags.options.seconds = flags.seconds;
  const doctor::Evidence evidence = doctor::gather(flags.options, doctor::builtin_rulebook());
  const doctor::Diagnosis diagnosis = doctor::judge(evidence, doctor::builtin_rulebook());
  if (!flags.report.empty()) {
    if (const auto written = write_doctor_report(flags.report, evidence, diagnosis); !written)
      return report(written.error());
    if (flags.report == "-") return doctor::exit_code_of(diagnosis.outcome);
  }
  fmt::print("{}\n", flags.json ? doctor::to_json(diagnosis) : doctor::page_of(diagnosis, styled_ink));
  return doctor::exit_code_of(diagnosis.outcome);
}

void add_analyze(CLI::App& doctor, int& exit_code) {
  CLI::App* analyze =
      doctor.add_subcommand("analyze", "Say from files which layer is at fault, with evidence");
  auto flags = std::make_shared<AnalyzeFlags>();
  analyze
      ->add_option("files", flags->options.files,
                   "files or folders; standard input if there are none, or for -")
      ->type_name("FILE…");
  analyze->add_flag("--json", flags->json, "as JSON");
  analyze
      ->add_option(
          "--report", flags->report,
          "also as one HTML file that needs nothing else, with what was sampled on one time axis; - is "
          "standard output, instead of the page")
      ->type_name("FILE.html");
  analyze->add_option("--explain", flags->explain, "what a rule looks at, with its thresholds and sources")
      ->type_name("RULE");
  analyze->add_option("--seconds", flags->seconds, "length of the run, if no file says it")
      ->check(finite_range(0.001, 1e7));
  analyze->footer(kAnalyzeFooter);
  analyze->callback([flags, &exit_code] { exit_code = run_analyze(*flags); });
}

}  // namespace

std::string styled_ink(doctor::Ink ink, std::string_view text) {
  switch (ink) {
    case doctor::Ink::kBold:
      return styled(STDOUT_FILENO, Style::kBold, text);
    case doctor::Ink::kDim:
      return styled(STDOUT_FILENO, Style::kDim, text);
    case doctor::Ink::kGood:
      return styled(STDOUT_FILENO, Style::kGood, text);
    case doctor::Ink::kBad:
      return styled(STDOUT_FILENO, Style::kBad, text);
  }
  return std::string(text);
}

void add_doctor(CLI::App& app, const Rest& rest, int& exit_code) {
  CLI::App* doctor = app.add_subcommand("doctor", "Say which layer is the bottleneck of a slow RoCE job");
  doctor->require_subcommand(1);
  doctor->footer(kFooter);
  add_doctor_snapshot(*doctor, exit_code);
  add_doctor_run(*doctor, rest, exit_code);
  add_analyze(*doctor, exit_code);
  add_doctor_diff(*doctor, exit_code);
  add_doctor_inventory(*doctor, exit_code);
  add_doctor_merge(*doctor, exit_code);
  add_doctor_export(*doctor, exit_code);
  add_doctor_suite(*doctor, exit_code);
}

}  // namespace mroce::cli
