// mroce demo, first part: the distribution's perftest over four paths, at rising loss, next to kernel TCP.
//
// Interleaved: one round runs every program at every loss once, so that whatever else the machine does meets
// all of them. Ratios are taken within a round; the table shows medians.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "cli/demo.h"
#include "cli/measure.h"
#include "cli/perftest.h"
#include "cli/terminal.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kLosses[] = {0, 0.1, 1, 10};  // percent
constexpr std::chrono::seconds kRunLimit{20};
constexpr double kDeviations = 4;  // how far drops may be from what was ordered; tests are stricter, with 3

struct Row {
  PerftestProgram program;
  const char* label;
  const char* unit;
  uint32_t rounds;  // of all that are run, the first so many include this program
  bool all_losses;  // otherwise only the first and the third
  uint32_t iterations = 0;
};

std::vector<Row> rows_for(bool quick) {
  const uint32_t many = quick ? 1 : 3;
  std::vector<Row> rows{
      {{"ib_write_bw", {"-s", "1048576"}, Measures::kGoodput, 100},
       "ib_write_bw 1 MiB",
       "Gbit/s",
       many,
       true},
      {{"ib_read_bw", {"-s", "65536"}, Measures::kGoodput, 500}, "ib_read_bw 64 KiB", "Gbit/s", 1, !quick},
      {{"ib_send_bw", {"-s", "65536"}, Measures::kGoodput, 500}, "ib_send_bw 64 KiB", "Gbit/s", 1, !quick},
      {{"ib_atomic_bw", {"-A", "FETCH_AND_ADD"}, Measures::kRate, 2000}, "ib_atomic_bw", "M/s", 1, !quick},
      {{"ib_write_lat", {"-s", "8"}, Measures::kLatency, 500}, "ib_write_lat 8 B", "us", 1, !quick},
  };
  return rows;
}

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

struct Cell {
  std::vector<double> values;
  std::vector<double> ratios;  // to the same program without loss, in the same round
  uint64_t offered = 0;
  uint64_t dropped = 0;
  uint64_t retransmissions = 0;
};

class Matrix {
 public:
  Matrix(PerftestPlace place, bool quick)
      : place_(std::move(place)), seconds_(quick ? 0.25 : 0.4), rows_(rows_for(quick)) {}

  Outcome<void> run();
  DemoPart part() const;

 private:
  Outcome<void> find_iterations(Progress& progress);
  Outcome<void> run_row(const Row& row, uint32_t round, Progress& progress);
  std::string table() const;
  std::string books() const;
  void judge(const Row& row, double loss, const Cell& cell, std::vector<std::string>& findings) const;

  PerftestPlace place_;
  double seconds_;
  std::vector<Row> rows_;
  std::vector<double> tcp_;
  std::map<std::pair<std::string, double>, Cell> cells_;
  std::vector<std::string> failures_;
};

std::vector<Override> overrides_for(double loss) {
  std::vector<Override> overrides{{"paths", "4", "demo"}};
  if (loss > 0) overrides.push_back({"impair", fmt::format("loss={}%", loss), "demo"});
  return overrides;
}

// A short run of each program tells how many iterations fill the time; its own start-up is not part of the
// figure.
Outcome<void> Matrix::find_iterations(Progress& progress) {
  for (Row& row : rows_) {
    progress.show(fmt::format("{}: how fast is it here?", row.label));
    const auto trial =
        run_perftest(place_, row.program, row.program.first_iterations, overrides_for(0), kRunLimit);
    if (!trial) return tl::unexpected(trial.error());
    double per_second = 0;
    switch (row.program.measures) {
      case Measures::kGoodput:
        per_second = trial->value * 1e9 / 8 / std::stod(row.program.arguments.at(1));
        break;
      case Measures::kRate:
        per_second = trial->value * 1e6;
        break;
      case Measures::kLatency:
        per_second = 1e6 / trial->value / 2;
        break;
    }
    row.iterations = static_cast<uint32_t>(std::clamp(per_second * seconds_, 20.0, 1e6));
  }
  return {};
}

Outcome<void> Matrix::run_row(const Row& row, uint32_t round, Progress& progress) {
  double lossless = 0;
  for (const double loss : kLosses) {
    if (!row.all_losses && loss != 0 && loss != 1) continue;
    progress.show(fmt::format("round {}: {} at {} % loss", round + 1, row.label, loss));
    const auto result = run_perftest(place_, row.program, row.iterations, overrides_for(loss), kRunLimit);
    if (!result && result.error().code != kFindings) return tl::unexpected(result.error());
    if (!result) {
      failures_.push_back(fmt::format("{} at {} % loss: {}", row.label, loss, result.error().cause));
      continue;
    }
    if (loss == 0) lossless = result->value;
    Cell& cell = cells_[{row.label, loss}];
    cell.values.push_back(result->value);
    if (lossless > 0) cell.ratios.push_back(result->value / lossless);
    cell.offered += result->offered;
    cell.dropped += result->dropped;
    cell.retransmissions += result->retransmissions;
  }
  return {};
}

