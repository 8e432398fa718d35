// Endpoint: an Engine on real UDP sockets, shared by all verbs contexts of one process.
//
// Threads: every public method may be called from any thread; one mutex guards the engine. The caller's own
// thread makes progress (poll_cq, post_send, progress); a helper thread takes over only when nobody polls,
// and steps aside when somebody does. Never calls back into the application.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/mroce/engine.h"
#include "net/settings.h"

namespace mroce::net {

// Receives the engine's events; called with the endpoint's lock held, from whichever thread made progress.
// Must not call the endpoint. The verbs library writes to eventfds here.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
};

struct GidEntry {  // one row of the GID table
  Gid gid;
  std::string interface;
  uint32_t ifindex = 0;
};

class Endpoint {
 public:
  // Finds local addresses, takes the first free slot (one UDP port on all of them), opens receiving sockets
  // and starts the helper thread. Errors: a sentence with cause and hint.
  static tl::expected<std::unique_ptr<Endpoint>, std::string> open(const Settings& settings, EventSink& sink);
  ~Endpoint();  // calls close()

  // Says goodbye to all peers (bounded by EngineConfig::close_linger), writes the statistics file if one is
  // configured, closes all descriptors. Idempotent.
  void close();
  // In the child after fork(): closes descriptors without a word to the peers; every later call fails with
  // kNoDevice. Takes no lock, as a thread that does not exist here may hold it; what the endpoint has in
  // memory is never freed.
  void abandon_after_fork();
  // True after close() or abandon_after_fork().
  bool gone() const { return gone_.load(std::memory_order_acquire); }

  const std::vector<GidEntry>& gids() const;  // fixed after open; index = GID index = engine port index
  uint8_t slot() const;

  // Runs `f(Engine&, Time now)` under the lock, then transmits and delivers events. All verbs commands go
  // through this. Once the endpoint is gone, `f` is not run; the answer is kNoDevice where the type can say
  // so, else a default value.
  template <class F>
  auto command(F&& f) {
    using Answer = decltype(f(engine(), Time{}));
    if (gone()) [[unlikely]]
      return answer_when_gone<Answer>();
    const std::unique_lock lock = acquire();
    if (gone()) [[unlikely]]
      return answer_when_gone<Answer>();
    const Time now = clock_now();
    auto result = f(engine(), now);
    after_command(now);
    return result;
  }
  // Runs `f(const Engine&)` under the lock, nothing else.
  template <class F>
  auto inspect(F&& f) const {
    using Answer = decltype(f(std::as_const(engine())));
    if (gone()) [[unlikely]]
      return answer_when_gone<Answer>();
    const std::unique_lock lock = acquire();
    return f(std::as_const(engine()));
  }

  // Polls the CQ; if it is empty, makes progress once (receive, timers, transmit) and polls again.
  uint32_t poll_cq(CqHandle cq, std::span<Wc> out);
  // One round of progress from the caller's thread.
  void progress();

  // {"schema": …, "counters": …, "impairment": …, "connections": […]}: what the statistics file holds.
  std::string stats_json() const;

 private:
  struct Impl;
  explicit Endpoint(std::unique_ptr<Impl> impl);

  template <class Answer>
  static Answer answer_when_gone() {
    if constexpr (std::is_constructible_v<Answer, tl::unexpected<Errc>>) {
      return Answer(fail(Errc::kNoDevice));
    } else {
      return Answer();
    }
  }
  std::unique_lock<std::mutex> acquire() const;
  Engine& engine() const;
  static Time clock_now();
  void after_command(Time now);
  bool progress_of_caller();
  void write_stats_now_and_then();

  mutable std::mutex mutex_;
  std::atomic<bool> gone_{false};
  std::unique_ptr<Impl> impl_;
};

}  // namespace mroce::net
