// From evidence to entities.
#include <algorithm>
#include <array>

#include "doctor/facts.h"
#include "doctor/facts_derived.h"
#include "doctor/rulebook.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

Value value_of(std::string_view text) {
  if (const auto number = real_number(text)) return *number;
  return std::string(text);
}

void put(Entity& entity, std::string_view name, Value value, Where where = {}) {
  entity.facts[std::string(name)] = Fact{std::move(value), where, {}};
}

void put_known(Entity& entity, std::string_view name, const std::optional<double>& value, Where where) {
  if (value) put(entity, name, Value(*value), where);
}

void put_settings(Entity& entity, const Settings& settings) {
  for (const auto& [name, values] : settings) {
    if (values.empty()) continue;
    put(entity, name, value_of(values.back().text), values.back().where);
    if (values.size() > 1) put(entity, "changed." + name, true, values.back().where);
  }
}

// What several counters of one canonical name amount to.
class Combiner {
 public:
  void add(const std::string& pattern, bool unison, double value, Where where, const std::string& shown) {
    auto& part = parts_[pattern];
    const bool first = part.where.source == 0;
    part.sum = unison ? std::max(part.sum, value) : part.sum + value;
    if (first || value > part.greatest) {
      part.greatest = value;
      part.where = where;
      part.shown = shown;
    }
  }
  bool empty() const { return parts_.empty(); }
  Fact result(Combine combine) const {
    Fact out;
    double total = 0, greatest = -1;
    for (const auto& [pattern, part] : parts_) {
      total = combine == Combine::kSum ? total + part.sum : std::max(total, part.sum);
      if (part.sum <= greatest) continue;
      greatest = part.sum;
      out.where = part.where;
      out.shown = part.shown;
    }
    out.value = total;
    return out;
  }

 private:
  struct Part {
    double sum = 0, greatest = 0;
    Where where;
    std::string shown;
  };
  std::map<std::string, Part> parts_;
};

bool bad_priority(int8_t priority) {
  return priority < 0 || priority > 7;
}

std::string pattern_of(const Counter& counter) {
  std::string out = counter.from + ":" + counter.vendor_name;
  if (bad_priority(counter.priority)) return out;
  const size_t at = out.rfind(static_cast<char>('0' + counter.priority));
  return at == std::string::npos ? out : out.substr(0, at) + "{N}" + out.substr(at + 1);
}

bool on_port(const Port& port, std::string_view device) {
  return port.device == device || port.netdev == device;
}

bool has_role(const Entity& entity, std::string_view wanted) {
  const Fact* role = entity.find("role");
  const auto* text = role == nullptr ? nullptr : std::get_if<std::string>(&role->value);
  return text != nullptr && (*text == wanted || (*text == "unknown" && wanted != "switch"));
}

}  // namespace

struct WorldBuilder {
  World& world;
  const Evidence& evidence;
  const Rulebook& book;
  double resets = 0, counted = 0;

  // Who belongs to which scope, once for all rules.
  void members() {
    for (const std::string_view scope : World::scopes()) world.scopes_[std::string(scope)];
    const auto add = [&](std::string_view scope, const Entity& entity) {
      world.scopes_.find(scope)->second.push_back(&entity);
    };
    for (const Entity& host : world.hosts_) {
      if (has_role(host, "switch")) continue;
      add("host", host);
      if (has_role(host, "sender")) add("sender", host);
      if (has_role(host, "receiver")) add("receiver", host);
    }
    std::map<const Entity*, Entity*> owners;
    for (Entity& host : world.hosts_) owners[&host] = &host;
    for (const Entity& port : world.ports_) {
      add("every_port", port);
      owners[port.parent]->ports.push_back(&port);
      if (has_role(port, "switch")) {
        add("switch_port", port);
        continue;
      }
      add("port", port);
      if (has_role(port, "sender")) add("sender_port", port);
      if (has_role(port, "receiver")) add("receiver_port", port);
    }
    for (const Entity& event : world.events_) {
      add("event", event);
      if (const auto owner = owners.find(event.parent); owner != owners.end())
        owner->second->events.push_back(&event);
    }
    for (const Entity& bench : world.benches_) add("bench", bench);
    for (const Entity& table : world.tables_) add("table", table);
  }

