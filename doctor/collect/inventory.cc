#include "doctor/collect/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

using nlohmann::ordered_json;

std::optional<std::string> text_of(const Settings& settings, std::string_view name) {
  const Setting* setting = last_setting(settings, name);
  if (setting == nullptr || setting->text.empty()) return std::nullopt;
  return setting->text;
}

// "4096.000000" → "4096"
std::optional<std::string> number_of(const Settings& settings, std::string_view name) {
  const auto text = text_of(settings, name);
  const auto number = text ? real_number(*text) : std::nullopt;
  return number ? std::optional(fmt::format("{:g}", *number)) : text;
}

// "3", "3,4", "none"
void read_list(std::string_view list, std::array<Known, 8>& into) {
  into.fill(Known::kOff);
  for (const std::string_view word : split(list, ','))
    if (const auto priority = whole_number(word); priority && *priority < 8) into[*priority] = Known::kOn;
}

void read_priorities(const Settings& settings, const std::string& prefix, std::array<Known, 8>& into) {
  for (size_t priority = 0; priority < into.size(); ++priority) {
    const auto value = text_of(settings, prefix + std::to_string(priority));
    if (value) into[priority] = *value == "1" ? Known::kOn : Known::kOff;
  }
  if (const auto all = text_of(settings, prefix.substr(0, prefix.size() - 1)))
    into.fill(*all == "1" ? Known::kOn : Known::kOff);
}

bool any_known(const std::array<Known, 8>& priorities) {
  return std::any_of(priorities.begin(), priorities.end(), [](Known k) { return k != Known::kUnknown; });
}

// mlx5 has counters of pause for a priority only while PFC is on there.
void pfc_of_counters(const Port& port, InventoryRow& row) {
  if (port.vendor != "mlx5" || !port.complete_dump) return;
  row.pfc.fill(Known::kOff);
  row.pfc_by_counters = true;
  for (const Counter& counter : port.counters)
    if (counter.priority >= 0 && counter.priority < 8 &&
        (counter.canonical == "rx_pause_frames" || counter.canonical == "tx_pause_frames"))
      row.pfc[static_cast<size_t>(counter.priority)] = Known::kOn;
}

bool counted(const Port& port, std::initializer_list<std::string_view> names) {
  return std::any_of(port.counters.begin(), port.counters.end(), [&](const Counter& counter) {
    return std::find(names.begin(), names.end(), counter.canonical) != names.end() &&
           !counter.readings.empty() && counter.readings.back().value > 0;
  });
}

std::string role_text(Role role) {
  switch (role) {
    case Role::kSender:
      return "sender";
    case Role::kReceiver:
      return "receiver";
    case Role::kSwitch:
      return "switch";
    case Role::kUnknown:
      break;
  }
  return "";
}

InventoryRow row_of(const Host& host, const Port& port) {
  InventoryRow row;
  row.host = host.name;
  row.port = port.name();
  row.netdev = port.netdev;
  row.vendor = port.vendor;
  row.role = role_text(host.role);
  if (const auto list = text_of(port.settings, "pfc.enabled"))
    read_list(*list, row.pfc);
  else
    pfc_of_counters(port, row);
  read_priorities(port.settings, "ecn.np.", row.ecn_np);
  read_priorities(port.settings, "ecn.rp.", row.ecn_rp);
  row.ecn_by_counters = !any_known(row.ecn_np) && counted(port, {"cnp_sent", "cnp_received", "ecn_marked"});
  row.trust = text_of(port.settings, "qos.trust");
  row.pause_rx = text_of(port.settings, "pause.rx");
  row.pause_tx = text_of(port.settings, "pause.tx");
  row.mtu = number_of(port.settings, "mtu.active");
  if (!row.mtu) row.mtu = number_of(port.settings, "mtu.netdev");
  row.rate_gbps = number_of(port.settings, "link.rate_gbps");
  std::string dscp;
  for (int priority = 0; priority < 8; ++priority)
    if (const auto values = text_of(port.settings, fmt::format("qos.dscp_of_prio.{}", priority)))
      dscp += fmt::format("{}{}:{}", dscp.empty() ? "" : " ", priority, *values);
  if (!dscp.empty()) row.dscp = dscp;
  return row;
}

struct Column {
  const char* name;
  std::optional<std::string> (*value)(const InventoryRow&);
};

std::optional<std::string> known_text(const std::array<Known, 8>& priorities) {
  return any_known(priorities) ? std::optional(priorities_text(priorities)) : std::nullopt;
}

