// SONiC: `show pfcwd stats`, and its tables of counters. A switch counts from its own side: what it sends
// toward a host, the host receives.
//
// The tables are told by their heads, as the command is often not in the text:
//   Port Rx | Port Tx   PFC0 … PFC7                      show pfc counters
//   IFACE  STATE  RX_OK … TX_OVR                         show interfaces counters
//   Port  TxQ  Counter/pkts … Drop/pkts …                show queue counters
//   Port  TxQ  WredDrp/pkts … EcnMarked/pkts …           show queue wredcounters
//   Port  UC0 … UC7                                      show queue watermark unicast
//   Port  PG0 … PG7, below "… dropped packets" or not    show priority-group drop counters, … watermark
#include "doctor/parse/switch.h"

#include <algorithm>

#include "doctor/parse/parsers.h"
#include "doctor/parse/table.h"

namespace mroce::doctor {
namespace {

constexpr std::string_view kSwitch = "switch";

// "Ethernet4:3  stormed  1/0  0/0  0/41507426 …"
bool pfcwd_row(const std::vector<std::string_view>& words, uint32_t number, Context& context) {
  if (words.size() < 3 || !words[0].starts_with("Ethernet") || !contains(words[0], ":")) return false;
  if (words[1] != "stormed" && words[1] != "operational") return false;
  SwitchScope scope(context);
  if (const auto storms = whole_number(before(words[2], "/")))
    scope.count(before(words[0], ":"), "pfcwd", "storm_detected", *storms, number);
  context.event(words[1] == "stormed" ? "pfc-storm" : "pfcwd-operational", words[0], number);
  if (!context.evidence.events.empty())
    context.evidence.events.back().status =
        static_cast<double>(whole_number(before(words[2], "/")).value_or(0));
  return true;
}

enum class SonicTable { kNone, kPauseReceived, kPauseSent, kInterfaces, kQueues, kPeaks, kDropped };

// By its head, and by the title above it.
SonicTable table_kind(const std::vector<std::string_view>& head, const Lines& lines, size_t at) {
  if (head.size() < 3) return SonicTable::kNone;
  if (head[0] == "Port Rx" && head[1] == "PFC0") return SonicTable::kPauseReceived;
  if (head[0] == "Port Tx" && head[1] == "PFC0") return SonicTable::kPauseSent;
  const auto has = [&](std::string_view name) {
    return std::find(head.begin(), head.end(), name) != head.end();
  };
  if (head[0] == "IFACE" && has("RX_OK")) return SonicTable::kInterfaces;
  if (head[0] == "Port" && head[1] == "TxQ") return SonicTable::kQueues;
  if (head[0] == "Port" && head[1] == "UC0") return SonicTable::kPeaks;
  if (head[0] == "Port" && head[1] == "PG0") {
    for (size_t i = at; i-- > 0 && at - i < 4;)
      if (contains(lines[i], "dropped packets")) return SonicTable::kDropped;
    return SonicTable::kPeaks;
  }
  return SonicTable::kNone;
}

// The name of the counter in this column of this row, and where counters of this table come from.
struct CellName {
  std::string_view from;
  std::string name;
};
CellName name_of_cell(SonicTable kind, std::string_view column, std::string_view queue) {
  switch (kind) {
    case SonicTable::kPauseReceived:
      return {"pfc", std::string(column) + " Rx"};
    case SonicTable::kPauseSent:
      return {"pfc", std::string(column) + " Tx"};
    case SonicTable::kInterfaces:
      return {"interfaces", std::string(column)};
    case SonicTable::kQueues:
      return {"queues", std::string(queue) + " " + std::string(column)};
    case SonicTable::kPeaks:
      return {"watermarks", std::string(column)};
    case SonicTable::kDropped:
      return {"priority_groups", std::string(column) + " drops"};
    case SonicTable::kNone:
      break;
  }
  return {};
}

size_t read_rows(SonicTable kind, const std::vector<std::string_view>& head, const DashColumns& columns,
                 const Lines& lines, size_t at, Context& context) {
  SwitchScope scope(context);
  std::string port;
  for (; at < lines.size(); ++at) {
    const auto cells = cells_of(lines[at], columns);
    if (trim(lines[at]).empty() && kind == SonicTable::kQueues && at + 1 < lines.size() &&
        is_switch_port(cells_of(lines[at + 1], columns)[0]))
      continue;  // between the queues of two ports
    if (is_switch_port(cells[0]))
      port = std::string(cells[0]);
    else if (kind != SonicTable::kQueues || !cells[0].empty() || cells[1].empty())
      break;
    const bool queues = kind == SonicTable::kQueues;
    for (size_t i = queues ? 2 : 1; i < cells.size(); ++i) {
      const CellName name = name_of_cell(kind, head[i], queues ? cells[1] : "");
      if (const auto value = whole_number(cells[i]))
        scope.count(port, name.from, name.name, *value, lines.numbers[at]);
    }
  }
  return at;
}

size_t sonic_table(const Lines& lines, size_t at, Context& context) {
  if (at + 2 >= lines.size()) return at;
  const std::string_view first = trim(lines[at]);
  if (!first.starts_with("Port") && !first.starts_with("IFACE")) return at;
  const DashColumns columns = dash_columns(lines[at + 1]);
  if (columns.size() < 3) return at;
  const auto head = cells_of(lines[at], columns);
  const SonicTable kind = table_kind(head, lines, at);
  if (kind == SonicTable::kNone) return at;
  const size_t next = read_rows(kind, head, columns, lines, at + 2, context);
  context.understood += next - at;
  return next;
}

}  // namespace

SwitchScope::SwitchScope(Context& context) : context_(context), host_(context.host), role_(context.role) {
  const auto is_adapter = [](const Port& port) { return !port.device.empty(); };
  for (const Host& host : context.evidence.hosts) {
    if (host.name != context.host || host.role == Role::kSwitch) continue;
    if (std::any_of(host.ports.begin(), host.ports.end(), is_adapter)) context.host = kSwitch;
  }
  if (context.host.empty()) context.host = kSwitch;
  context.role = Role::kSwitch;
  context.this_host().role = Role::kSwitch;
}

SwitchScope::~SwitchScope() {
  context_.host = host_;
  context_.role = role_;
}

Port& SwitchScope::port(std::string_view name) {
  Port& port = context_.port("", 1, name);
  port.vendor = std::string(kSwitch);
  return port;
}

void SwitchScope::count(std::string_view name, std::string_view from, std::string_view counter,
                        uint64_t value, uint32_t line) {
  context_.count(port(name), from, counter, value, line);
}

bool is_switch_port(std::string_view word) {
  for (const std::string_view prefix :
       {"Ethernet", "PortChannel", "Port-Channel", "port-channel", "Eth", "Et", "Po", "swp"}) {
    if (!word.starts_with(prefix) || word.size() <= prefix.size() || word.size() > 32) continue;
    const std::string_view number = word.substr(prefix.size());
    if (number.find_first_not_of("0123456789/.s") == std::string_view::npos && number[0] >= '0' &&
        number[0] <= '9')
      return true;
  }
  return false;
}

size_t read_switch(const Lines& lines, size_t at, Context& context) {
  if (const size_t next = sonic_table(lines, at, context); next > at) return next;
  const auto words = words_of(lines[at]);
  if (words.size() < 3 || !pfcwd_row(words, lines.numbers[at], context)) return at;
  ++context.understood;
  return at + 1;
}

}  // namespace mroce::doctor
