#include "net/periodic.h"

#include <chrono>
#include <csignal>

namespace mroce::net {

bool Periodic::start(Nanos interval, std::function<void()> call) {
  state_ = std::make_unique<State>();
  state_->interval = interval;
  state_->call = std::move(call);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, run, state_.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) state_.reset();
  return error == 0;
}

void* Periodic::run(void* argument) {
  State& state = *static_cast<State*>(argument);
  std::unique_lock lock(state.mutex);
  while (!state.wake.wait_for(lock, std::chrono::nanoseconds(state.interval.count()),
                              [&state] { return state.stopping; })) {
    lock.unlock();
    state.call();
    lock.lock();
  }
  return nullptr;
}

void Periodic::stop() {
  if (state_ == nullptr) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  pthread_join(thread_, nullptr);
  state_.reset();
}

void Periodic::abandon() {
  // Its mutex may be locked by the thread that was not copied: left where it is.
  static_cast<void>(state_.release());
}

}  // namespace mroce::net
