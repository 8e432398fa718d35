// Session: the one Endpoint of this process, with what all contexts share; Library: what exists once in the
// process.
//
// The endpoint is made when the first device is opened and closed when the library is unloaded at exit, so
// that peers hear a goodbye also from a program that cleans up nothing. A child made by fork() inherits the
// descriptors but must not speak for its parent: its copy of the session is dead (every call fails with
// ENODEV) and the next ibv_open_device() in the child makes a new one. Sessions are never freed: a context
// may refer to one for ever.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/mroce/config.h"
#include "net/endpoint.h"
#include "verbs/keep_errno.h"

namespace mroce::verbs {

struct Context;

class Session final : public net::EventSink {
 public:
  // Null and a sentence if the endpoint cannot be opened.
  static Session* open(std::string& error);

  bool alive() const { return alive_.load(std::memory_order_acquire); }
  net::Endpoint& endpoint() { return *endpoint_; }
  const EngineConfig& config() const { return config_; }
  const std::vector<net::GidEntry>& gids() const { return endpoint_->gids(); }
  bool any_port_up() const { return ports_up_.load(std::memory_order_relaxed) != 0; }

  // Contexts hear of port events between these two.
  void attach(Context& context);
  void detach(Context& context);

  void close();
  void abandon_after_fork();

  void on_event(const Event& event) override;

 private:
  void on_port(uint32_t port, bool up);

  std::unique_ptr<net::Endpoint> endpoint_;
  EngineConfig config_;
  std::atomic<bool> alive_{false};
  std::atomic<uint64_t> ports_up_{0};  // one bit for each local port
  std::mutex contexts_mutex_;
  std::vector<Context*> contexts_;
};

// The session that contexts opened now use; opens it if there is none. Null and a sentence on failure.
Session* current_session(std::string& error);

// Stands around every way into the endpoint. Cancellation of the calling thread waits until the object is
// gone: a thread cancelled inside would leave the endpoint half changed. And errno is afterwards what it was
// before.
class Inside {
 public:
  Inside() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Inside() { pthread_setcancelstate(before_, nullptr); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  KeepErrno keep_errno_;
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace mroce::verbs
