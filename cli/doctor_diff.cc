// mroce doctor diff: what changed between two snapshots.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "cli/doctor.h"
#include "cli/terminal.h"
#include "doctor/analyze.h"
#include "doctor/collect/diff.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter =
    R"(A and B are bundles, folders, or anything else that analyze reads; B alone missing: the first and the last
reading within A. "wrapped": the counter has 32 bits and went through 0. "reset": it fell, and there is no difference.

Examples:
  mroce doctor diff before.json after.json
  mroce doctor diff run.json --all
  mroce doctor diff ethtool-1.txt ethtool-2.txt --json)";

struct DiffFlags {
  std::string a, b;
  bool json = false, all = false;
};

std::string amount(double value) {
  const double size = std::fabs(value);
  if (size < 1e15 && value == std::floor(value))
    return (value < 0 ? "-" : "") + grouped(static_cast<uint64_t>(size));
  if (size >= 100) return grouped(static_cast<uint64_t>(size + 0.5));
  return fmt::format("{:.3g}", value);
}

std::string name_of(const doctor::CounterChange& change) {
  if (change.canonical.empty()) return "-";
  return change.priority < 0 ? change.canonical : fmt::format("{} [{}]", change.canonical, change.priority);
}

std::vector<std::string> row_of(const doctor::CounterChange& change) {
  std::string delta, remark;
  if (change.gauge)
    remark = "gauge";
  else if (change.state == doctor::DeltaState::kReset)
    remark = "reset";
  else if (change.state == doctor::DeltaState::kWrapped)
    remark = "wrapped";
  if (change.state != doctor::DeltaState::kReset) delta = amount(change.delta);
  return {name_of(change),
          delta,
          change.per_second ? amount(*change.per_second) : "",
          change.unit,
          grouped(*change.before),
          grouped(*change.after),
          change.vendor_name + " (" + change.from + ")",
          remark};
}

std::string settings_text(const std::vector<doctor::SettingChange>& changes) {
  std::string out;
  for (const auto& change : changes)
    out += change.before == change.after
               ? fmt::format("  {}: {}\n", change.name, change.before)
               : fmt::format("  {}: {} -> {}\n", change.name, change.before, change.after);
  return out;
}

std::string text_of(const doctor::HostDiff& diff) {
  std::string out;
  for (const std::string& remark : diff.remarks) out += styled(STDOUT_FILENO, Style::kBad, remark) + "\n";
  for (const auto& port : diff.ports) {
    std::string head = port.host + " " + port.port;
    if (!port.vendor.empty()) head += ", " + port.vendor;
    if (port.seconds) head += fmt::format(", {:.1f} s", *port.seconds);
    out += styled(STDOUT_FILENO, Style::kBold, head) + "\n";
    Table table({"canonical", "change", "per s", "unit", "before", "after", "  as named by the vendor", ""});
    for (const auto& change : port.counters) {
      auto row = row_of(change);
      row[6] = "  " + row[6];
      table.add(std::move(row));
    }
    if (!table.empty()) out += table.text(6, "  ");
    out += settings_text(port.settings);
  }
  out += settings_text(diff.settings);
  out += fmt::format("{} counters did not change\n", grouped(diff.unchanged));
  if (diff.of_rings > 0)
    out += fmt::format("{} counters of single rings are not shown (--all does)\n", grouped(diff.of_rings));
  if (diff.unpaired > 0) out += fmt::format("{} counters are on one side only\n", grouped(diff.unpaired));
  return out;
}

int run_diff(const DiffFlags& flags) {
  const doctor::Rulebook& book = doctor::builtin_rulebook();
  doctor::AnalyzeOptions first{{flags.a}, std::nullopt}, second{{flags.b}, std::nullopt};
  const doctor::Evidence a = doctor::gather(first, book, true);
  doctor::Evidence b;
  if (!flags.b.empty()) b = doctor::gather(second, book, true);
  const doctor::Evidence& other = flags.b.empty() ? a : b;
  for (const auto& [side, name] : {std::pair{&a, &flags.a}, std::pair{&other, &flags.b}})
    if (side->hosts.empty())
      return report(
          {kEnvironment,
           fmt::format("{}: {}", *name,
                       side->problems.empty() ? "there is no host in it" : side->problems.front().reason),
           "name bundles, or files that analyze understands"});
  const doctor::HostDiff diff = doctor::diff(a, other, book, flags.all);
  fmt::print("{}\n", flags.json ? doctor::to_json(diff) : text_of(diff));
  return kFine;
}

}  // namespace

void add_doctor_diff(CLI::App& doctor, int& exit_code) {
  CLI::App* diff = doctor.add_subcommand("diff", "Show what changed between two snapshots, with rates");
  auto flags = std::make_shared<DiffFlags>();
  diff->add_option("A", flags->a, "before")->type_name("FILE")->required();
  diff->add_option("B", flags->b, "after")->type_name("FILE");
  diff->add_flag("--json", flags->json, "as JSON");
  diff->add_flag("--all", flags->all, "also what did not change");
  diff->footer(kFooter);
  diff->callback([flags, &exit_code] { exit_code = run_diff(*flags); });
}

}  // namespace mroce::cli
