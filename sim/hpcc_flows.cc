#include "sim/hpcc_flows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <ostream>

#include "sim/text_lines.h"
#include "sim/words.h"

namespace mroce::sim {
namespace {

constexpr uint16_t kFirstPort = 10000;
constexpr uint16_t kDefaultPort = 100;

class HpccParser {
 public:
  HpccParser(std::string_view name, std::string_view text, uint32_t hosts)
      : lines_(name, text), limit_(hosts == 0 ? kMaxWorkloadHosts : hosts) {
    workload_.name = std::string(name);
    workload_.hosts = hosts;
  }

  WorkloadResult parse() {
    if (!parse_count()) return tl::unexpected(std::move(error_));
    while (lines_.next()) {
      if (!parse_flow(lines_.words())) return tl::unexpected(std::move(error_));
    }
    if (workload_.flows.size() != count_) {
      error_ = lines_.at(count_line_) +
               fmt::format("the file says {} flows and has {}; correct the number or the lines", count_,
                           workload_.flows.size());
      return tl::unexpected(std::move(error_));
    }
    begin_at_zero();
    return std::move(workload_);
  }

 private:
  bool fail(std::string_view what) {
    error_ = lines_.at(lines_.line()) + std::string(what);
    return false;
  }

  bool parse_count() {
    if (lines_.next() && lines_.words().size() == 1) count_ = parse_whole(lines_.words()[0]).value_or(0);
    if (count_ == 0 || count_ > kMaxFlows)
      return fail(fmt::format("the file should begin with the number of flows, 1 to {}", kMaxFlows));
    count_line_ = lines_.line();
    return true;
  }

  bool parse_flow(std::span<const std::string_view> words) {
    if (workload_.flows.size() == count_)
      return fail(fmt::format("more flows than the {} of line {}", count_, count_line_));
    if (columns_ == 0 && (words.size() == 5 || words.size() == 6)) columns_ = words.size();
    if (words.size() != columns_) {
      return fail(
          fmt::format("{} words; a flow is 'src dst prio dport bytes start_s', or the same without dport "
                      "in all lines",
                      words.size()));
    }
    const size_t shift = columns_ == 6 ? 1 : 0;
    Flow flow;
    uint64_t source = 0, destination = 0, priority = 0, port = kDefaultPort;
    if (!number(words[0], "src", limit_ - 1, source) || !number(words[1], "dst", limit_ - 1, destination) ||
        !number(words[2], "prio", 7, priority) ||
        (shift == 1 && !number(words[3], "dport", UINT16_MAX, port)) ||
        !number(words[3 + shift], "bytes", kMaxFlowBytes, flow.bytes)) {
      return false;
    }
    const auto start = parse_decimal(words[4 + shift]);
    if (!start || *start > static_cast<double>(kMaxStart) * 1e-12)
      return fail(fmt::format("start_s should be seconds from 0 to 86400, not {}", quoted(words[4 + shift])));
    if (flow.bytes == 0) return fail("the flow has no bytes");
    if (source == destination)
      return fail(fmt::format("host {} sends to itself; a flow needs two hosts", source));
    flow.id = static_cast<uint32_t>(workload_.flows.size() + 1);
    flow.source = static_cast<uint32_t>(source);
    flow.destination = static_cast<uint32_t>(destination);
    flow.priority = static_cast<uint8_t>(priority);
    flow.start = std::llround(*start * 1e12);
    workload_.flows.push_back(flow);
    if (shift == 1) workload_.destination_ports.push_back(static_cast<uint16_t>(port));
    return true;
  }

  bool number(std::string_view word, const char* name, uint64_t high, uint64_t& out) {
    const auto value = parse_whole(word);
    if (!value || *value > high)
      return fail(fmt::format("{} should be a whole number up to {}, not {}", name, high, quoted(word)));
    out = *value;
    return true;
  }

  void begin_at_zero() {
    workload_.origin = kEndOfTime;
    for (const Flow& flow : workload_.flows) {
      workload_.origin = std::min(workload_.origin, flow.start);
      if (limit_ == kMaxWorkloadHosts)
        workload_.hosts = std::max({workload_.hosts, flow.source + 1, flow.destination + 1});
    }
    for (Flow& flow : workload_.flows) flow.start -= workload_.origin;
  }

  TextLines lines_;
  uint32_t limit_;
  uint64_t count_ = 0;
  uint32_t count_line_ = 0;
  size_t columns_ = 0;
  Workload workload_;
  std::string error_;
};

uint32_t address_of(uint32_t host) {
  return 0x0b000001U + (host / 256 << 16) + (host % 256 << 8);
}

}  // namespace

WorkloadResult parse_hpcc_flows(std::string_view name, std::string_view text, uint32_t hosts) {
  return HpccParser(name, text, hosts).parse();
}

WorkloadResult read_hpcc_flows(const std::string& path, uint32_t hosts) {
  const auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  return parse_hpcc_flows(path, *text, hosts);
}

void write_hpcc_fct(std::ostream& out, const Workload& workload, const IdealFct& ideal) {
  const std::vector<Flow>& flows = workload.flows;
  std::vector<uint32_t> order;
  std::vector<uint16_t> ports(flows.size());
  std::map<uint64_t, uint16_t> used;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    const auto [next, first] =
        used.try_emplace(uint64_t{flows[i].source} << 32 | flows[i].destination, kFirstPort);
    ports[i] = next->second++;
    if (flows[i].finished != kEndOfTime) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return flows[a].finished < flows[b].finished; });
  for (const uint32_t i : order) {
    const Flow& flow = flows[i];
    const uint16_t port = workload.destination_ports.empty() ? kDefaultPort : workload.destination_ports[i];
    out << fmt::format("{:08x} {:08x} {} {} {} {} {} {}\n", address_of(flow.source),
                       address_of(flow.destination), ports[i], port, flow.bytes,
                       (flow.started + workload.origin) / kPicosInNano,
                       (flow.finished - flow.started) / kPicosInNano, ideal(flow) / kPicosInNano);
  }
}

}  // namespace mroce::sim
