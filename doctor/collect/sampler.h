// Samples while something else runs: a process of its own looks each interval and keeps what it saw in
// memory.
//
// A line of a counter is kept from the moment on at which it first moves (with the value before), so that a
// day of samples holds what happened and not what is always 0. When there are very many samples, every second
// one is dropped and the interval doubles: a long run has coarser samples, not more of them.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/collect/snapshot.h"

namespace mroce::doctor {

class Sampler {
 public:
  Sampler(CollectOptions options, double interval_s)
      : options_(std::move(options)), interval_s_(interval_s) {}
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Forks; the calling process must have one thread only. False: no samples, for want of a process.
  bool start();
  std::vector<Snapshot> stop();  // the samples; fewer or none if the process did not answer

 private:
  CollectOptions options_;
  double interval_s_;
  pid_t pid_ = -1;
  int stop_ = -1, results_ = -1;
};

// Counters of single rings: a port has hundreds, and they say nothing that their sum does not.
bool is_of_a_ring(std::string_view counter);

// What of each sample is worth keeping.
class SampleKeeper {
 public:
  static constexpr size_t kMaxSamples = 1200;
  void add(Snapshot&& sample);
  bool thin();  // drops every second one if there are too many
  const std::vector<Snapshot>& samples() const { return samples_; }

 private:
  void filter(BundleSource& source);
  std::vector<Snapshot> samples_;
  std::map<std::string, std::string> last_;
  std::set<std::string> moving_;
};

}  // namespace mroce::doctor
