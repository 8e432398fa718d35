// What a run of the suite says: lines for people, JSON, JUnit XML, and pcapng files of the packets.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comply/suite.h"

namespace mroce::comply {

inline constexpr std::string_view kReportSchema = "mroce-comply-1";

struct PacketLines {
  size_t head = 40;  // of a long exchange, the first and the last lines
  size_t tail = 40;
};
// One line a packet: time since the first, direction, decoded fields.
std::string packet_lines(const std::deque<Packet>& packets, const PacketLines& limits = {});

nlohmann::ordered_json report_json(const std::string& target, const std::vector<AssertionResult>& results);
nlohmann::ordered_json list_json(const std::vector<const Assertion*>& assertions);
std::string report_junit(const std::string& target, const std::vector<AssertionResult>& results);

// The bytes of a pcapng file with what was exchanged, as UDP over IP with the addresses and ports of both
// sides and the time of the target's clock since 1970 (in virtual time, since it began). IP headers are made
// up.
std::vector<std::byte> packets_pcapng(const std::deque<Packet>& packets, const Target& target);
// "5.3-duplicate-cpsn-placed-once.pcapng"
std::string pcapng_name(std::string_view id);

}  // namespace mroce::comply
