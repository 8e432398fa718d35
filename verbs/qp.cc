// Queue pairs: life, state, attributes. The engine checks transitions; what it does not see is checked in
// convert.cc.
#include "verbs/qp.h"

#include "verbs/convert.h"
#include "verbs/export.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

// 0, or why the device cannot make such a queue pair.
int check_init_attr(const ibv_pd& pd, const EngineConfig& config, const ibv_qp_init_attr& attr) {
  if (attr.qp_type != IBV_QPT_RC) return EOPNOTSUPP;
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr) return EINVAL;
  if (attr.send_cq->context != pd.context || attr.recv_cq->context != pd.context) return EINVAL;
  if (attr.srq != nullptr && attr.srq->context != pd.context) return EINVAL;
  const ibv_qp_cap& cap = attr.cap;
  if (cap.max_send_wr > config.max_qp_wr || cap.max_send_sge > config.max_sge) return EINVAL;
  if (cap.max_inline_data > config.max_inline) return EINVAL;
  if (attr.srq == nullptr && (cap.max_recv_wr > config.max_qp_wr || cap.max_recv_sge > config.max_sge))
    return EINVAL;
  return 0;
}

QpInit to_init(const Pd& pd, const ibv_qp_init_attr& attr, const Qp& qp) {
  QpInit init;
  init.pd = pd.engine;
  init.send_cq = cq_of(attr.send_cq).engine;
  init.recv_cq = cq_of(attr.recv_cq).engine;
  if (attr.srq != nullptr) init.srq = static_cast<Srq*>(attr.srq)->engine;
  init.cap = to_cap(attr.cap);
  if (attr.srq != nullptr) init.cap.max_recv_wr = init.cap.max_recv_sge = 0;  // the SRQ's count
  init.signal_all = attr.sq_sig_all != 0;
  init.user = reinterpret_cast<uint64_t>(&qp);
  return init;
}

struct Created {
  QpHandle handle;
  uint32_t number = 0;
  QpCap cap;
};

Result<Created> create_in_engine(Engine& engine, Time now, const QpInit& init) {
  const auto handle = engine.create_qp(init);
  if (!handle) return fail(handle.error());
  const auto info = engine.query_qp(*handle);
  if (!info) {
    (void)engine.destroy_qp(now, *handle);
    return fail(info.error());
  }
  return Created{*handle, engine.qp_num(*handle), info->cap};
}

ibv_qp* null_with(int error) {
  errno = error;
  return nullptr;
}

ibv_qp* create_qp(Pd& pd, ibv_qp_init_attr& attr) {
  Context& context = context_of(pd);
  if (!context.session->alive()) return null_with(ENODEV);
  if (const int error = check_init_attr(pd, context.session->config(), attr); error != 0)
    return null_with(error);
  Qp* qp = allocate<Qp>();
  if (qp == nullptr) return nullptr;
  qp->context = pd.context;
  qp->qp_context = attr.qp_context;
  qp->pd = &pd;
  qp->send_cq = attr.send_cq;
  qp->recv_cq = attr.recv_cq;
  qp->srq = attr.srq;
  qp->state = IBV_QPS_RESET;
  qp->qp_type = attr.qp_type;
  const QpInit init = to_init(pd, attr, *qp);
  const auto created =
      command(context, [&](Engine& engine, Time now) { return create_in_engine(engine, now, init); });
  int error = created ? 0 : mroce::errno_of(created.error());
  if (error == 0) {
    qp->engine = created->handle;
    error = remember(context, context.qps, qp);
    if (error != 0) {
      (void)command(context, [&](Engine& engine, Time now) { return engine.destroy_qp(now, qp->engine); });
    }
  }
  if (error != 0) {
    delete qp;
    return null_with(error);
  }
  qp->qp_num = created->number;
  qp->handle = created->number;
  pthread_mutex_init(&qp->mutex, nullptr);
  pthread_cond_init(&qp->cond, nullptr);
  attr.cap = from_cap(created->cap);
  return qp;
}

}  // namespace

VERBS_EXPORT(ibv_create_qp);
ibv_qp* impl_ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (pd == nullptr) return null_with(EINVAL);
  return create_qp(*static_cast<Pd*>(pd), *attr);
}

// The first members of both attribute structures are the same.
ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* attr) {
  static_assert(offsetof(ibv_qp_init_attr_ex, sq_sig_all) == offsetof(ibv_qp_init_attr, sq_sig_all));
  if (attr->comp_mask != IBV_QP_INIT_ATTR_PD) return null_with(EOPNOTSUPP);
  return impl_ibv_create_qp(attr->pd, reinterpret_cast<ibv_qp_init_attr*>(attr));
}

VERBS_EXPORT(ibv_qp_to_qp_ex);
ibv_qp_ex* impl_ibv_qp_to_qp_ex(ibv_qp*) {
  return nullptr;
}

VERBS_EXPORT(ibv_modify_qp);
int impl_ibv_modify_qp(ibv_qp* ibv, ibv_qp_attr* attr, int mask) {
  Qp& qp = *static_cast<Qp*>(ibv);
  Context& context = context_of(qp);
  if (!context.session->alive()) return ENODEV;
  QpKept kept = qp.kept;
  const auto change = to_qp_change(*attr, mask, context.session->gids().size(), kept);
  if (!change) return mroce::errno_of(change.error());
  const Status done = command(context, [&](Engine& engine, Time now) {
    const Status status = engine.modify_qp(now, qp.engine, change->attr, change->mask);
    if (status) qp.kept = kept;
    return status;
  });
  if (!done) return errno_of(done);
  if ((mask & IBV_QP_STATE) != 0) qp.state = attr->qp_state;
  return 0;
}

VERBS_EXPORT(ibv_query_qp);
int impl_ibv_query_qp(ibv_qp* ibv, ibv_qp_attr* attr, int, ibv_qp_init_attr* init_attr) {
  Qp& qp = *static_cast<Qp*>(ibv);
  QpKept kept;
  const auto info = command(context_of(qp), [&](Engine& engine, Time) {
    kept = qp.kept;
    return engine.query_qp(qp.engine);
  });
  if (!info) return mroce::errno_of(info.error());
  from_qp_info(*info, kept, *attr);
  qp.state = attr->qp_state;
  if (init_attr != nullptr) {
    *init_attr = ibv_qp_init_attr{};
    init_attr->qp_context = qp.qp_context;
    init_attr->send_cq = qp.send_cq;
    init_attr->recv_cq = qp.recv_cq;
    init_attr->srq = qp.srq;
    init_attr->cap = attr->cap;
    init_attr->qp_type = qp.qp_type;
    init_attr->sq_sig_all = info->signal_all ? 1 : 0;
  }
  return 0;
}

VERBS_EXPORT(ibv_query_qp_data_in_order);
int impl_ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) {
  return 0;
}

VERBS_EXPORT(ibv_destroy_qp);
int impl_ibv_destroy_qp(ibv_qp* ibv) {
  Qp& qp = *static_cast<Qp*>(ibv);
  Context& context = context_of(qp);
  const Status done =
      command(context, [&](Engine& engine, Time now) { return engine.destroy_qp(now, qp.engine); });
  if (!done) return errno_of(done);
  bury(context, context.qps, &qp);
  return 0;
}

}  // namespace mroce::verbs
