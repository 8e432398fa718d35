// What a simulation sets for its switches and NICs: the defaults of the transport, and --set key=value.
//
// Each transport gets the fabric that it is made for, from the same memory: a buffer of 151 full packets for
// each port, of its own (mroce, tcp, dctcp) or as one pool of the switch (RoCEv2).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/outcome.h"
#include "cli/sim_transport.h"
#include "sim/config.h"
#include "sim/run.h"
#include "sim/topology.h"

namespace mroce::cli {

struct FabricSettings {
  std::optional<uint64_t> queue_bytes, ecn_kmin, ecn_kmax, shared_buffer, pfc_xoff, pfc_headroom,
      credit_buffer, receive_buffer;
  std::optional<double> ecn_pmax;
  std::optional<bool> pfc, adaptive_routing;
  std::optional<uint8_t> pfc_classes;  // bit: class
  double alpha = 1;
  double pfc_alpha = 0.125;
  sim::SimTime reroute_after = sim::kEndOfTime;
  uint64_t receive_bps = 0;
  uint32_t pull_ahead = 4;
  uint32_t mtu = 4096;
  uint32_t header_bytes = 0;

  // False: no such key. The failure is a bad value.
  Outcome<bool> set(std::string_view key, std::string_view value);
};

struct FabricKey {
  std::string_view name;
  std::string_view wanted;    // "SIZE"
  std::string_view sentence;  // what it is, and its default
  bool (*set)(FabricSettings&, std::string_view);
};
std::span<const FabricKey> fabric_keys();

// One "key=value" for the transport or the fabric.
Outcome<void> set_any(SimTransport& transport, FabricSettings& fabric, std::string_view assignment);

// The part of the run's options that comes from these. The failure is a buffer that no packet fits into.
Outcome<void> set_fabric(sim::RunOptions& options, const SimTransport& transport,
                         const FabricSettings& settings, const sim::Topology& topology);
// "shared buffer 5,099,776 B, PFC on class 3, ECN 400,000 to 1,600,000 B at 20 %"
std::string fabric_text(const sim::FabricConfig& fabric);

}  // namespace mroce::cli
