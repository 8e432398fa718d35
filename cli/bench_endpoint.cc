// mroce bench endpoint: what the endpoint does on this machine, as ratios to kernel TCP in the same run.
//
// On shared and virtual machines absolute figures move by factors within an hour. So all measurements are
// interleaved, round by round, each with its reference, and the rows show medians of the rounds.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_sim.h"
#include "cli/device.h"
#include "cli/measure.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEndpointFooter = R"(Examples:
  mroce bench endpoint --quick
  mroce bench endpoint --security
  mroce bench endpoint --runs 9 --json)";
constexpr const char* kBenchFooter = R"(Examples:
  mroce bench endpoint
  mroce bench endpoint --json
  mroce bench sim --quick)";
constexpr uint32_t kIdleConnections = 64;

struct Options {
  bool json = false;
  bool quick = false;
  bool security = false;
  uint32_t runs = 5;
};

struct Row {
  std::string name;
  std::string unit;
  std::vector<double> values;
  std::vector<double> tcp;       // the reference in the same round, if there is one
  std::vector<double> lossless;  // the same without loss in the same round, if that makes sense
  std::vector<double> mode_0;    // the same without encryption in the same round, if that makes sense
};

// All rounds of all rows, by name. References are rows of their own and not printed.
class Rounds {
 public:
  Rounds(net::Settings settings, const Options& options)
      : settings_(std::move(settings)), seconds_(options.quick ? 0.15 : 0.5), security_(options.security) {}

  Outcome<void> run_all(uint32_t runs);
  std::vector<Row> rows() const;

 private:
  Outcome<void> run_round();
  Outcome<double> writes(const std::string& name, uint32_t bytes, const std::string& impair,
                         const char* security = "off");
  Outcome<void> run_encrypted();
  Outcome<void> keep(const std::string& name, const Outcome<double>& value);

  const std::vector<double>& of(const std::string& name) const { return values_.at(name); }

  net::Settings settings_;
  double seconds_;
  bool security_;
  double last_cpu_ = 0;
  std::map<std::string, std::vector<double>> values_;
};

Outcome<void> Rounds::keep(const std::string& name, const Outcome<double>& value) {
  if (!value) return tl::unexpected(value.error());
  values_[name].push_back(*value);
  return {};
}

Outcome<double> Rounds::writes(const std::string& name, uint32_t bytes, const std::string& impair,
                               const char* security) {
  net::Settings settings = settings_;
  for (const auto& [setting, value] : {std::pair{"impair", impair}, {"security", std::string(security)}}) {
    if (const auto set = settings.set(setting, value, "measurement"); !set) {
      return failure(kInternal, set.error(), "");
    }
  }
  const auto flow = measure_writes(settings, bytes, seconds_);
  if (!flow) return failure(flow.error().code, name + ": " + flow.error().cause, flow.error().hint);
  last_cpu_ = flow->cpu_s_per_gb;
  return flow->gbps;
}

// Mode 2, each beside the same in mode 0.
Outcome<void> Rounds::run_encrypted() {
  // "prefer" is the same on the wire, and says nothing about the key that is not there.
  for (const auto& [name, bytes] : {std::pair{"write_1m_gcm", 1u << 20}, {"write_64k_gcm", 64u << 10}}) {
    if (auto done = keep(name, writes(name, bytes, "", "prefer")); !done) return done;
    values_[std::string(name) + "_cpu"].push_back(last_cpu_);
  }
  return {};
}

Outcome<void> Rounds::run_round() {
  const auto tcp = measure_tcp_stream(seconds_);
  if (!tcp) return tl::unexpected(tcp.error());
  values_["tcp"].push_back(tcp->gbps);
  values_["tcp_cpu"].push_back(tcp->cpu_s_per_gb);
  if (auto done = keep("write_1m", writes("write_1m", 1 << 20, "")); !done) return done;
  values_["cpu_s_per_gb"].push_back(last_cpu_);
  if (auto done = keep("write_64k", writes("write_64k", 64 << 10, "")); !done) return done;
  if (security_) {
    if (auto done = run_encrypted(); !done) return done;
  }
  if (auto done = keep("write_4k", writes("write_4k", 4 << 10, "")); !done) return done;
  if (auto done = keep("write_64b", writes("write_64b", 64, "")); !done) return done;
  if (auto done = keep("write_1m_loss1", writes("write_1m_loss1", 1 << 20, "loss=1%")); !done) return done;
  if (auto done = keep("write_1m_loss10", writes("write_1m_loss10", 1 << 20, "loss=10%")); !done) return done;
  if (auto done = keep("tcp_lat", measure_tcp_half_trip_us(seconds_)); !done) return done;
  return keep("lat_8b", measure_write_half_trip_us(settings_, seconds_));
}

Outcome<void> Rounds::run_all(uint32_t runs) {
  Progress progress;
  for (uint32_t round = 0; round < runs; ++round) {
    progress.show(fmt::format("round {} of {}", round + 1, runs));
    if (auto done = run_round(); !done) return done;
  }
  progress.show("idle connections");
  net::Settings settings = settings_;
  if (const auto set = settings.set("addresses", "127.0.0.1", "measurement"); !set) {
    return failure(kInternal, set.error(), "");
  }
  const auto idle = measure_idle_connections(settings, kIdleConnections);
  if (!idle) return tl::unexpected(idle.error());
  values_["idle_connection_bytes"].push_back(idle->heap_bytes);
  return {};
}

