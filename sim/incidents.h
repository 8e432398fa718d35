// Incidents: what happened to links during a run, up to limits that are the same for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/trace.h"

namespace mroce::sim {

class Incidents {
 public:
  struct Limits {
    size_t pauses = 50'000;
    size_t marks = 20'000;
    size_t drops = 20'000;  // and losses
  };
  struct Pause {
    SimTime from = 0;
    SimTime to = 0;
    uint32_t link = 0;
    uint8_t priority = 0;
  };

  Incidents() = default;
  explicit Incidents(const Limits& limits) : limits_(limits) {}

  void add(const Incident& incident);
  void end(SimTime at);  // of the run, and of the pauses that are not over

  const std::vector<Pause>& pauses() const { return pauses_; }
  const std::vector<Incident>& marks() const { return marks_; }
  const std::vector<Incident>& drops() const { return drops_; }
  // All that happened, kept or not.
  uint64_t all_pauses() const { return all_pauses_; }
  uint64_t all_marks() const { return all_marks_; }
  uint64_t all_drops() const { return all_drops_; }

 private:
  void pause(const Incident& incident);
  void resume(const Incident& incident);

  Limits limits_;
  std::vector<Pause> pauses_;
  std::vector<Incident> marks_;
  std::vector<Incident> drops_;
  uint64_t all_pauses_ = 0;
  uint64_t all_marks_ = 0;
  uint64_t all_drops_ = 0;
  std::unordered_map<uint64_t, size_t> open_;  // link and class: position in pauses_
};

}  // namespace mroce::sim
