// What changed on hosts between two readings: counters with their rates, and settings.
//
// Both sides are read as `analyze` reads. Of a counter the first reading of A and the last one of B count;
// with one side alone, its first and its last. Hosts and ports of the two sides belong together by name, or
// if each side has one only. A counter that fell is a wrap where its hardware has 32 bits and a reset else
// (delta.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/evidence.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {

struct CounterChange {
  std::string canonical, vendor_name, from, unit;
  int8_t priority = -1;
  bool gauge = false;
  std::optional<uint64_t> before, after;
  DeltaState state = DeltaState::kNone;
  double delta = 0;                  // in the unit
  std::optional<double> per_second;  // if the time between is known
};

struct SettingChange {
  std::string name, before, after;
};

struct PortChange {
  std::string host, port, vendor;
  std::optional<double> seconds;
  std::vector<CounterChange> counters;
  std::vector<SettingChange> settings;
};

struct HostDiff {
  std::vector<PortChange> ports;        // with anything to show
  std::vector<SettingChange> settings;  // of hosts: name is "host: setting"
  std::vector<std::string> remarks;    // that one should know before reading on: another boot, a missing host
  size_t unchanged = 0, unpaired = 0;  // counters
  size_t of_rings = 0;                 // counters of single rings, which are not shown
};

// `all`: also what did not change, and counters of single rings.
HostDiff diff(const Evidence& a, const Evidence& b, const Rulebook& book, bool all);
std::string to_json(const HostDiff& diff);

}  // namespace mroce::doctor
