#include "sim/flow_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "sim/time_text.h"

namespace mroce::sim {
namespace {

constexpr SimTime kPicosInMicro = 1'000'000;

double as_us(SimTime time) {
  return static_cast<double>(time) / static_cast<double>(kPicosInMicro);
}

}  // namespace

void write_flow_table(std::ostream& out, std::span<const Flow> flows,
                      const std::function<SimTime(const Flow&)>& ideal) {
  out << "id,src,dst,bytes,start_us,fct_us,received_us,slowdown\n";
  for (const Flow& flow : flows) {
    out << fmt::format("{},{},{},{},", flow.id, flow.source, flow.destination, flow.bytes);
    if (flow.started == kEndOfTime) {
      out << ",,,\n";
      continue;
    }
    out << exact_us(flow.started) << ',';
    if (flow.finished != kEndOfTime) out << exact_us(flow.finished - flow.started);
    out << ',';
    if (flow.received != kEndOfTime) out << exact_us(flow.received - flow.started);
    out << ',';
    const SimTime alone = ideal(flow);
    if (flow.finished != kEndOfTime && alone > 0) {
      out << fmt::format("{:.4f}",
                         static_cast<double>(flow.finished - flow.started) / static_cast<double>(alone));
    }
    out << '\n';
  }
}

SimTime nearest_rank(std::span<const SimTime> sorted, uint32_t percent) {
  if (sorted.empty()) return 0;
  const size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

double jain_index(std::span<const double> values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(values.size()) * squares);
}

FlowSummary summarise(std::span<const Flow> flows) {
  FlowSummary summary;
  summary.flows = flows.size();
  std::vector<SimTime> times;
  std::vector<double> rates;
  SimTime first = kEndOfTime;
  SimTime last = 0;
  double sum = 0;
  for (const Flow& flow : flows) {
    if (flow.started != kEndOfTime) first = std::min(first, flow.started);
    if (flow.finished == kEndOfTime) continue;
    const SimTime fct = flow.finished - flow.started;
    summary.bytes += flow.bytes;
    last = std::max(last, flow.finished);
    times.push_back(fct);
    sum += as_us(fct);
    if (fct > 0) rates.push_back(static_cast<double>(flow.bytes) / as_us(fct));
  }
  summary.finished = times.size();
  if (times.empty()) return summary;
  std::sort(times.begin(), times.end());
  summary.fct_mean_us = sum / static_cast<double>(times.size());
  summary.fct_p50_us = as_us(nearest_rank(times, 50));
  summary.fct_p99_us = as_us(nearest_rank(times, 99));
  summary.fct_max_us = as_us(times.back());
  if (last > first) summary.goodput_bps = static_cast<double>(summary.bytes) * 8e6 / as_us(last - first);
  summary.jain = jain_index(rates);
  return summary;
}

SimTime IdealPath::fct(uint64_t bytes) const {
  const uint64_t packets = std::max<uint64_t>(1, (bytes + payload_mtu - 1) / payload_mtu);
  const uint64_t wire = bytes + packets * packet_overhead;
  const uint64_t full = payload_mtu + packet_overhead;
  return base_rtt + serialisation(wire, rate_bps) - serialisation(std::min(full, wire), rate_bps);
}

}  // namespace mroce::sim
