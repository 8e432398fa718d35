#include "cli/sim_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/sim_words.h"
#include "sim/connection_matrix.h"
#include "sim/hpcc_flows.h"
#include "sim/hpcc_topology.h"
#include "sim/leaf_spine.h"
#include "sim/text_lines.h"
#include "sim/topo_file.h"
#include "sim/words.h"
#include "sim/workload_generators.h"

namespace mroce::cli {

const char* const kFabricHelp =
    R"(Fabrics (--fabric NAME:KEY=VALUE,…); delay is that of a cable, rates are of one cable
  fat-tree     hosts=128 rate=400G delay=1us tiers=3|2 oversubscription=1 (at the leaves)
               switch_delay=0 radix=N (of the switches; default: the smallest that has enough ports)
  leaf-spine   leaves=8 hosts_per_leaf=8 spines=8 bundle=1 rate=400G fabric_rate=RATE delay=1us
               fabric_delay=TIME switch_delay=0
  rail         leaf-spine with rails=8: host = server * rails + rail
  two-sites    leaf-spine twice, with cables=1 border_cables=1 long_rate=400G long_delay=500us
)";

const char* const kLoadHelp =
    R"(Loads (--load NAME:KEY=VALUE,…)
  permutation  size=2M                     each host sends to one and receives from one, by --seed
  incast       senders=64 size=2M receiver=0   (64 or all others)
  all-to-all   size=64K window=8           flows of a host at a time; 0: all
  ring         size=64M channels=1         all-reduce: reduce-scatter and all-gather
  single       size=100M from=0 to=1
)";

namespace {

constexpr const char* kSeeHelp = "see mroce sim --help";
constexpr uint64_t kMaxInputBytes = 256ULL << 20;

// The first word that is not comment.
std::string_view first_word(std::string_view name, std::string_view text) {
  sim::TextLines lines(name, text.substr(0, 1 << 16));
  return lines.next() ? lines.words().front() : std::string_view();
}

bool begins_like_htsim(std::string_view word) {
  if (word.size() != 5) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    if ((word[i] | 0x20) != "nodes"[i]) return false;
  }
  return true;
}

Outcome<std::string> text_of(const std::string& path) {
  auto text = sim::read_text(path, kMaxInputBytes);
  if (!text) return failure(kEnvironment, text.error(), "name a file that you may read");
  return std::move(*text);
}

template <class T>
Outcome<T> usable(tl::expected<T, std::string> made, std::string hint) {
  if (!made) return failure(kUsage, made.error(), std::move(hint));
  return std::move(*made);
}

// ---- fabrics

Outcome<sim::Topology> make_fat_tree(NamedList& list, uint32_t planes) {
  uint32_t hosts = 128, tiers = 3, over = 1, radix = 0;
  uint64_t rate = 400'000'000'000;
  sim::SimTime delay = sim::microseconds(1), switch_delay = 0;
  list.count("hosts", hosts, 2, sim::kMaxHosts);
  list.count("tiers", tiers, 2, 3);
  list.count("oversubscription", over, 1, 64);
  list.count("radix", radix, 2, sim::kMaxPorts);
  list.rate("rate", rate);
  list.time("delay", delay);
  list.time("switch_delay", switch_delay);
  if (auto end = list.end(); !end) return tl::unexpected(end.error());

  const auto holds = [&](uint64_t r) { return tiers == 3 ? r * r / 4 * r >= hosts : r / 2 * r >= hosts; };
  if (radix == 0) {
    for (radix = 2; !holds(radix);) radix += 2;
  }
  const uint32_t half = radix / 2;
  const uint32_t pod = tiers == 3 ? half * half : hosts;
  const uint32_t unit = tiers == 3 ? pod : half;
  if (radix % 2 != 0 || !holds(radix) || hosts % unit != 0 || half % over != 0) {
    return failure(
        kUsage,
        fmt::format("--fabric fat-tree: {} hosts, {} tiers and oversubscription {} do not fit switches with "
                    "{} ports",
                    hosts, tiers, over, radix),
        fmt::format("with this radix the hosts are a multiple of {} up to {}, the oversubscription a "
                    "divisor of {}",
                    unit, tiers == 3 ? uint64_t{pod} * radix : uint64_t{half} * radix, half));
  }
  sim::FatTreeSpec spec;
  spec.name = fmt::format("fat tree, {} hosts", hosts);
  spec.hosts = hosts;
  spec.planes = planes;
  spec.tiers = tiers;
  spec.pod_hosts = tiers == 3 ? pod : 0;
  for (sim::FatTreeTier& tier : spec.tier) {
    tier.down_rate_bps = rate;
    tier.down_delay = delay;
    tier.switch_delay = switch_delay;
  }
  spec.tier[0].down_ports = half;
  spec.tier[0].up_ports = half / over;
  spec.tier[1].down_ports = tiers == 3 ? half : hosts / half;
  spec.tier[1].up_ports = tiers == 3 ? half : 0;
  spec.tier[2].down_ports = tiers == 3 ? hosts / pod : 0;
  return usable(sim::make_fat_tree(spec), kSeeHelp);
}

