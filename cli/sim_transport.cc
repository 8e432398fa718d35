#include "cli/sim_transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/stopwatch.h"
#include "sim/mroce_setup.h"
#include "sim/rocev2_transport.h"
#include "sim/tcp_transport.h"
#include "sim/words.h"

namespace mroce::cli {
namespace {

using sim::MroceOptions;
using sim::Rocev2Options;
using sim::TcpOptions;

FabricKind fabric_of_preset(std::string_view name) {
  if (name == "ib") return FabricKind::kCredits;
  if (name == "rocev2-lossy" || name == "irn" || name == "conweave-irn") return FabricKind::kSharedLossy;
  return FabricKind::kPfc;
}

std::vector<std::string> rocev2_key_names() {
  std::vector<std::string> names;
  for (const sim::Rocev2Key& key : sim::rocev2_keys()) names.emplace_back(key.name);
  return names;
}

constexpr const char* kValueHint = "see mroce sim --help";

// For the two whose setter tells unknown keys from bad values by its sentence.
template <class Options>
Outcome<bool> set_by_name(Options& options, std::string_view key, std::string_view value) {
  std::string error;
  if (options.set(key, value, error)) return true;
  if (error.starts_with("unknown key")) return false;
  return failure(kUsage, fmt::format("--set {}: {}", key, error), kValueHint);
}

}  // namespace

uint8_t SimTransport::data_class() const {
  const auto* rocev2 = std::get_if<Rocev2Options>(&options);
  return rocev2 == nullptr ? 0 : static_cast<uint8_t>(rocev2->data_priority);
}

sim::WireProtocol SimTransport::protocol() const {
  if (is_mroce()) return sim::WireProtocol::kMroce;
  return std::holds_alternative<TcpOptions>(options) ? sim::WireProtocol::kTcp : sim::WireProtocol::kRocev2;
}

Outcome<bool> SimTransport::set(std::string_view key, std::string_view value) {
  if (auto* mroce = std::get_if<MroceOptions>(&options)) return set_by_name(*mroce, key, value);
  if (auto* tcp = std::get_if<TcpOptions>(&options)) return set_by_name(*tcp, key, value);
  auto& rocev2 = std::get<Rocev2Options>(options);
  const auto keys = sim::rocev2_keys();
  if (std::none_of(keys.begin(), keys.end(), [&](const auto& each) { return each.name == key; }))
    return false;
  if (const auto done = sim::set_rocev2(rocev2, key, value); !done) {
    return failure(kUsage, "--set: " + done.error(), kValueHint);
  }
  return true;
}

std::string SimTransport::keys() const {
  if (is_mroce()) return MroceOptions::kKeys;
  if (std::holds_alternative<TcpOptions>(options)) return TcpOptions::kKeys;
  return fmt::format("{}", fmt::join(rocev2_key_names(), ", "));
}

std::string transport_names() {
  std::string names = "mroce, tcp, dctcp";
  for (const sim::Rocev2Preset& preset : sim::rocev2_presets()) names += fmt::format(", {}", preset.name);
  return names;
}

Outcome<SimTransport> transport_named(std::string_view name) {
  SimTransport transport;
  transport.name = name;
  if (name == "mroce") {
    transport.options = MroceOptions{};
  } else if (name == "tcp" || name == "dctcp") {
    TcpOptions tcp;
    if (name == "dctcp") {
      tcp.control = sim::TcpControl::kDctcp;
      transport.fabric = FabricKind::kStep;
    }
    transport.options = tcp;
  } else if (auto preset = sim::rocev2_preset(name)) {
    transport.options = *preset;
    transport.fabric = fabric_of_preset(name);
  } else {
    return failure(kUsage, fmt::format("--transport {}: no such transport", sim::quoted(name)),
                   "there are " + transport_names());
  }
  return transport;
}

// Limits of how the mroce transport names hosts and flows by addresses.
std::string TransportMaker::check(uint32_t hosts) const {
  constexpr uint32_t kMostHosts = 1 << 16;
  constexpr uint32_t kMostFlows = 1 << 22;
  if (!transport_.is_mroce()) return {};
  if (hosts > kMostHosts) return fmt::format("mroce can be simulated on at most {} hosts", kMostHosts);
  if (flows_.size() > kMostFlows)
    return fmt::format("mroce can be simulated with at most {} flows", kMostFlows);
  for (const sim::Flow& flow : flows_) {
    if (flow.bytes >= uint64_t{1} << 40)
      return fmt::format("flow {} has a TiB or more; mroce takes less", flow.id);
  }
  return {};
}

sim::TransportFactory TransportMaker::factory() {
  if (const auto* mroce = std::get_if<MroceOptions>(&transport_.options)) {
    return [this, mroce](const sim::HostContext& context) {
      auto made = std::make_unique<sim::MroceTransport>(context, *mroce);
      mroce_.push_back(made.get());
      return made;
    };
  }
  if (const auto* tcp = std::get_if<TcpOptions>(&transport_.options)) {
    return
        [tcp](const sim::HostContext& context) { return std::make_unique<sim::TcpTransport>(context, *tcp); };
  }
  const auto& rocev2 = std::get<Rocev2Options>(transport_.options);
  return [&rocev2](const sim::HostContext& context) {
    return std::make_unique<sim::Rocev2Transport>(context, rocev2);
  };
}

void TransportMaker::prepare(sim::RunOptions& options) {
  if (!transport_.is_mroce()) return;
  options.prepare = [this](sim::SimTime base_rtt) {
    const double begin = cpu_seconds();
    std::string error = sim::open_connections(mroce_, flows_, base_rtt);
    setup_cpu_s_ = cpu_seconds() - begin;
    return error;
  };
}

}  // namespace mroce::cli
