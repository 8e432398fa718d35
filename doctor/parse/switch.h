// What readers of switches share.
#pragma once

#include <string>
#include <string_view>

#include "doctor/ingest.h"

namespace mroce::doctor {

// For as long as it lives, what is read belongs to a switch: the host at hand, or one named "switch" if no
// host is named or the one at hand has RDMA devices (outputs of hosts and switches in one file).
class SwitchScope {
 public:
  explicit SwitchScope(Context& context);
  ~SwitchScope();
  SwitchScope(const SwitchScope&) = delete;
  SwitchScope& operator=(const SwitchScope&) = delete;
  Port& port(std::string_view name);
  void count(std::string_view port, std::string_view from, std::string_view name, uint64_t value,
             uint32_t line);

 private:
  Context& context_;
  std::string host_;
  Role role_;
};

// "Ethernet0", "Ethernet1/1", "Eth1/1", "Et1", "swp16", "PortChannel3", "Po3": a port of a switch.
bool is_switch_port(std::string_view word);

}  // namespace mroce::doctor
