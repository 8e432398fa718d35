#include "cli/stats.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <vector>

#include "cli/terminal.h"

namespace mroce::cli {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxFileBytes = 256u << 20;  // 4,096 connections of 32 paths need about 100 MB

constexpr const char* kImpairmentNames[] = {"dropped_loss",  "dropped_burst", "dropped_down",
                                            "dropped_queue", "duplicated",    "reordered",
                                            "corrupted",     "delayed",       "marked"};

std::string impairment_line(const char* verb, const json& direction) {
  const uint64_t offered = number_at(direction, "offered");
  const uint64_t dropped = number_at(direction, "dropped");
  std::string line = fmt::format("  impairment: {} datagrams {}, {} dropped ({})", grouped(offered), verb,
                                 grouped(dropped), percent_text(dropped, offered));
  for (const char* name : kImpairmentNames) {
    if (const uint64_t count = number_at(direction, name); count > 0) {
      line += fmt::format(", {} {}", name, grouped(count));
    }
  }
  return line + "\n";
}

std::string impairment_text(const json& process) {
  const json& impairment = member_at(process, "impairment");
  std::string text;
  if (const json& out = member_at(impairment, "out"); number_at(out, "offered") > 0) {
    text += impairment_line("offered to be sent", out);
  }
  if (const json& in = member_at(impairment, "in"); number_at(in, "offered") > 0) {
    text += impairment_line("received", in);
  }
  return text.empty() ? "  impairment: none\n" : text;
}

std::string trace_text(const json& process) {
  const json& trace = member_at(process, "trace");
  if (!trace.is_object()) return "";
  std::string text = fmt::format("  trace: {}, {} packets, {}", text_at(trace, "file"),
                                 grouped(number_at(trace, "packets")), bytes_text(number_at(trace, "bytes")));
  const json& error = member_at(trace, "error");
  if (error.is_string())
    text += fmt::format("; {} packets are missing: {}", grouped(number_at(trace, "left_out")),
                        error.get<std::string>());
  return text + "\n";
}

std::string connection_text(const json& connection) {
  const json& counters = member_at(connection, "counters");
  std::string out = fmt::format(
      "  {} -> {} port {}  {}, payload {} B, sent {:.2f} Gbit/s, received {:.2f} Gbit/s\n"
      "  {} packets sent again, {} duplicates received, {} waits for a receive (RNR)\n",
      text_at(connection, "local"), text_at(connection, "remote"), number_at(connection, "remote_port"),
      text_at(connection, "state"), number_at(connection, "payload_mtu_bytes"),
      real_at(connection, "goodput_sent_gbps"), real_at(connection, "goodput_received_gbps"),
      grouped(number_at(counters, "retransmissions")), grouped(number_at(counters, "duplicates")),
      grouped(number_at(counters, "rnr")));

  Table table(
      {"path", "plane", "GID", "sent", "acked", "lost", "again", "spurious", "RTT", "window", "CE", "state"});
  for (const json& path : member_at(connection, "paths")) {
    const json& of = member_at(path, "counters");
    table.add({std::to_string(number_at(path, "id")), std::to_string(number_at(path, "plane")),
               std::to_string(number_at(path, "gid_index")), grouped(number_at(of, "sent")),
               grouped(number_at(of, "acked")), grouped(number_at(of, "lost")),
               grouped(number_at(of, "retransmitted")), grouped(number_at(of, "spurious")),
               nanos_text(number_at(path, "srtt_ns")), bytes_text(number_at(path, "cwnd_bytes")),
               percent_text(number_at(of, "ce_marked"), number_at(of, "rx_reported")),
               text_at(path, "state")});
  }
  return table.empty() ? out : out + table.text(11, "    ");
}

}  // namespace

const json& member_at(const json& object, std::string_view key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

uint64_t number_at(const json& object, std::string_view key) {
  const json& value = member_at(object, key);
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}

double real_at(const json& object, std::string_view key) {
  const json& value = member_at(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::string text_at(const json& object, std::string_view key) {
  const json& value = member_at(object, key);
  return value.is_string() ? value.get<std::string>() : "?";
}

Outcome<StatsFolder> StatsFolder::make() {
  std::error_code error;
  const auto base = std::filesystem::temp_directory_path(error);
  std::string name = (error ? std::filesystem::path("/tmp") : base) / "mroce-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    return failure(kEnvironment, fmt::format("cannot make the folder {}: {}", name, std::strerror(errno)),
                   "set TMPDIR to a folder that you may write to");
  }
  return StatsFolder(name);
}

StatsFolder::~StatsFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

json StatsFolder::collect() const {
  std::map<std::pair<uint64_t, std::string>, json> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    if (entry.path().extension() != ".json" || !entry.is_regular_file(error)) continue;
    if (entry.file_size(error) > kMaxFileBytes || error) continue;
    std::ifstream file(entry.path());
    json value = json::parse(file, nullptr, false);
    if (!value.is_object()) continue;
    const uint64_t pid = number_at(value, "pid");
    found.emplace(std::pair{pid, entry.path().string()}, std::move(value));
  }
  json all = json::array();
  for (auto& [key, value] : found) all.push_back(std::move(value));
  return all;
}

std::string stats_text(const json& all) {
  if (all.empty())
    return "no statistics: the program used no mroce device, or a signal ended it (--set stats_interval=1000 "
           "keeps those of "
           "the last second before)\n";
  std::string out;
  for (const json& process : all) {
    out += styled(STDERR_FILENO, Style::kBold,
                  fmt::format("{} (process {})", text_at(process, "program"), number_at(process, "pid")));
    out += "\n" + impairment_text(process) + trace_text(process);
    const json& connections = member_at(process, "connections");
    if (connections.empty()) out += "  no connections\n";
    for (const json& connection : connections) out += connection_text(connection);
  }
  return out;
}

}  // namespace mroce::cli
