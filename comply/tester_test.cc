#include "comply/tester.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comply/core_target.h"
#include "comply/report.h"
#include "comply/stream.h"
#include "comply/suite.h"

namespace mroce::comply {
namespace {

TEST(ComplyTester, AnExpectationThatIsNotMetEndsAtItsBound) {
  CoreTarget target;
  Tester tester(target, 1, seconds(10));
  tester.start();
  const Time began = tester.now();
  EXPECT_THROW(tester.expect(type(wire::Type::kAck), "an ACK", millis(30)), RuleBroken);
  EXPECT_EQ(tester.now() - began, millis(30));
}

TEST(ComplyTester, TheLimitOfAnAssertionEndsEveryWait) {
  CoreTarget target;
  Tester tester(target, 1, millis(50));
  tester.start();
  EXPECT_THROW(tester.run_for(seconds(100)), RuleBroken);
  EXPECT_LE(tester.now() - time_from_ns(1'000'000'000), millis(51));
}

TEST(ComplyTester, APacketMeetsOneExpectationOnly) {
  CoreTarget target;
  Tester tester(target, 1, seconds(10));
  Bench bench(tester, {.open_stream = false});
  bench.connection.send_probe({.token = 1});
  EXPECT_NE(tester.find(type(wire::Type::kProbeAck), millis(5)), nullptr);
  EXPECT_EQ(tester.find(type(wire::Type::kProbeAck), millis(5)), nullptr);
}

TEST(ComplyTester, WhatWasForgottenMeetsNone) {
  CoreTarget target;
  Tester tester(target, 1, seconds(10));
  Bench bench(tester);
  tester.run_for(millis(5));
  tester.forget();
  EXPECT_EQ(tester.find(bench.of(wire::DataOp::kStreamAccept), millis(5)), nullptr);
  EXPECT_EQ(tester.count([](const Packet&) { return true; }), 0U);
}

TEST(ComplySuite, SectionsAreSelectedWithWhatIsBelowThem) {
  const auto all = all_assertions();
  for (const Assertion* each : select(all, {"5"}, {}))
    EXPECT_THAT(std::string(each->id), testing::StartsWith("5."));
  for (const Assertion* each : select(all, {"5.1"}, {}))
    EXPECT_THAT(std::string(each->id), testing::StartsWith("5.1/"));
  EXPECT_EQ(select(all, {}, {}).size(), all.size());
  EXPECT_TRUE(select(all, {"5.99"}, {}).empty());
}

TEST(ComplySuite, AWrongEngineFailsAnAssertion) {
  // Tail hold turned off: a receiver that shows the last packet early.
  CoreTarget target([](EngineConfig& config) { config.tail_hold = false; });
  const auto all = all_assertions();
  const auto chosen = select(all, {"9.4"}, {});
  const Summary summary = summary_of(run(chosen, target, {}));
  EXPECT_GE(summary.must_fail, 1U);
}

TEST(ComplySuite, ATargetThatNeverAnswersEndsTheRunAfterThreeAssertions) {
  CoreTarget target([](EngineConfig& config) { config.max_connections = 0; });
  const auto all = all_assertions();
  const auto chosen = select(all, {"5.3"}, {});
  const auto results = run(chosen, target, {});
  ASSERT_EQ(results.size(), chosen.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].verdict, i < 3 ? Verdict::kFail : Verdict::kSkip);
    EXPECT_EQ(results[i].not_run, i >= 3);
    EXPECT_EQ(results[i].received, 0U);
    EXPECT_FALSE(results[i].reason.empty());
  }
  EXPECT_EQ(summary_of(results).not_run, results.size() - 3);
}

// The engine, with a control side that takes its time and a tester that cannot send if it is told so.
struct HinderedTarget : CoreTarget {
  using CoreTarget::CoreTarget;
  ControlWaits waits;
  Nanos each{0};
  bool cannot_send = false;
  bool has(Feature feature) const override {
    return feature != Feature::kVirtualTime && CoreTarget::has(feature);
  }
  ControlWaits control_waits() const override { return waits; }
  Bytes read_memory(uint32_t mr, uint32_t offset, uint32_t length) override {
    receive(now() + each);
    waits.total += each;
    ++waits.answers;
    return CoreTarget::read_memory(mr, offset, length);
  }
  void send(std::span<const std::byte> datagram, const Origin& origin) override {
    if (cannot_send) throw NotRun("the tester cannot send");
    CoreTarget::send(datagram, origin);
  }
};

const Assertion& some_assertion(std::function<void(Tester&)> test) {
  static Assertion assertion;
  assertion = {"5.3/of-the-test", "§5.3-1", Level::kMust, "A sentence.", {}, std::move(test)};
  return assertion;
}

TEST(ComplySuite, WhatATesterCannotSendIsNotRunAndNoFailure) {
  HinderedTarget target;
  target.cannot_send = true;
  const AssertionResult result = run_assertion(some_assertion([](Tester& t) { Bench bench(t); }), target, {});
  EXPECT_EQ(result.verdict, Verdict::kSkip);
  EXPECT_TRUE(result.not_run);
  EXPECT_EQ(result.reason, "not run: the tester cannot send");
  EXPECT_NE(report_junit("x", {result}).find("<error message=\"not run: the tester"), std::string::npos);
}

TEST(ComplySuite, SlowControlAnswersAreNotRunWhenTheyUseUpTheTime) {
  HinderedTarget target;
  target.each = millis(900);
  const auto test = [](Tester& t) {
    t.start();
    const Region region = t.target().create_mr(64, 15);
    t.until([&] { return t.target().read_memory(region.id, 0, 1)[0] != std::byte{0}; }, "never", seconds(60));
  };
  const AssertionResult result = run_assertion(some_assertion(test), target, {});
  EXPECT_TRUE(result.not_run);
  EXPECT_THAT(result.reason, testing::HasSubstr("control answers are slow"));
}

TEST(ComplySuite, TheTimeOfSlowAnswersIsNotThatOfTheTarget) {
  HinderedTarget target;
  target.each = millis(900);
  const auto test = [](Tester& t) {
    t.start();
    const Region region = t.target().create_mr(64, 15);
    int asked = 0;
    t.until([&] { return t.target().read_memory(region.id, 0, 1).size() == 1 && ++asked == 4; }, "the fourth",
            seconds(1));
  };
  EXPECT_EQ(run_assertion(some_assertion(test), target, {}).verdict, Verdict::kPass);
}

TEST(ComplySuite, AFailureWithoutSlowAnswersSaysNothingOfThem) {
  HinderedTarget target;
  const auto test = [](Tester& t) {
    t.start();
    t.run_for(seconds(100));
  };
  const AssertionResult result = run_assertion(some_assertion(test), target, {});
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_EQ(result.reason, "the assertion took longer than its time limit");
}

TEST(ComplyReport, CapturesHaveTheAddressesOfBothSides) {
  CoreTarget target;
  Tester tester(target, 1, seconds(10));
  Bench bench(tester);
  ASSERT_FALSE(tester.log().empty());
  for (const Packet& packet : tester.log()) {
    const UdpAddress& mine = packet.sent ? packet.from : packet.to;
    const UdpAddress& other = packet.sent ? packet.to : packet.from;
    EXPECT_EQ(mine.ip, target.tester_address(0));
    EXPECT_EQ(other.ip, tester.started().address);
    if (packet.sent) {
      EXPECT_EQ(packet.to.port, tester.started().port);
      EXPECT_EQ(packet.from.port, target.source_address({}).port);
    } else {
      EXPECT_EQ(packet.to.port, target.tester_port());
    }
  }
}

}  // namespace
}  // namespace mroce::comply
