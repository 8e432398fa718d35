// Runs a workload without a network, for tests: a flow takes as many picoseconds as it has bytes, the last
// acknowledgement another kAck, a signal to another host kSignal.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "sim/workload.h"

namespace mroce::sim {

class WorkloadReplay {
 public:
  static constexpr SimTime kAck = 10;
  static constexpr SimTime kSignal = 3;

  explicit WorkloadReplay(Workload& workload) : workload_(workload) {
    for (uint32_t i = 0; i < workload.flows.size(); ++i) {
      if (workload.flows[i].start != kEndOfTime) start({workload.flows[i].start, i}, 0);
    }
    while (!notices_.empty()) {
      const FlowNotice notice = *notices_.begin();
      notices_.erase(notices_.begin());
      happen(notice);
    }
  }

 private:
  struct Order {
    bool operator()(const FlowNotice& a, const FlowNotice& b) const { return a < b; }
  };

  void start(FlowStart start, SimTime now) {
    Flow& flow = workload_.flows[start.flow];
    ASSERT_EQ(flow.started, kEndOfTime) << "flow " << flow.id << " starts twice";
    ASSERT_GE(start.at, now);
    flow.started = start.at;
    const SimTime received = start.at + static_cast<SimTime>(flow.bytes);
    notices_.insert({received, start.flow, FlowEvent::kReceived});
    notices_.insert({received + kAck, start.flow, FlowEvent::kFinished});
  }

  void happen(const FlowNotice& notice) {
    Flow& flow = workload_.flows[notice.flow];
    const bool received = notice.event == FlowEvent::kReceived;
    (received ? flow.received : flow.finished) = notice.at;
    if (workload_.scheduler == nullptr) return;
    const uint32_t host = received ? flow.destination : flow.source;
    FlowStarts starts;
    workload_.scheduler->on_host(host, notice, starts);
    for (const FlowStart& each : starts) {
      EXPECT_EQ(workload_.flows[each.flow].source, host);
      start(each, notice.at);
    }
    starts.clear();
    workload_.scheduler->on_fabric(notice, notice.at + kSignal, starts);
    for (const FlowStart& each : starts) start(each, notice.at + kSignal);
  }

  Workload& workload_;
  std::multiset<FlowNotice, Order> notices_;
};

}  // namespace mroce::sim
