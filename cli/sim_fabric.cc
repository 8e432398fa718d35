#include "cli/sim_fabric.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "cli/sim_words.h"
#include "cli/terminal.h"
#include "sim/words.h"

namespace mroce::cli {
namespace {

constexpr uint64_t kBufferPackets = 151;  // of a port; ECN begins at 31 of them and is certain from 121 on
constexpr uint64_t kMinPackets = 31;
constexpr uint64_t kMaxPackets = 121;
constexpr uint32_t kRealHeaders = 126;      // of a full packet of mroce: 60 and what is below UDP's payload
constexpr uint64_t kRedMinAt25G = 100'000;  // as the scripts of HPCC's ns-3 model scale DCQCN with the rate
constexpr uint64_t kRedMaxAt25G = 400'000;
constexpr double kRedShare = 0.2;

template <class T>
bool assign(T& out, const auto& value) {
  if (!value) return false;
  out = static_cast<std::decay_t<decltype(*value)>>(*value);
  return true;
}

template <auto Member>
bool set_size(FabricSettings& settings, std::string_view text) {
  return assign(settings.*Member, parse_size(text));
}

template <auto Member>
bool set_switch(FabricSettings& settings, std::string_view text) {
  return assign(settings.*Member, parse_switch(text));
}

template <auto Member>
bool set_factor(FabricSettings& settings, std::string_view text) {
  const auto value = sim::parse_decimal(text);
  return value && *value > 0 && *value <= 1024 && assign(settings.*Member, value);
}

template <auto Member, uint64_t kLow, uint64_t kHigh>
bool set_count(FabricSettings& settings, std::string_view text) {
  const auto value = parse_count(text, kLow, kHigh);
  if (!value) return false;
  settings.*Member = static_cast<uint32_t>(*value);
  return true;
}

bool set_mtu(FabricSettings& settings, std::string_view text) {
  return set_count<&FabricSettings::mtu, 512, 9000>(settings, text) && settings.mtu % 4 == 0;
}

bool set_headroom(FabricSettings& settings, std::string_view text) {
  if (text == "auto") {
    settings.pfc_headroom = sim::PfcConfig::kAuto;
    return true;
  }
  return set_size<&FabricSettings::pfc_headroom>(settings, text);
}

bool set_classes(FabricSettings& settings, std::string_view text) {
  uint8_t mask = 0;
  for (const std::string_view word : split_words(text, ',')) {
    const auto priority = parse_count(word, 0, sim::kClasses - 1);
    if (!priority) return false;
    mask = static_cast<uint8_t>(mask | 1U << *priority);
  }
  settings.pfc_classes = mask;
  return mask != 0;
}

bool set_pmax(FabricSettings& settings, std::string_view text) {
  return assign(settings.ecn_pmax, parse_share(text));
}
bool set_reroute(FabricSettings& settings, std::string_view text) {
  if (text == "never") {
    settings.reroute_after = sim::kEndOfTime;
    return true;
  }
  return assign(settings.reroute_after, parse_time(text));
}
bool set_receive(FabricSettings& settings, std::string_view text) {
  return assign(settings.receive_bps, parse_rate(text));
}

using F = FabricSettings;
constexpr FabricKey kKeys[] = {
    {"mtu", "N", "bytes of payload of a full packet, 512 to 9000, in steps of 4; 4096", set_mtu},
    {"header_bytes", "N", "beside the payload; 0: real headers (htsim counts 64)",
     set_count<&F::header_bytes, 0, 1024>},
    {"queue_bytes", "SIZE", "limit of a queue; 151 full packets, 0 (none) with a shared buffer",
     set_size<&F::queue_bytes>},
    {"ecn_kmin", "SIZE", "no packet is marked below it; see above", set_size<&F::ecn_kmin>},
    {"ecn_kmax", "SIZE", "all are marked beyond it; 0: no ECN", set_size<&F::ecn_kmax>},
    {"ecn_pmax", "SHARE", "part that is marked at ecn_kmax; 1, with RED 20%", set_pmax},
    {"shared_buffer", "SIZE", "one buffer for all ports of a switch; 0: none", set_size<&F::shared_buffer>},
    {"alpha", "X", "a queue may hold X times what is free of it; 1", set_factor<&F::alpha>},
    {"pfc", "on|off", "lossless classes", set_switch<&F::pfc>},
    {"pfc_classes", "N,N…", "which; the transport's data (3 for RoCEv2)", set_classes},
    {"pfc_alpha", "X", "pause an input above X times what is free; 0.125", set_factor<&F::pfc_alpha>},
    {"pfc_xoff", "SIZE", "pause an input above this instead; 0", set_size<&F::pfc_xoff>},
    {"pfc_headroom", "SIZE|auto", "of an input, for what comes after a pause; auto: what its link needs",
     set_headroom},
    {"credit_buffer", "SIZE", "of an input and class, for credits (InfiniBand); 0: none",
     set_size<&F::credit_buffer>},
    {"adaptive_routing", "on|off", "the least queued next link instead of ECMP's hash",
     set_switch<&F::adaptive_routing>},
    {"reroute_after", "TIME|never", "switches avoid their dead links after it; never", set_reroute},
    {"pull_ahead", "N", "full packets that a NIC takes from the transport in advance; 4",
     set_count<&F::pull_ahead, 1, 1024>},
    {"receive_bps", "RATE", "what a host takes in over all ports; 0: line rate", set_receive},
    {"receive_buffer", "SIZE", "before that; beyond it packets are lost; 0: without end; 1M",
     set_size<&F::receive_buffer>},
};

// What a link can have under way, so that credits do not limit it.
uint64_t credit_for(const sim::Topology& topology, uint64_t full, uint64_t at_least) {
  uint64_t most = at_least;
  for (const sim::LinkSpec& link : topology.links) {
    const double round = 2e-12 * static_cast<double>(link.delay) * static_cast<double>(link.rate_bps) / 8;
    most = std::max(most, static_cast<uint64_t>(round) + 3 * full);
  }
  return most;
}

uint64_t ports_of_largest(const sim::Topology& topology) {
  uint64_t most = 1;
  for (const sim::SwitchSpec& spec : topology.switches) most = std::max<uint64_t>(most, spec.ports);
  return most;
}

uint64_t fastest_link(const sim::Topology& topology) {
  uint64_t most = 0;
  for (const sim::LinkSpec& link : topology.links) most = std::max(most, link.rate_bps);
  return most;
}

sim::EcnConfig default_ecn(FabricKind kind, uint64_t queue, const sim::Topology& topology) {
  if (kind == FabricKind::kCredits) return {};
  if (kind == FabricKind::kLossy)
    return {queue * kMinPackets / kBufferPackets, queue * kMaxPackets / kBufferPackets, 1};
  if (kind == FabricKind::kStep)
    return {queue * kMinPackets / kBufferPackets, queue * kMinPackets / kBufferPackets, 1};
  const uint64_t share = fastest_link(topology) / 1'000'000;  // of 25 Gbit/s, in 25000ths
  return {kRedMinAt25G * share / 25'000, std::max<uint64_t>(1, kRedMaxAt25G * share / 25'000), kRedShare};
}

// A buffer smaller than a packet would stop everything, or lose everything.
Outcome<void> check_room(const sim::FabricConfig& fabric, const sim::Topology& topology, uint64_t full) {
  uint64_t least_queue = fabric.queue_bytes;
  for (const sim::LinkSpec& link : topology.links) {
    if (link.queue_bytes != 0)
      least_queue = std::min(least_queue != 0 ? least_queue : full, link.queue_bytes);
  }
  const std::pair<const char*, uint64_t> buffers[] = {{"queue_bytes", least_queue},
                                                      {"shared_buffer", fabric.shared.bytes},
                                                      {"credit_buffer", fabric.credit.buffer_bytes},
                                                      {"receive_buffer", fabric.nic.receive_buffer}};
  for (const auto& [name, bytes] : buffers) {
    if (bytes == 0 || bytes >= full) continue;
    return failure(kUsage, fmt::format("{} of {} B is less than a packet of {} B", name, bytes, full),
                   "give it more, or set a smaller mtu");
  }
  return {};
}

}  // namespace

