// RunTrace: the tracing of one run between its windows. See trace.h.
#pragma once

#include <utility>
#include <vector>

#include "sim/trace.h"

namespace mroce::sim {

class RunTrace {
 public:
  // After the fabric was cut: flags go to the far ends of links. Both outlive this.
  RunTrace(const TraceOptions& options, Fabric& fabric, uint32_t partitions);

  // Of the partition; null: it has nothing to note.
  TraceLog* log(uint32_t partition) { return logs_.empty() ? nullptr : &logs_[partition]; }
  // Hands over what the partitions noted. No partition moves.
  void merge();
  // Everything before `next` has happened, and it is the next thing that will. Takes the samples until then.
  void sample_until(SimTime next);
  SimTime next_sample() const { return next_sample_; }  // kEndOfTime: none
  void end(SimTime at);

 private:
  LinkSample sample(uint32_t id, SimTime at);
  void merge_packets();
  void merge_incidents();

  const TraceOptions& options_;
  Fabric& fabric_;
  std::vector<TraceLog> logs_;
  SimTime next_sample_ = kEndOfTime;
  std::vector<LinkSample> samples_;
  std::vector<Incident> incidents_;
  std::vector<std::pair<const TraceLog::Entry*, const TraceLog*>> packets_;
};

}  // namespace mroce::sim