Outcome<void> Matrix::run() {
  Progress progress;
  if (auto done = find_iterations(progress); !done) return done;
  uint32_t rounds = 0;
  for (const Row& row : rows_) rounds = std::max(rounds, row.rounds);
  for (uint32_t round = 0; round < rounds; ++round) {
    progress.show(fmt::format("round {}: kernel TCP", round + 1));
    const auto tcp = measure_tcp_stream(seconds_);
    if (!tcp) return tl::unexpected(tcp.error());
    tcp_.push_back(tcp->gbps);
    for (const Row& row : rows_) {
      if (round >= row.rounds) continue;
      if (auto done = run_row(row, round, progress); !done) return done;
    }
  }
  return {};
}

std::string Matrix::table() const {
  std::vector<std::string> header{"", ""};
  for (const double loss : kLosses) header.push_back(loss == 0 ? "no loss" : fmt::format("{} % loss", loss));
  Table table(header);
  for (const Row& row : rows_) {
    std::vector<std::string> cells{row.label, row.unit};
    for (const double loss : kLosses) {
      const auto found = cells_.find({row.label, loss});
      if (found == cells_.end()) {
        cells.push_back("-");
        continue;
      }
      const double value = median(found->second.values);
      const double ratio = median(found->second.ratios);
      const std::string figure = value < 1 ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", value);
      // Of latency a ratio above 1 is worse, of everything else better; a percentage would hide that.
      const std::string compared = row.program.measures == Measures::kLatency
                                       ? fmt::format("x{:.1f}", ratio)
                                       : fmt::format("{:.0f} %", 100 * ratio);
      cells.push_back(loss == 0 ? figure : fmt::format("{} ({})", figure, compared));
    }
    table.add(std::move(cells));
  }
  return table.text(SIZE_MAX, "  ");
}

// What was dropped and sent again in all runs at each loss.
std::string Matrix::books() const {
  Table table({"all runs together", "datagrams sent", "dropped", "ordered", "packets sent again"});
  for (const double loss : kLosses) {
    if (loss == 0) continue;
    Cell sum;
    for (const auto& [key, cell] : cells_) {
      if (key.second != loss) continue;
      sum.offered += cell.offered;
      sum.dropped += cell.dropped;
      sum.retransmissions += cell.retransmissions;
    }
    table.add({fmt::format("at {} % loss", loss), grouped(sum.offered),
               fmt::format("{} ({})", grouped(sum.dropped), percent_text(sum.dropped, sum.offered)),
               fmt::format("{} %", loss), grouped(sum.retransmissions)});
  }
  return table.text(SIZE_MAX, "  ");
}

void Matrix::judge(const Row& row, double loss, const Cell& cell, std::vector<std::string>& findings) const {
  const double p = loss / 100;
  const auto offered = static_cast<double>(cell.offered);
  const double deviation = std::sqrt(offered * p * (1 - p));
  if (std::abs(static_cast<double>(cell.dropped) - offered * p) > kDeviations * deviation + 1e-9) {
    findings.push_back(fmt::format("{} at {} % loss: {} of {} datagrams dropped", row.label, loss,
                                   cell.dropped, cell.offered));
  }
  if (cell.dropped > 100 && cell.retransmissions == 0) {
    findings.push_back(fmt::format("{} at {} % loss: nothing was sent again", row.label, loss));
  }
}

DemoPart Matrix::part() const {
  DemoPart part;
  part.findings = failures_;
  part.json["tcp_gbps"] = median(tcp_);
  for (const Row& row : rows_) {
    ordered_json results = ordered_json::array();
    for (const double loss : kLosses) {
      const auto found = cells_.find({row.label, loss});
      if (found == cells_.end()) continue;
      const Cell& cell = found->second;
      results.push_back({{"loss_percent", loss},
                         {"value", median(cell.values)},
                         {"ratio_to_no_loss", median(cell.ratios)},
                         {"runs", cell.values.size()},
                         {"datagrams_offered", cell.offered},
                         {"datagrams_dropped", cell.dropped},
                         {"retransmissions", cell.retransmissions}});
      judge(row, loss, cell, part.findings);
    }
    part.json["rows"].push_back({{"name", row.label}, {"unit", row.unit}, {"results", std::move(results)}});
  }
  const auto first = cells_.find({rows_.front().label, 0});
  const double writes = first == cells_.end() ? 0 : median(first->second.values);
  part.text = fmt::format(
      "{}\n{}\n{}\n  For scale: kernel TCP (cubic, calls of 256 KiB) moved {:.1f} Gbit/s in the\n"
      "  same minute; {} without loss is {:.2f} of that.\n",
      styled(STDOUT_FILENO, Style::kBold, "1. Unmodified programs over four paths, at rising loss"), table(),
      books(), median(tcp_), rows_.front().label, median(tcp_) > 0 ? writes / median(tcp_) : 0);
  return part;
}

}  // namespace

Outcome<void> demo_programs_ready() {
  if (const auto place = perftest_place(); !place) return tl::unexpected(place.error());
  for (const Row& row : rows_for(false)) {
    if (!is_in_path(row.program.name))
      return failure(kEnvironment, row.program.name + " is not in PATH", "install the package perftest");
  }
  return {};
}

Outcome<DemoPart> demo_programs(const DemoOptions& options) {
  auto place = perftest_place();
  if (!place) return tl::unexpected(place.error());
  Matrix matrix(std::move(*place), options.quick);
  if (auto done = matrix.run(); !done) return tl::unexpected(done.error());
  return matrix.part();
}

}  // namespace mroce::cli
