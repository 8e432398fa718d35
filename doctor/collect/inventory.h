// Which ports and priorities are lossless, and which are controlled by ECN and DCQCN; where ends differ.
//
// Of each port: PFC (from mlnx_qos or dcb; where neither was read, counters that exist for a priority only if
// PFC is on there say so), what classifies packets, 802.3x pause, ECN notification and reaction by priority,
// MTU and rate. What was not read is unknown, never off. A value that differs from that of most other ports
// of the same kind of setting is marked; with two ports that differ, both are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/evidence.h"

namespace mroce::doctor {

enum class Known : uint8_t { kUnknown, kOff, kOn };

struct InventoryRow {
  std::string host, port, netdev, vendor, role;
  std::array<Known, 8> pfc{}, ecn_np{}, ecn_rp{};
  bool pfc_by_counters = false;  // no configuration was read
  bool ecn_by_counters = false;  // marks or notifications were counted since the driver was loaded
  std::optional<std::string> trust, pause_rx, pause_tx, mtu, rate_gbps, dscp;  // unknown if absent
  std::vector<std::string> mismatches;                                         // names of columns
};

struct Inventory {
  std::vector<InventoryRow> rows;
  std::vector<std::string> sentences;  // on each mismatch
};

Inventory take_inventory(const Evidence& evidence);
std::string to_json(const Inventory& inventory);

// "3", "3,4", "none", "?" (nothing is known).
std::string priorities_text(const std::array<Known, 8>& priorities);
// DCQCN needs both: the receiver's notifications and the sender's reaction.
std::array<Known, 8> dcqcn_of(const InventoryRow& row);

}  // namespace mroce::doctor
