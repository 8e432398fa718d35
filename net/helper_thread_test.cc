#include "net/helper_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mroce::net {
namespace {

// A stand-in for the endpoint with a clock that the test sets, so that "20 us ago" is not a matter of luck.
class FakeWork : public HelperWork {
 public:
  HelperRound helper_round(const WakeReason& reason) override {
    const std::lock_guard lock(mutex_);
    ++rounds_;
    last_reason_ = reason;
    HelperRound result;
    char byte = 0;
    result.found = read(socket_, &byte, 1) == 1;
    if (clock() >= deadline()) {
      result.found = true;
      deadline_.store(ns_of(kNever));
    }
    result.deadline = deadline();
    changed_.notify_all();
    return result;
  }
  Time last_call() const override {
    if (always_calls_) return clock();
    if (!spins_on_memory_) return time_from_ns(0);
    // Called 10 us before the arrival, then not any more.
    return clock() - (asked_.fetch_add(1) == 0 ? micros(10) : micros(30));
  }
  Time deadline() const override { return time_from_ns(deadline_.load()); }
  Time clock() const override { return time_from_ns(clock_.load()); }

  bool wait(const std::function<bool(const FakeWork&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return condition(*this); });
  }
  uint64_t rounds() {
    const std::lock_guard lock(mutex_);
    return rounds_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t rounds_ = 0;
  WakeReason last_reason_;
  int socket_ = -1;
  std::atomic<bool> always_calls_{false};
  std::atomic<bool> spins_on_memory_{false};
  mutable std::atomic<int> asked_{0};
  std::atomic<int64_t> deadline_{ns_of(kNever)};
  std::atomic<int64_t> clock_{1'000'000'000};
};

class HelperThreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
    near_ = FileDescriptor(pair[0]);
    far_ = FileDescriptor(pair[1]);
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
    links_ = FileDescriptor(pair[0]);
    links_far_ = FileDescriptor(pair[1]);
    work_.socket_ = near_.get();
    ASSERT_TRUE(helper_.start({near_.get()}, links_.get()).has_value());
  }
  void arrive() { ASSERT_EQ(write(far_.get(), "x", 1), 1); }

  FakeWork work_;
  FileDescriptor near_, far_, links_, links_far_;
  HelperThread helper_{work_};
};

TEST_F(HelperThreadTest, makes_a_round_for_an_arrival_when_nobody_polls) {
  arrive();
  EXPECT_TRUE(work_.wait([](const FakeWork& w) { return w.rounds_ >= 1 && w.last_reason_.sockets == 1; }));
  EXPECT_EQ(helper_.counters().stepped_aside.load(), 0u);
}

TEST_F(HelperThreadTest, wakes_for_a_deadline_that_a_command_has_moved) {
  work_.deadline_.store(work_.clock_.load() - 1);  // due now; the helper sleeps without a deadline
  helper_.deadline_is(work_.deadline());
  EXPECT_TRUE(work_.wait([](const FakeWork& w) { return w.rounds_ >= 1 && w.deadline() == kNever; }));
}

TEST_F(HelperThreadTest, leaves_arrivals_to_a_polling_application_and_takes_over_when_it_stops) {
  work_.always_calls_ = true;
  arrive();
  while (helper_.counters().stepped_aside.load() == 0) std::this_thread::yield();
  EXPECT_EQ(work_.rounds(), 0u);
  EXPECT_EQ(helper_.counters().took_over.load(), 0u);
  work_.always_calls_ = false;
  EXPECT_TRUE(work_.wait([](const FakeWork& w) { return w.rounds_ >= 1; }));
  EXPECT_EQ(helper_.counters().took_over.load(), 1u);
}

TEST_F(HelperThreadTest, learns_that_an_application_spins_on_memory_and_forgets_it_when_it_polls) {
  work_.spins_on_memory_ = true;
  for (uint64_t arrival = 1; arrival <= 10; ++arrival) {
    work_.asked_ = 0;
    arrive();
    ASSERT_TRUE(work_.wait([&](const FakeWork& w) { return w.rounds_ >= arrival; }));
  }
  EXPECT_EQ(helper_.counters().stepped_aside.load(), 4u) << "then it has learned";

  work_.always_calls_ = true;  // polls now, and takes what arrives by itself
  arrive();
  while (helper_.counters().stepped_aside.load() < 5) std::this_thread::yield();
  EXPECT_EQ(work_.rounds(), 10u);
}

TEST_F(HelperThreadTest, reports_link_events) {
  ASSERT_EQ(write(links_far_.get(), "x", 1), 1);
  EXPECT_TRUE(work_.wait([](const FakeWork& w) { return w.last_reason_.links; }));
}

TEST_F(HelperThreadTest, stops_while_stepping_aside_and_while_asleep) {
  work_.always_calls_ = true;
  arrive();
  while (helper_.counters().stepped_aside.load() == 0) std::this_thread::yield();
  helper_.stop();
  helper_.stop();  // idempotent
  HelperThread idle(work_);
  ASSERT_TRUE(idle.start({near_.get()}, links_.get()).has_value());
  idle.stop();
}

TEST_F(HelperThreadTest, no_signal_is_delivered_to_the_helper) {
  // With the signal blocked in every other thread, only the helper could take it.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  struct sigaction action {};
  struct sigaction before {};
  static std::atomic<int> handled{0};
  action.sa_handler = [](int) { handled.fetch_add(1); };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  arrive();
  EXPECT_TRUE(work_.wait([](const FakeWork& w) { return w.rounds_ >= 1; }));
  sigset_t pending;
  ASSERT_EQ(sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGUSR1), 1);
  EXPECT_EQ(handled.load(), 0);
  int taken = 0;
  ASSERT_EQ(sigwait(&set, &taken), 0);
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &set, nullptr), 0);
}

}  // namespace
}  // namespace mroce::net
