// The objects behind the pointers that programs hold. Each begins with the public structure of
// <infiniband/verbs.h>; what follows it is ours.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <type_traits>
#include <unordered_set>

#include "core/mroce/engine.h"
#include "verbs/event_queue.h"
#include "verbs/session.h"

namespace mroce::verbs {

struct Pd;
struct Mr;
struct Cq;
struct Srq;
struct Qp;

// Programs hold a pointer to the ibv_context at the end of verbs_context, and reach the rest of that
// structure by subtraction: nothing of ours may stand between the two.
struct Context : verbs_context {
  explicit Context(Session& owner) : verbs_context{}, session(&owner) {}

  Session* session;
  EventQueue async;
  // What the program has not destroyed: closing the device takes it away from the engine.
  std::mutex objects_mutex;
  std::unordered_set<Pd*> pds;
  std::unordered_set<Mr*> mrs;
  std::unordered_set<Cq*> cqs;
  std::unordered_set<Srq*> srqs;
  std::unordered_set<Qp*> qps;
};

inline Context& context_of(ibv_context* context) {
  auto* bytes = reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context);
  return *static_cast<Context*>(reinterpret_cast<verbs_context*>(bytes));
}
template <class T>  // any object with a `context` member
Context& context_of(const T& object) {
  return context_of(object.context);
}

struct Pd : ibv_pd {
  PdHandle engine;
};

struct Mr : ibv_mr {
  uint32_t access = 0;
  bool zero_based = false;
};

struct Channel : ibv_comp_channel {
  EventQueue queue;
};

// An ibv_cq_ex: the first part of it is an ibv_cq.
struct Cq : ibv_cq_ex {
  CqHandle engine;
  uint32_t completion_events_fetched = 0;
  uint32_t async_events_fetched = 0;
  Wc current;  // what start_poll and next_poll stand at
};
inline ibv_cq* public_of(Cq& cq) {
  return ibv_cq_ex_to_cq(&cq);
}
inline Cq& cq_of(ibv_cq* cq) {
  return *static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(cq));
}
inline Channel& channel_of(const Cq& cq) {
  return *static_cast<Channel*>(cq.channel);
}

struct Srq : ibv_srq {
  SrqHandle engine;
  uint32_t events_fetched = 0;
};

// Attributes that the transport does not act upon and that query_qp gives back.
struct QpKept {
  ibv_ah_attr ah_attr{};
  uint16_t pkey_index = 0;
  uint8_t port_num = 0;
  ibv_mtu path_mtu{};
};

struct Qp : ibv_qp {
  QpHandle engine;
  QpKept kept;
  uint32_t events_fetched = 0;
};

struct Ah : ibv_ah {
  ibv_ah_attr attr{};
};

// Runs `f(Engine&, Time)` under the endpoint's lock. Nothing is thrown across the C border: no memory is
// kNoMemory. A session that is closed or belongs to the parent process answers kNoDevice.
template <class F>
auto command(Context& context, F&& f) -> std::invoke_result_t<F, Engine&, Time> {
  if (!context.session->alive()) return fail(Errc::kNoDevice);
  const Inside guard;
  try {
    return context.session->endpoint().command(std::forward<F>(f));
  } catch (const std::bad_alloc&) {
    return fail(Errc::kNoMemory);
  } catch (const std::exception&) {
    return fail(Errc::kNetwork);
  }
}

inline int errno_of(const Status& status) {
  return status ? 0 : mroce::errno_of(status.error());
}

// A new object, or null and ENOMEM.
template <class T, class... Args>
T* allocate(Args&&... args) {
  T* object = new (std::nothrow) T(std::forward<Args>(args)...);
  if (object == nullptr) errno = ENOMEM;
  return object;
}

template <class T>
int remember(Context& context, std::unordered_set<T*>& set, T* object) {
  std::lock_guard lock(context.objects_mutex);
  try {
    set.insert(object);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  return 0;
}
template <class T>
void forget(Context& context, std::unordered_set<T*>& set, T* object) {
  std::lock_guard lock(context.objects_mutex);
  set.erase(object);
}

// Waits until the program has acknowledged all events that it fetched for an object (ibv_ack_cq_events and
// ibv_ack_async_event count `acknowledged`).
inline void wait_for_acks(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged,
                          uint32_t fetched) {
  pthread_mutex_lock(&mutex);
  while (acknowledged != fetched) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

// The end of a queue pair or shared receive queue, of which the engine knows no more.
template <class T>
void bury(Context& context, std::unordered_set<T*>& set, T* object) {
  forget(context, set, object);
  const uint32_t events = context.async.remove(object, &object->events_fetched);
  wait_for_acks(object->mutex, object->cond, object->events_completed, events);
  pthread_cond_destroy(&object->cond);
  pthread_mutex_destroy(&object->mutex);
  delete object;
}

}  // namespace mroce::verbs
