#include "verbs/session.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "core/crypto/lifetime.h"
#include "net/settings.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

struct Library {
  std::mutex mutex;  // guards `session`; held across fork()
  Session* session = nullptr;
};

// Never destroyed: other threads may still be inside the library while the process ends.
Library& library() {
  static Library* const instance = new Library;
  return *instance;
}

void before_fork() {
  library().mutex.lock();
}
void in_parent() {
  library().mutex.unlock();
}
void in_child() {
  Library& lib = library();
  if (lib.session != nullptr) lib.session->abandon_after_fork();
  lib.session = nullptr;
  lib.mutex.unlock();
}

__attribute__((constructor)) void library_loaded() {
  pthread_atfork(before_fork, in_parent, in_child);
}

// After all exit handlers and destructors of the program, which may still clean up. If some thread is just
// opening the device, there is nobody to say goodbye to.
__attribute__((destructor)) void library_unloaded() {
  Library& lib = library();
  std::unique_lock lock(lib.mutex, std::try_to_lock);
  if (lock.owns_lock() && lib.session != nullptr) lib.session->close();
}

uint64_t port_bit(uint32_t port) {
  return port < 64 ? uint64_t{1} << port : 0;
}

}  // namespace

Session* current_session(std::string& error) {
  Library& lib = library();
  std::lock_guard lock(lib.mutex);
  if (lib.session == nullptr) lib.session = Session::open(error);
  if (lib.session != nullptr && !lib.session->alive()) {
    error = "the process is ending";
    return nullptr;
  }
  return lib.session;
}

Session* Session::open(std::string& error) {
  auto settings = net::Settings::from_environment();
  if (!settings) {
    error = settings.error();
    return nullptr;
  }
  if (settings->text("security") != "off") crypto::outlive_exit_handlers();
  auto session = std::make_unique<Session>();
  auto endpoint = net::Endpoint::open(*settings, *session);
  if (!endpoint) {
    error = endpoint.error();
    return nullptr;
  }
  session->endpoint_ = std::move(*endpoint);
  session->config_ = session->endpoint_->inspect([](const Engine& engine) { return engine.config(); });
  for (uint32_t port = 0; port < session->config_.ports.size(); ++port) {
    if (session->config_.ports[port].up) session->ports_up_.fetch_or(port_bit(port));
  }
  session->alive_.store(true, std::memory_order_release);
  return session.release();
}

void Session::attach(Context& context) {
  std::lock_guard lock(contexts_mutex_);
  contexts_.push_back(&context);
}

void Session::detach(Context& context) {
  std::lock_guard lock(contexts_mutex_);
  std::erase(contexts_, &context);
}

void Session::close() {
  if (alive_.exchange(false)) endpoint_->close();
}

void Session::abandon_after_fork() {
  alive_.store(false);
  endpoint_->abandon_after_fork();
}

// Several network interfaces make one verbs port: it is down when the last of them is.
void Session::on_port(uint32_t port, bool up) {
  const uint64_t before = up ? ports_up_.fetch_or(port_bit(port)) : ports_up_.fetch_and(~port_bit(port));
  const uint64_t after = up ? before | port_bit(port) : before & ~port_bit(port);
  if ((before == 0) == (after == 0)) return;
  std::lock_guard lock(contexts_mutex_);
  for (Context* context : contexts_) {
    context->async.push({nullptr, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, nullptr});
  }
}

// Called with the endpoint's lock held: no object dies meanwhile, because destroying one needs that lock.
void Session::on_event(const Event& event) {
  const auto qp_event = [&](ibv_event_type type) {
    Qp& qp = *reinterpret_cast<Qp*>(event.user);
    context_of(qp).async.push({&qp, type, &qp.events_fetched});
  };
  switch (event.kind) {
    case EventKind::kCompletion: {
      Cq& cq = *reinterpret_cast<Cq*>(event.user);
      if (cq.channel != nullptr) channel_of(cq).queue.push({&cq, 0, &cq.completion_events_fetched});
      return;
    }
    case EventKind::kCqError: {
      Cq& cq = *reinterpret_cast<Cq*>(event.user);
      context_of(cq).async.push({&cq, IBV_EVENT_CQ_ERR, &cq.async_events_fetched});
      return;
    }
    case EventKind::kSrqLimitReached: {
      Srq& srq = *reinterpret_cast<Srq*>(event.user);
      context_of(srq).async.push({&srq, IBV_EVENT_SRQ_LIMIT_REACHED, &srq.events_fetched});
      return;
    }
    case EventKind::kQpFatal:
      return qp_event(IBV_EVENT_QP_FATAL);
    case EventKind::kQpRequestError:
      return qp_event(IBV_EVENT_QP_REQ_ERR);
    case EventKind::kQpAccessError:
      return qp_event(IBV_EVENT_QP_ACCESS_ERR);
    case EventKind::kCommEstablished:
      return qp_event(IBV_EVENT_COMM_EST);
    case EventKind::kSqDrained:
      return qp_event(IBV_EVENT_SQ_DRAINED);
    case EventKind::kQpLastWqeReached:
      return qp_event(IBV_EVENT_QP_LAST_WQE_REACHED);
    case EventKind::kPortActive:
      return on_port(event.port, true);
    case EventKind::kPortError:
      return on_port(event.port, false);
  }
}

}  // namespace mroce::verbs
