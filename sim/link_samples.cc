#include "sim/link_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>

#include "core/base/assert.h"
#include "sim/time_text.h"

namespace mroce::sim {
namespace {

constexpr size_t kLeastRows = 4;

}  // namespace

LinkSamples::LinkSamples(std::vector<uint32_t> links, SimTime interval, size_t max_samples)
    : links_(std::move(links)), interval_(interval) {
  MROCE_ASSERT(!links_.empty() && interval > 0);
  max_rows_ = std::max(max_samples / links_.size(), kLeastRows);
}

SimTime LinkSamples::add(std::span<const LinkSample> samples) {
  MROCE_ASSERT(samples.size() == links_.size());
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  if (rows() <= max_rows_) return next();
  const auto width = static_cast<std::ptrdiff_t>(links_.size());
  const size_t kept = (rows() + 1) / 2;
  for (size_t row = 1; row < kept; ++row) {
    const auto from = samples_.begin() + static_cast<std::ptrdiff_t>(2 * row) * width;
    std::copy(from, from + width, samples_.begin() + static_cast<std::ptrdiff_t>(row) * width);
  }
  samples_.resize(kept * links_.size());
  interval_ *= 2;
  return next();
}

double LinkSamples::gbps(size_t row, size_t column) const {
  if (row == 0) return 0;
  const uint64_t bytes = sample(row, column).arrived_bytes - sample(row - 1, column).arrived_bytes;
  return static_cast<double>(bytes) * 8000 / static_cast<double>(interval_);
}

SimTime LinkSamples::paused(size_t row, size_t column) const {
  return row == 0 ? 0 : sample(row, column).paused_time - sample(row - 1, column).paused_time;
}

std::vector<size_t> LinkSamples::busiest(std::span<const uint64_t> peaks, size_t count) const {
  std::vector<size_t> columns;
  for (size_t column = 0; column < peaks.size(); ++column) {
    if (peaks[column] != 0) columns.push_back(column);
  }
  std::stable_sort(columns.begin(), columns.end(), [&](size_t a, size_t b) { return peaks[a] > peaks[b]; });
  if (columns.size() > count) columns.resize(count);
  std::sort(columns.begin(), columns.end());
  return columns;
}

void LinkSamples::write_csv(std::ostream& out, const Topology& topology,
                            std::span<const size_t> columns) const {
  std::vector<std::string> names;
  for (const size_t column : columns) names.push_back(topology.link_name(links_[column]));
  out << "time_us,link,queue_bytes,gbps,paused_us\n";
  fmt::memory_buffer lines;
  for (size_t row = 0; row < rows(); ++row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      fmt::format_to(std::back_inserter(lines), "{},{},{},{:.3f},{}\n", exact_us(at(row)), names[i],
                     sample(row, columns[i]).queue_bytes, gbps(row, columns[i]),
                     exact_us(paused(row, columns[i])));
    }
    out.write(lines.data(), static_cast<std::streamsize>(lines.size()));
    lines.clear();
  }
}

}  // namespace mroce::sim
