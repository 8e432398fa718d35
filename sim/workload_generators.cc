#include "sim/workload_generators.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/rng.h"
#include "sim/triggers.h"

namespace mroce::sim {
namespace {

// A sentence about what is out of bounds, or nothing.
std::string check(uint32_t hosts, uint64_t flows, uint64_t bytes) {
  if (hosts < 2 || hosts > kMaxWorkloadHosts)
    return fmt::format("{} hosts are not between 2 and {}", hosts, kMaxWorkloadHosts);
  if (flows > kMaxFlows) {
    return fmt::format("{} flows are more than the {} that a run can have; take fewer hosts or channels",
                       flows, kMaxFlows);
  }
  if (bytes == 0 || bytes > kMaxFlowBytes)
    return fmt::format("flows of {} bytes are not between 1 and {}", bytes, kMaxFlowBytes);
  return {};
}

void add_flow(Workload& workload, uint32_t source, uint32_t destination, uint64_t bytes, SimTime start = 0) {
  Flow flow;
  flow.id = static_cast<uint32_t>(workload.flows.size() + 1);
  flow.source = source;
  flow.destination = destination;
  flow.bytes = bytes;
  flow.start = start;
  workload.flows.push_back(flow);
}

Workload named(std::string name, uint32_t hosts) {
  Workload workload;
  workload.name = std::move(name);
  workload.hosts = hosts;
  return workload;
}

}  // namespace

WorkloadResult make_single_flow(uint32_t hosts, uint32_t source, uint32_t destination, uint64_t bytes) {
  if (std::string error = check(hosts, 1, bytes); !error.empty()) return tl::unexpected(std::move(error));
  if (source >= hosts || destination >= hosts || source == destination) {
    return tl::unexpected(fmt::format("a flow from host {} to host {} needs two different hosts below {}",
                                      source, destination, hosts));
  }
  Workload workload = named(fmt::format("flow {}->{}", source, destination), hosts);
  add_flow(workload, source, destination, bytes);
  return workload;
}

// Sattolo's shuffle leaves one cycle through all hosts, so nobody sends to itself.
WorkloadResult make_permutation(uint32_t hosts, uint64_t bytes, uint64_t seed) {
  if (std::string error = check(hosts, hosts, bytes); !error.empty()) return tl::unexpected(std::move(error));
  std::vector<uint32_t> to(hosts);
  std::iota(to.begin(), to.end(), 0U);
  Rng rng(seed);
  for (uint32_t i = hosts - 1; i > 0; --i) std::swap(to[i], to[rng.below(i)]);
  Workload workload = named(fmt::format("permutation of {}", hosts), hosts);
  for (uint32_t host = 0; host < hosts; ++host) add_flow(workload, host, to[host], bytes);
  return workload;
}

WorkloadResult make_incast(uint32_t hosts, uint32_t senders, uint64_t bytes, uint32_t receiver) {
  if (std::string error = check(hosts, senders, bytes); !error.empty())
    return tl::unexpected(std::move(error));
  if (receiver >= hosts || senders == 0 || senders >= hosts) {
    return tl::unexpected(
        fmt::format("an incast of {} senders to host {} needs a receiver below {} and 1 to {} senders",
                    senders, receiver, hosts, hosts - 1));
  }
  Workload workload = named(fmt::format("incast {}:1", senders), hosts);
  for (uint64_t i = 0; i < senders; ++i) {
    const auto distance = static_cast<uint32_t>(1 + (hosts - 1) * i / senders);
    add_flow(workload, (receiver + distance) % hosts, receiver, bytes);
  }
  return workload;
}

WorkloadResult make_all_to_all(uint32_t hosts, uint64_t bytes, uint32_t window) {
  const uint64_t flows = uint64_t{hosts} * (uint64_t{hosts} - 1);
  if (std::string error = check(hosts, flows, bytes); !error.empty()) return tl::unexpected(std::move(error));
  const uint32_t others = hosts - 1;
  const uint32_t at_once = window == 0 ? others : std::min(window, others);
  Workload workload = named(fmt::format("all-to-all of {}", hosts), hosts);
  workload.flows.reserve(flows);
  auto triggers = std::make_unique<Triggers>(static_cast<uint32_t>(flows));
  for (uint32_t host = 0; host < hosts; ++host) {
    const uint32_t next = triggers->add(TriggerKind::kMultishot);
    workload.groups.push_back({fmt::format("host {}", host), host * others, others});
    for (uint32_t distance = 1; distance <= others; ++distance) {
      const auto index = static_cast<uint32_t>(workload.flows.size());
      const bool waits = distance > at_once;
      add_flow(workload, host, (host + distance) % hosts, bytes, waits ? kEndOfTime : 0);
      if (waits) triggers->starts(next, index);
      if (distance + at_once <= others) triggers->signals(index, FlowEvent::kFinished, next);
    }
  }
  triggers->finish(workload.flows);
  if (at_once < others) workload.scheduler = std::move(triggers);
  return workload;
}

namespace {

constexpr uint32_t kMaxChannels = 1024;

std::string check_ring(uint32_t hosts, const std::vector<uint32_t>& ranks, const RingOptions& options) {
  const uint64_t count = ranks.size();
  const uint64_t flows = count * 2 * (count - 1) * options.channels;
  const uint64_t chunks = count * std::max<uint64_t>(options.channels, 1);
  if (count < 2) return "a ring needs two ranks";
  if (options.channels > kMaxChannels) return fmt::format("more than {} channels", kMaxChannels);
  if (count > kMaxWorkloadHosts || flows > kMaxFlows) return check(hosts, UINT64_MAX, 1);
  if (options.channels == 0 || options.bytes < chunks) {
    return fmt::format("{} bytes cannot be cut into {} chunks for {} channels of {} ranks", options.bytes,
                       chunks, options.channels, count);
  }
  std::vector<uint32_t> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.back() >= hosts) return fmt::format("rank on host {}, but there are {}", sorted.back(), hosts);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return "two ranks on one host";
  return check(hosts, flows, (options.bytes + chunks - 1) / chunks);
}

// Part `index` of `total` cut into `parts` that differ by at most one.
uint64_t part(uint64_t total, uint64_t parts, uint64_t index) {
  return total / parts + (index < total % parts ? 1 : 0);
}

}  // namespace

