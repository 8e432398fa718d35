// Triggers: flows that start when others are done.
//
// A trigger has flows that it starts, in an order, and gets signals from flows that were sent (the source has
// the last acknowledgement) or received. Three kinds, as htsim's connection matrices name them:
//
//   oneshot    the first signal starts all its flows;
//   multishot  each signal starts the next of its flows;
//   barrier    the signal number `needed` starts all its flows.
//
// Further signals do nothing. Where all signals of a trigger come up on the host at which all its flows
// begin, the flows start at once; else the signal has to travel, and they start when the run says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/flow.h"
#include "sim/scheduler.h"

namespace mroce::sim {

enum class TriggerKind : uint8_t { kOneshot, kMultishot, kBarrier };

class Triggers final : public FlowScheduler {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit Triggers(uint32_t flows) : received_(flows, kNone), finished_(flows, kNone) {}

  // ---- first: what there is
  uint32_t add(TriggerKind kind, uint32_t needed = 1);
  void starts(uint32_t trigger, uint32_t flow) { pairs_.push_back({trigger, flow}); }
  void signals(uint32_t flow, FlowEvent event, uint32_t trigger) { by(event)[flow] = trigger; }

  // ---- then: decides for each trigger whether it is a matter of one host. Call once.
  void finish(std::span<const Flow> flows);
  // The first flow that would never start even if every flow that starts is received and acknowledged.
  std::optional<uint32_t> never_started(std::span<const Flow> flows) const;

  // ---- about a trigger, after finish()
  uint32_t signal_count(uint32_t trigger) const { return triggers_[trigger].sources; }
  uint32_t flow_count(uint32_t trigger) const { return triggers_[trigger].count; }
  bool on_one_host(uint32_t trigger) const { return triggers_[trigger].host < kManyHosts; }

  void on_host(uint32_t host, const FlowNotice& notice, FlowStarts& out) override;
  void on_fabric(const FlowNotice& notice, SimTime earliest, FlowStarts& out) override;

 private:
  static constexpr uint32_t kNoHost = UINT32_MAX;
  static constexpr uint32_t kManyHosts = UINT32_MAX - 1;

  struct Trigger {
    TriggerKind kind = TriggerKind::kOneshot;
    uint32_t needed = 1;
    uint32_t first = 0;  // of targets_
    uint32_t count = 0;
    uint32_t sources = 0;  // flows that signal it
    uint32_t host = kNoHost;
    uint32_t signals = 0;  // so far
  };
  struct Pair {
    uint32_t trigger, flow;
  };

  std::vector<uint32_t>& by(FlowEvent event) { return event == FlowEvent::kReceived ? received_ : finished_; }
  uint32_t signalled_by(const FlowNotice& notice) const {
    return notice.event == FlowEvent::kReceived ? received_[notice.flow] : finished_[notice.flow];
  }
  // Positions in targets_ of the flows that the next signal starts.
  static std::pair<uint32_t, uint32_t> take_signal(Trigger& trigger);
  static void involve(Trigger& trigger, uint32_t host);
  void signal(Trigger& trigger, SimTime at, FlowStarts& out) const;

  std::vector<Trigger> triggers_;
  std::vector<Pair> pairs_;  // until finish()
  std::vector<uint32_t> targets_;
  std::vector<uint32_t> received_;  // by flow: trigger
  std::vector<uint32_t> finished_;
};

}  // namespace mroce::sim
