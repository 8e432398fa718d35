// Completion queues: life, polling, arming.
#include <algorithm>

#include "verbs/context.h"
#include "verbs/convert.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

// Programs size their queues to the last entry and count on what hardware does: that the acknowledgement of a
// request comes before the peer's answer to it. (ib_send_lat -e, with one entry for what it sends, loses a
// completion and then waits for ever.) Here the two may change places; a few entries more cost nothing.
constexpr uint32_t kLeastCapacity = 64;

// The fast path. Completions come in batches, so that a long array does not take a long lock.
int poll_cq(ibv_cq* ibv, int num_entries, ibv_wc* out) {
  Cq& cq = cq_of(ibv);
  Session& session = *context_of(cq).session;
  if (num_entries < 0) return -EINVAL;
  if (!session.alive()) return -ENODEV;
  const Inside guard;
  const auto wanted = static_cast<uint32_t>(num_entries);
  // Not initialised: an empty queue is polled millions of times a second.
  constexpr uint32_t kBatch = 32;
  alignas(Wc) std::byte storage[kBatch * sizeof(Wc)];
  Wc* const batch = reinterpret_cast<Wc*>(storage);
  uint32_t done = 0;
  try {
    while (done < wanted) {
      const uint32_t room = std::min(wanted - done, kBatch);
      const uint32_t got = session.endpoint().poll_cq(cq.engine, std::span(batch, room));
      for (uint32_t i = 0; i < got; ++i) from_wc(batch[i], out[done + i]);
      done += got;
      if (got < room) break;
    }
  } catch (const std::exception&) {
    if (done == 0) return -ENOMEM;
  }
  return static_cast<int>(done);
}

int req_notify_cq(ibv_cq* ibv, int solicited_only) {
  Cq& cq = cq_of(ibv);
  return errno_of(command(
      context_of(cq), [&](Engine& engine, Time) { return engine.arm_cq(cq.engine, solicited_only != 0); }));
}

void change_references(ibv_comp_channel* channel, int by) {
  if (channel == nullptr) return;
  pthread_mutex_lock(&channel->context->mutex);
  channel->refcnt += by;
  pthread_mutex_unlock(&channel->context->mutex);
}

}  // namespace

void fill_cq_operations(ibv_context_ops& ops) {
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
}

Cq* create_cq(ibv_context* ibv, uint64_t entries, void* cq_context, ibv_comp_channel* channel,
              uint64_t vector) {
  Context& context = context_of(ibv);
  if (!context.session->alive()) {
    errno = ENODEV;
    return nullptr;
  }
  const bool foreign = channel != nullptr && channel->context != ibv;
  if (entries == 0 || entries > context.session->config().max_cqe || vector != 0 || foreign) {
    errno = EINVAL;
    return nullptr;
  }
  Cq* cq = allocate<Cq>();
  if (cq == nullptr) return nullptr;
  cq->context = ibv;
  cq->channel = channel;
  cq->cq_context = cq_context;
  const auto capacity = std::max(static_cast<uint32_t>(entries), kLeastCapacity);
  const auto handle = command(context, [&](Engine& engine, Time) {
    return engine.create_cq(capacity, reinterpret_cast<uint64_t>(cq));
  });
  int error = handle ? 0 : mroce::errno_of(handle.error());
  if (error == 0) {
    cq->engine = *handle;
    cq->cqe = static_cast<int>(capacity);
    error = remember(context, context.cqs, cq);
    if (error != 0)
      (void)command(context, [&](Engine& engine, Time) { return engine.destroy_cq(cq->engine); });
  }
  if (error != 0) {
    delete cq;
    errno = error;
    return nullptr;
  }
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  change_references(channel, 1);
  return cq;
}

VERBS_EXPORT(ibv_create_cq);
ibv_cq* impl_ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                           int vector) {
  const uint64_t entries = cqe < 0 ? 0 : static_cast<uint64_t>(cqe);
  Cq* cq = create_cq(context, entries, cq_context, channel, static_cast<uint64_t>(vector));
  return cq == nullptr ? nullptr : public_of(*cq);
}

VERBS_EXPORT(verbs_init_cq);
void impl_verbs_init_cq(ibv_cq* cq, ibv_context* context, ibv_comp_channel* channel, void* cq_context) {
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->comp_events_completed = 0;
  cq->async_events_completed = 0;
  change_references(channel, 1);
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
}

VERBS_EXPORT(ibv_resize_cq);
int impl_ibv_resize_cq(ibv_cq* ibv, int cqe) {
  Cq& cq = cq_of(ibv);
  Context& context = context_of(cq);
  if (!context.session->alive()) return ENODEV;
  if (cqe <= 0 || static_cast<uint32_t>(cqe) > context.session->config().max_cqe) return EINVAL;
  const uint32_t wanted = std::max(static_cast<uint32_t>(cqe), kLeastCapacity);
  const auto capacity =
      command(context, [&](Engine& engine, Time) { return engine.resize_cq(cq.engine, wanted); });
  if (!capacity) return mroce::errno_of(capacity.error());
  cq.cqe = static_cast<int>(*capacity);
  return 0;
}

VERBS_EXPORT(ibv_destroy_cq);
int impl_ibv_destroy_cq(ibv_cq* ibv) {
  Cq& cq = cq_of(ibv);
  Context& context = context_of(cq);
  const Status done = command(context, [&](Engine& engine, Time) { return engine.destroy_cq(cq.engine); });
  if (!done) return errno_of(done);
  forget(context, context.cqs, &cq);

  // From here on nobody adds events.
  const uint32_t async_events = context.async.remove(&cq, &cq.async_events_fetched);
  wait_for_acks(cq.mutex, cq.cond, cq.async_events_completed, async_events);
  if (cq.channel != nullptr) {
    const uint32_t events = channel_of(cq).queue.remove(&cq, &cq.completion_events_fetched);
    wait_for_acks(cq.mutex, cq.cond, cq.comp_events_completed, events);
    change_references(cq.channel, -1);
  }
  pthread_cond_destroy(&cq.cond);
  pthread_mutex_destroy(&cq.mutex);
  delete &cq;
  return 0;
}

}  // namespace mroce::verbs
