// mroce doctor inventory: what is lossless and what is controlled, on which port, at which priority.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/doctor.h"
#include "cli/terminal.h"
#include "doctor/analyze.h"
#include "doctor/collect/inventory.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter =
    R"(One row for each RDMA port. pfc: priorities that are lossless; np, rp: priorities on which ECN marks are notified
and reacted to; dcqcn: both. "?" was not read, which is not the same as off; "*" is known from counters only.
"!" marks what is not as on most ports, or not as at the other end.

Exit code: 0 all ends agree, 1 some differ, 5 nothing to show.

Examples:
  mroce doctor inventory sender.json receiver.json
  mroce doctor inventory all.json --json)";

struct InventoryFlags {
  doctor::AnalyzeOptions options;
  bool json = false;
};

std::string marked(const doctor::InventoryRow& row, const char* column, const std::string& text) {
  const auto& all = row.mismatches;
  return text + (std::find(all.begin(), all.end(), column) != all.end() ? " !" : "");
}

std::string pause_text(const doctor::InventoryRow& row) {
  if (!row.pause_rx && !row.pause_tx) return "?";
  return fmt::format("{}/{}", row.pause_rx.value_or("?"), row.pause_tx.value_or("?"));
}

std::string text_of(const doctor::Inventory& inventory) {
  Table table(
      {"host", "port", "netdev", "role", "Gb/s", "mtu", "pfc", "trust", "pause rx/tx", "np", "rp", "dcqcn"});
  for (const auto& row : inventory.rows) {
    std::string dcqcn = doctor::priorities_text(doctor::dcqcn_of(row));
    if (dcqcn == "?" && row.ecn_by_counters) dcqcn = "seen*";
    const auto pause = pause_text(row);
    const bool pause_differs = marked(row, "pause_rx", "").size() + marked(row, "pause_tx", "").size() > 0;
    table.add({row.host, row.port, row.netdev, row.role,
               marked(row, "rate_gbps", row.rate_gbps.value_or("?")),
               marked(row, "mtu", row.mtu.value_or("?")),
               marked(row, "pfc", doctor::priorities_text(row.pfc) + (row.pfc_by_counters ? "*" : "")),
               marked(row, "trust", row.trust.value_or("?")), pause + (pause_differs ? " !" : ""),
               marked(row, "ecn_np", doctor::priorities_text(row.ecn_np)),
               marked(row, "ecn_rp", doctor::priorities_text(row.ecn_rp)), dcqcn});
  }
  std::string out = table.text(1);
  for (const std::string& sentence : inventory.sentences)
    out += styled(STDOUT_FILENO, Style::kBad, "! ") + sentence + "\n";
  return out;
}

int run_inventory(InventoryFlags& flags) {
  constexpr int kInsufficient = 5;
  if (flags.options.files.empty()) flags.options.files = {"-"};
  const doctor::Evidence evidence = doctor::gather(flags.options, doctor::builtin_rulebook(), true);
  const doctor::Inventory inventory = doctor::take_inventory(evidence);
  if (flags.json) {
    fmt::print("{}\n", doctor::to_json(inventory));
  } else if (inventory.rows.empty()) {
    fmt::print("There is no port in these files.\n");
  } else {
    fmt::print("{}", text_of(inventory));
  }
  if (inventory.rows.empty()) return kInsufficient;
  return inventory.sentences.empty() ? kFine : kFindings;
}

}  // namespace

void add_doctor_inventory(CLI::App& doctor, int& exit_code) {
  CLI::App* inventory =
      doctor.add_subcommand("inventory", "Show PFC, ECN and DCQCN of all ports, with mismatches marked");
  auto flags = std::make_shared<InventoryFlags>();
  inventory
      ->add_option("files", flags->options.files, "bundles or other files; standard input if there are none")
      ->type_name("FILE…");
  inventory->add_flag("--json", flags->json, "as JSON");
  inventory->footer(kFooter);
  inventory->callback([flags, &exit_code] { exit_code = run_inventory(*flags); });
}

}  // namespace mroce::cli
