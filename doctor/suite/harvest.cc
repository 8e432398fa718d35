#include "doctor/suite/harvest.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <set>

#include "doctor/collect/diff.h"
#include "doctor/ingest.h"
#include "doctor/judge.h"
#include "doctor/lenient_json.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

Evidence evidence_of(const std::string& name, const std::string& hints, std::string text,
                     const Rulebook& book, bool keep_unknown) {
  Evidence evidence;
  Context context(evidence, book);
  context.keep_unknown = keep_unknown;
  ingest({name, hints, std::move(text), false}, context);
  assemble(evidence, book, keep_unknown);
  return evidence;
}

Bundle without_command(const Bundle& bundle) {
  Bundle out = bundle;
  out.command.reset();
  return out;
}

// Values of 16 bytes, whichever way they are written; IPv4 as IPv6 has it.
std::optional<std::array<unsigned char, 16>> address_of(std::string text) {
  std::array<unsigned char, 16> out{};
  if (::inet_pton(AF_INET6, text.c_str(), out.data()) == 1) return out;
  text = "::ffff:" + text;
  if (::inet_pton(AF_INET6, text.c_str(), out.data()) == 1) return out;
  return std::nullopt;
}

bool is_mapped(const std::array<unsigned char, 16>& address) {
  static constexpr std::array<unsigned char, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

bool is_loopback(const std::array<unsigned char, 16>& address) {
  return is_mapped(address) && address[12] == 127;
}

struct Gid {
  uint32_t index = 0;
  std::string address;
};

// The host's own address, else the first IPv4 one, else the first.
std::optional<uint32_t> best_gid(const std::vector<Gid>& gids, const SuiteHost& host) {
  const auto wanted = address_of(host.address);
  const Gid* best = nullptr;
  int best_rank = 0;
  for (const Gid& gid : gids) {
    const auto address = address_of(gid.address);
    if (!address || is_loopback(*address)) continue;
    const int rank = wanted && *address == *wanted ? 3 : is_mapped(*address) ? 2 : 1;
    if (rank <= best_rank) continue;
    best = &gid;
    best_rank = rank;
  }
  return best == nullptr ? std::nullopt : std::optional(best->index);
}

std::vector<Gid> gids_of(const Port& port) {
  std::vector<Gid> out;
  for (uint32_t index = 0; index < 256; ++index) {
    const std::string name = "gid." + std::to_string(index);
    const Setting *type = last_setting(port.settings, name + ".type"),
                  *address = last_setting(port.settings, name + ".address");
    if (address != nullptr && type != nullptr && contains(type->text, "v2"))
      out.push_back({index, std::string(trim(address->text))});
  }
  return out;
}

std::vector<Rail> rails_of_gids(const std::string& device, const std::vector<Gid>& gids,
                                const SuiteHost& host) {
  std::vector<Rail> out{{device, best_gid(gids, host)}};
  for (const Gid& gid : gids) {
    const auto address = address_of(gid.address);
    if (address && is_mapped(*address) && !is_loopback(*address) && gid.index != out.front().gid)
      out.push_back({device, gid.index});
  }
  return out;
}

// `mroce info --json` in the snapshot.
std::vector<Rail> rails_of_mroce(const Bundle& bundle, const SuiteHost& host) {
  for (const Snapshot& snapshot : bundle.snapshots)
    for (const BundleSource& source : snapshot.sources) {
      if (source.name != "mroce info --json" || !source.text) continue;
      const JsonReading reading = read_json(*source.text);
      const JsonValue* list = reading.value.find("gids");
      if (list == nullptr) continue;
      std::vector<Gid> gids;
      for (const JsonValue& item : list->items)
        if (const auto index = item.number_at("index"); index && *index >= 0 && *index < 256)
          gids.push_back({static_cast<uint32_t>(*index), item.string_at("address")});
      const std::string name = reading.value.string_at("device");
      return rails_of_gids(is_plain_name(name) ? name : "mroce0", gids, host);
    }
  return {{"mroce0", std::nullopt}};
}

bool changes_by_itself(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kPrefixes = {"boot.", "gpu.", "gid."};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

SettingsOfPlace lasting(const Settings& settings) {
  SettingsOfPlace out;
  for (const auto& [name, values] : settings)
    if (!values.empty() && !changes_by_itself(name)) out[name] = values.back().text;
  return out;
}

void add_counter(TestResult& into, MovedCounter counter) {
  for (MovedCounter& each : into.counters)
    if (each.host == counter.host && each.port == counter.port && each.canonical == counter.canonical &&
        each.vendor_name == counter.vendor_name) {
      each.delta += counter.delta;
      each.reset = each.reset || counter.reset;
      return;
    }
  into.counters.push_back(std::move(counter));
}

// The statistics of each process are a file of its own here, so that the ends add up.
void counters_of_endpoints(const std::vector<EndOutput>& outputs, const SuiteOptions& options,
                           const Rulebook& book, TestResult& into) {
  for (const EndOutput& output : outputs) {
    if (output.text.find("mroce-stats-1") == std::string::npos) continue;
    const Evidence evidence = evidence_of("output", "", output.text, book, false);
    for (const Host& host : evidence.hosts)
      for (const Port& port : host.ports)
        for (const Counter& counter : port.counters) {
          if (counter.from != "mroce" || counter.delta.value_or(0) <= 0) continue;
          const Canonical* canonical = book.vendors.canonical(counter.canonical);
          add_counter(into,
                      {options.hosts[output.host].name, port.device, counter.canonical, counter.vendor_name,
                       canonical == nullptr ? "" : canonical->unit, *counter.delta, false});
        }
  }
}

}  // namespace

bool harvest_step(const Step& step, const std::vector<EndOutput>& outputs, const Rulebook& book,
                  TestResult& into) {
  double goodput = 0, latency = 0, tail = 0;
  size_t with_goodput = 0, with_latency = 0, clients = 0;
  for (const EndOutput& output : outputs) {
    if (!output.is_client) continue;
    ++clients;
    const Evidence evidence = evidence_of("output", "", output.text, book, false);
    if (evidence.perftest.empty()) continue;
    const PerftestRow& row = evidence.perftest.back();
    if (row.goodput_gbps && step.name == "bandwidth") {
      goodput += *row.goodput_gbps;
      ++with_goodput;
      into.payload_bytes += row.bytes.value_or(0) * row.iterations.value_or(0) * (row.bidirectional ? 2 : 1);
    }
    if (row.latency_us && step.name == "latency") {
      latency = std::max(latency, *row.latency_us);
      tail = std::max(tail, row.latency_p99_us.value_or(0));
      ++with_latency;
    }
  }
  // A sum without one of its parts would be a wrong figure.
  if (clients > 0 && with_goodput == clients)
    into.metric("goodput", "Gbit/s", true).values.push_back(goodput);
  if (with_latency > 0) into.metric("latency", "us", false).values.push_back(latency);
  if (tail > 0) into.metric("latency_p99", "us", false).values.push_back(tail);
  return clients > 0 && (with_goodput == clients || with_latency == clients);
}

bool harvest_collective(std::string_view output, const Rulebook& book, TestResult& into) {
  const Evidence evidence = evidence_of("output", "", std::string(output), book, false);
  for (const CollectiveTable& table : evidence.collectives) {
    const auto largest =
        std::max_element(table.rows.begin(), table.rows.end(),
                         [](const CollectiveRow& a, const CollectiveRow& b) { return a.bytes < b.bytes; });
    if (largest == table.rows.end()) continue;
    if (largest->busbw_gBps)
      into.metric("bus_bandwidth", "GB/s", true).values.push_back(*largest->busbw_gBps);
    if (table.avg_busbw_gBps)
      into.metric("average_bus_bandwidth", "GB/s", true).values.push_back(*table.avg_busbw_gBps);
    return largest->busbw_gBps.has_value();
  }
  // OSU: "# Size   Avg Latency(us)", then rows of two figures or more.
  bool header = false;
  std::optional<double> last;
  for (const std::string_view line : split(output, '\n')) {
    header = header || (contains(line, "# Size") && contains(line, "Latency"));
    const auto words = words_of(line);
    if (header && words.size() >= 2 && whole_number(words[0])) last = real_number(words[1]);
  }
  if (last) into.metric("collective_latency", "us", false).values.push_back(*last);
  return last.has_value();
}

void harvest_counters(const TestBundles& test, const std::vector<EndOutput>& outputs,
                      const SuiteOptions& options, const Rulebook& book, TestResult& into) {
  for (const Bundle& bundle : test.bundles) {
    const Evidence evidence = evidence_of("bundle", "", to_json(without_command(bundle)), book, true);
    for (const PortChange& port : diff(evidence, evidence, book, false).ports)
      for (const CounterChange& change : port.counters) {
        if (change.gauge || (change.delta == 0 && change.state != DeltaState::kReset)) continue;
        add_counter(into, {bundle.host, port.port, change.canonical, change.vendor_name, change.unit,
                           change.delta, change.state == DeltaState::kReset});
      }
  }
  counters_of_endpoints(outputs, options, book, into);
}

std::map<std::string, SettingsOfPlace> settings_of(const std::vector<Bundle>& bundles, const Rulebook& book) {
  std::map<std::string, SettingsOfPlace> out;
  for (const Bundle& bundle : bundles) {
    const Evidence evidence = evidence_of("bundle", "", to_json(without_command(bundle)), book, false);
    for (const Host& host : evidence.hosts) {
      out[host.name] = lasting(host.settings);
      for (const Port& port : host.ports)
        if (SettingsOfPlace of_port = lasting(port.settings); !of_port.empty())
          out[host.name + " " + port.name()] = std::move(of_port);
    }
  }
  return out;
}

std::vector<Rail> rails_of(const Bundle& bundle, const SuiteHost& host, bool under_mroce,
                           const Rulebook& book) {
  if (under_mroce) return rails_of_mroce(bundle, host);
  std::vector<Rail> out;
  const Evidence evidence = evidence_of("bundle", "", to_json(without_command(bundle)), book, false);
  std::set<std::string> seen;
  for (const Host& each : evidence.hosts)
    for (const Port& port : each.ports) {
      const Setting* state = last_setting(port.settings, "link.state");
      const bool up = state == nullptr || contains(lowered(state->text), "active");
      if (!up || !is_plain_name(port.device) || port.vendor == "mroce" || !seen.insert(port.device).second)
        continue;
      out.push_back({port.device, best_gid(gids_of(port), host)});
    }
  std::sort(out.begin(), out.end(), [](const Rail& a, const Rail& b) { return a.device < b.device; });
  return out;
}

void join_brackets(std::vector<TestBundles>& tests) {
  std::map<std::string, Snapshot*> last;
  for (TestBundles& test : tests)
    for (Bundle& bundle : test.bundles)
      for (Snapshot& snapshot : bundle.snapshots) {
        const auto [entry, is_first] = last.try_emplace(bundle.host, &snapshot);
        snapshot.phase = is_first ? Phase::kStart : Phase::kEnd;
        if (!is_first && entry->second->phase == Phase::kEnd) entry->second->phase = Phase::kSample;
        entry->second = &snapshot;
      }
}

Diagnosis diagnose(const std::vector<TestBundles>& tests, const Rulebook& book) {
  Evidence evidence;
  for (const TestBundles& test : tests)
    for (const Bundle& bundle : test.bundles) {
      const std::string name = std::string(to_string(test.kind)) + "/" + bundle.host + ".json";
      ingest({name, std::string(variant_of(test.kind)), to_json(bundle), false}, Context(evidence, book));
    }
  assemble(evidence, book);
  return judge(evidence, book);
}

TestVerdict verdict_of(const Diagnosis& diagnosis) {
  return {diagnosis.rule, std::string(to_string(diagnosis.layer)), diagnosis.sentence,
          std::string(to_string(diagnosis.confidence))};
}

}  // namespace mroce::doctor