  void build() {
    for (const Host& host : evidence.hosts) add_host(host);
    derive_port_facts(world.ports_);
    for (const PerftestRow& row : evidence.perftest) add_bench(row);
    mark_largest();
    for (const CollectiveTable& table : evidence.collectives) add_table(table);
    derive_table_facts(world.tables_, evidence, world.run_);
    derive_pair_facts(evidence, world.run_);
    for (const Event& event : evidence.events) add_event(event);
    run();
    members();
  }

  void add_host(const Host& host) {
    Entity& entity = world.hosts_.emplace_back();
    entity.scope = "host";
    entity.parent = &world.run_;
    put(entity, "name", host.name.empty() ? Value() : Value(host.name));
    put(entity, "host", Value(host.name.empty() ? std::string("the host") : host.name));
    static constexpr std::array kRoleNames = {"unknown", "sender", "receiver", "switch"};
    put(entity, "role", std::string(kRoleNames[static_cast<size_t>(host.role)]));
    put_settings(entity, host.settings);
    // An endpoint of mroce is no adapter.
    const auto adapters = std::count_if(host.ports.begin(), host.ports.end(), [](const Port& port) {
      return !port.device.empty() && port.vendor != "mroce";
    });
    if (adapters > 0) put(entity, "rdma.devices", static_cast<double>(adapters));
    std::map<std::string, Combiner> sums;
    for (const Port& port : host.ports) {
      add_port(port, entity);
      const Entity& added = world.ports_.back();
      for (const auto& [name, fact] : added.deltas)
        sums[name].add("all", false, std::get<double>(fact.value), fact.where, fact.shown);
    }
    for (const auto& [name, sum] : sums) entity.deltas[name] = sum.result(Combine::kSum);
  }

  void add_port(const Port& port, const Entity& host) {
    Entity& entity = world.ports_.emplace_back();
    entity.scope = "port";
    entity.parent = &host;
    put(entity, "port", port.name());
    put(entity, "device", port.device);
    put(entity, "netdev", port.netdev);
    put(entity, "vendor", port.vendor.empty() ? Value() : Value(port.vendor));
    put(entity, "complete_dump", port.complete_dump);
    put(entity, "is_mroce", port.vendor == "mroce");
    put(entity, "sprays", port.vendor == "mroce" || port.vendor == "efa");
    put_settings(entity, port.settings);
    if (const Setting* virtual_function = last_setting(port.settings, "function.virtual"))
      put(entity, "virtual", true, virtual_function->where);
    bool prio_pause = false;
    std::map<std::string, Combiner> deltas, newest, totals;
    for (const Counter& counter : port.counters) {
      if (counter.canonical.empty() || counter.readings.empty()) continue;
      const auto matches = book.vendors.find(port.vendor, counter.from, counter.vendor_name);
      const bool unison = !matches.empty() && matches.front().entry->unison;
      const std::string pattern = pattern_of(counter);
      counted += counter.readings.size() > 1 ? 1 : 0;
      const Reading& last = counter.readings.back();
      if (counter.canonical == "rx_pause_frames" && counter.priority >= 0) {
        prio_pause = true;
        put(entity, "has_pause." + std::to_string(counter.priority), true, last.where);
      }
      if (counter.kind == CounterKind::kGauge) {
        double greatest = 0;
        for (const Reading& reading : counter.readings)
          greatest = std::max(greatest, static_cast<double>(reading.value));
        newest[counter.canonical].add(pattern, true, greatest, last.where, counter.vendor_name);
        continue;
      }
      totals[counter.canonical].add(pattern, unison, static_cast<double>(last.value) * counter.scale,
                                    last.where, counter.vendor_name);
      if (counter.delta)
        deltas[counter.canonical].add(pattern, unison, *counter.delta, last.where, counter.vendor_name);
      if (counter.state == DeltaState::kReset) reset(entity, counter, last);
      by_priority(entity, counter, last);
    }
    put(entity, "has_prio_pause", prio_pause);
    finish(entity.deltas, deltas);
    finish(entity.newest, newest);
    finish(entity.totals, totals);
  }

