// Which JSON is it? And the statistics of mroce's own endpoints.
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

// A path that was probed again and again and never answered is as dead as one that failed later.
bool never_came_up(const JsonValue& path) {
  const JsonValue* counters = path.find("counters");
  if (counters == nullptr || lowered(path.string_at("state")) != "new") return false;
  constexpr uint64_t kManyProbes = 4;
  return whole_number(counters->string_at("probes")).value_or(0) >= kManyProbes &&
         whole_number(counters->string_at("acked")).value_or(0) == 0;
}

uint64_t sum_of_paths(const JsonValue& process, std::string_view counter) {
  uint64_t sum = 0;
  const JsonValue* connections = process.find("connections");
  if (connections == nullptr) return 0;
  for (const JsonValue& connection : connections->items) {
    const JsonValue* paths = connection.find("paths");
    if (paths == nullptr) continue;
    for (const JsonValue& path : paths->items)
      if (const JsonValue* counters = path.find("counters"); counters != nullptr) {
        sum += whole_number(counters->string_at(counter)).value_or(0);
        sum += counter == "failures" && never_came_up(path) ? 1 : 0;
      }
  }
  return sum;
}

bool sent_anything(const JsonValue& counters) {
  return counters.number_at("payload_bytes_sent").value_or(0) > 0;
}

void connections(const JsonValue& process, Port& port, Context& context) {
  const JsonValue* list = process.find("connections");
  if (list == nullptr || !list->is_array()) return;
  std::map<std::string, std::pair<uint64_t, uint32_t>> sums;
  const JsonValue* least = nullptr;  // of the receive buffers that this end sends into
  for (const JsonValue& connection : list->items) {
    const JsonValue* counters = connection.find("counters");
    if (counters == nullptr || !counters->is_object()) continue;
    for (size_t i = 0; i < counters->items.size(); ++i)
      if (const auto whole = whole_number(counters->items[i].text)) {
        auto& sum = sums[counters->names[i]];
        sum = {sum.first + *whole, counters->items[i].line};
      }
    if (const auto mtu = connection.find("payload_mtu_bytes"))
      context.set(port, "mtu.active", mtu->text, mtu->line);
    if (const JsonValue* buffer = connection.find("peer_receive_buffer_bytes"); buffer != nullptr)
      if (const auto bytes = whole_number(buffer->text); bytes && *bytes > 0 && sent_anything(*counters))
        if (least == nullptr || *bytes < whole_number(least->text)) least = buffer;
    const JsonValue* paths = connection.find("paths");
    for (size_t i = 0; paths != nullptr && i < paths->items.size(); ++i) {
      const JsonValue* state = paths->items[i].find("state");
      if (state != nullptr && lowered(state->text) == "failed")
        context.event("path-failed", paths->items[i].string_at("remote"), state->line);
    }
  }
  if (least != nullptr) context.set(port, "mroce.peer_receive_buffer_bytes", least->text, least->line);
  for (const auto& [name, sum] : sums) context.count(port, "mroce", name, sum.first, sum.second);
  context.count(port, "mroce", "path_failures", sum_of_paths(process, "failures"), list->line);
  context.count(port, "mroce", "path_recoveries", sum_of_paths(process, "recoveries"), list->line);
  context.count(port, "mroce", "path_ce_marked", sum_of_paths(process, "ce_marked"), list->line);
}

bool one_process(const JsonValue& process, Context& context) {
  if (!process.is_object() || process.string_at("schema") != "mroce-stats-1") return false;
  const std::string before = context.host;
  const std::string host = before.empty() ? process.string_at("host") : before;
  if (context.role == Role::kUnknown && !process.string_at("pid").empty())
    context.host =
        (host.empty() ? "" : host + ":") + process.string_at("pid");  // each process is an end of its own
  Port& port = context.port("mroce0", 1, "");
  port.vendor = "mroce";
  if (const JsonValue* counters = process.find("counters"); counters != nullptr && counters->is_object())
    for (const char* name : {"drop_crc", "socket_overflows", "connections_failed"})
      if (const JsonValue* value = counters->find(name); value != nullptr)
        if (const auto whole = whole_number(value->text))
          context.count(port, "mroce", name, *whole, value->line);
  if (const JsonValue* buffer = process.find("receive_buffer_bytes"); buffer != nullptr)
    context.set(port, "mroce.receive_buffer_bytes", buffer->text, buffer->line);
  connections(process, port, context);
  if (const JsonValue* impairment = process.find("impairment"); impairment != nullptr) {
    uint64_t dropped = 0;
    for (const char* side : {"out", "in"})
      if (const JsonValue* part = impairment->find(side); part != nullptr)
        for (const char* name : {"dropped_loss", "dropped_burst", "dropped_down", "dropped_queue"})
          dropped += whole_number(part->string_at(name)).value_or(0);
    context.count(port, "mroce", "impairment_dropped", dropped, impairment->line);
  }
  if (const auto elapsed = process.number_at("elapsed_ns"); elapsed && *elapsed > 0) {
    const double seconds = *elapsed / 1e9;
    if (!context.evidence.seconds || *context.evidence.seconds < seconds) {
      context.evidence.seconds = seconds;
      context.evidence.seconds_where = context.where(process.line);
    }
  }
  context.host = before;
  return true;
}

}  // namespace

bool read_mroce_json(const JsonValue& value, Context& context) {
  bool any = one_process(value, context);
  for (const JsonValue& item : value.items) any = one_process(item, context) || any;
  return any;
}

bool read_json_document(JsonValue&& value, Context& context) {
  return read_perftest_json(value, context) || read_nccl_json(value, context) ||
         read_mroce_json(value, context) || read_rdma_json(value, context);
}

}  // namespace mroce::doctor
