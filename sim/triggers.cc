#include "sim/triggers.h"

#include <utility>

#include "core/base/assert.h"

namespace mroce::sim {

uint32_t Triggers::add(TriggerKind kind, uint32_t needed) {
  Trigger trigger;
  trigger.kind = kind;
  trigger.needed = needed;
  triggers_.push_back(trigger);
  return static_cast<uint32_t>(triggers_.size() - 1);
}

void Triggers::involve(Trigger& trigger, uint32_t host) {
  if (trigger.host == kNoHost) trigger.host = host;
  if (trigger.host != host) trigger.host = kManyHosts;
}

void Triggers::finish(std::span<const Flow> flows) {
  MROCE_ASSERT(flows.size() == received_.size() && targets_.empty());
  for (const Pair& pair : pairs_) {
    ++triggers_[pair.trigger].count;
    involve(triggers_[pair.trigger], flows[pair.flow].source);
  }
  uint32_t next = 0;
  for (Trigger& trigger : triggers_) {
    trigger.first = next;
    next += std::exchange(trigger.count, 0);
  }
  targets_.resize(next);
  for (const Pair& pair : pairs_) {
    Trigger& trigger = triggers_[pair.trigger];
    targets_[trigger.first + trigger.count++] = pair.flow;
  }
  std::vector<Pair>().swap(pairs_);
  for (uint32_t i = 0; i < flows.size(); ++i) {
    if (received_[i] != kNone) {
      ++triggers_[received_[i]].sources;
      involve(triggers_[received_[i]], flows[i].destination);
    }
    if (finished_[i] != kNone) {
      ++triggers_[finished_[i]].sources;
      involve(triggers_[finished_[i]], flows[i].source);
    }
  }
}

std::pair<uint32_t, uint32_t> Triggers::take_signal(Trigger& trigger) {
  const uint32_t number = ++trigger.signals;
  const uint32_t end = trigger.first + trigger.count;
  switch (trigger.kind) {
    case TriggerKind::kMultishot:
      if (number > trigger.count) return {end, end};
      return {trigger.first + number - 1, trigger.first + number};
    case TriggerKind::kOneshot:
      return {number == 1 ? trigger.first : end, end};
    case TriggerKind::kBarrier:
      return {number == trigger.needed ? trigger.first : end, end};
  }
  return {end, end};
}

void Triggers::signal(Trigger& trigger, SimTime at, FlowStarts& out) const {
  const auto [first, last] = take_signal(trigger);
  for (uint32_t i = first; i < last; ++i) out.push_back({at, targets_[i]});
}

void Triggers::on_host(uint32_t host, const FlowNotice& notice, FlowStarts& out) {
  const uint32_t index = signalled_by(notice);
  if (index == kNone || triggers_[index].host != host) return;
  signal(triggers_[index], notice.at, out);
}

void Triggers::on_fabric(const FlowNotice& notice, SimTime earliest, FlowStarts& out) {
  const uint32_t index = signalled_by(notice);
  if (index == kNone || triggers_[index].host != kManyHosts) return;
  signal(triggers_[index], earliest, out);
}

// Which flows start does not depend on the order of signals: each kind starts more with more signals.
std::optional<uint32_t> Triggers::never_started(std::span<const Flow> flows) const {
  std::vector<Trigger> triggers = triggers_;
  std::vector<bool> started(flows.size());
  std::vector<uint32_t> todo;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    if (flows[i].start == kEndOfTime) continue;
    started[i] = true;
    todo.push_back(i);
  }
  while (!todo.empty()) {
    const uint32_t flow = todo.back();
    todo.pop_back();
    for (const uint32_t index : {received_[flow], finished_[flow]}) {
      if (index == kNone) continue;
      const auto [first, last] = take_signal(triggers[index]);
      for (uint32_t i = first; i < last; ++i) {
        if (started[targets_[i]]) continue;
        started[targets_[i]] = true;
        todo.push_back(targets_[i]);
      }
    }
  }
  for (uint32_t i = 0; i < flows.size(); ++i) {
    if (!started[i]) return i;
  }
  return std::nullopt;
}

}  // namespace mroce::sim