  // Bytes by priority: which class does the traffic use? The priority with the most of them.
  void by_priority(Entity& entity, const Counter& counter, const Reading& last) {
    if (bad_priority(counter.priority) || !counter.delta) return;
    const bool bytes = counter.canonical == "prio_tx_bytes" || counter.canonical == "prio_rx_bytes";
    const bool pause = counter.canonical == "rx_pause_frames" || counter.canonical == "tx_pause_frames";
    if (!bytes && !pause) return;
    const std::string base = bytes ? "prio_bytes" : "prio_pause";
    const std::string each = base + "." + std::to_string(counter.priority);
    const Fact* known = entity.find(each);
    put(entity, each, (known != nullptr ? std::get<double>(known->value) : 0) + *counter.delta, last.where);
    entity.facts[each].shown = counter.vendor_name;
  }

  void reset(Entity& entity, const Counter& counter, const Reading& last) {
    ++resets;
    put(entity, "reset", true, last.where);
    entity.facts["reset"].shown = counter.vendor_name;
    put(entity, "reset_names", counter.vendor_name, last.where);
  }

  void finish(FactMap& into, const std::map<std::string, Combiner>& from) {
    for (const auto& [name, combiner] : from) {
      const Canonical* canonical = book.vendors.canonical(name);
      into[name] = combiner.result(canonical != nullptr ? canonical->combine : Combine::kMax);
    }
  }

  // The link that a result went over: of its device on its host, else of its device anywhere, else of all if
  // they agree.
  const Entity* port_of(const PerftestRow& row) const {
    const Entity* found = nullptr;
    size_t at = 0;
    bool agree = true;
    const Entity* any = nullptr;
    for (const Host& host : evidence.hosts) {
      for (const Port& port : host.ports) {
        const Entity& entity = world.ports_[at++];
        const Fact* rate = entity.find("link.rate_gbps");
        if (rate == nullptr) continue;
        if (!row.device.empty() && on_port(port, row.device)) {
          if (host.name == row.host) return &entity;
          if (found == nullptr) found = &entity;
        }
        agree = agree && (any == nullptr || any->find("link.rate_gbps")->value == rate->value);
        any = &entity;
      }
    }
    if (found != nullptr) return found;
    return agree ? any : nullptr;
  }

  void add_bench(const PerftestRow& row) {
    Entity& entity = world.benches_.emplace_back();
    entity.scope = "bench";
    entity.parent = &world.run_;
    const Where where = row.where;
    put(entity, "host", row.host);
    put(entity, "test", row.test.empty() ? Value() : Value(row.test), where);
    const size_t underscore = row.test.find('_');
    put(entity, "op", underscore == std::string::npos ? Value() : Value(row.test.substr(0, underscore)),
        where);
    put(entity, "latency", contains(row.test, "lat"), where);
    put(entity, "device", row.device);
    put(entity, "variant", row.variant);
    put(entity, "unit", row.unit, where);
    put(entity, "cuda", row.gpu_memory, where);
    put(entity, "bidirectional", row.bidirectional, where);
    put(entity, "directions", row.bidirectional ? 2.0 : 1.0);
    put_known(entity, "bytes", row.bytes, where);
    put_known(entity, "iterations", row.iterations, where);
    put_known(entity, "goodput_gbps", row.goodput_gbps, where);
    put_known(entity, "peak_gbps", row.peak_gbps, where);
    put_known(entity, "bare_number", row.bare_number, where);
    put_known(entity, "latency_us", row.latency_us, where);
    put_known(entity, "qps", row.qps, where);
    put_known(entity, "gid_index", row.gid_index, where);
    put_known(entity, "cpu_pct", row.cpu_pct, where);
    put_known(entity, "run_seconds", row.duration_s, where);
    put_known(entity, "mtu", row.mtu_bytes, where);
    if (!row.link_layer.empty()) put(entity, "link_layer", row.link_layer, where);
    const Entity* port = port_of(row);
    if (port == nullptr) return;
    const auto take = [&](std::string_view from, std::string_view to) {
      if (const Fact* fact = port->find(from); fact != nullptr && entity.facts.find(to) == entity.facts.end())
        entity.facts[std::string(to)] = *fact;
    };
    take("link.rate_gbps", "rate_gbps");
    take("mtu.active", "mtu");
    for (const char* name :
         {"pcie.width", "pcie.width_max", "pcie.speed_gts", "pcie.speed_max_gts", "mtu.max"})
      take(name, name);
  }

