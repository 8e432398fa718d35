#include "sim/incidents.h"

namespace mroce::sim {
namespace {

uint64_t key_of(const Incident& incident) {
  return uint64_t{incident.link} * kClasses + incident.priority;
}

void keep(const Incident& incident, std::vector<Incident>& list, size_t limit, uint64_t& all) {
  ++all;
  if (list.size() < limit) list.push_back(incident);
}

}  // namespace

void Incidents::add(const Incident& incident) {
  switch (incident.kind) {
    case Incident::Kind::kPause:
      return pause(incident);
    case Incident::Kind::kResume:
      return resume(incident);
    case Incident::Kind::kMark:
      return keep(incident, marks_, limits_.marks, all_marks_);
    case Incident::Kind::kDrop:
    case Incident::Kind::kLost:
    case Incident::Kind::kRefused:
      return keep(incident, drops_, limits_.drops, all_drops_);
  }
}

void Incidents::pause(const Incident& incident) {
  ++all_pauses_;
  if (pauses_.size() == limits_.pauses) return;
  open_[key_of(incident)] = pauses_.size();
  pauses_.push_back({incident.at, incident.at, incident.link, incident.priority});
}

// Of a pause that was not kept there is nothing to close.
void Incidents::resume(const Incident& incident) {
  const auto found = open_.find(key_of(incident));
  if (found == open_.end()) return;
  pauses_[found->second].to = incident.at;
  open_.erase(found);
}

void Incidents::end(SimTime at) {
  for (const auto& [key, position] : open_) pauses_[position].to = at;
  open_.clear();
}

}  // namespace mroce::sim
