#include "doctor/facts.h"

#include <algorithm>
#include <array>

#include "doctor/rulebook.h"

namespace mroce::doctor {
namespace {

constexpr std::array<std::string_view, 12> kScopes = {"host",        "sender",        "receiver",   "port",
                                                      "sender_port", "receiver_port", "every_port", "bench",
                                                      "table",       "event",         "switch_port"};

// Names that are facts though no port or host at hand may have them. What begins with a prefix is a setting.
constexpr auto kPrefixes = std::to_array<std::string_view>(
    {"link.", "netdev.", "mtu.", "pcie.", "numa.", "pfc.", "qos.", "pause.", "ecn.", "fec.", "gid.", "gpu.",
     "iommu.", "function.", "verbs.", "capability.", "module.", "topo."});
constexpr auto kNames = std::to_array<std::string_view>({"hosts",
                                                         "ports",
                                                         "seconds",
                                                         "senders",
                                                         "receivers",
                                                         "two_sided",
                                                         "has_log",
                                                         "has_deltas",
                                                         "has_perftest",
                                                         "has_table",
                                                         "counters",
                                                         "resets",
                                                         "reset_names",
                                                         "rails",
                                                         "rails_gBps",
                                                         "devices_installed",
                                                         "name",
                                                         "role",
                                                         "host",
                                                         "port",
                                                         "device",
                                                         "vendor",
                                                         "virtual",
                                                         "complete_dump",
                                                         "has_prio_pause",
                                                         "driver.name",
                                                         "driver.version",
                                                         "firmware",
                                                         "boot.id",
                                                         "kernel",
                                                         "iommu",
                                                         "acs",
                                                         "memlock",
                                                         "peermem",
                                                         "container",
                                                         "rdma.devices",
                                                         "test",
                                                         "op",
                                                         "bytes",
                                                         "iterations",
                                                         "goodput_gbps",
                                                         "peak_gbps",
                                                         "bare_number",
                                                         "mtu",
                                                         "qps",
                                                         "run_seconds",
                                                         "rate_gbps",
                                                         "cuda",
                                                         "bidirectional",
                                                         "variant",
                                                         "latency",
                                                         "latency_us",
                                                         "gid_index",
                                                         "largest",
                                                         "cpu_pct",
                                                         "unit",
                                                         "link_layer",
                                                         "port_quiet",
                                                         "collective",
                                                         "headers",
                                                         "trailers",
                                                         "ranks",
                                                         "rank_zero",
                                                         "wrong",
                                                         "failed",
                                                         "avg_busbw",
                                                         "large_busbw",
                                                         "largest_bytes",
                                                         "small_flat_bytes",
                                                         "table_hosts",
                                                         "warmup",
                                                         "kind",
                                                         "status",
                                                         "detail",
                                                         "fields",
                                                         "directions",
                                                         "separate",
                                                         "launched_ranks",
                                                         "hcas_used",
                                                         "peer_up",
                                                         "peer_rate_gbps",
                                                         "mtu_differs",
                                                         "pfc_differs",
                                                         "pfc_off",
                                                         "pfc_priorities",
                                                         "lossless_buffer_bytes",
                                                         "prio_lossless_bytes",
                                                         "prio_lossy_bytes",
                                                         "sprays",
                                                         "is_mroce",
                                                         "reset",
                                                         "mtu_run",
                                                         "slow_node",
                                                         "slow_pairs",
                                                         "pairs",
                                                         "version_ratio",
                                                         "slow_version",
                                                         "fast_version",
                                                         "busbw_spread",
                                                         "version"});

const Entity* host_of(const Entity& at) {
  for (const Entity* e = &at; e != nullptr; e = e->parent)
    if (e->scope == "host") return e;
  return nullptr;
}

}  // namespace

std::span<const std::string_view> World::scopes() {
  return kScopes;
}

const Fact* Entity::find(std::string_view name) const {
  for (const Entity* at = this; at != nullptr; at = at->parent) {
    const auto found = at->facts.find(name);
    if (found != at->facts.end()) return &found->second;
  }
  return nullptr;
}

const Expression* World::metric(std::string_view name) const {
  const auto found = book_.metrics.find(std::string(name));
  return found == book_.metrics.end() ? nullptr : &found->second;
}

std::optional<double> World::threshold(std::string_view name) const {
  const auto found = book_.thresholds.find(name);
  return found == book_.thresholds.end() ? std::nullopt : std::optional<double>(found->second.value);
}

bool World::is_scope(std::string_view word) {
  return std::find(kScopes.begin(), kScopes.end(), word) != kScopes.end();
}

bool World::is_fact(std::string_view name) {
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  for (const std::string_view prefix : {"env.", "mroce.", "field.", "prio_bytes.", "prio_pause.", "changed."})
    if (name.starts_with(prefix)) return true;
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Ports and events of the host at hand, if there is one; all others are of the whole run.
const std::vector<const Entity*>& World::members(std::string_view scope, const Entity& at) const {
  if (scope == "port" || scope == "event")
    if (const Entity* host = host_of(at)) return scope == "port" ? host->ports : host->events;
  return scopes_.find(scope)->second;
}

}  // namespace mroce::doctor
