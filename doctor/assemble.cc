// Readings become deltas.
//
// The readings of one counter are put in the order of their times if all have one, else of phase, then time,
// then reading. Every step is looked at, so that a reset between two samples is not hidden by what came after
// it. What happens between the end of one run and the start of the next belongs to neither. A step down of a
// counter that has 32 bits in hardware is a wrap if the old value was in the upper half and the new one is in
// the lower; every other step down is a reset, and there is no delta.
#include <algorithm>
#include <map>

#include "doctor/delta.h"
#include "doctor/ingest.h"

namespace mroce::doctor {
namespace {

int rank_of(Phase phase) {
  switch (phase) {
    case Phase::kStart:
      return 0;
    case Phase::kEnd:
      return 2;
    default:
      return 1;
  }
}

void sort_readings(std::vector<Reading>& readings) {
  const bool timed = std::all_of(readings.begin(), readings.end(),
                                 [](const Reading& reading) { return reading.time_ns != 0; });
  std::stable_sort(readings.begin(), readings.end(), [timed](const Reading& a, const Reading& b) {
    if (timed && a.time_ns != b.time_ns) return a.time_ns < b.time_ns;
    if (rank_of(a.phase) != rank_of(b.phase)) return rank_of(a.phase) < rank_of(b.phase);
    return a.time_ns != 0 && b.time_ns != 0 && a.time_ns < b.time_ns;
  });
}

bool between_runs(const Reading& before, const Reading& after) {
  return before.phase == Phase::kEnd && after.phase == Phase::kStart;
}

void compute_delta(Counter& counter) {
  sort_readings(counter.readings);
  if (counter.from == "mroce" &&
      !counter.readings.empty()) {  // an endpoint begins at 0, and its life is the run
    counter.state = DeltaState::kOk;
    counter.delta = static_cast<double>(counter.readings.back().value);
    return;
  }
  if (counter.readings.size() < 2) return;
  double sum = 0;
  counter.state = DeltaState::kOk;
  for (size_t i = 1; i < counter.readings.size(); ++i) {
    if (between_runs(counter.readings[i - 1], counter.readings[i])) continue;
    const CounterStep step =
        step_between(counter.readings[i - 1].value, counter.readings[i].value, counter.width);
    if (step.state != DeltaState::kOk) counter.state = step.state;
    if (step.state == DeltaState::kReset) return;
    sum += static_cast<double>(step.by);
  }
  counter.delta = sum * counter.scale;
}

std::string vendor_by_vote(const Port& port, const VendorMap& vendors) {
  std::map<std::string, size_t> votes;
  for (const Counter& counter : port.counters)
    for (const VendorMatch& match : vendors.find("", counter.from, counter.vendor_name))
      if (match.entry->vendor != "ib" && match.entry->vendor != "any") ++votes[match.entry->vendor];
  const auto best = std::max_element(votes.begin(), votes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == votes.end() ? "" : best->first;
}

void name_vendor(Port& port, const VendorMap& vendors) {
  if (!port.vendor.empty()) return;
  if (const Setting* driver = last_setting(port.settings, "driver.name"))
    port.vendor = std::string(vendors.vendor_of_driver(driver->text));
  if (port.vendor.empty()) port.vendor = std::string(vendors.vendor_of_driver(port.device));
  if (port.vendor.empty()) port.vendor = vendor_by_vote(port, vendors);
}

void map_counters(Port& port, const VendorMap& vendors, bool keep_unknown) {
  std::vector<Counter> mapped;
  for (Counter& counter : port.counters) {
    auto matches = vendors.find(port.vendor, counter.from, counter.vendor_name);
    // An unnamed vendor: a name that means the same to all who have it is good enough.
    if (matches.empty()) matches = vendors.find("", counter.from, counter.vendor_name);
    std::vector<std::string_view> taken;
    for (const VendorMatch& match : matches) {
      if (match.entry->canonical == "IGNORE") continue;
      if (std::find(taken.begin(), taken.end(), match.entry->canonical) != taken.end()) continue;
      taken.push_back(match.entry->canonical);
      Counter& out = mapped.emplace_back(counter);
      out.canonical = match.entry->canonical;
      out.priority = match.priority;
      out.width = match.entry->width;
      out.scale = match.entry->scale;
      out.kind = match.entry->kind;
      if (out.kind == CounterKind::kCounter)
        compute_delta(out);
      else
        sort_readings(out.readings);
    }
    if (taken.empty() && keep_unknown) compute_delta(mapped.emplace_back(std::move(counter)));
  }
  port.counters = std::move(mapped);
}

void take_over(Port& into, Port& from) {
  if (into.device.empty()) {
    into.device = from.device;
    into.number = from.number;
  }
  if (into.netdev.empty()) into.netdev = from.netdev;
  if (into.vendor.empty()) into.vendor = from.vendor;
  into.complete_dump = into.complete_dump || from.complete_dump;
  for (auto& [name, values] : from.settings)
    for (auto& value : values) add_setting(into.settings, name, value.text, value.phase, value.where);
  for (auto& counter : from.counters) {
    const auto same = std::find_if(into.counters.begin(), into.counters.end(), [&](const Counter& c) {
      return c.vendor_name == counter.vendor_name && c.from == counter.from;
    });
    if (same == into.counters.end())
      into.counters.push_back(std::move(counter));
    else
      same->readings.insert(same->readings.end(), counter.readings.begin(), counter.readings.end());
  }
}

// An RDMA device and a netdev that were read apart: `rdma link` says that they belong together, or there is
// one of each.
void join_ports(Host& host) {
  const auto find = [&](auto&& wanted) { return std::find_if(host.ports.begin(), host.ports.end(), wanted); };
  for (size_t i = 0; i < host.ports.size(); ++i) {
    Port& port = host.ports[i];
    if (port.device.empty() || port.netdev.empty()) continue;
    const auto half = find([&](const Port& p) {
      return &p != &port && ((p.device.empty() && p.netdev == port.netdev) ||
                             (p.netdev.empty() && p.device == port.device && p.number == port.number));
    });
    if (half == host.ports.end()) continue;
    take_over(port, *half);
    host.ports.erase(half);
    i = SIZE_MAX;  // indices have changed: begin again (a host has few ports)
  }
  if (host.ports.size() == 2) {
    Port &a = host.ports[0], &b = host.ports[1];
    // An endpoint of mroce is no half of a network interface.
    const bool endpoint = a.vendor == "mroce" || b.vendor == "mroce";
    const bool halves =
        !endpoint && ((a.device.empty() && !b.device.empty() && (b.netdev.empty() || a.netdev.empty())) ||
                      (b.device.empty() && !a.device.empty() && (a.netdev.empty() || b.netdev.empty())));
    if (halves) {
      take_over(a, b);
      host.ports.pop_back();
    }
  }
}

// Who sends is who has sent more, if nobody says it.
void name_role(Host& host) {
  if (host.role != Role::kUnknown) return;
  double sent = 0, received = 0;
  for (const Port& port : host.ports) {
    for (const Counter& counter : port.counters) {
      if (!counter.delta) continue;
      if (counter.canonical == "rdma_tx_bytes") sent += *counter.delta;
      if (counter.canonical == "rdma_rx_bytes") received += *counter.delta;
    }
  }
  constexpr double kEnough = 1e6;
  if (sent > kEnough && sent > 10 * received) host.role = Role::kSender;
  if (received > kEnough && received > 10 * sent) host.role = Role::kReceiver;
}

// How long sorted readings watched, the time between runs left out; 0 if unknown.
int64_t measured_ns(const std::vector<Reading>& readings) {
  int64_t length = 0;
  for (size_t i = 1; i < readings.size(); ++i) {
    if (readings[i - 1].time_ns == 0 || between_runs(readings[i - 1], readings[i])) continue;
    length += std::max<int64_t>(0, readings[i].time_ns - readings[i - 1].time_ns);
  }
  return length;
}

// How long the run was: from the snapshots' times, else from what perftest moved at which rate.
void name_seconds(Evidence& evidence) {
  if (evidence.seconds) return;
  int64_t longest = 0;
  for (const Host& host : evidence.hosts)
    for (const Port& port : host.ports)
      for (const Counter& counter : port.counters) {
        const int64_t length = measured_ns(counter.readings);
        if (length <= longest) continue;
        longest = length;
        evidence.seconds_where = counter.readings.back().where;
      }
  if (longest > 0) {
    evidence.seconds = static_cast<double>(longest) / 1e9;
    return;
  }
  for (const PerftestRow& row : evidence.perftest) {
    if (!row.duration_s || (evidence.seconds && *evidence.seconds >= *row.duration_s)) continue;
    evidence.seconds = row.duration_s;
    evidence.seconds_where = row.where;
  }
}

}  // namespace

void assemble(Evidence& evidence, const Rulebook& book, bool keep_unknown) {
  for (Host& host : evidence.hosts) {
    join_ports(host);
    for (Port& port : host.ports) {
      name_vendor(port, book.vendors);
      map_counters(port, book.vendors, keep_unknown);
    }
    name_role(host);
  }
  name_seconds(evidence);
}

}  // namespace mroce::doctor
