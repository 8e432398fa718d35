// What ibv_modify_srq(3), ibv_query_srq(3), ibv_create_srq(3) and ibv_destroy_srq(3) promise of shared
// receive queues, as far as no packet is needed for it; tests/scenarios/srq_test.cc has the rest.
#include <gtest/gtest.h>

#include "core/mroce/engine.h"
#include "core/mroce/test_support.h"

namespace mroce::test {
namespace {

constexpr uint64_t kUser = 42;
constexpr uint32_t kMostWr = 100;
constexpr uint32_t kMostSge = 4;

class SharedReceives : public ::testing::Test {
 protected:
  static EngineConfig config() {
    EngineConfig config;
    config.max_srq = 3;
    config.max_srq_wr = kMostWr;
    config.max_sge = kMostSge;
    config.ports.emplace_back();
    return config;
  }
  SrqHandle make(uint32_t max_wr, uint32_t limit = 0) {
    const auto made = engine.create_srq(pd, max_wr, 2, limit, kUser);
    EXPECT_TRUE(made.has_value());
    return *made;
  }
  void post(SrqHandle srq, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) ASSERT_TRUE(engine.post_srq_recv(now, srq, {i, {}}).has_value());
  }
  void expect_attributes(SrqHandle srq, uint32_t max_wr, uint32_t limit) {
    const auto info = engine.query_srq(srq);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->max_wr, max_wr);
    EXPECT_EQ(info->max_sge, 2u);
    EXPECT_EQ(info->limit, limit);
  }
  uint32_t limit_events() {
    uint32_t count = 0;
    for (Event event; engine.poll_event(event);) {
      EXPECT_EQ(event.kind, EventKind::kSrqLimitReached);
      EXPECT_EQ(event.user, kUser);
      ++count;
    }
    return count;
  }

