#include "doctor/collect/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "doctor/collect/sampler.h"
#include "doctor/delta.h"

namespace mroce::doctor {
namespace {

using nlohmann::ordered_json;

// Of hosts or ports: the one of that name, or the only one there is on either side.
const Host* partner(const Evidence& b, const Host& host, size_t hosts_of_a) {
  for (const Host& each : b.hosts)
    if (each.name == host.name) return &each;
  return hosts_of_a == 1 && b.hosts.size() == 1 ? &b.hosts.front() : nullptr;
}

const Port* partner(const Host& b, const Port& port, size_t ports_of_a) {
  for (const Port& each : b.ports) {
    if (!port.device.empty() && each.device == port.device && each.number == port.number) return &each;
    if (!port.netdev.empty() && each.netdev == port.netdev) return &each;
  }
  const bool only = ports_of_a == 1 && b.ports.size() == 1;
  return only && (port.device.empty() || b.ports.front().device.empty()) ? &b.ports.front() : nullptr;
}

const Counter* partner(const Port& b, const Counter& counter) {
  for (const Counter& each : b.counters)
    if (each.vendor_name == counter.vendor_name && each.from == counter.from &&
        each.canonical == counter.canonical)
      return &each;
  return nullptr;
}

class Differ {
 public:
  Differ(const Evidence& a, const Evidence& b, const Rulebook& book, bool all)
      : a_(a), b_(b), book_(book), all_(all) {}

  HostDiff run() {
    for (const Host& host : a_.hosts) {
      const Host* other = partner(b_, host, a_.hosts.size());
      if (other == nullptr) {
        out_.remarks.push_back(host.name + " is in the first only");
        continue;
      }
      hosts(host, *other);
    }
    for (const Host& host : b_.hosts)
      if (partner(a_, host, b_.hosts.size()) == nullptr)
        out_.remarks.push_back(host.name + " is in the second only");
    return std::move(out_);
  }

 private:
  void hosts(const Host& a, const Host& b) {
    const Setting *old_boot = first(a.settings, "boot.id"), *new_boot = last_setting(b.settings, "boot.id");
    if (old_boot != nullptr && new_boot != nullptr && old_boot->text != new_boot->text)
      out_.remarks.push_back(a.name + " was started anew in between: its counters began at 0 again");
    for (const SettingChange& change : settings(a.settings, b.settings))
      out_.settings.push_back({a.name + ": " + change.name, change.before, change.after});
    for (const Port& port : a.ports) {
      const Port* other = partner(b, port, a.ports.size());
      if (other == nullptr)
        out_.remarks.push_back(fmt::format("{} {} is in the first only", a.name, port.name()));
      else
        ports(a, port, *other);
    }
    for (const Port& port : b.ports)
      if (partner(a, port, b.ports.size()) == nullptr)
        out_.remarks.push_back(fmt::format("{} {} is in the second only", a.name, port.name()));
  }

  void ports(const Host& host, const Port& a, const Port& b) {
    PortChange change;
    change.host = host.name;
    change.port = a.name();
    if (!a.device.empty() && !a.netdev.empty()) change.port += " (" + a.netdev + ")";
    change.vendor = b.vendor.empty() ? a.vendor : b.vendor;
    for (const Counter& counter : a.counters) {
      const Counter* other = partner(b, counter);
      if (other == nullptr || counter.readings.empty() || other->readings.empty()) {
        ++out_.unpaired;
        continue;
      }
      counters(change, counter, *other);
    }
    for (const Counter& counter : b.counters)
      if (partner(a, counter) == nullptr) ++out_.unpaired;
    std::stable_partition(change.counters.begin(), change.counters.end(),
                          [](const CounterChange& c) { return !c.canonical.empty(); });
    change.settings = settings(a.settings, b.settings);
    if (!change.counters.empty() || !change.settings.empty()) out_.ports.push_back(std::move(change));
  }