Outcome<sim::Topology> make_leaf_spine(NamedList& list, uint32_t planes) {
  sim::LeafSpineSpec spec;
  spec.planes = planes;
  list.count("leaves", spec.leaves, 1, 1 << 16);
  list.count("hosts_per_leaf", spec.hosts_per_leaf, 1, 1 << 16);
  list.count("spines", spec.spines, 1, 1 << 16);
  list.count("bundle", spec.bundle, 1, 1024);
  list.rate("rate", spec.host_rate_bps);
  spec.fabric_rate_bps = spec.host_rate_bps;
  list.rate("fabric_rate", spec.fabric_rate_bps);
  list.time("delay", spec.host_delay);
  spec.fabric_delay = spec.host_delay;
  list.time("fabric_delay", spec.fabric_delay);
  list.time("switch_delay", spec.switch_delay);
  if (list.name() == "rail") {
    spec.rails = 8;
    list.count("rails", spec.rails, 1, 1 << 16);
  }
  if (list.name() == "two-sites") {
    spec.long_haul_cables = 1;
    list.count("cables", spec.long_haul_cables, 1, 1024);
    list.count("border_cables", spec.border_cables, 1, 1024);
    list.rate("long_rate", spec.long_haul_rate_bps);
    list.time("long_delay", spec.long_haul_delay);
  }
  if (auto end = list.end(); !end) return tl::unexpected(end.error());
  return usable(sim::make_leaf_spine(spec), kSeeHelp);
}

}  // namespace

Outcome<sim::Topology> read_topology(const std::string& path, uint32_t planes) {
  auto text = text_of(path);
  if (!text) return tl::unexpected(text.error());
  if (begins_like_htsim(first_word(path, *text))) {
    auto spec = sim::parse_topo(path, *text);
    if (!spec) return failure(kUsage, spec.error(), "it begins like a .topo file of htsim; see docs/sim.md");
    spec->planes = planes;
    return usable(sim::make_fat_tree(*spec), path + " cannot be built like this");
  }
  auto graph = sim::parse_hpcc_topology(path, *text);
  if (!graph) {
    return failure(kUsage, graph.error(),
                   "a topology is a .topo file of htsim or a topology of HPCC; see docs/sim.md");
  }
  if (planes != 1) {
    return failure(kUsage, fmt::format("{} has one plane: its hosts have one cable each", path),
                   "several planes need a .topo file or --fabric");
  }
  return std::move(*graph);
}

Outcome<sim::Workload> read_workload(const std::string& path, uint32_t hosts) {
  auto text = text_of(path);
  if (!text) return tl::unexpected(text.error());
  auto workload = begins_like_htsim(first_word(path, *text)) ? sim::parse_connection_matrix(path, *text)
                                                             : sim::parse_hpcc_flows(path, *text, hosts);
  if (!workload) {
    return failure(kUsage, workload.error(),
                   "flows are a .cm file of htsim or a flow file of HPCC; see docs/sim.md");
  }
  if (workload->hosts > hosts) {
    return failure(kUsage,
                   fmt::format("{} is for {} hosts, but the topology has {}", path, workload->hosts, hosts),
                   "take a larger topology");
  }
  return std::move(*workload);
}

Outcome<sim::Topology> make_topology(const std::string& text, uint32_t planes) {
  auto list = NamedList::parse("--fabric", text);
  if (!list) return tl::unexpected(list.error());
  if (list->name() == "fat-tree") return make_fat_tree(*list, planes);
  if (list->name() == "leaf-spine" || list->name() == "rail" || list->name() == "two-sites") {
    return make_leaf_spine(*list, planes);
  }
  return failure(kUsage, fmt::format("--fabric {}: no such fabric", sim::quoted(list->name())),
                 "there are fat-tree, leaf-spine, rail and two-sites");
}

Outcome<sim::Workload> make_workload(const std::string& text, uint32_t hosts, uint64_t seed) {
  auto list = NamedList::parse("--load", text);
  if (!list) return tl::unexpected(list.error());
  const std::string& name = list->name();
  const uint32_t most = hosts - 1;
  uint64_t size = name == "all-to-all" ? 64 << 10
                  : name == "ring"     ? 64 << 20
                  : name == "single"   ? 100 << 20
                                       : 2 << 20;
  list->size("size", size);
  const auto end_with = [&](auto make) -> Outcome<sim::Workload> {
    if (auto end = list->end(); !end) return tl::unexpected(end.error());
    return usable(make(), kSeeHelp);
  };
  if (name == "permutation") return end_with([&] { return sim::make_permutation(hosts, size, seed); });
  if (name == "incast") {
    uint32_t senders = std::min<uint32_t>(64, most), receiver = 0;
    list->count("senders", senders, 1, most);
    list->count("receiver", receiver, 0, most);
    return end_with([&] { return sim::make_incast(hosts, senders, size, receiver); });
  }
  if (name == "all-to-all") {
    uint32_t window = 8;
    list->count("window", window, 0, 1 << 20);
    return end_with([&] { return sim::make_all_to_all(hosts, size, window); });
  }
  if (name == "ring") {
    sim::RingOptions ring;
    ring.bytes = size;
    list->count("channels", ring.channels, 1, 1024);
    ring.bytes = size;
    return end_with([&] { return sim::make_ring_all_reduce(hosts, ring); });
  }
  if (name == "single") {
    uint32_t from = 0, to = 1;
    list->count("from", from, 0, most);
    list->count("to", to, 0, most);
    return end_with([&] { return sim::make_single_flow(hosts, from, to, size); });
  }
  return failure(kUsage, fmt::format("--load {}: no such load", sim::quoted(name)),
                 "there are permutation, incast, all-to-all, ring and single");
}

}  // namespace mroce::cli
