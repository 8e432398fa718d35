#include "soak/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace mroce::soak {

void SoakReport::add(const RunResult& run, double cpu) {
  ++runs;
  operations += run.operations;
  completions += run.completions;
  packets += run.datagrams;
  simulated_s += static_cast<double>(run.virtual_time.count()) / 1e9;
  cpu_s += cpu;
  faults.add(run.faults);
  final_draw = run.final_draw;
  packet_hash = run.hash;
  most_memory = std::max(most_memory, run.most_memory);
  most_idle_memory = std::max(most_idle_memory, run.most_idle_memory);
}

nlohmann::ordered_json run_to_json(const RunResult& result) {
  nlohmann::ordered_json json = {{"hash", result.hash},
                                 {"operations", result.operations},
                                 {"completions", result.completions},
                                 {"datagrams", result.datagrams},
                                 {"virtual_ns", result.virtual_time.count()},
                                 {"final_draw", result.final_draw},
                                 {"most_memory", result.most_memory},
                                 {"most_idle_memory", result.most_idle_memory},
                                 {"faults", result.faults.counts},
                                 {"violations", nlohmann::ordered_json::array()}};
  for (const Violation& violation : result.violations)
    json["violations"].push_back({violation.kind, violation.text});
  return json;
}

std::optional<RunResult> run_from_json(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    RunResult result;
    result.hash = json.at("hash");
    result.operations = json.at("operations");
    result.completions = json.at("completions");
    result.datagrams = json.at("datagrams");
    result.virtual_time = Nanos{json.at("virtual_ns").get<int64_t>()};
    result.final_draw = json.at("final_draw");
    result.most_memory = json.at("most_memory");
    result.most_idle_memory = json.at("most_idle_memory");
    result.faults.counts = json.at("faults");
    for (const auto& each : json.at("violations")) result.violations.push_back({each.at(0), each.at(1)});
    return result;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // the other process died while it wrote
  }
}

nlohmann::ordered_json report_to_json(const SoakReport& report) {
  nlohmann::ordered_json json = {{"seed", report.seed},
                                 {"runs", report.runs},
                                 {"stopped", report.stopped},
                                 {"repeated", report.repeated},
                                 {"operations", report.operations},
                                 {"completions", report.completions},
                                 {"packets", report.packets},
                                 {"simulated_s", report.simulated_s},
                                 {"cpu_s", report.cpu_s},
                                 {"packets_per_cpu_s", report.packets_per_cpu_s()},
                                 {"most_memory_bytes", report.most_memory},
                                 {"most_idle_memory_bytes", report.most_idle_memory},
                                 {"faults", nlohmann::ordered_json::object()},
                                 {"failed_runs", report.failed_runs},
                                 {"violations", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < kFaultKinds; ++i)
    json["faults"][std::string(name_of(static_cast<FaultKind>(i)))] = report.faults.counts[i];
  for (const Violation& violation : report.violations)
    json["violations"].push_back({{"kind", violation.kind}, {"text", violation.text}});
  if (report.failed) {
    json["failed_seed"] = report.failed->seed;
    json["command"] = command_of(*report.failed);
  }
  if (report.smallest) json["smallest_command"] = command_of(*report.smallest);
  json["packet_hash"] = fmt::format("{:016x}", report.packet_hash);
  json["final_draw"] = fmt::format("{:016x}", report.final_draw);
  return json;
}

std::vector<std::string> settings_of(const RunOptions& wanted) {
  const RunOptions drawn = draw_soak_options(wanted.seed);
  std::vector<std::string> settings;
  each_option(wanted, [&](std::string_view name, const auto&) {
    const std::string value = option_text(wanted, name);
    if (value != option_text(drawn, name)) settings.push_back(fmt::format("{}={}", name, value));
  });
  return settings;
}

std::string command_of(const RunOptions& options) {
  std::string command = fmt::format("mroce soak --seed {} --runs 1", options.seed);
  for (const std::string& setting : settings_of(options)) command += " --set " + setting;
  return command;
}

}  // namespace mroce::soak
