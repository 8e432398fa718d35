#include "verbs/event_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

namespace mroce::verbs {
namespace {

bool readable(const EventQueue& queue) {
  pollfd entry{queue.fd(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

struct Object {
  uint32_t fetched = 0;
  EventQueue::Entry event(int type = 0) { return {this, type, &fetched}; }
};

class EventQueueTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(queue_.open(), 0); }
  void make_non_blocking() { ASSERT_EQ(::fcntl(queue_.fd(), F_SETFL, O_NONBLOCK), 0); }

  EventQueue queue_;
  Object object_;
};

TEST_F(EventQueueTest, the_descriptor_is_readable_exactly_while_there_are_events) {
  EXPECT_FALSE(readable(queue_));
  queue_.push(object_.event(1));
  queue_.push(object_.event(2));
  EventQueue::Entry out;
  EXPECT_TRUE(readable(queue_));
  ASSERT_EQ(queue_.pop(out), 0);
  EXPECT_EQ(out.type, 1);
  EXPECT_TRUE(readable(queue_));
  ASSERT_EQ(queue_.pop(out), 0);
  EXPECT_EQ(out.type, 2);
  EXPECT_FALSE(readable(queue_));
  EXPECT_EQ(object_.fetched, 2u);
}

TEST_F(EventQueueTest, a_non_blocking_descriptor_answers_eagain_when_empty) {
  make_non_blocking();
  EventQueue::Entry out;
  EXPECT_EQ(queue_.pop(out), EAGAIN);
  queue_.push(object_.event());
  EXPECT_EQ(queue_.pop(out), 0);
  EXPECT_EQ(queue_.pop(out), EAGAIN);
}

TEST_F(EventQueueTest, removing_an_object_forgets_its_events_and_keeps_those_of_others) {
  Object other;
  queue_.push(object_.event());
  EventQueue::Entry out;
  ASSERT_EQ(queue_.pop(out), 0);
  queue_.push(object_.event());
  queue_.push(other.event(7));
  queue_.push(object_.event());
  EXPECT_EQ(queue_.remove(&object_, &object_.fetched), 1u);
  ASSERT_EQ(queue_.pop(out), 0);
  EXPECT_EQ(out.object, &other);
  EXPECT_FALSE(readable(queue_));
}

TEST_F(EventQueueTest, removing_the_last_events_makes_the_descriptor_unreadable) {
  queue_.push(object_.event());
  queue_.push(object_.event());
  EXPECT_EQ(queue_.remove(&object_, &object_.fetched), 0u);
  EXPECT_FALSE(readable(queue_));
  EXPECT_EQ(queue_.remove(&object_, &object_.fetched), 0u);  // and again, with nothing there
}

TEST_F(EventQueueTest, an_edge_triggered_watcher_hears_of_every_event) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{EPOLLIN | EPOLLET, {}};
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, queue_.fd(), &wanted), 0);
  for (int i = 0; i < 3; ++i) {  // none is fetched in between
    queue_.push(object_.event());
    epoll_event got{};
    EXPECT_EQ(::epoll_wait(epoll, &got, 1, 0), 1) << i;
    EXPECT_EQ(::epoll_wait(epoll, &got, 1, 0), 0) << i;
  }
  ::close(epoll);
}

TEST_F(EventQueueTest, four_threads_fetch_every_event_once) {
  constexpr int kEvents = 4000;
  std::vector<std::atomic<int>> seen(kEvents);
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      EventQueue::Entry out;
      while (queue_.pop(out) == 0 && out.type >= 0) seen[static_cast<size_t>(out.type)]++;
    });
  }
  for (int i = 0; i < kEvents; ++i) queue_.push(object_.event(i));
  for (size_t i = 0; i < readers.size(); ++i) queue_.push({nullptr, -1, nullptr});
  for (auto& reader : readers) reader.join();
  for (int i = 0; i < kEvents; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], 1) << i;
  EXPECT_EQ(object_.fetched, static_cast<uint32_t>(kEvents));
  EXPECT_FALSE(readable(queue_));
}

std::atomic<int> signals_handled{0};

// Sends SIGUSR1 to a thread that sits in pop() until the handler has run, then calls `then`.
template <class Then>
int pop_with_signal(EventQueue& queue, int flags, Then&& then) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { ++signals_handled; };
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, &before);
  signals_handled = 0;
  int result = -1;
  std::thread reader([&] {
    EventQueue::Entry out;
    result = queue.pop(out);
  });
  // Whether the thread already sits in read() or not: the signal is sent again until pop() has to have seen
  // one.
  std::thread sender([&, handle = reader.native_handle()] {
    while (signals_handled < 20) {
      pthread_kill(handle, SIGUSR1);
      ::poll(nullptr, 0, 2);
    }
    then();
  });
  sender.join();
  reader.join();
  sigaction(SIGUSR1, &before, nullptr);
  return result;
}

TEST_F(EventQueueTest, a_blocked_reader_goes_on_after_a_signal_with_sa_restart) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer keeps signals back while a thread is in read()";
#endif
  EXPECT_EQ(pop_with_signal(queue_, SA_RESTART, [&] { queue_.push(object_.event()); }), 0);
}

void* pop_for_ever(void* queue) {
  EventQueue::Entry out;
  while (static_cast<EventQueue*>(queue)->pop(out) == 0) {
  }
  return nullptr;
}

TEST_F(EventQueueTest, a_blocked_reader_can_be_cancelled_and_the_queue_lives_on) {
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, nullptr, pop_for_ever, &queue_), 0);
  ASSERT_EQ(pthread_cancel(thread), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  queue_.push(object_.event(3));
  EventQueue::Entry out;
  ASSERT_EQ(queue_.pop(out), 0);
  EXPECT_EQ(out.type, 3);
}

}  // namespace
}  // namespace mroce::verbs