// What must be the same at all ends of a fabric.
constexpr std::array kCompared = {
    Column{"pfc", [](const InventoryRow& r) { return known_text(r.pfc); }},
    Column{"trust", [](const InventoryRow& r) { return r.trust; }},
    Column{"dscp", [](const InventoryRow& r) { return r.dscp; }},
    Column{"pause_rx", [](const InventoryRow& r) { return r.pause_rx; }},
    Column{"pause_tx", [](const InventoryRow& r) { return r.pause_tx; }},
    Column{"ecn_np", [](const InventoryRow& r) { return known_text(r.ecn_np); }},
    Column{"ecn_rp", [](const InventoryRow& r) { return known_text(r.ecn_rp); }},
    Column{"mtu", [](const InventoryRow& r) { return r.mtu; }},
    Column{"rate_gbps", [](const InventoryRow& r) { return r.rate_gbps; }},
};

// The value that more than half of the ports have, if one has.
std::optional<std::string> majority(const std::vector<std::optional<std::string>>& values) {
  std::map<std::string, size_t> votes;
  size_t known = 0;
  for (const auto& value : values) {
    if (!value) continue;
    ++votes[*value];
    ++known;
  }
  for (const auto& [value, count] : votes)
    if (2 * count > known) return value;
  return std::nullopt;
}

void compare(const Column& column, Inventory& inventory) {
  std::vector<std::optional<std::string>> values;
  for (const InventoryRow& row : inventory.rows) values.push_back(column.value(row));
  const auto usual = majority(values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i] || values[i] == usual) continue;
    InventoryRow& row = inventory.rows[i];
    row.mismatches.emplace_back(column.name);
    inventory.sentences.push_back(usual ? fmt::format("{}: {} {} has {}, most have {}", column.name, row.host,
                                                      row.port, *values[i], *usual)
                                        : fmt::format("{}: {} {} has {}, and the ends do not agree",
                                                      column.name, row.host, row.port, *values[i]));
  }
}

ordered_json priorities_json(const std::array<Known, 8>& priorities) {
  ordered_json out = ordered_json::array();
  for (const Known known : priorities)
    out.push_back(known == Known::kUnknown ? ordered_json(nullptr) : ordered_json(known == Known::kOn));
  return out;
}

}  // namespace

std::string priorities_text(const std::array<Known, 8>& priorities) {
  if (!any_known(priorities)) return "?";
  std::string out;
  for (size_t priority = 0; priority < priorities.size(); ++priority)
    if (priorities[priority] == Known::kOn) out += (out.empty() ? "" : ",") + std::to_string(priority);
  return out.empty() ? "none" : out == "0,1,2,3,4,5,6,7" ? "all" : out;
}

std::array<Known, 8> dcqcn_of(const InventoryRow& row) {
  std::array<Known, 8> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    const Known np = row.ecn_np[i], rp = row.ecn_rp[i];
    if (np == Known::kOn && rp == Known::kOn) out[i] = Known::kOn;
    if (np == Known::kOff || rp == Known::kOff) out[i] = Known::kOff;
  }
  return out;
}

Inventory take_inventory(const Evidence& evidence) {
  Inventory out;
  for (const Host& host : evidence.hosts)
    for (const Port& port : host.ports) out.rows.push_back(row_of(host, port));
  // Where there are RDMA devices, interfaces without one are not what it is about.
  const auto has_device = [](const InventoryRow& row) { return row.port.find('/') != std::string::npos; };
  if (std::any_of(out.rows.begin(), out.rows.end(), has_device))
    std::erase_if(out.rows, [&](const InventoryRow& row) { return !has_device(row); });
  for (const Column& column : kCompared) compare(column, out);
  return out;
}

std::string to_json(const Inventory& inventory) {
  ordered_json out{{"schema", "mroce.doctor.inventory/1"}};
  out["ports"] = ordered_json::array();
  for (const InventoryRow& row : inventory.rows) {
    ordered_json entry{
        {"host", row.host}, {"port", row.port}, {"netdev", row.netdev}, {"vendor", row.vendor}};
    if (!row.role.empty()) entry["role"] = row.role;
    entry["pfc"] = priorities_json(row.pfc);
    entry["pfc_by_counters"] = row.pfc_by_counters;
    entry["ecn_notification"] = priorities_json(row.ecn_np);
    entry["ecn_reaction"] = priorities_json(row.ecn_rp);
    entry["dcqcn"] = priorities_json(dcqcn_of(row));
    entry["ecn_by_counters"] = row.ecn_by_counters;
    for (const auto& [name, value] :
         {std::pair{"trust", row.trust}, std::pair{"dscp", row.dscp}, std::pair{"pause_rx", row.pause_rx},
          std::pair{"pause_tx", row.pause_tx}, std::pair{"mtu", row.mtu},
          std::pair{"rate_gbps", row.rate_gbps}})
      entry[name] = value ? ordered_json(*value) : ordered_json(nullptr);
    entry["mismatches"] = row.mismatches;
    out["ports"].push_back(std::move(entry));
  }
  out["mismatches"] = inventory.sentences;
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mroce::doctor
