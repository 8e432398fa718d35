// Asynchronous events of a context: errors of queue pairs and completion queues, limits reached, port
// changes.
#include "verbs/export.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

void count_ack(pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& acknowledged) {
  pthread_mutex_lock(&mutex);
  ++acknowledged;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
}

bool is_srq_event(ibv_event_type type) {
  return type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED;
}

bool is_qp_event(ibv_event_type type) {
  return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR ||
         type == IBV_EVENT_COMM_EST || type == IBV_EVENT_SQ_DRAINED || type == IBV_EVENT_PATH_MIG ||
         type == IBV_EVENT_PATH_MIG_ERR || type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

}  // namespace

VERBS_EXPORT(ibv_get_async_event);
int impl_ibv_get_async_event(ibv_context* ibv, ibv_async_event* out) {
  Context& context = context_of(ibv);
  if (!context.session->alive()) {
    errno = ENODEV;
    return -1;
  }
  EventQueue::Entry entry;
  if (const int error = context.async.pop(entry); error != 0) {
    errno = error;
    return -1;
  }
  out->event_type = static_cast<ibv_event_type>(entry.type);
  if (out->event_type == IBV_EVENT_CQ_ERR) {
    out->element.cq = public_of(*static_cast<Cq*>(entry.object));
  } else if (is_srq_event(out->event_type)) {
    out->element.srq = static_cast<Srq*>(entry.object);
  } else if (is_qp_event(out->event_type)) {
    out->element.qp = static_cast<Qp*>(entry.object);
  } else {
    out->element.port_num = 1;
  }
  return 0;
}

VERBS_EXPORT(ibv_ack_async_event);
void impl_ibv_ack_async_event(ibv_async_event* event) {
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    ibv_cq& cq = *event->element.cq;
    count_ack(cq.mutex, cq.cond, cq.async_events_completed);
  } else if (is_srq_event(event->event_type)) {
    ibv_srq& srq = *event->element.srq;
    count_ack(srq.mutex, srq.cond, srq.events_completed);
  } else if (is_qp_event(event->event_type)) {
    ibv_qp& qp = *event->element.qp;
    count_ack(qp.mutex, qp.cond, qp.events_completed);
  }
}

}  // namespace mroce::verbs