std::span<const FabricKey> fabric_keys() {
  return kKeys;
}

Outcome<bool> FabricSettings::set(std::string_view key, std::string_view value) {
  for (const FabricKey& each : kKeys) {
    if (each.name != key) continue;
    if (each.set(*this, value)) return true;
    return failure(kUsage, fmt::format("--set {}: {} is not {}", key, sim::quoted(value), each.wanted),
                   std::string(each.sentence));
  }
  return false;
}

Outcome<void> set_any(SimTransport& transport, FabricSettings& fabric, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return failure(kUsage, fmt::format("--set {}: no key=value", sim::quoted(assignment)),
                   "write --set mtu=1024");
  }
  const std::string_view key = assignment.substr(0, equals);
  const std::string_view value = assignment.substr(equals + 1);
  const auto of_transport = transport.set(key, value);
  if (!of_transport) return tl::unexpected(of_transport.error());
  if (*of_transport) return {};
  const auto of_fabric = fabric.set(key, value);
  if (!of_fabric) return tl::unexpected(of_fabric.error());
  if (*of_fabric) return {};
  std::vector<std::string_view> names;
  for (const FabricKey& each : kKeys) names.push_back(each.name);
  return failure(
      kUsage, fmt::format("--set: unknown key {}", sim::quoted(key)),
      fmt::format("the fabric has {}; {} has {}", fmt::join(names, ", "), transport.name, transport.keys()));
}

