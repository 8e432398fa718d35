#include "sim/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <bit>
#include <optional>
#include <thread>

#include "core/base/assert.h"
#include "sim/cut.h"
#include "sim/deadlock.h"
#include "sim/run_trace.h"

namespace mroce::sim {
namespace {

constexpr uint32_t kAckBytes = 64;

std::string check(const Topology& topology, const RunOptions& options, const std::vector<Flow>& flows) {
  if (topology.hosts < 2 || topology.links.empty()) return "the topology has no two hosts";
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return fmt::format("{} threads; 1 to {} are possible", options.threads, kMaxThreads);
  }
  if (options.payload_mtu < 64 || options.payload_mtu > 65536) {
    return fmt::format("a payload MTU of {} bytes; 64 to 65536 are possible", options.payload_mtu);
  }
  for (size_t i = 0; i < flows.size(); ++i) {
    const Flow& flow = flows[i];
    if (flow.source >= topology.hosts || flow.destination >= topology.hosts) {
      return fmt::format("flow {} goes from host {} to host {}, but there are {} hosts", flow.id, flow.source,
                         flow.destination, topology.hosts);
    }
    if (flow.source == flow.destination)
      return fmt::format("flow {} goes from host {} to itself", flow.id, flow.source);
    if (flow.bytes == 0) return fmt::format("flow {} has no bytes", flow.id);
    if (flow.priority >= kClasses)
      return fmt::format("flow {} has priority {}; 0 to 7 are possible", flow.id, flow.priority);
    if (flow.start < 0) return fmt::format("flow {} starts before the run", flow.id);
  }
  return {};
}

// Slots that hold a few events each, in a wheel that reaches beyond the usual delay.
unsigned slot_bits_for(const Topology& topology, uint32_t full_packet, uint32_t partitions) {
  std::vector<SimTime> hops;
  for (const LinkSpec& link : topology.links)
    hops.push_back(link.delay + serialisation(full_packet, link.rate_bps));
  std::nth_element(hops.begin(), hops.begin() + static_cast<std::ptrdiff_t>(hops.size() / 2), hops.end());
  const SimTime usual = std::max<SimTime>(hops[hops.size() / 2], 1);
  const auto pending = static_cast<SimTime>(topology.links.size() / partitions + 1);
  const SimTime slot = std::max({4 * usual / pending, 2 * usual / EventQueue::kSlots, SimTime{64}});
  return std::min(static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(slot))), 30U);
}

class Run {
 public:
  Run(const Topology& topology, const RunOptions& options, std::vector<Flow>& flows, FlowScheduler* scheduler,
      const FaultPlan& faults)
      : topology_(topology),
        options_(options),
        flows_(flows),
        scheduler_(scheduler),
        faults_(finish_plan(faults, options.fabric.reroute_after)),
        full_packet_(std::max(options.wire.of(options.payload_mtu, 128), options.payload_mtu)),
        fabric_(topology, options.fabric, full_packet_, options.seed),
        cut_(cut_fabric(topology, options.threads)) {
    fabric_.cut(cut_.partition_of);
    trace_.emplace(options.trace, fabric_, cut_.count);
    base_rtt_ = topology.base_rtt(full_packet_, kAckBytes);
    trigger_delay_ = std::max<SimTime>(topology.min_delay(), 1);
    window_ = std::min(cut_.lookahead, std::max<SimTime>(base_rtt_, microseconds(1)));
    if (scheduler != nullptr) window_ = std::min(window_, trigger_delay_);
    drain_ = 4 * base_rtt_ + microseconds(1);
  }

  tl::expected<RunResult, std::string> execute(const TransportFactory& factory) {
    const unsigned bits = slot_bits_for(topology_, full_packet_, cut_.count);
    for (uint32_t p = 0; p < cut_.count; ++p) {
      partitions_.push_back(std::make_unique<Partition>(fabric_, cut_.partition_of, p, cut_.count, bits,
                                                        flows_, scheduler_, faults_));
      partitions_.back()->note_in(trace_->log(p));
    }
    if (std::string error = make_transports(factory); !error.empty()) return tl::unexpected(std::move(error));
    if (options_.prepare) {
      if (std::string error = options_.prepare(base_rtt_); !error.empty())
        return tl::unexpected(std::move(error));
    }
    for (uint32_t i = 0; i < flows_.size(); ++i) {
      Flow& flow = flows_[i];
      flow.started = flow.finished = flow.received = kEndOfTime;
      if (flow.start != kEndOfTime) partition_at(flow.source).start_flow(flow.start, i);
    }
    run_windows();
    return result();
  }

