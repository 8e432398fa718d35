// The statistics of an endpoint as JSON, schema "mroce-stats-1". Names carry their unit; counters are those
// of core/trace/counters.h.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "net/endpoint_impl.h"

namespace mroce::net {
namespace {

using Json = nlohmann::ordered_json;

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string program_name() {
  return program_invocation_name != nullptr ? program_invocation_name : "";
}

Json to_json(const EngineCounters& counters) {
  Json json;
#define MROCE_COUNTER_JSON(name, sentence) json[#name] = counters.name;
  MROCE_ENGINE_COUNTERS(MROCE_COUNTER_JSON)
  return json;
}
Json to_json(const ConnectionCounters& counters) {
  Json json;
  MROCE_CONNECTION_COUNTERS(MROCE_COUNTER_JSON)
  return json;
}
Json to_json(const PathCounters& counters) {
  Json json;
  MROCE_PATH_COUNTERS(MROCE_COUNTER_JSON)
  return json;
}
Json to_json(const SendCounters& counters) {
  Json json;
  MROCE_SEND_COUNTERS(MROCE_COUNTER_JSON)
  return json;
}
Json to_json(const ImpairmentCounters& counters) {
  Json json;
  MROCE_IMPAIRMENT_COUNTERS(MROCE_COUNTER_JSON)
  json["dropped"] = counters.dropped();
  return json;
}
#undef MROCE_COUNTER_JSON

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

Json impairment_json(const Impairment& impairment, bool outgoing) {
  Json json = to_json(impairment.counters(outgoing));
  json["queued"] = impairment.queued(outgoing);
  Json paths = Json::array();
  const auto& counts = impairment.paths(outgoing);
  for (size_t path = 0; path < counts.size(); ++path) {
    if (counts[path].offered == 0) continue;
    paths.push_back({{"path", path}, {"offered", counts[path].offered}, {"dropped", counts[path].dropped}});
  }
  json["paths"] = std::move(paths);
  return json;
}

Json trace_json(const PcapngWriter& trace) {
  const std::string trouble = trace.trouble();
  return {{"file", trace.path()},
          {"packets", trace.written()},
          {"bytes", trace.bytes()},
          {"left_out", trace.left_out()},
          {"error", trouble.empty() ? Json() : Json(trouble)}};
}

Json path_json(const PathStats& path, uint64_t sent_on_all) {
  Json json;
  json["id"] = path.id;
  json["plane"] = path.plane;
  json["gid_index"] = path.port;
  json["remote"] = to_string(path.remote);
  json["entropy"] = path.entropy;
  json["state"] = name_of(path.state);
  json["srtt_ns"] = path.srtt.count();
  json["min_rtt_ns"] = path.min_rtt.count();
  json["cwnd_bytes"] = path.cwnd_bytes;
  json["in_flight"] = path.in_flight;
  json["ce_share"] = share(path.counters.ce_marked, path.counters.rx_reported);
  json["share_of_sent"] = share(path.counters.sent, sent_on_all);
  json["counters"] = to_json(path.counters);
  return json;
}

Json connection_json(const ConnectionStats& connection, Time opened) {
  const int64_t active_ns = std::max<int64_t>((connection.last_data - connection.first_data).count(), 0);
  const auto gbps = [active_ns](uint64_t bytes) {  // bytes * 8 / ns is Gbit/s
    return active_ns == 0 ? 0.0 : static_cast<double>(bytes) * 8 / static_cast<double>(active_ns);
  };
  uint64_t sent = 0;
  for (const PathStats& path : connection.paths) sent += path.counters.sent;
  Json json;
  json["local_id"] = connection.local_id;
  json["local"] = to_string(connection.local);
  json["remote"] = to_string(connection.remote.ip);
  json["remote_port"] = connection.remote.port;
  json["state"] = connection.state;
  json["payload_mtu_bytes"] = connection.payload_mtu;
  json["security"] = connection.security == 0 ? "crc32c" : "aes-gcm";
  json["opened_ns"] = (connection.opened - opened).count();
  json["active_ns"] = active_ns;
  json["memory_bytes"] = connection.memory_bytes;
  json["streams"] = connection.streams;
  json["peer_receive_buffer_bytes"] = connection.peer_receive_buffer;
  json["goodput_sent_gbps"] = gbps(connection.counters.payload_bytes_sent);
  json["goodput_received_gbps"] = gbps(connection.counters.payload_bytes_received);
  json["counters"] = to_json(connection.counters);
  Json paths = Json::array();
  for (const PathStats& path : connection.paths) paths.push_back(path_json(path, sent));
  json["paths"] = std::move(paths);
  return json;
}

}  // namespace

std::string Endpoint::stats_json() const {
  if (impl_->abandoned) return "{}";
  const std::unique_lock lock = acquire();
  return impl_->stats_json();
}

std::string Endpoint::Impl::stats_json() const {
  Json json;
  json["schema"] = "mroce-stats-1";
  json["pid"] = getpid();
  json["host"] = host_name();
  json["program"] = program_name();
  json["elapsed_ns"] = (clock_now() - opened).count();
  json["slot"] = receivers->slot();
  json["seed"] = seed;
  json["receive_buffer_bytes"] = receivers->granted_bytes();
  Json table = Json::array();
  for (const LocalAddress& address : addresses) {
    table.push_back({{"address", to_string(address.gid)},
                     {"interface", address.interface},
                     {"link_mtu_bytes", address.link_mtu},
                     {"up", address.up}});
  }
  json["gids"] = std::move(table);
  Json values;
  for (const Setting& setting : all_settings()) {
    const EffectiveValue& effective = settings.effective(setting.name);
    values[std::string(setting.name)] = {{"value", effective.value}, {"origin", effective.origin}};
  }
  json["settings"] = std::move(values);
  json["counters"] = to_json(engine->counters());
  json["sockets"] = to_json(wire->send_counters());
  json["sockets"]["gave_up"] = wire->gave_up();
  json["sockets"]["receive_truncated"] = receivers->truncated();
  json["helper"] = {{"rounds", helper.counters().rounds.load()},
                    {"stepped_aside", helper.counters().stepped_aside.load()},
                    {"took_over", helper.counters().took_over.load()}};
  json["impairment"] = {{"seed", wire->impairment().seed()},
                        {"out", impairment_json(wire->impairment(), true)},
                        {"in", impairment_json(wire->impairment(), false)}};
  if (const PcapngWriter* trace = wire->trace()) json["trace"] = trace_json(*trace);
  Json connections = Json::array();
  for (const ConnectionStats& connection : engine->connection_stats()) {
    connections.push_back(connection_json(connection, opened));
  }
  json["connections"] = std::move(connections);
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

// While the program runs, under another name first: who reads it then gets a whole file.
void Endpoint::Impl::write_stats_file(const std::string& json) const {
  const std::string& setting = settings.text("stats_file");
  if (setting.empty()) return;
  const std::string path = with_process_id(setting);
  std::error_code error;
  const bool replaced = settings.number("stats_interval") > 0 && !std::filesystem::is_other(path, error);
  const std::string part = replaced ? path + ".part" : path;
  const std::string text = json + "\n";
  std::FILE* file = std::fopen(part.c_str(), "we");
  const bool opened_file = file != nullptr;
  bool written = opened_file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (opened_file) written = std::fclose(file) == 0 && written;
  if (replaced) written = written && std::rename(part.c_str(), path.c_str()) == 0;
  if (!written) log(LogLevel::kError, "cannot write the statistics to {}: {}", path, std::strerror(errno));
}

}  // namespace mroce::net
