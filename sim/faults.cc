#include "sim/faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/partition.h"
#include "sim/words.h"

namespace mroce::sim {
namespace {

struct Selection {
  std::vector<std::pair<std::string, uint32_t>> nodes;  // kind and number
  uint32_t plane = UINT32_MAX;

  bool matches(const Topology& topology, uint32_t node, size_t which) const {
    if (topology.node_kind(node) != nodes[which].first) return false;
    return (topology.is_host(node) ? node : topology.switch_of(node).index) == nodes[which].second;
  }
  bool matches(const Topology& topology, const LinkSpec& link) const {
    const uint32_t sw = topology.is_host(link.to) ? link.from : link.to;
    if (plane != UINT32_MAX && (topology.is_host(sw) || topology.switch_of(sw).plane != plane)) return false;
    if (nodes.empty()) return true;
    if (nodes.size() == 1) return matches(topology, link.from, 0) || matches(topology, link.to, 0);
    return (matches(topology, link.from, 0) && matches(topology, link.to, 1)) ||
           (matches(topology, link.from, 1) && matches(topology, link.to, 0));
  }
};

tl::expected<Selection, std::string> parse(std::string_view name) {
  constexpr std::string_view kKinds[] = {"host", "leaf", "aggregation", "spine", "core", "border", "switch"};
  const std::string shown = quoted(name);
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const size_t end = std::min(name.find(' '), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  if (words.empty() || words.size() % 2 != 0) {
    return tl::unexpected(fmt::format("{} names no link; say for example \"leaf 2 spine 1\"", shown));
  }
  Selection selection;
  for (size_t i = 0; i < words.size(); i += 2) {
    uint32_t number = 0;
    if (!set_whole(words[i + 1], 0, UINT32_MAX, number)) {
      return tl::unexpected(fmt::format("{} in {} is not a number", quoted(words[i + 1]), shown));
    }
    if (words[i] == "plane" || words[i] == "port") {
      selection.plane = number;
    } else if (std::find(std::begin(kKinds), std::end(kKinds), words[i]) != std::end(kKinds) &&
               selection.nodes.size() < 2) {
      selection.nodes.emplace_back(words[i], number);
    } else {
      return tl::unexpected(
          fmt::format("{} in {} is not understood; known are at most two of {}, and plane or port",
                      quoted(words[i]), shown, fmt::join(kKinds, ", ")));
    }
  }
  return selection;
}

}  // namespace

tl::expected<std::vector<uint32_t>, std::string> find_links(const Topology& topology, std::string_view name) {
  const auto selection = parse(name);
  if (!selection) return tl::unexpected(selection.error());
  std::vector<uint32_t> links;
  for (uint32_t id = 0; id < topology.links.size(); ++id) {
    if (selection->matches(topology, topology.links[id])) links.push_back(id);
  }
  if (links.empty()) {
    return tl::unexpected(fmt::format("no link of this topology is called {}", quoted(name)));
  }
  return links;
}

void add_outage(FaultPlan& plan, const std::vector<uint32_t>& links, SimTime from, SimTime until) {
  for (const uint32_t link : links) {
    plan.push_back({from, Fault::Kind::kDown, link, 0, 0, 1, 0});
    if (until != kEndOfTime) plan.push_back({until, Fault::Kind::kUp, link, 0, 0, 1, 0});
  }
}

tl::expected<void, std::string> add_flapping(FaultPlan& plan, const std::vector<uint32_t>& links,
                                             SimTime from, SimTime until, SimTime period, SimTime down) {
  constexpr SimTime kMaxCycles = 1'000'000;
  if (period <= 0 || down <= 0 || down >= period) {
    return tl::unexpected<std::string>("flapping needs 0 < time down < period");
  }
  const auto most = kMaxCycles / std::max<SimTime>(1, static_cast<SimTime>(links.size()));  // of each link
  if (until <= from || (until - from) / period > most) {
    return tl::unexpected(
        fmt::format("flapping needs an end, and at most {} outages until then", kMaxCycles));
  }
  for (SimTime at = from; at < until; at += period) add_outage(plan, links, at, std::min(at + down, until));
  return {};
}

void add_loss(FaultPlan& plan, const std::vector<uint32_t>& links, SimTime at, double probability) {
  for (const uint32_t link : links) plan.push_back({at, Fault::Kind::kLoss, link, probability, 0, 1, 0});
}

void add_burst_loss(FaultPlan& plan, const std::vector<uint32_t>& links, SimTime at, double enter_bad,
                    double leave_bad, double bad_loss) {
  for (const uint32_t link : links) {
    plan.push_back({at, Fault::Kind::kLoss, link, 0, enter_bad, leave_bad, bad_loss});
  }
}

void add_rate(FaultPlan& plan, const std::vector<uint32_t>& links, SimTime at, double share) {
  for (const uint32_t link : links) plan.push_back({at, Fault::Kind::kRate, link, share, 0, 1, 0});
}

FaultPlan finish_plan(FaultPlan plan, SimTime reroute_after) {
  const size_t count = plan.size();
  for (size_t i = 0; i < count && reroute_after != kEndOfTime; ++i) {
    Fault notice = plan[i];
    if (notice.kind != Fault::Kind::kDown && notice.kind != Fault::Kind::kUp) continue;
    notice.kind = notice.kind == Fault::Kind::kDown ? Fault::Kind::kAvoid : Fault::Kind::kUse;
    notice.at += reroute_after;
    plan.push_back(notice);
  }
  const auto by_time = [](const Fault& a, const Fault& b) { return a.at < b.at; };
  std::stable_sort(plan.begin(), plan.end(), by_time);
  return plan;
}

void Partition::on_fault(uint32_t index) {
  const Fault& fault = faults_[index];
  const LinkSpec& spec = fabric_.topology.links[fault.link];
  const uint32_t end = fabric_.far_end[fault.link];
  if (partition_of(spec.to) == own_) apply(fault, links_[end]);
  if (partition_of(spec.from) != own_) return;
  if (end != fault.link) apply(fault, links_[fault.link]);
  apply_at_sender(fault, links_[fault.link]);
}

LinkTrouble& Partition::trouble(uint32_t id, Link& link) {
  if (link.trouble == nullptr) link.trouble = fabric_.make_trouble(id);
  link.set(Link::kTroubled);
  return *link.trouble;
}

// Each end of a link that crosses partitions keeps its own account.
void Partition::apply(const Fault& fault, Link& link) {
  LinkTrouble& state = trouble(fault.link, link);
  switch (fault.kind) {
    case Fault::Kind::kDown:
      ++state.down;
      return;
    case Fault::Kind::kUp:
      if (state.down > 0 && --state.down == 0) state.up_since = now_;
      return;
    case Fault::Kind::kLoss:
      state.loss = fault.value;
      state.enter_bad = fault.enter_bad;
      state.leave_bad = fault.leave_bad;
      state.bad_loss = fault.bad_loss;
      state.bad = false;
      return;
    case Fault::Kind::kRate: {
      const auto full = static_cast<double>(fabric_.topology.links[fault.link].rate_bps);
      link.set_rate(std::max<uint64_t>(static_cast<uint64_t>(full * fault.value), 1'000'000));
      return;
    }
    case Fault::Kind::kAvoid:
    case Fault::Kind::kUse:
      return;
  }
}

void Partition::apply_at_sender(const Fault& fault, Link& link) {
  const uint32_t id = fault.link;
  const bool from_host = id < fabric_.host_links;
  switch (fault.kind) {
    case Fault::Kind::kDown:
      // Neither end keeps what it knows of pauses: resumes may have been lost.
      for (uint32_t c = 0; c < kClasses; ++c) set_paused(id, c, false);
      if (!fabric_.ingress.empty()) fabric_.ingress[id].pausing = 0;
      return;
    case Fault::Kind::kUp:
      for (uint32_t c = 0; from_host && c < kClasses; ++c) {
        if ((fabric_.hosts[id / fabric_.topology.planes].pausing >> c & 1) != 0) send_pause(id, c, true);
      }
      return;
    case Fault::Kind::kRate:
      return change_rate(id, link);
    case Fault::Kind::kAvoid:
    case Fault::Kind::kUse:
      return from_host ? void() : set_avoided(link, fault.kind == Fault::Kind::kAvoid);
    case Fault::Kind::kLoss:
      return;
  }
}

// What has started keeps its rate; the rest must be timed anew.
void Partition::change_rate(uint32_t id, Link& link) {
  if (!link.is(Link::kExplicit)) make_explicit(id, link);
  fabric_.set_quiet(id);
  if (link.classes->sending == nullptr) start_next(id, link);
}

// Only if the link is still in the state that was to be noticed.
void Partition::set_avoided(Link& link, bool avoided) {
  if (avoided == link.is(Link::kAvoided) || avoided != (link.trouble->down > 0)) return;
  link.set(Link::kAvoided, avoided);
}

}  // namespace mroce::sim
