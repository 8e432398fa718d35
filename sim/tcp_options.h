// Settings of the simulated TCP. Defaults are those of a Linux host in a data centre.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/time.h"

namespace mroce::sim {

enum class TcpControl : uint8_t { kReno, kDctcp };

struct TcpOptions {
  TcpControl control = TcpControl::kReno;
  bool sack = true;
  bool rack = true;                         // loss by time (RFC 8985) instead of by three duplicates
  bool tlp = true;                          // tail loss probes (RFC 8985, section 7); needs sack
  uint32_t initial_window = 10;             // segments (RFC 6928)
  uint32_t receive_window = 64 << 20;       // bytes
  SimTime rto_min = microseconds(200'000);  // RFC 6298 asks for a second
  SimTime rto_max = microseconds(120'000'000);
  SimTime rto_initial = microseconds(1'000'000);
  SimTime delayed_ack = microseconds(40'000);
  SimTime tlp_min = microseconds(2'000);  // added to two round trips
  uint32_t ack_every = 2;                 // segments
  uint32_t quick_acks = 16;               // segments at the start that are acknowledged at once
  uint32_t dupack_threshold = 3;
  double dctcp_gain = 1.0 / 16;

  // Sets the member of that name; times are in microseconds. Errors name the key or the value and list keys.
  static constexpr const char* kKeys =
      "control (reno, dctcp), sack, rack, tlp, initial_window, receive_window, rto_min_us, rto_max_us, "
      "rto_initial_us, delayed_ack_us, tlp_min_us, ack_every, quick_acks, dupack_threshold, dctcp_gain";
  bool set(std::string_view key, std::string_view value, std::string& error);
};

}  // namespace mroce::sim
