// HelperThread: makes progress when the application does not.
//
// It sleeps in epoll on the receiving sockets, the link watch and an eventfd, until the earliest deadline.
// When it wakes and the application has called (polled, posted) within the last 20 us, it steps aside: it
// looks again after 20 us, after 50 us, and then at growing intervals up to 1 ms for as long as each look
// finds a fresh call. Meanwhile it does not sit in epoll, because waking it for every arrival costs the
// peer's sending thread and the polling one more than the help is worth. The first look that finds no fresh
// call makes it take over at once. Intervals grow by a quarter, so that an application which has polled for a
// short time waits for a short time only when it stops.
//
// A program that spins on memory instead of polling (ib_write_lat) looks like a polling one for some
// microseconds after each completion. So the helper learns: when stepping aside was wrong several times in a
// row, only a call within the last 8 us counts as fresh, until a look finds the application here or a round
// finds that it had already taken everything.
//
// All signals are blocked in the thread. It is a plain pthread, as a forked child must be able to forget it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "core/base/time.h"
#include "net/sockets.h"

namespace mroce::net {

// What woke the helper: bit i of `sockets` for receiving socket i.
struct WakeReason {
  uint64_t sockets = 0;
  bool links = false;
  bool empty() const { return sockets == 0 && !links; }

  static constexpr uint64_t kEventToken = 1000;  // above any socket index
  static constexpr uint64_t kLinkToken = 1001;
  void add(uint64_t token) {
    if (token < 64) sockets |= uint64_t{1} << token;
    links = links || token == kLinkToken;
  }
};

struct HelperRound {
  Time deadline = kNever;
  bool found = false;  // something had arrived or was due
  bool more = false;   // stopped at the bound of one round
};

class HelperWork {
 public:
  virtual ~HelperWork() = default;
  // One bounded round of progress under the lock.
  virtual HelperRound helper_round(const WakeReason& reason) = 0;
  // When the application last polled or posted, a time to come while it is at it; any thread may ask.
  virtual Time last_call() const = 0;
  // The deadline that the last round or command left; any thread may ask.
  virtual Time deadline() const = 0;
  virtual Time clock() const = 0;
};

struct HelperCounters {
  std::atomic<uint64_t> rounds{0};
  std::atomic<uint64_t> stepped_aside{0};
  std::atomic<uint64_t> took_over{0};
};

class HelperThread {
 public:
  explicit HelperThread(HelperWork& work) : work_(work) {}
  ~HelperThread() { stop(); }
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  tl::expected<void, std::string> start(const std::vector<int>& sockets, int links);
  void stop();     // ends the thread; idempotent
  void close();    // after stop(): closes its descriptors
  void abandon();  // in a forked child: there is no such thread here; closes, too

  // What is ready now, for the application's thread: one cheap call for all sockets. Never blocks.
  WakeReason look();

  // Call after the deadline may have moved to `deadline`: wakes the helper if it would sleep past it.
  void deadline_is(Time deadline) {
    if (ns_of(deadline) < sleeps_until_.load(std::memory_order_seq_cst)) wake();
  }
  const HelperCounters& counters() const { return counters_; }

 private:
  static constexpr int64_t kAwake = INT64_MIN;

  static void* entry(void* self);
  void run();
  WakeReason sleep(Time deadline);
  static void ask_for_quick_turns();
  bool app_is_here(Nanos fresh) const;
  void step_aside();
  void wake();
  bool stopping() const { return stop_.load(std::memory_order_acquire); }

  HelperWork& work_;
  FileDescriptor epoll_;
  FileDescriptor event_;
  pthread_t thread_{};
  bool running_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> sleeps_until_{kAwake};
  uint32_t wrong_in_a_row_ = 0;  // times that stepping aside only cost time
  bool grace_only_ = false;      // the last stepping aside ended at its first look
  bool exact_timeouts_ = true;   // epoll_pwait2 exists
  WakeReason reason_;
  HelperCounters counters_;
};

}  // namespace mroce::net
