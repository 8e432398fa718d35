#include "net/helper_thread.h"

#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/assert.h"

namespace mroce::net {
namespace {

constexpr Nanos kFreshCall = micros(20);
constexpr Nanos kFreshCallLearned = micros(8);  // a polling loop comes back within a microsecond or two
constexpr Nanos kFirstLook = micros(50);
constexpr Nanos kLongestLook = millis(1);
constexpr Nanos kLongestSleep = seconds(60);
constexpr uint32_t kLearned = 4;

timespec timespec_of(Nanos time) {
  constexpr int64_t kSecond = 1'000'000'000;
  return {time.count() / kSecond, time.count() % kSecond};
}

bool add_to_epoll(int epoll, int fd, uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

tl::expected<void, std::string> HelperThread::start(const std::vector<int>& sockets, int links) {
  MROCE_ASSERT(!running_ && sockets.size() <= 64);
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  event_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool added = epoll_ && event_ && add_to_epoll(epoll_.get(), event_.get(), WakeReason::kEventToken) &&
               add_to_epoll(epoll_.get(), links, WakeReason::kLinkToken);
  for (size_t i = 0; i < sockets.size() && added; ++i) added = add_to_epoll(epoll_.get(), sockets[i], i);
  if (!added) {
    return tl::unexpected(
        fmt::format("cannot watch the sockets: {}; is the limit of open files (ulimit -n) reached?",
                    std::strerror(errno)));
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all,
                  &before);  // the thread inherits it: no handler of the application runs there
  const int error = pthread_create(&thread_, nullptr, entry, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return tl::unexpected(
        fmt::format("cannot start the helper thread: {}; is the limit of processes (ulimit -u) reached?",
                    std::strerror(error)));
  }
  running_ = true;
  return {};
}

void HelperThread::stop() {
  if (!running_) return;
  stop_.store(true, std::memory_order_release);
  wake();
  pthread_join(thread_, nullptr);
  running_ = false;
}

void HelperThread::close() {
  MROCE_ASSERT(!running_);
  epoll_.reset();
  event_.reset();
}

void HelperThread::abandon() {
  running_ = false;
  close();
}

void HelperThread::wake() {
  const uint64_t one = 1;
  // Fails only if the counter is full, and then the helper is about to wake anyway.
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

void* HelperThread::entry(void* self) {
  static_cast<HelperThread*>(self)->run();
  return nullptr;
}

bool HelperThread::app_is_here(Nanos fresh) const {
  return work_.clock() - work_.last_call() < fresh;
}

void HelperThread::run() {
  pthread_setname_np(pthread_self(), "mroce-helper");
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // the default of 50 us would double the first look
  ask_for_quick_turns();
  HelperRound round;
  while (!stopping()) {
    if (round.more) {
      sched_yield();
    } else {
      reason_ = sleep(round.deadline);
      grace_only_ = false;
      if (!stopping() && reason_.empty() && work_.clock() < work_.deadline()) {
        round.deadline = work_.deadline();  // a command has moved it: only the sleep gets shorter
        continue;
      }
      const Nanos fresh = wrong_in_a_row_ < kLearned ? kFreshCall : kFreshCallLearned;
      if (!stopping() && app_is_here(fresh)) step_aside();
    }
    if (stopping()) return;
    round = work_.helper_round(reason_);
    counters_.rounds.fetch_add(1, std::memory_order_relaxed);
    if (!round.found && reason_.sockets != 0) {
      wrong_in_a_row_ = 0;  // the application was quicker
    } else if (round.found && grace_only_) {
      ++wrong_in_a_row_;
    }
  }
}

// Our turns are short and wanted at once, also where the application spins on the same core: ask the
// scheduler for the shortest slice (Linux 6.12; a no-op before), which lets a waking thread preempt one with
// a longer slice (EEVDF).
void HelperThread::ask_for_quick_turns() {
  struct {
    uint32_t size = 48;
    uint32_t policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0;
    uint64_t deadline = 0;
    uint64_t period = 0;
  } attributes;
  static_assert(sizeof attributes == 48);  // struct sched_attr, version 0; glibc 2.36 does not declare it
  constexpr uint64_t kShortestSlice = 100'000;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
      attributes.policy != SCHED_OTHER)
    return;
  attributes.runtime = kShortestSlice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

WakeReason HelperThread::look() {
  std::array<epoll_event, 8> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  WakeReason reason;
  for (int i = 0; i < count; ++i) reason.add(events[static_cast<size_t>(i)].data.u64);
  return reason;
}

// Looks until a look finds that the application has not polled lately.
void HelperThread::step_aside() {
  counters_.stepped_aside.fetch_add(1, std::memory_order_relaxed);
  Nanos interval = kFreshCall;
  for (uint32_t look = 0; !stopping(); ++look) {
    const timespec time = timespec_of(interval);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
    if (!app_is_here(kFreshCall)) {
      grace_only_ = look == 0;
      counters_.took_over.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    wrong_in_a_row_ = 0;
    interval = look == 0 ? kFirstLook : std::min(interval + interval / 4, kLongestLook);
  }
}

WakeReason HelperThread::sleep(Time deadline) {
  sleeps_until_.store(ns_of(deadline), std::memory_order_seq_cst);
  // A command may have moved the deadline before it could see that we sleep.
  const Time earliest = std::min(deadline, work_.deadline());
  const Nanos left =
      earliest == kNever ? kLongestSleep : std::clamp(earliest - work_.clock(), Nanos{0}, kLongestSleep);
  std::array<epoll_event, 66> events;
  int count = 0;
  if (exact_timeouts_) {
    const timespec timeout = timespec_of(left);
    count = epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()), &timeout, nullptr);
    if (count < 0 && errno == ENOSYS) exact_timeouts_ = false;
  }
  if (!exact_timeouts_) {  // before Linux 5.11: whole milliseconds, rounded up
    const auto milliseconds = static_cast<int>((left.count() + 999'999) / 1'000'000);
    count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds);
  }
  sleeps_until_.store(kAwake, std::memory_order_seq_cst);

  WakeReason reason;
  for (int i = 0; i < count; ++i) {
    const uint64_t token = events[static_cast<size_t>(i)].data.u64;
    reason.add(token);
    if (token == WakeReason::kEventToken) {
      uint64_t value = 0;
      [[maybe_unused]] const ssize_t length = read(event_.get(), &value, sizeof value);
    }
  }
  return reason;
}

}  // namespace mroce::net
