// The transports that can be simulated, by name, with their settings, and what makes one for each host.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/outcome.h"
#include "sim/frame.h"
#include "sim/mroce_transport.h"
#include "sim/rocev2_options.h"
#include "sim/run.h"
#include "sim/tcp_options.h"

namespace mroce::cli {

// What a transport asks of the fabric unless told otherwise; see sim_fabric.h.
enum class FabricKind : uint8_t { kLossy, kStep, kPfc, kSharedLossy, kCredits };

struct SimTransport {
  std::string name;
  std::variant<sim::MroceOptions, sim::TcpOptions, sim::Rocev2Options> options;
  FabricKind fabric = FabricKind::kLossy;

  bool is_mroce() const { return std::holds_alternative<sim::MroceOptions>(options); }
  // The class of data of flows that ask for none.
  uint8_t data_class() const;
  sim::WireProtocol protocol() const;
  // False: it has no such key. The failure is a bad value.
  Outcome<bool> set(std::string_view key, std::string_view value);
  std::string keys() const;
};

Outcome<SimTransport> transport_named(std::string_view name);
std::string transport_names();

// Puts the factory and the set-up of connections into a run. It must outlive the run, and the flows it.
class TransportMaker {
 public:
  TransportMaker(const SimTransport& transport, const std::vector<sim::Flow>& flows)
      : transport_(transport), flows_(flows) {}

  // Empty, or why this transport cannot run these flows.
  std::string check(uint32_t hosts) const;
  sim::TransportFactory factory();
  void prepare(sim::RunOptions& options);
  double setup_cpu_s() const { return setup_cpu_s_; }  // of connections; after the run

 private:
  const SimTransport& transport_;
  const std::vector<sim::Flow>& flows_;
  std::vector<sim::MroceTransport*> mroce_;
  double setup_cpu_s_ = 0;
};

}  // namespace mroce::cli
