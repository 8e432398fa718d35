// A function called at an interval, by a thread of its own.
//
// For what may be late and may take its time, such as writing statistics; nothing of the transport depends on
// it. All signals are blocked in the thread. It is a plain pthread, as a forked child must be able to forget
// it.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "core/base/time.h"

namespace mroce::net {

class Periodic {
 public:
  Periodic() = default;
  ~Periodic() { stop(); }
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

  bool start(Nanos interval, std::function<void()> call);  // false: there is no thread to be had
  void stop();                                             // after it, no call is under way; idempotent
  void abandon();                                          // in a forked child, where there is no such thread

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    bool stopping = false;
    Nanos interval{};
    std::function<void()> call;
  };
  static void* run(void* state);

  std::unique_ptr<State> state_;
  pthread_t thread_{};
};

}  // namespace mroce::net
