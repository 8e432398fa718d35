#include "cli/sim_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "cli/terminal.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, sim::kDropReasons> kReasons = {
#define MROCE_SIM_DROP(name, sentence) #name,
    MROCE_SIM_DROPS(MROCE_SIM_DROP)
#undef MROCE_SIM_DROP
};

double in_us(sim::SimTime time) {
  return static_cast<double>(time) / 1e6;
}

std::array<uint64_t, sim::kDropReasons> drops_by_reason(const sim::RunResult& result) {
  std::array<uint64_t, sim::kDropReasons> sums{};
  for (const sim::SwitchCounters& counters : result.switches) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += counters.drops[i];
  }
  return sums;
}

ordered_json reasons_json(const sim::RunResult& result) {
  ordered_json out = {{"link", result.fabric.lost}};
  const auto sums = drops_by_reason(result);
  for (size_t i = 0; i < sums.size(); ++i) out[kReasons[i]] = sums[i];
  out["receiver"] = result.fabric.receiver_drops;
  return out;
}

std::string reasons_text(const sim::RunResult& result) {
  std::vector<std::string> parts;
  const ordered_json reasons = reasons_json(result);
  for (const auto& [name, count] : reasons.items()) {
    if (count != 0) parts.push_back(fmt::format("{} {}", name, grouped(count.get<uint64_t>())));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void flatten(const ordered_json& value, const std::string& name, std::string& names, std::string& values) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      flatten(member, name.empty() ? key : name + "_" + key, names, values);
    return;
  }
  const char* const comma = names.empty() ? "" : ",";
  names += comma + name;
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (value.is_string()) {
    for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
    text = '"' + text + '"';
  }
  values += comma + text;
}

}  // namespace

uint64_t SimReport::drops() const {
  return result.fabric.lost + result.fabric.switch_drops + result.fabric.receiver_drops;
}

std::string SimReport::trouble() const {
  if (result.complete) return {};
  std::string text = result.trouble;
  const uint64_t failed = result.transport.failed_flows;
  if (failed != 0) text += fmt::format("; {} were given up by the transport", grouped(failed));
  if (result.limit_reached) {
    text += fmt::format("; the limit of simulated time was reached at {}",
                        nanos_text(static_cast<uint64_t>(result.simulated / sim::kPicosInNano)));
  } else if (!result.deadlock && failed == 0) {
    text += "; nothing was left to happen";
  }
  return text;
}

ordered_json sim_json(const SimReport& report) {
  const sim::RunResult& r = report.result;
  const sim::FlowSummary& f = report.flows;
  ordered_json out;
  out["fct_us"] = {
      {"mean", f.fct_mean_us}, {"p50", f.fct_p50_us}, {"p99", f.fct_p99_us}, {"max", f.fct_max_us}};
  out["flows"] = {{"total", f.flows}, {"finished", f.finished}};
  out["goodput_gbps"] = f.goodput_bps / 1e9;
  out["hops"] = r.fabric.hops;
  out["events"] = r.fabric.events;
  out["drops"] = report.drops();
  out["ce_marks"] = r.fabric.marks;
  out["pause"] = {{"frames", r.pauses_sent}, {"us", in_us(r.paused_time)}};
  out["cnps"] = r.transport.cnps;
  out["retransmissions"] = r.transport.retransmissions;
  out["duplicates"] = r.transport.duplicates;
  out["max_queue_bytes"] = r.max_queue_bytes;
  out["simulated_us"] = in_us(r.simulated);
  out["cpu_s"] = report.cpu_s;
  out["peak_rss_bytes"] = report.peak_rss_bytes;
  out["seed"] = report.seed;
  out["transport"] = report.transport;
  out["topology"] = report.topology;
  out["load"] = report.load;
  out["fabric"] = report.fabric;
  out["bytes"] = f.bytes;
  out["jain"] = f.jain;
  out["base_rtt_us"] = in_us(r.base_rtt);
  out["timeouts"] = r.transport.timeouts;
  out["drops_by_reason"] = reasons_json(r);
  ordered_json counters;
#define MROCE_SIM_COUNTER(name, sentence) counters[#name] = r.transport.name;
  MROCE_SIM_TRANSPORT_COUNTERS(MROCE_SIM_COUNTER)
#undef MROCE_SIM_COUNTER
  out["counters"] = counters;
  out["trouble"] = report.trouble();
  return out;
}

std::string sim_csv(const ordered_json& object) {
  std::string names, values;
  flatten(object, "", names, values);
  return names + "\n" + values + "\n";
}

std::string sim_table(const SimReport& report) {
  const sim::RunResult& r = report.result;
  const sim::FlowSummary& f = report.flows;
  std::string out =
      styled(1, Style::kBold, fmt::format("{} on {}: {}", report.transport, report.topology, report.load));
  out += fmt::format("\n  {}\n\n", report.fabric);
  const auto row = [&out](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<16} {}\n", name, value);
  };
  row("flows",
      fmt::format("{} of {} finished, {}", grouped(f.finished), grouped(f.flows), bytes_text(f.bytes)));
  row("FCT", fmt::format("mean {:.2f}  p50 {:.2f}  p99 {:.2f}  max {:.2f} us", f.fct_mean_us, f.fct_p50_us,
                         f.fct_p99_us, f.fct_max_us));
  row("goodput",
      fmt::format("{:.1f} Gbit/s over all flows, fairness (Jain) {:.3f}", f.goodput_bps / 1e9, f.jain));
  row("drops", report.drops() == 0 ? "0" : fmt::format("{} ({})", grouped(report.drops()), reasons_text(r)));
  row("ECN marks", grouped(r.fabric.marks));
  row("pauses", fmt::format("{} frames, {:.1f} us in all", grouped(r.pauses_sent), in_us(r.paused_time)));
  row("CNPs", grouped(r.transport.cnps));
  row("sent again", fmt::format("{} packets of {}, {} came twice, {} timeouts",
                                grouped(r.transport.retransmissions), grouped(r.transport.data_packets),
                                grouped(r.transport.duplicates), grouped(r.transport.timeouts)));
  row("longest queue", fmt::format("{} B", grouped(r.max_queue_bytes)));
  row("simulated", fmt::format("{:.2f} us, base RTT {:.2f} us", in_us(r.simulated), in_us(r.base_rtt)));
  const double running = report.cpu_s - report.setup_cpu_s;
  row("cost",
      fmt::format("{:.2f} CPU s{}, {} packet-hops, {} events, {:.2f} Mhops/s", report.cpu_s,
                  report.setup_cpu_s >= 0.005 ? fmt::format(" ({:.2f} set-up)", report.setup_cpu_s) : "",
                  grouped(r.fabric.hops), grouped(r.fabric.events),
                  running > 0 ? static_cast<double>(r.fabric.hops) / running / 1e6 : 0));
  row("memory",
      fmt::format("peak {}: transports {}, fabric {}, packets {}", bytes_text(report.peak_rss_bytes),
                  bytes_text(r.transport_bytes), bytes_text(r.fabric_bytes), bytes_text(r.packet_bytes)));
  return out;
}

}  // namespace mroce::cli
