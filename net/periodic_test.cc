#include "net/periodic.h"

#include <gtest/gtest.h>

#include <semaphore>

namespace mroce::net {
namespace {

TEST(Periodic, calls_again_and_again_until_it_is_stopped) {
  std::counting_semaphore<> called(0);
  Periodic periodic;
  ASSERT_TRUE(periodic.start(micros(200), [&called] { called.release(); }));
  for (int i = 0; i < 3; ++i) called.acquire();
  periodic.stop();
  while (called.try_acquire()) {
  }
  EXPECT_FALSE(called.try_acquire_for(std::chrono::milliseconds(5)));
  periodic.stop();
}

TEST(Periodic, does_not_wait_for_its_interval_when_it_is_stopped) {
  Periodic periodic;
  bool called = false;
  ASSERT_TRUE(periodic.start(seconds(3600), [&called] { called = true; }));
  periodic.stop();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace mroce::net
