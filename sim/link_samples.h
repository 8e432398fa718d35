// LinkSamples: queue, throughput and pauses of links at regular times, in bounded memory.
//
// All candidates are kept until the run is over, because only then it is known which links are worth looking
// at. When there are more samples than the limit, every second time is forgotten and the interval doubles:
// the series stays regular and covers the whole run. Nothing is lost of what adds up (bytes, paused time).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <vector>

#include "sim/topology.h"
#include "sim/trace.h"

namespace mroce::sim {

class LinkSamples {
 public:
  static constexpr size_t kDefaultMaxSamples = size_t{1} << 22;  // of all links: 96 MiB

  LinkSamples(std::vector<uint32_t> links, SimTime interval, size_t max_samples = kDefaultMaxSamples);

  const std::vector<uint32_t>& links() const { return links_; }
  // Samples of all links at next(). Returns the new next().
  SimTime add(std::span<const LinkSample> samples);
  SimTime next() const { return static_cast<SimTime>(rows()) * interval_; }

  SimTime interval() const { return interval_; }
  size_t rows() const { return samples_.size() / links_.size(); }
  SimTime at(size_t row) const { return static_cast<SimTime>(row) * interval_; }
  // `column`: position in links().
  const LinkSample& sample(size_t row, size_t column) const { return samples_[row * links_.size() + column]; }
  // Over the interval that ends at the row; of the first row 0.
  double gbps(size_t row, size_t column) const;
  SimTime paused(size_t row, size_t column) const;

  // Columns of the `count` links with the highest peaks that are not 0, in the order of the links.
  std::vector<size_t> busiest(std::span<const uint64_t> peaks, size_t count) const;
  // time_us,link,queue_bytes,gbps,paused_us: a line for each time and column.
  void write_csv(std::ostream& out, const Topology& topology, std::span<const size_t> columns) const;

 private:
  std::vector<uint32_t> links_;
  SimTime interval_;
  size_t max_rows_;
  std::vector<LinkSample> samples_;  // row by row
};

}  // namespace mroce::sim
