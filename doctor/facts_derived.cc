#include "doctor/facts_derived.h"

#include <algorithm>
#include <map>
#include <set>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

const Value* own(const Entity& entity, std::string_view name) {
  const auto found = entity.facts.find(name);
  return found == entity.facts.end() ? nullptr : &found->second.value;
}

std::string text_of(const Entity& entity, std::string_view name) {
  const Value* value = own(entity, name);
  if (value == nullptr) return {};
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  // "3" was read as a number.
  if (const auto* number = std::get_if<double>(value)) return std::to_string(static_cast<long>(*number));
  return {};
}

std::optional<double> number_of(const Entity& entity, std::string_view name) {
  const Value* value = own(entity, name);
  const auto* number = value == nullptr ? nullptr : std::get_if<double>(value);
  return number == nullptr ? std::nullopt : std::optional<double>(*number);
}

void link_up(Entity& port) {
  const std::string state = lowered(text_of(port, "link.state"));
  std::string phys = lowered(text_of(port, "link.phys_state"));
  std::erase_if(phys, [](char c) { return c == '_' || c == ' '; });
  if (state.empty() && phys.empty()) return;
  const bool up = (state.empty() || state == "active") && (phys.empty() || phys == "linkup");
  const auto& shown = port.facts.find(state.empty() ? "link.phys_state" : "link.state")->second;
  put_fact(port, "link.up", up, shown.where);
}

// Ports that should be alike: the same device and number on another host; else, if every host has one port,
// all.
std::string alike_key(const Entity& port, bool single) {
  if (single) return "only";
  return text_of(port, "port");
}

void against_peers(const std::vector<Entity*>& alike) {
  double best_rate = 0;
  bool any_up = false;
  std::set<std::string> mtus, pfcs;
  for (const Entity* port : alike) {
    const Value* up = own(*port, "link.up");
    const bool down = up != nullptr && !std::get<bool>(*up);
    any_up = any_up || (up != nullptr && !down);
    // A port that is down shows a placeholder.
    if (!down) best_rate = std::max(best_rate, number_of(*port, "link.rate_gbps").value_or(0));
    for (const char* name : {"mtu.netdev", "mtu.active"})
      if (const auto mtu = number_of(*port, name)) mtus.insert(name + std::to_string(*mtu));
    if (const std::string pfc = text_of(*port, "pfc.enabled"); !pfc.empty()) pfcs.insert(pfc);
  }
  std::map<std::string, int> kinds;
  for (const auto& mtu : mtus) ++kinds[mtu.substr(0, 10)];
  const bool mtu_differs =
      std::any_of(kinds.begin(), kinds.end(), [](const auto& k) { return k.second > 1; });
  for (Entity* port : alike) {
    if (best_rate > 0) put_fact(*port, "peer_rate_gbps", best_rate);
    put_fact(*port, "peer_up", any_up);
    if (!mtus.empty()) put_fact(*port, "mtu_differs", mtu_differs);
    if (!pfcs.empty()) {
      const auto* fact = port->find("pfc.enabled");
      put_fact(*port, "pfc_differs", pfcs.size() > 1, fact != nullptr ? fact->where : Where{});
    }
  }
}

// The smallest of the receive buffers that lossless priorities are put into.
void lossless_buffer(Entity& port, std::string_view list) {
  std::optional<double> smallest;
  Where where;
  for (const std::string_view priority : split(list, ',')) {
    const auto buffer = number_of(port, "qos.buffer_of_prio." + std::string(priority));
    if (!buffer || *buffer < 0 || *buffer > 7) continue;
    const std::string name = "qos.buffer_bytes." + std::to_string(static_cast<int>(*buffer));
    const auto bytes = number_of(port, name);
    if (!bytes || (smallest && *smallest <= *bytes)) continue;
    smallest = bytes;
    where = port.facts.find(name)->second.where;
  }
  if (smallest) put_fact(port, "lossless_buffer_bytes", *smallest, where);
}

// Which priorities are lossless: as configured, or as the presence of mlx5's counters tells.
void lossless_classes(Entity& port) {
  std::string list = text_of(port, "pfc.enabled");
  const Value* has_pause = own(port, "has_prio_pause");
  const bool counters = has_pause != nullptr && std::get<bool>(*has_pause);
  const Value* complete = own(port, "complete_dump");
  const bool physical = complete != nullptr && std::get<bool>(*complete) &&
                        text_of(port, "vendor") == "mlx5" && own(port, "function.virtual") == nullptr;
  if (!list.empty()) {
    put_fact(port, "pfc_off", list == "none", port.facts.find("pfc.enabled")->second.where);
  } else if (physical) {
    put_fact(port, "pfc_off", !counters);
  }
  if (list.empty() && counters && text_of(port, "vendor") == "mlx5")
    for (int priority = 0; priority < 8; ++priority)
      if (own(port, "has_pause." + std::to_string(priority)) != nullptr)
        list += (list.empty() ? "" : ",") + std::to_string(priority);
  if (list.empty()) return;
  put_fact(port, "pfc_priorities", list);
  if (list == "none") return;
  lossless_buffer(port, list);
  double lossless = 0, lossy = 0;
  bool any = false;
  Where where;
  for (int priority = 0; priority < 8; ++priority) {
    const auto found = port.facts.find("prio_bytes." + std::to_string(priority));
    if (found == port.facts.end()) continue;
    any = true;
    const double bytes = std::get<double>(found->second.value);
    const bool is_lossless = contains(list, std::to_string(priority));
    (is_lossless ? lossless : lossy) += bytes;
    if (!is_lossless || where.source == 0) where = found->second.where;
  }
  if (!any) return;
  put_fact(port, "prio_lossless_bytes", lossless, where);
  put_fact(port, "prio_lossy_bytes", lossy, where);
}

}  // namespace