  // Of the rows that one run printed, the one with the largest messages is the one to judge.
  void mark_largest() {
    std::map<std::pair<uint32_t, std::string>, double> largest;
    const auto key = [](const Entity& e) {
      const Fact* test = e.find("test");
      const auto* text = std::get_if<std::string>(&test->value);
      return std::make_pair(test->where.source, text != nullptr ? *text : "");
    };
    const auto bytes = [](const Entity& e) {
      const Fact* fact = e.find("bytes");
      return fact == nullptr ? 0 : std::get<double>(fact->value);
    };
    for (const Entity& entity : world.benches_) {
      double& most = largest[key(entity)];
      most = std::max(most, bytes(entity));
    }
    for (Entity& entity : world.benches_) put(entity, "largest", bytes(entity) >= largest[key(entity)]);
  }

  void add_table(const CollectiveTable& table) {
    Entity& entity = world.tables_.emplace_back();
    entity.scope = "table";
    entity.parent = &world.run_;
    const Where where = table.where;
    put(entity, "host", table.host);
    put(entity, "variant", table.variant);
    if (!table.name.empty()) put(entity, "collective", table.name, where);
    put(entity, "headers", static_cast<double>(table.headers),
        table.second_header.source != 0 ? table.second_header : where);
    put(entity, "trailers", static_cast<double>(table.trailers),
        table.average_where.source != 0 ? table.average_where : where);
    if (table.ranks > 0) {
      put(entity, "ranks", static_cast<double>(table.ranks), where);
      put(entity, "rank_zero", static_cast<double>(table.times_rank_zero), where);
      put(entity, "table_hosts", static_cast<double>(table.hosts.size()), where);
    }
    put_known(entity, "wrong", table.wrong, table.wrong_where.source != 0 ? table.wrong_where : where);
    put(entity, "failed", table.out_of_bounds_failed, table.wrong_where);
    put_known(entity, "avg_busbw", table.avg_busbw_gBps, table.average_where);
    put_known(entity, "warmup", table.warmup, where);
    sizes(entity, table);
  }

  static double busbw(const CollectiveRow& row) {
    return std::max(row.busbw_gBps.value_or(0), row.busbw_in_gBps.value_or(0));
  }

  // The largest size, and up to which size the time does not depend on the size: there, latency is all that
  // counts.
  static void sizes(Entity& entity, const CollectiveTable& table) {
    const CollectiveRow *largest = nullptr, *fastest = nullptr;
    for (const CollectiveRow& row : table.rows) {
      if (largest == nullptr || row.bytes >= largest->bytes) largest = &row;
      if (row.time_us && row.bytes > 0 && (fastest == nullptr || *row.time_us < *fastest->time_us))
        fastest = &row;
    }
    if (largest == nullptr) return;
    put(entity, "large_busbw", busbw(*largest), largest->where);
    put(entity, "largest_bytes", largest->bytes, largest->where);
    if (fastest == nullptr) return;
    const CollectiveRow* flat = nullptr;
    for (const CollectiveRow& row : table.rows)
      if (row.time_us && row.bytes > 0 && *row.time_us <= 1.5 * *fastest->time_us &&
          (flat == nullptr || row.bytes > flat->bytes))
        flat = &row;
    if (flat != nullptr && flat->bytes >= 8 * fastest->bytes)
      put(entity, "small_flat_bytes", flat->bytes, flat->where);
  }