 private:
  Partition& partition_at(uint32_t node) { return *partitions_[cut_.partition_of[node]]; }

  std::string make_transports(const TransportFactory& factory) {
    for (uint32_t host = 0; host < topology_.hosts; ++host) {
      Partition& partition = partition_at(host);
      Rng rng(options_.seed ^ (uint64_t{4} << 32 | host) * 0x9E3779B97F4A7C15ULL);
      const HostContext context{host,
                                topology_.planes,
                                topology_.links[topology_.first_link(host)].rate_bps,
                                options_.payload_mtu,
                                options_.wire,
                                base_rtt_,
                                rng.next(),
                                partition.pool(),
                                partition};
      fabric_.hosts[host].transport = factory(context);
      if (fabric_.hosts[host].transport == nullptr) return fmt::format("host {} got no transport", host);
    }
    return {};
  }

  // One thread runs this between windows, while the others wait. Sets the next window; false: the end.
  bool plan() {
    if (scheduler_ != nullptr) deliver_notices();
    trace_->merge();
    constexpr uint64_t kWindowsPerBalance = 16;
    constexpr uint64_t kWindowsPerReport = 64;
    const bool balance = ++windows_ % kWindowsPerBalance == 0;
    for (uint32_t p = 1; balance && p < cut_.count; ++p) {
      PacketPool::balance(partitions_[p - 1]->pool(), partitions_[p]->pool());
    }
    SimTime first = kEndOfTime;
    for (uint32_t p = 0; p < cut_.count; ++p) first = std::min(first, partitions_[p]->earliest());
    uint64_t finished = 0;
    SimTime last = 0;
    for (const auto& partition : partitions_) {
      finished += partition->finished();
      last = std::max(last, partition->last_finish());
    }
    SimTime end = options_.limit;
    if (finished == flows_.size()) end = std::min(end, last + drain_);
    if (options_.progress && windows_ % kWindowsPerReport == 0) options_.progress(first, finished);
    if (first >= end) {
      limit_reached_ = finished != flows_.size() && first != kEndOfTime;
      return false;
    }
    trace_->sample_until(first);
    begin_ = first;
    limit_ = std::min({end, first + window_, trace_->next_sample()});
    return true;
  }

  void deliver_notices() {
    notices_.clear();
    for (const auto& partition : partitions_) {
      notices_.insert(notices_.end(), partition->notices().begin(), partition->notices().end());
      partition->notices().clear();
    }
    std::sort(notices_.begin(), notices_.end());
    for (const FlowNotice& notice : notices_) {
      starts_.clear();
      scheduler_->on_fabric(notice, notice.at + trigger_delay_, starts_);
      for (const FlowStart& start : starts_) {
        MROCE_ASSERT(start.at >= notice.at + trigger_delay_);
        partition_at(flows_[start.flow].source).start_flow(start.at, start.flow);
      }
    }
  }

  void run_windows() {
    if (cut_.count == 1) {
      while (plan()) partitions_[0]->run(limit_);
      return;
    }
    bool going = plan();
    const auto next = [this, &going]() noexcept { going = plan(); };
    const auto nothing = []() noexcept {};
    std::barrier planned(cut_.count, next);
    std::barrier handed(cut_.count, nothing);
    const auto work = [&](uint32_t own) {
      Partition& partition = *partitions_[own];
      while (going) {
        partition.hand_over(begin_);
        handed.arrive_and_wait();
        for (const auto& other : partitions_) partition.take(other->outbox(own));
        partition.run(limit_);
        planned.arrive_and_wait();
      }
    };
    std::vector<std::thread> threads;
    for (uint32_t p = 1; p < cut_.count; ++p) threads.emplace_back(work, p);
    work(0);
    for (std::thread& thread : threads) thread.join();
  }

  RunResult result();
  void add_switches(RunResult& result);
  void add_port(uint32_t id, SimTime end, SwitchCounters& counters);

