#include "comply/tester.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comply/core_target.h"
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

TEST(ComplySuite, ATargetThatNeverAnswersFailsEachAssertionInItsTime) {
  CoreTarget target([](EngineConfig& config) { config.max_connections = 0; });
  const auto all = all_assertions();
  const auto chosen = select(all, {"5.3"}, {});
  const auto results = run(chosen, target, {});
  ASSERT_EQ(results.size(), chosen.size());
  for (const AssertionResult& each : results) {
    EXPECT_EQ(each.verdict, Verdict::kFail);
    EXPECT_FALSE(each.reason.empty());
  }
}

}  // namespace
}  // namespace mroce::comply
