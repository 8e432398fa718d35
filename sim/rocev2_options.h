// Rocev2Options: everything that can be chosen about RoCEv2 on a simulated host, with presets by name and
// settings by key. docs/rocev2.md has the presets side by side, with the source of each number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/rocev2/config.h"

namespace mroce::sim {

struct Rocev2Options {
  rocev2::DcqcnConfig dcqcn;
  rocev2::LossConfig loss;
  bool ecn = true;
  Nanos cnp_gap = micros(4);
  uint32_t ack_interval = 4;
  double window_bdp = 0;  // window of a flow in line rate times base RTT; 0: none
  bool window_variable = false;
  uint32_t timeout = 14;  // 4.096 us * 2^timeout, where loss.timeout is 0
  uint32_t retry_cnt = 7;
  uint32_t data_priority = 3;  // of flows that ask for priority 0
  uint32_t ack_priority = 3;   // ACK and NACK
  uint32_t cnp_priority = 6;
  uint64_t message_bytes = uint64_t{1} << 30;  // a longer flow becomes several WRITEs
};

struct Rocev2Preset {
  std::string_view name;
  std::string_view sentence;
};
std::span<const Rocev2Preset> rocev2_presets();

// The error is one sentence that lists the presets.
tl::expected<Rocev2Options, std::string> rocev2_preset(std::string_view name);

struct Rocev2Key {
  std::string_view name;
  std::string_view sentence;
};
std::span<const Rocev2Key> rocev2_keys();

// Sets one field from text. The error is one sentence: an unknown key (with all keys), or what was expected.
tl::expected<void, std::string> set_rocev2(Rocev2Options& options, std::string_view key,
                                           std::string_view value);
// The same for `key=value`.
tl::expected<void, std::string> set_rocev2(Rocev2Options& options, std::string_view assignment);
// The effective value of a key, in the form that set_rocev2() takes; empty for an unknown key.
std::string rocev2_value(const Rocev2Options& options, std::string_view key);

}  // namespace mroce::sim
