#include "sim/triggers.h"

#include <gtest/gtest.h>

namespace mroce::sim {
namespace {

std::vector<Flow> flows(std::initializer_list<std::pair<uint32_t, uint32_t>> ends) {
  std::vector<Flow> out;
  for (const auto& [source, destination] : ends) {
    Flow flow;
    flow.id = static_cast<uint32_t>(out.size());
    flow.source = source;
    flow.destination = destination;
    flow.bytes = 1;
    flow.start = kEndOfTime;
    out.push_back(flow);
  }
  return out;
}

std::vector<uint32_t> started(Triggers& triggers, uint32_t host, uint32_t flow, FlowEvent event) {
  FlowStarts starts;
  triggers.on_host(host, {100, flow, event}, starts);
  const size_t local = starts.size();
  triggers.on_fabric({100, flow, event}, 200, starts);
  std::vector<uint32_t> out;
  for (size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i].at, i < local ? 100 : 200);
    out.push_back(starts[i].flow);
  }
  return out;
}

using List = std::vector<uint32_t>;

TEST(Triggers, oneshot_starts_all_its_flows_on_the_first_signal_only) {
  const auto table = flows({{0, 1}, {2, 1}, {3, 1}, {4, 1}});
  Triggers triggers(4);
  const uint32_t it = triggers.add(TriggerKind::kOneshot);
  triggers.signals(0, FlowEvent::kFinished, it);
  triggers.signals(1, FlowEvent::kFinished, it);
  triggers.starts(it, 3);
  triggers.starts(it, 2);
  triggers.finish(table);
  EXPECT_EQ(started(triggers, 1, 0, FlowEvent::kReceived), List{});
  EXPECT_EQ(started(triggers, 2, 1, FlowEvent::kFinished), (List{3, 2}));
  EXPECT_EQ(started(triggers, 0, 0, FlowEvent::kFinished), List{});
}

TEST(Triggers, multishot_starts_the_next_flow_on_each_signal) {
  const auto table = flows({{0, 1}, {0, 2}, {0, 3}, {0, 4}});
  Triggers triggers(4);
  const uint32_t it = triggers.add(TriggerKind::kMultishot);
  for (const uint32_t i : {0U, 1U, 2U}) triggers.signals(i, FlowEvent::kFinished, it);
  triggers.starts(it, 3);
  triggers.starts(it, 2);
  triggers.finish(table);
  EXPECT_TRUE(triggers.on_one_host(it));
  EXPECT_EQ(started(triggers, 0, 0, FlowEvent::kFinished), List{3});
  EXPECT_EQ(started(triggers, 0, 1, FlowEvent::kFinished), List{2});
  EXPECT_EQ(started(triggers, 0, 2, FlowEvent::kFinished), List{});
}

TEST(Triggers, barrier_starts_all_its_flows_on_the_last_of_its_signals) {
  const auto table = flows({{0, 1}, {2, 1}, {3, 1}, {1, 0}, {1, 2}});
  Triggers triggers(5);
  const uint32_t it = triggers.add(TriggerKind::kBarrier, 2);
  for (const uint32_t i : {0U, 1U, 2U}) triggers.signals(i, FlowEvent::kReceived, it);
  triggers.starts(it, 3);
  triggers.starts(it, 4);
  triggers.finish(table);
  EXPECT_EQ(triggers.signal_count(it), 3u);
  EXPECT_EQ(triggers.flow_count(it), 2u);
  EXPECT_EQ(started(triggers, 1, 1, FlowEvent::kReceived), List{});
  EXPECT_EQ(started(triggers, 1, 0, FlowEvent::kReceived), (List{3, 4}));
  EXPECT_EQ(started(triggers, 1, 2, FlowEvent::kReceived), List{});
}

TEST(Triggers, a_signal_from_another_host_travels) {
  const auto table = flows({{0, 1}, {1, 2}, {2, 3}});
  Triggers triggers(3);
  const uint32_t local = triggers.add(TriggerKind::kOneshot);
  const uint32_t far = triggers.add(TriggerKind::kOneshot);
  triggers.signals(0, FlowEvent::kReceived, local);
  triggers.starts(local, 1);
  triggers.signals(1, FlowEvent::kFinished, far);
  triggers.starts(far, 2);
  triggers.finish(table);
  EXPECT_TRUE(triggers.on_one_host(local));
  EXPECT_FALSE(triggers.on_one_host(far));
  FlowStarts starts;
  triggers.on_fabric({5, 0, FlowEvent::kReceived}, 6, starts);
  EXPECT_TRUE(starts.empty());
  triggers.on_host(1, {5, 0, FlowEvent::kReceived}, starts);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].at, 5);
  triggers.on_host(1, {7, 1, FlowEvent::kFinished}, starts);
  EXPECT_EQ(starts.size(), 1u);
  triggers.on_fabric({7, 1, FlowEvent::kFinished}, 9, starts);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[1].at, 9);
}

TEST(Triggers, flows_that_wait_for_each_other_are_found) {
  auto table = flows({{0, 1}, {1, 0}, {2, 3}});
  table[2].start = 0;
  Triggers triggers(3);
  const uint32_t a = triggers.add(TriggerKind::kOneshot);
  const uint32_t b = triggers.add(TriggerKind::kOneshot);
  triggers.signals(0, FlowEvent::kReceived, b);
  triggers.signals(1, FlowEvent::kReceived, a);
  triggers.starts(a, 0);
  triggers.starts(b, 1);
  triggers.finish(table);
  EXPECT_EQ(triggers.never_started(table), 0u);
  table[0].start = 0;
  EXPECT_EQ(triggers.never_started(table), std::nullopt);
}

}  // namespace
}  // namespace mroce::sim