std::vector<Row> Rounds::rows() const {
  std::vector<Row> rows;
  for (const char* name : {"write_1m", "write_64k", "write_4k", "write_64b"}) {
    rows.push_back({name, "Gbit/s", of(name), of("tcp"), {}, {}});
  }
  if (security_) {
    rows.push_back({"write_1m_gcm", "Gbit/s", of("write_1m_gcm"), of("tcp"), {}, of("write_1m")});
    rows.push_back({"write_64k_gcm", "Gbit/s", of("write_64k_gcm"), of("tcp"), {}, of("write_64k")});
    rows.push_back(
        {"cpu_s_per_gb_gcm", "s/GB", of("write_1m_gcm_cpu"), of("tcp_cpu"), {}, of("cpu_s_per_gb")});
  }
  for (const char* name : {"write_1m_loss1", "write_1m_loss10"}) {
    rows.push_back({name, "Gbit/s", of(name), of("tcp"), of("write_1m"), {}});
  }
  rows.push_back({"tcp_256k", "Gbit/s", of("tcp"), {}, {}, {}});
  rows.push_back({"lat_8b", "us", of("lat_8b"), of("tcp_lat"), {}, {}});
  rows.push_back({"tcp_lat_8b", "us", of("tcp_lat"), {}, {}, {}});
  rows.push_back({"cpu_s_per_gb", "s/GB", of("cpu_s_per_gb"), of("tcp_cpu"), {}, {}});
  rows.push_back({"tcp_cpu_s_per_gb", "s/GB", of("tcp_cpu"), {}, {}, {}});
  rows.push_back({"idle_connection_bytes", "B", of("idle_connection_bytes"), {}, {}, {}});
  return rows;
}

// Median of the ratios of each round: what moves the machine moves both.
std::optional<double> ratio(const std::vector<double>& values, const std::vector<double>& references) {
  std::vector<double> ratios;
  for (size_t i = 0; i < values.size() && i < references.size(); ++i) {
    if (references[i] > 0) ratios.push_back(values[i] / references[i]);
  }
  if (ratios.empty()) return std::nullopt;
  return median(ratios);
}

ordered_json to_json(const Row& row) {
  const auto [low, high] = std::minmax_element(row.values.begin(), row.values.end());
  ordered_json out = {{"name", row.name}, {"value", median(row.values)}, {"unit", row.unit}};
  const auto to_tcp = ratio(row.values, row.tcp);
  out["ratio_to_tcp"] = to_tcp ? ordered_json(*to_tcp) : ordered_json();
  if (const auto to_lossless = ratio(row.values, row.lossless)) out["ratio_to_no_loss"] = *to_lossless;
  if (const auto to_mode_0 = ratio(row.values, row.mode_0)) out["ratio_to_mode_0"] = *to_mode_0;
  out["runs"] = row.values.size();
  out["min"] = *low;
  out["max"] = *high;
  return out;
}

std::string table_text(const std::vector<Row>& rows) {
  Table table({"", "median", "", "to TCP", "to no loss", "to mode 0", "min", "max"});
  const auto ratio_text = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.{}f}", *value, *value < 0.1 ? 4 : 2) : std::string("-");
  };
  const auto figure = [](double value) {
    return fmt::format("{:.{}f}", value, value < 1 ? 4 : value < 100 ? 2 : 0);
  };
  for (const Row& row : rows) {
    const auto [low, high] = std::minmax_element(row.values.begin(), row.values.end());
    table.add({row.name, figure(median(row.values)), row.unit, ratio_text(ratio(row.values, row.tcp)),
               ratio_text(ratio(row.values, row.lossless)), ratio_text(ratio(row.values, row.mode_0)),
               figure(*low), figure(*high)});
  }
  return table.text();
}

constexpr const char* kMethod =
    "Two processes on 127.0.0.1, one on each core, measurements interleaved round by round. mroce: "
    "net::Endpoint driven "
    "directly, without the verbs library; the target of WRITEs sleeps, both ends of lat_8b spin. TCP: cubic, "
    "calls of "
    "256 KiB; for lat_8b 8 bytes with TCP_NODELAY, both ends spinning.";

Outcome<void> run_bench(const Options& options) {
  auto settings = settings_with({});
  if (!settings) return tl::unexpected(settings.error());
  Rounds rounds(std::move(*settings), options);
  if (auto done = rounds.run_all(options.runs); !done) return done;
  const std::vector<Row> rows = rounds.rows();
  if (!options.json) {
    fmt::print("{}\n{}\n", table_text(rows), kMethod);
    return {};
  }
  ordered_json out = {
      {"schema", "mroce-bench-endpoint-1"}, {"method", kMethod}, {"rows", ordered_json::array()}};
  for (const Row& row : rows) out["rows"].push_back(to_json(row));
  fmt::print("{}\n", out.dump(2));
  return {};
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the endpoint next to kernel TCP, or the simulator");
  bench->require_subcommand(1);
  bench->footer(kBenchFooter);
  CLI::App* endpoint = bench->add_subcommand("endpoint", "Goodput, latency, processor time, loss, memory");
  auto options = std::make_shared<Options>();
  endpoint->add_flag("--json", options->json, "as JSON");
  endpoint->add_flag("--quick", options->quick, "shorter measurements");
  endpoint->add_flag("--security", options->security, "also with encryption (mode 2), as ratios to mode 0");
  endpoint->add_option("--runs", options->runs, "rounds")->capture_default_str()->check(CLI::Range(1, 100));
  endpoint->footer(kEndpointFooter);
  endpoint->callback([options, &exit_code] {
    if (const auto done = run_bench(*options); !done) exit_code = report(done.error());
  });
  add_bench_sim(*bench, exit_code);
}

}  // namespace mroce::cli