  void add_event(const Event& event) {
    Entity& entity = world.events_.emplace_back();
    entity.scope = "event";
    entity.parent = &world.run_;
    for (const Entity& host : world.hosts_)
      if (const auto* name = std::get_if<std::string>(&host.find("name")->value);
          name != nullptr && *name == event.host)
        entity.parent = &host;
    put(entity, "kind", event.kind, event.where);
    put(entity, "detail", event.detail, event.where);
    put_known(entity, "status", event.status, event.where);
    for (const auto& [name, text] : event.fields) put(entity, "field." + name, text, event.where);
  }

  // What logs say of the whole job.
  void of_events(Entity& run) {
    for (const Entity& event : world.events_) {
      const Fact* status = event.find("status");
      const auto& kind = std::get<std::string>(event.find("kind")->value);
      if (status == nullptr || (kind != "ib-using" && kind != "launch")) continue;
      const std::string_view name = kind == "launch" ? "launched_ranks" : "hcas_used";
      const Fact* known = run.find(name);
      if (known == nullptr || std::get<double>(known->value) < std::get<double>(status->value))
        put(run, name, status->value, status->where);
    }
  }

  void run() {
    Entity& run = world.run_;
    run.scope = "run";
    double senders = 0, receivers = 0, deltas = 0, switches = 0;
    for (const Host& host : evidence.hosts) {
      // An end is captured if something was counted there during the run.
      const auto counted_there = [](const Port& port) {
        return std::any_of(port.counters.begin(), port.counters.end(),
                           [](const Counter& c) { return c.delta.has_value(); });
      };
      const bool captured = std::any_of(host.ports.begin(), host.ports.end(), counted_there);
      senders += host.role == Role::kSender && captured ? 1 : 0;
      receivers += host.role == Role::kReceiver && captured ? 1 : 0;
      switches += host.role == Role::kSwitch ? 1 : 0;
    }
    double most_rails = 0, most_rate = 0;
    for (const Host& host : evidence.hosts) {
      if (host.role == Role::kSwitch) continue;
      double rails = 0, rate = 0;
      const bool adapters = std::any_of(host.ports.begin(), host.ports.end(), [](const Port& port) {
        return !port.device.empty() && port.vendor != "mroce";
      });
      for (const Port& port : host.ports) {
        if (port.device.empty() || (adapters && port.vendor == "mroce")) continue;
        ++rails;
        const Setting* setting = last_setting(port.settings, "link.rate_gbps");
        if (setting != nullptr) rate += real_number(setting->text).value_or(0);
      }
      most_rails = std::max(most_rails, rails);
      most_rate = std::max(most_rate, rate);
    }
    for (const Entity& port : world.ports_) deltas += static_cast<double>(port.deltas.size());
    put(run, "hosts", static_cast<double>(evidence.hosts.size()) - switches);
    put(run, "ports", static_cast<double>(world.ports_.size()));
    put(run, "senders", senders);
    put(run, "receivers", receivers);
    put(run, "two_sided", senders > 0 && receivers > 0);
    put(run, "has_log", !evidence.events.empty());
    put(run, "has_perftest", !evidence.perftest.empty());
    put(run, "has_table", !evidence.collectives.empty());
    put(run, "has_deltas", deltas > 0);
    put(run, "resets", resets);
    put(run, "counters", counted);
    of_events(run);
    for (const Entity& bench : world.benches_)
      if (const Fact* mtu = bench.find("mtu")) put(run, "mtu_run", mtu->value, mtu->where);
    if (most_rails > 0) put(run, "devices_installed", most_rails);
    if (most_rate > 0) put(run, "rails_gBps", most_rate / 8);
    if (evidence.seconds) put(run, "seconds", *evidence.seconds, evidence.seconds_where);
  }
};

World::World(const Evidence& evidence, const Rulebook& book) : evidence_(evidence), book_(book) {
  WorldBuilder{*this, evidence, book}.build();
}

}  // namespace mroce::doctor
