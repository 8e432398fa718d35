#include "sim/run_trace.h"

#include <algorithm>
#include <tuple>

#include "core/base/assert.h"

namespace mroce::sim {
namespace {

// The same for any number of threads: incidents with equal keys come from one partition, which noted them in
// the order in which they happened. Pauses and resumes are one kind, because a pause may follow a resume at
// once.
auto order(const Incident& incident) {
  const Incident::Kind kind =
      incident.kind == Incident::Kind::kResume ? Incident::Kind::kPause : incident.kind;
  return std::tuple(incident.at, incident.link, kind, incident.reason);
}

}  // namespace

RunTrace::RunTrace(const TraceOptions& options, Fabric& fabric, uint32_t partitions)
    : options_(options), fabric_(fabric) {
  if (options.sink == nullptr) return;
  for (const uint32_t id : options.captured) {
    MROCE_ASSERT(id < fabric.far_end.size());
    fabric.links[fabric.far_end[id]].set(Link::kWatched);
  }
  if (!options.captured.empty() || options.incidents) {
    logs_.resize(partitions);
    for (TraceLog& log : logs_) log.incidents_wanted = options.incidents;
  }
  if (!options.sampled.empty()) next_sample_ = 0;
}

void RunTrace::merge() {
  if (logs_.empty()) return;
  merge_packets();
  merge_incidents();
  for (TraceLog& log : logs_) {
    log.packets.clear();
    log.bytes.clear();
    log.incidents.clear();
  }
}

void RunTrace::merge_packets() {
  packets_.clear();
  for (const TraceLog& log : logs_) {
    for (const TraceLog::Entry& entry : log.packets) packets_.emplace_back(&entry, &log);
  }
  std::sort(packets_.begin(), packets_.end(), [](const auto& a, const auto& b) {
    const TracedPacket& x = a.first->packet;
    const TracedPacket& y = b.first->packet;
    return x.at != y.at ? x.at < y.at : x.link < y.link;
  });
  for (const auto& [entry, log] : packets_) {
    const Packet& packet = entry->packet.packet;
    options_.sink->on_packet(entry->packet,
                             std::span(log->bytes).subspan(entry->header, packet.header_bytes));
  }
}

void RunTrace::merge_incidents() {
  incidents_.clear();
  for (const TraceLog& log : logs_)
    incidents_.insert(incidents_.end(), log.incidents.begin(), log.incidents.end());
  std::stable_sort(incidents_.begin(), incidents_.end(),
                   [](const Incident& a, const Incident& b) { return order(a) < order(b); });
  for (const Incident& incident : incidents_) options_.sink->on_incident(incident);
}

void RunTrace::sample_until(SimTime next) {
  while (next_sample_ <= next && next_sample_ != kEndOfTime) {
    const SimTime at = next_sample_;
    samples_.clear();
    for (const uint32_t id : options_.sampled) samples_.push_back(sample(id, at));
    next_sample_ = options_.sink->on_sample(at, samples_);
    MROCE_ASSERT(next_sample_ > at);
  }
}

LinkSample RunTrace::sample(uint32_t id, SimTime at) {
  Link& link = fabric_.links[id];
  if (!link.is(Link::kExplicit)) link.settle(at);
  LinkSample out;
  out.queue_bytes = link.queued;
  out.arrived_bytes = fabric_.links[fabric_.far_end[id]].arrived_bytes;
  if (link.classes != nullptr) out.paused_time = link.classes->paused_until(at);
  return out;
}

void RunTrace::end(SimTime at) {
  if (options_.sink == nullptr) return;
  merge();
  std::vector<uint64_t> peaks;
  for (const uint32_t id : options_.sampled) peaks.push_back(fabric_.max_queue_bytes(id));
  options_.sink->on_end(at, peaks);
}

}  // namespace mroce::sim
