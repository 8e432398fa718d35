// Short names of packet types and opcodes for lines that show packets. Empty for what has none.
#pragma once

#include <array>
#include <string_view>

#include "core/wire/packet.h"

namespace mroce::wire {

constexpr std::string_view short_name(Type type) {
  constexpr std::array<std::string_view, 13> kNames = {"INIT", "INIT_ACK", "RETRY",     "VERSION", "DATA",
                                                       "ACK",  "PROBE",    "PROBE_ACK", "CLOSE",   "RESET",
                                                       "UD",   "CM",       "CLOSE_ACK"};
  const auto index = static_cast<size_t>(type);
  return index < kNames.size() ? kNames[index] : std::string_view{};
}

constexpr std::string_view short_name(DataOp op) {
  constexpr std::array<std::string_view, 11> kMessages = {"WRITE",     "WRITE_IMM",   "SEND",      "SEND_IMM",
                                                          "SEND_INV",  "READ_REQ",    "READ_RESP", "CAS",
                                                          "FETCH_ADD", "ATOMIC_RESP", "VOID"};
  constexpr std::array<std::string_view, 7> kStreams = {"OPEN", "ACCEPT",  "REFUSE",       "CLOSE",
                                                        "STOP", "BLOCKED", "CREDIT_RETURN"};
  const auto index = static_cast<size_t>(op);
  if (index < kMessages.size()) return kMessages[index];
  const size_t stream = index - static_cast<size_t>(DataOp::kStreamOpen);
  return stream < kStreams.size() ? kStreams[stream] : std::string_view{};
}

}  // namespace mroce::wire
