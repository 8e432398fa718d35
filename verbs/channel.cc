// Completion channels: where armed completion queues report, and where programs sleep.
#include "verbs/export.h"
#include "verbs/objects.h"

namespace mroce::verbs {

VERBS_EXPORT(ibv_create_comp_channel);
ibv_comp_channel* impl_ibv_create_comp_channel(ibv_context* ibv) {
  if (!context_of(ibv).session->alive()) {
    errno = ENODEV;
    return nullptr;
  }
  Channel* channel = allocate<Channel>();
  if (channel == nullptr) return nullptr;
  if (const int error = channel->queue.open(); error != 0) {
    delete channel;
    errno = error;
    return nullptr;
  }
  channel->context = ibv;
  channel->fd = channel->queue.fd();
  channel->refcnt = 0;
  return channel;
}

VERBS_EXPORT(ibv_destroy_comp_channel);
int impl_ibv_destroy_comp_channel(ibv_comp_channel* ibv) {
  pthread_mutex_t& mutex = ibv->context->mutex;
  pthread_mutex_lock(&mutex);
  const bool busy = ibv->refcnt != 0;
  pthread_mutex_unlock(&mutex);
  if (busy) return EBUSY;
  delete static_cast<Channel*>(ibv);
  return 0;
}

VERBS_EXPORT(ibv_get_cq_event);
int impl_ibv_get_cq_event(ibv_comp_channel* ibv, ibv_cq** cq, void** cq_context) {
  if (!context_of(*ibv).session->alive()) {
    errno = ENODEV;
    return -1;
  }
  EventQueue::Entry entry;
  if (const int error = static_cast<Channel*>(ibv)->queue.pop(entry); error != 0) {
    errno = error;
    return -1;
  }
  *cq = public_of(*static_cast<Cq*>(entry.object));
  *cq_context = (*cq)->cq_context;
  return 0;
}

VERBS_EXPORT(ibv_ack_cq_events);
void impl_ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  if (!context_of(*cq).session->alive()) return;
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // namespace mroce::verbs