  PatternMemory memory;
  Engine engine{config(), memory};
  PdHandle pd = *engine.alloc_pd();
  Time now = time_from_ns(1'000'000'000);
};

TEST_F(SharedReceives, are_queried_as_they_were_made) {
  expect_attributes(make(10), 10, 0);
  expect_attributes(make(10, 4), 10, 4);
  EXPECT_EQ(limit_events(), 0u) << "a queue that has had no entry yet says nothing";
}

TEST_F(SharedReceives, without_an_sge_have_room_for_one) {
  const auto made = engine.create_srq(pd, 10, 0, 0, kUser);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(engine.query_srq(*made)->max_sge, 1u);
}

TEST_F(SharedReceives, beyond_the_limits_of_the_device_are_not_made) {
  const auto error = [&](PdHandle of, uint32_t max_wr, uint32_t max_sge, uint32_t limit) {
    return engine.create_srq(of, max_wr, max_sge, limit, kUser).error();
  };
  EXPECT_EQ(error(PdHandle{999}, 10, 1, 0), Errc::kInvalidArgument);
  EXPECT_EQ(error(pd, 0, 1, 0), Errc::kInvalidArgument);
  EXPECT_EQ(error(pd, kMostWr + 1, 1, 0), Errc::kInvalidArgument);
  EXPECT_EQ(error(pd, 10, kMostSge + 1, 0), Errc::kInvalidArgument);
  EXPECT_EQ(error(pd, 10, 1, 11), Errc::kInvalidArgument);
  for (int i = 0; i < 3; ++i) make(kMostWr);
  EXPECT_EQ(error(pd, 10, 1, 0), Errc::kNoMemory) << "max_srq of them exist";
}

TEST_F(SharedReceives, take_no_more_than_their_size_and_their_sges) {
  const SrqHandle srq = make(3);
  post(srq, 3);
  EXPECT_EQ(engine.post_srq_recv(now, srq, {3, {}}).error(), Errc::kQueueFull);
  ASSERT_TRUE(engine.modify_srq(srq, 4, std::nullopt).has_value());
  const std::array<Sge, 3> three{};
  EXPECT_EQ(engine.post_srq_recv(now, srq, {3, three}).error(), Errc::kInvalidArgument);
  EXPECT_TRUE(engine.post_srq_recv(now, srq, {3, std::span(three).first(2)}).has_value());
}

TEST_F(SharedReceives, can_be_resized_to_what_is_in_use_and_no_fewer) {
  const SrqHandle srq = make(10);
  post(srq, 5);
  EXPECT_EQ(engine.modify_srq(srq, 4, std::nullopt).error(), Errc::kInvalidArgument);
  EXPECT_EQ(engine.modify_srq(srq, 0, std::nullopt).error(), Errc::kInvalidArgument);
  EXPECT_EQ(engine.modify_srq(srq, kMostWr + 1, std::nullopt).error(), Errc::kInvalidArgument);
  expect_attributes(srq, 10, 0);
  ASSERT_TRUE(engine.modify_srq(srq, 5, std::nullopt).has_value());
  expect_attributes(srq, 5, 0);
  EXPECT_EQ(engine.post_srq_recv(now, srq, {5, {}}).error(), Errc::kQueueFull);
  ASSERT_TRUE(engine.modify_srq(srq, kMostWr, std::nullopt).has_value());
  post(srq, kMostWr - 5);
}

TEST_F(SharedReceives, a_modification_without_attributes_changes_nothing) {
  const SrqHandle srq = make(10, 4);
  EXPECT_TRUE(engine.modify_srq(srq, std::nullopt, std::nullopt).has_value());
  expect_attributes(srq, 10, 4);
  EXPECT_EQ(limit_events(), 0u);
}

TEST_F(SharedReceives, if_one_attribute_is_invalid_none_is_modified) {
  const SrqHandle srq = make(10, 4);
  post(srq, 6);
  EXPECT_EQ(engine.modify_srq(srq, 8, 9).error(), Errc::kInvalidArgument) << "the limit exceeds the new size";
  expect_attributes(srq, 10, 4);
  EXPECT_EQ(engine.modify_srq(srq, 5, 2).error(), Errc::kInvalidArgument) << "six are posted";
  expect_attributes(srq, 10, 4);
  EXPECT_EQ(engine.modify_srq(srq, kMostWr + 1, 2).error(), Errc::kInvalidArgument);
  expect_attributes(srq, 10, 4);
  EXPECT_EQ(engine.modify_srq(srq, std::nullopt, 11).error(), Errc::kInvalidArgument);
  expect_attributes(srq, 10, 4);
  EXPECT_EQ(limit_events(), 0u);
}

TEST_F(SharedReceives, attributes_that_fit_together_need_not_fit_the_old_ones) {
  const SrqHandle srq = make(10, 9);
  ASSERT_TRUE(engine.modify_srq(srq, 5, 0).has_value()) << "less than the old limit";
  expect_attributes(srq, 5, 0);
  post(srq, 5);
  ASSERT_TRUE(engine.modify_srq(srq, 20, 5).has_value());
  expect_attributes(srq, 20, 5);
  EXPECT_EQ(engine.modify_srq(srq, 4, std::nullopt).error(), Errc::kInvalidArgument) << "the limit stays";
}

TEST_F(SharedReceives, a_limit_above_what_is_posted_fires_at_once_and_is_then_disarmed) {
  const SrqHandle srq = make(10);
  post(srq, 3);
  ASSERT_TRUE(engine.modify_srq(srq, std::nullopt, 3).has_value());
  EXPECT_EQ(limit_events(), 0u) << "three are not fewer than three";
  expect_attributes(srq, 10, 3);
  ASSERT_TRUE(engine.modify_srq(srq, std::nullopt, 4).has_value());
  EXPECT_EQ(limit_events(), 1u);
  expect_attributes(srq, 10, 0);
  ASSERT_TRUE(engine.modify_srq(srq, std::nullopt, 4).has_value());
  EXPECT_EQ(limit_events(), 1u) << "armed again";
  ASSERT_TRUE(engine.modify_srq(srq, std::nullopt, 0).has_value());
  ASSERT_TRUE(engine.modify_srq(srq, 5, std::nullopt).has_value());
  EXPECT_EQ(limit_events(), 0u) << "disarmed";
}

TEST_F(SharedReceives, cannot_be_destroyed_while_a_queue_pair_uses_them_nor_their_domain_before_them) {
  const SrqHandle srq = make(10);
  QpInit init;
  init.pd = pd;
  init.send_cq = init.recv_cq = *engine.create_cq(10, 0);
  init.srq = srq;
  const QpHandle qp = *engine.create_qp(init);
  EXPECT_EQ(engine.destroy_srq(srq).error(), Errc::kBusy);
  EXPECT_EQ(engine.query_qp(qp)->cap.max_recv_wr, 0u);
  ASSERT_TRUE(engine.destroy_qp(now, qp).has_value());
  EXPECT_EQ(engine.dealloc_pd(pd).error(), Errc::kBusy);
  ASSERT_TRUE(engine.destroy_srq(srq).has_value());
  EXPECT_TRUE(engine.dealloc_pd(pd).has_value());
}

TEST_F(SharedReceives, that_do_not_exist_are_found_by_no_call) {
  const SrqHandle srq = make(10);
  ASSERT_TRUE(engine.destroy_srq(srq).has_value());
  EXPECT_EQ(engine.query_srq(srq).error(), Errc::kNotFound);
  EXPECT_EQ(engine.modify_srq(srq, 5, std::nullopt).error(), Errc::kNotFound);
  EXPECT_EQ(engine.post_srq_recv(now, srq, {1, {}}).error(), Errc::kNotFound);
  EXPECT_EQ(engine.destroy_srq(srq).error(), Errc::kNotFound);
  make(10);
  make(10);
  make(10);  // its place is free
}

}  // namespace
}  // namespace mroce::test