void put_fact(Entity& entity, std::string_view name, Value value, Where where) {
  entity.facts[std::string(name)] = Fact{std::move(value), where, {}};
}

void derive_port_facts(std::deque<Entity>& ports) {
  std::map<const Entity*, int> of_host;
  for (const Entity& port : ports) ++of_host[port.parent];
  const bool single =
      std::all_of(of_host.begin(), of_host.end(), [](const auto& each) { return each.second == 1; });
  std::map<std::string, std::vector<Entity*>> alike;
  for (Entity& port : ports) {
    link_up(port);
    lossless_classes(port);
    if (text_of(*port.parent, "role") != "switch") alike[alike_key(port, single)].push_back(&port);
  }
  for (const auto& [key, members] : alike)
    if (members.size() > 1) against_peers(members);
}

void derive_table_facts(std::deque<Entity>& tables, const Evidence& evidence, Entity& run) {
  std::map<uint32_t, std::set<std::string>> hosts_of_output;
  std::map<uint32_t, bool> one_each;
  for (const CollectiveTable& table : evidence.collectives) {
    if (table.hosts.empty()) continue;
    hosts_of_output[table.where.source].insert(table.hosts.begin(), table.hosts.end());
    const auto [found, added] = one_each.emplace(table.where.source, true);
    found->second = found->second && table.hosts.size() == 1;
  }
  struct Run {
    double busbw;
    std::string version;
    Where where;
  };
  std::map<std::pair<uint32_t, double>, std::vector<Run>> comparable;
  for (size_t i = 0; i < evidence.collectives.size(); ++i) {
    const CollectiveTable& table = evidence.collectives[i];
    const auto source = table.where.source;
    put_fact(tables[i], "separate",
             one_each.contains(source) && one_each[source] && hosts_of_output[source].size() > 1,
             table.where);
    const auto busbw = number_of(tables[i], "large_busbw");
    const double judged = table.avg_busbw_gBps.value_or(busbw.value_or(0));
    if (judged > 0)
      comparable[{table.ranks, number_of(tables[i], "largest_bytes").value_or(0)}].push_back(
          {judged, table.version, table.where});
  }
  for (const auto& [key, runs] : comparable) {
    if (runs.size() < 2) continue;
    const auto [low, high] = std::minmax_element(
        runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.busbw < b.busbw; });
    if (!low->version.empty() && !high->version.empty() && low->version != high->version) {
      put_fact(run, "version_ratio", low->busbw / high->busbw, low->where);
      put_fact(run, "slow_version", low->version);
      put_fact(run, "fast_version", high->version);
    } else {
      put_fact(run, "busbw_spread", 1 - low->busbw / high->busbw);
    }
  }
}

void derive_pair_facts(const Evidence& evidence, Entity& run) {
  struct Pair {
    std::string a, b;
    double gbps;
  };
  std::vector<Pair> pairs;
  for (const PerftestRow& row : evidence.perftest) {
    const size_t to = row.host.find("-to-");
    if (to == std::string::npos || !row.goodput_gbps) continue;
    pairs.push_back({row.host.substr(0, to), row.host.substr(to + 4), *row.goodput_gbps});
  }
  if (pairs.size() < 3) return;
  std::vector<double> rates;
  for (const Pair& pair : pairs) rates.push_back(pair.gbps);
  // The upper quartile: with three hosts, two of three pairs have the bad one in them.
  const auto typical = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() * 3 / 4);
  std::nth_element(rates.begin(), typical, rates.end());
  constexpr double kSlow = 0.7;
  std::map<std::string, std::pair<int, int>> nodes;  // in slow pairs, in all
  int slow = 0;
  for (const Pair& pair : pairs) {
    const bool is_slow = pair.gbps < kSlow * *typical;
    slow += is_slow ? 1 : 0;
    for (const std::string& node : {pair.a, pair.b}) {
      nodes[node].first += is_slow ? 1 : 0;
      ++nodes[node].second;
    }
  }
  put_fact(run, "pairs", static_cast<double>(pairs.size()));
  put_fact(run, "slow_pairs", static_cast<double>(slow), evidence.perftest.front().where);
  for (const auto& [name, counts] : nodes)
    if (slow > 0 && counts.first == slow && counts.second == counts.first) put_fact(run, "slow_node", name);
}

}  // namespace mroce::doctor