  void counters(PortChange& into, const Counter& a, const Counter& b) {
    if (!all_ && b.canonical.empty() && is_of_a_ring(b.vendor_name)) {
      ++out_.of_rings;
      return;
    }
    const Reading &old = a.readings.front(), &now = b.readings.back();
    CounterChange change;
    change.canonical = b.canonical;
    change.vendor_name = b.vendor_name;
    change.from = b.from;
    change.priority = b.priority;
    change.gauge = b.kind == CounterKind::kGauge;
    change.before = old.value;
    change.after = now.value;
    if (const Canonical* canonical = book_.vendors.canonical(b.canonical)) change.unit = canonical->unit;
    // Within one file every step between was looked at; and an endpoint of mroce began at 0.
    const bool one_file = &a_ == &b_, from_zero = one_file && a.from == "mroce";
    if (from_zero) change.before = 0;
    if (one_file && a.state == DeltaState::kNone && !change.gauge) return;
    const bool same = *change.before == now.value && (!one_file || a.state == DeltaState::kOk);
    if (same && !all_) {
      ++out_.unchanged;
      return;
    }
    const double seconds = static_cast<double>(now.time_ns - old.time_ns) / 1e9;
    const bool timed = old.time_ns > 0 && now.time_ns > 0 && seconds > 0 && !from_zero;
    if (timed) into.seconds = std::max(into.seconds.value_or(0), seconds);
    if (change.gauge) {
      change.state = DeltaState::kOk;
      change.delta = static_cast<double>(now.value) - static_cast<double>(old.value);
    } else {
      const CounterStep step = step_between(old.value, now.value, b.width);
      change.state = one_file ? a.state : step.state;
      change.delta = one_file ? a.delta.value_or(0) : static_cast<double>(step.by) * b.scale;
      if (timed && change.state != DeltaState::kReset) change.per_second = change.delta / seconds;
    }
    into.counters.push_back(std::move(change));
  }

  static const Setting* first(const Settings& settings, std::string_view name) {
    const auto found = settings.find(name);
    return found == settings.end() || found->second.empty() ? nullptr : &found->second.front();
  }

  std::vector<SettingChange> settings(const Settings& a, const Settings& b) const {
    std::vector<SettingChange> out;
    for (const auto& [name, values] : a) {
      const Setting* now = last_setting(b, name);
      if (values.empty() || now == nullptr) continue;
      if (all_ || values.front().text != now->text) out.push_back({name, values.front().text, now->text});
    }
    return out;
  }

  const Evidence &a_, &b_;
  const Rulebook& book_;
  bool all_;
  HostDiff out_;
};

const char* word_of(DeltaState state) {
  switch (state) {
    case DeltaState::kWrapped:
      return "wrapped";
    case DeltaState::kReset:
      return "reset";
    case DeltaState::kOk:
      return "ok";
    case DeltaState::kNone:
      break;
  }
  return "none";
}

ordered_json counter_json(const CounterChange& change) {
  ordered_json out{{"canonical", nullptr}, {"vendor_name", change.vendor_name}, {"from", change.from}};
  if (!change.canonical.empty()) out["canonical"] = change.canonical;
  if (!change.unit.empty()) out["unit"] = change.unit;
  if (change.priority >= 0) out["priority"] = change.priority;
  out["kind"] = change.gauge ? "gauge" : "counter";
  out["before"] = change.before.value_or(0);
  out["after"] = change.after.value_or(0);
  out["state"] = word_of(change.state);
  if (change.state != DeltaState::kReset) out["delta"] = change.delta;
  if (change.per_second) out["per_second"] = *change.per_second;
  return out;
}

ordered_json settings_json(const std::vector<SettingChange>& changes) {
  ordered_json out = ordered_json::array();
  for (const SettingChange& change : changes)
    out.push_back({{"name", change.name}, {"before", change.before}, {"after", change.after}});
  return out;
}

}  // namespace

HostDiff diff(const Evidence& a, const Evidence& b, const Rulebook& book, bool all) {
  return Differ(a, b, book, all).run();
}

std::string to_json(const HostDiff& diff) {
  ordered_json out{{"schema", "mroce.doctor.diff/1"}, {"remarks", diff.remarks}};
  out["ports"] = ordered_json::array();
  for (const PortChange& port : diff.ports) {
    ordered_json entry{{"host", port.host}, {"port", port.port}, {"vendor", port.vendor}};
    if (port.seconds) entry["seconds"] = *port.seconds;
    entry["counters"] = ordered_json::array();
    for (const CounterChange& change : port.counters) entry["counters"].push_back(counter_json(change));
    entry["settings"] = settings_json(port.settings);
    out["ports"].push_back(std::move(entry));
  }
  out["host_settings"] = settings_json(diff.settings);
  out["unchanged_counters"] = diff.unchanged;
  out["unpaired_counters"] = diff.unpaired;
  out["ring_counters_not_shown"] = diff.of_rings;
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mroce::doctor