WorkloadResult make_ring_all_reduce(uint32_t hosts, const RingOptions& options) {
  std::vector<uint32_t> ranks = options.ranks;
  if (ranks.empty() && hosts <= kMaxWorkloadHosts) {
    ranks.resize(hosts);
    std::iota(ranks.begin(), ranks.end(), 0U);
  }
  if (std::string error = check_ring(hosts, ranks, options); !error.empty())
    return tl::unexpected(std::move(error));
  const auto count = static_cast<uint32_t>(ranks.size());
  const uint32_t steps = 2 * (count - 1);
  Workload workload = named(fmt::format("ring all-reduce of {}", count), hosts);
  workload.flows.reserve(size_t{count} * steps * options.channels);
  auto triggers = std::make_unique<Triggers>(count * steps * options.channels);
  for (uint32_t channel = 0; channel < options.channels; ++channel) {
    const uint64_t share = part(options.bytes, options.channels, channel);
    for (uint32_t step = 0; step < steps; ++step) {
      const auto first = static_cast<uint32_t>(workload.flows.size());
      workload.groups.push_back({fmt::format("channel {} step {}", channel, step), first, count});
      for (uint32_t rank = 0; rank < count; ++rank) {
        // The chunk that a rank sends is the one that it received in the step before: one further back.
        const uint32_t chunk = (rank + 2 * count - step % count) % count;
        add_flow(workload, ranks[rank], ranks[(rank + 1) % count], part(share, count, chunk),
                 step == 0 ? 0 : kEndOfTime);
        if (step == 0) continue;
        const uint32_t before = first - count + (rank + count - 1) % count;
        const uint32_t trigger = triggers->add(TriggerKind::kOneshot);
        triggers->signals(before, FlowEvent::kReceived, trigger);
        triggers->starts(trigger, first + rank);
      }
    }
  }
  triggers->finish(workload.flows);
  workload.scheduler = std::move(triggers);
  return workload;
}

}  // namespace mroce::sim
