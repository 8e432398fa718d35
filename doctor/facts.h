// The evidence as the rules see it: entities with named facts.
//
// Scopes, and the facts of a member beside the settings of evidence.h:
//   run        hosts ports seconds senders receivers two_sided; everything else that concerns the whole
//   host       name role gdr; settings of the host          sender, receiver: hosts of this role, or of
//   unknown role port       host.name, port, device, netdev, vendor, virtual; settings of the port; counters
//   through d(), v(), rate(), total() bench      a row of perftest: test op bytes iterations goodput_gbps mtu
//   qps seconds rate_gbps cuda bidirectional variant … table      a collective: collective headers trailers
//   ranks rank_zero wrong avg_busbw large_busbw … event      a line of a log: kind status since_start_s
//   detail and its fields
// The members of `port` inside of a host's scope are that host's ports; `every_port` are always all.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "doctor/evidence.h"
#include "doctor/expression.h"

namespace mroce::doctor {

struct Rulebook;

struct Fact {
  Value value;
  Where where;
  std::string shown;  // the vendor's name of a counter; empty: the fact's own name
};

// Looked up some ten million times for a thousand hosts.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};
using FactMap = std::unordered_map<std::string, Fact, NameHash, std::equal_to<>>;

struct Entity {
  std::string scope;
  const Entity* parent = nullptr;
  FactMap facts;
  FactMap deltas, newest, totals;                 // of canonical counters
  std::vector<const Entity*> ports, events;       // of a host
  const Fact* find(std::string_view name) const;  // here or in the parents
};

class World {
 public:
  World(const Evidence& evidence, const Rulebook& book);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  const Entity& run() const { return run_; }
  const std::vector<const Entity*>& members(std::string_view scope, const Entity& at) const;
  const Expression* metric(std::string_view name) const;
  std::optional<double> threshold(std::string_view name) const;
  const Evidence& evidence() const { return evidence_; }
  static std::span<const std::string_view> scopes();
  static bool is_scope(std::string_view word);
  static bool is_fact(std::string_view name);

 private:
  friend struct WorldBuilder;
  const Evidence& evidence_;
  const Rulebook& book_;
  Entity run_;
  std::deque<Entity> hosts_, ports_, benches_, tables_, events_;
  std::map<std::string, std::vector<const Entity*>, std::less<>> scopes_;  // members of the whole run
};

}  // namespace mroce::doctor