Outcome<void> set_fabric(sim::RunOptions& options, const SimTransport& transport,
                         const FabricSettings& settings, const sim::Topology& topology) {
  options.payload_mtu = settings.mtu;
  options.wire.fixed = settings.header_bytes;
  const uint64_t full = settings.mtu + (settings.header_bytes != 0 ? settings.header_bytes : kRealHeaders);
  const uint64_t queue = kBufferPackets * full;
  const FabricKind kind = transport.fabric;
  const bool lossy = kind == FabricKind::kLossy || kind == FabricKind::kStep;
  const bool pfc = settings.pfc.value_or(kind == FabricKind::kPfc || settings.pfc_classes.has_value());
  // The threshold of a pause is a share of what is free in a shared buffer.
  const bool pooled = kind == FabricKind::kPfc || kind == FabricKind::kSharedLossy || pfc;

  sim::FabricConfig& fabric = options.fabric;
  fabric.shared.bytes = settings.shared_buffer.value_or(pooled ? queue * ports_of_largest(topology) : 0);
  fabric.shared.alpha = settings.alpha;
  fabric.queue_bytes = settings.queue_bytes.value_or(lossy && fabric.shared.bytes == 0 ? queue : 0);
  sim::EcnConfig ecn = default_ecn(kind, fabric.queue_bytes != 0 ? fabric.queue_bytes : queue, topology);
  ecn.kmax_bytes = settings.ecn_kmax.value_or(ecn.kmax_bytes);
  ecn.kmin_bytes = std::min(settings.ecn_kmin.value_or(ecn.kmin_bytes), ecn.kmax_bytes);
  ecn.pmax = settings.ecn_pmax.value_or(ecn.pmax);
  fabric.set_ecn(ecn);

  const auto own_class = static_cast<uint8_t>(1U << transport.data_class());
  fabric.pfc.classes = pfc ? settings.pfc_classes.value_or(own_class) : uint8_t{0};
  fabric.pfc.alpha = settings.pfc_alpha;
  fabric.pfc.xoff_bytes = settings.pfc_xoff.value_or(0);
  fabric.pfc.headroom_bytes = settings.pfc_headroom.value_or(sim::PfcConfig::kAuto);
  fabric.credit.buffer_bytes =
      settings.credit_buffer.value_or(kind == FabricKind::kCredits ? credit_for(topology, full, queue) : 0);
  fabric.adaptive = settings.adaptive_routing.value_or(false);
  fabric.reroute_after = settings.reroute_after;
  fabric.nic.pull_ahead = settings.pull_ahead;
  fabric.nic.receive_bps = settings.receive_bps;
  constexpr uint64_t kReceiveBuffer = 1 << 20;
  fabric.nic.receive_buffer =
      settings.receive_buffer.value_or(settings.receive_bps != 0 ? kReceiveBuffer : 0);
  return check_room(fabric, topology, full);
}

std::string fabric_text(const sim::FabricConfig& fabric) {
  std::vector<std::string> parts;
  if (fabric.shared.bytes != 0)
    parts.push_back(fmt::format("shared buffer {} B", grouped(fabric.shared.bytes)));
  if (fabric.queue_bytes != 0) parts.push_back(fmt::format("queues {} B", grouped(fabric.queue_bytes)));
  if (fabric.credit.buffer_bytes != 0)
    parts.push_back(fmt::format("credits {} B", grouped(fabric.credit.buffer_bytes)));
  if (fabric.nic.receive_bps != 0) {
    parts.push_back(fmt::format("hosts take in {} Gbit/s after a buffer of {} B",
                                static_cast<double>(fabric.nic.receive_bps) / 1e9,
                                grouped(fabric.nic.receive_buffer)));
  }
  std::vector<uint32_t> classes;
  for (uint32_t c = 0; c < sim::kClasses; ++c) {
    if ((fabric.pfc.classes >> c & 1) != 0) classes.push_back(c);
  }
  if (!classes.empty()) parts.push_back(fmt::format("PFC on class {}", fmt::join(classes, ", ")));
  const sim::EcnConfig& ecn = fabric.ecn[0];
  if (!ecn.enabled()) {
    parts.emplace_back("no ECN");
  } else if (ecn.kmin_bytes == ecn.kmax_bytes) {
    parts.push_back(fmt::format("ECN at {} B", grouped(ecn.kmax_bytes)));
  } else {
    parts.push_back(fmt::format("ECN {} to {} B{}", grouped(ecn.kmin_bytes), grouped(ecn.kmax_bytes),
                                ecn.pmax < 1 ? fmt::format(", {:g} %", 100 * ecn.pmax) : ""));
  }
  if (fabric.adaptive) parts.emplace_back("adaptive routing");
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace mroce::cli