  const Topology& topology_;
  const RunOptions& options_;
  std::vector<Flow>& flows_;
  FlowScheduler* scheduler_;
  const FaultPlan faults_;
  uint32_t full_packet_;
  Fabric fabric_;
  Cut cut_;
  std::optional<RunTrace> trace_;
  SimTime base_rtt_ = 0;
  SimTime trigger_delay_ = 0;
  SimTime window_ = 0;
  SimTime drain_ = 0;
  std::vector<std::unique_ptr<Partition>> partitions_;
  std::vector<FlowNotice> notices_;
  FlowStarts starts_;
  uint64_t windows_ = 0;
  bool limit_reached_ = false;
  SimTime begin_ = 0;  // of the window
  SimTime limit_ = 0;
};

RunResult Run::result() {
  RunResult result;
  for (const auto& partition : partitions_) {
    result.fabric += partition->counters();
    result.flows_finished += partition->finished();
    result.flows_received += partition->received();
    result.simulated = std::max(result.simulated, partition->last_event());
    result.last_finish = std::max(result.last_finish, partition->last_finish());
    result.packet_bytes += partition->pool().memory_bytes();
    result.fabric_bytes += partition->memory_bytes() - partition->pool().memory_bytes();
  }
  trace_->end(result.simulated);
  result.base_rtt = base_rtt_;
  result.partitions = cut_.count;
  result.complete = result.flows_finished == flows_.size();
  result.limit_reached = limit_reached_;
  for (uint32_t i = 0; i < flows_.size() && result.first_unfinished == kNoFlow; ++i) {
    if (flows_[i].finished == kEndOfTime) result.first_unfinished = i;
  }
  for (const Host& host : fabric_.hosts) {
    result.transport += host.transport->counters();
    result.transport_bytes += host.transport->memory_bytes();
    result.pauses_sent += host.pauses_sent;
  }
  add_switches(result);
  result.fabric_bytes += fabric_.memory_bytes() + topology_.memory_bytes();
  result.memory_bytes = result.fabric_bytes + result.packet_bytes + result.transport_bytes;
  if (!result.complete) {
    result.trouble =
        fmt::format("{} of {} flows did not finish, the first is flow {}",
                    flows_.size() - result.flows_finished, flows_.size(), flows_[result.first_unfinished].id);
    const std::string deadlock = find_deadlock(fabric_);
    result.deadlock = !deadlock.empty();
    if (result.deadlock) result.trouble += "; " + deadlock;
  }
  return result;
}

// What the links of one port say.
void Run::add_port(uint32_t id, SimTime end, SwitchCounters& counters) {
  const auto hold = [&counters](const Packet* packet) {
    for (; packet != nullptr; packet = packet->next) {
      if (packet->kind != PacketKind::kPause) counters.bytes_held += packet->bytes;
    }
  };
  const Link& link = fabric_.links[id];
  const Link& end_of_link = fabric_.links[fabric_.far_end[id]];
  counters.packets_out += end_of_link.arrived_packets;
  counters.bytes_out += end_of_link.arrived_bytes;
  hold(link.head);
  if (&link != &end_of_link) hold(end_of_link.head);
  if (link.classes != nullptr) {
    for (const PacketList& list : link.classes->waiting) hold(list.head);
    counters.paused_time += link.classes->paused_until(end);
  }
  counters.max_queue = std::max(counters.max_queue, fabric_.max_queue_bytes(id));
  const Link& in = fabric_.links[fabric_.far_end[topology_.links[id].reverse]];
  counters.packets_in += in.arrived_packets - in.lost_packets;
  counters.bytes_in += in.arrived_bytes - in.lost_bytes;
}

void Run::add_switches(RunResult& result) {
  for (uint32_t index = 0; index < fabric_.switches.size(); ++index) {
    const SwitchSpec& spec = topology_.switches[index];
    SwitchCounters counters = fabric_.switches[index].counters;
    for (uint32_t id = spec.first_link; id < spec.first_link + spec.ports; ++id) {
      add_port(id, result.simulated, counters);
    }
    result.max_queue_bytes = std::max(result.max_queue_bytes, counters.max_queue);
    result.pauses_sent += counters.pauses_sent;
    result.paused_time += counters.paused_time;
    result.switches.push_back(counters);
  }
}

}  // namespace

tl::expected<RunResult, std::string> run(const Topology& topology, const RunOptions& options,
                                         std::vector<Flow>& flows, const TransportFactory& factory,
                                         FlowScheduler* scheduler, const FaultPlan& faults) {
  if (std::string error = check(topology, options, flows); !error.empty())
    return tl::unexpected(std::move(error));
  Run run(topology, options, flows, scheduler, faults);
  return run.execute(factory);
}

}  // namespace mroce::sim
