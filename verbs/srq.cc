// Shared receive queues.
#include "verbs/srq.h"

#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/objects.h"
#include "verbs/qp.h"

namespace mroce::verbs {
namespace {

ibv_srq* null_with(int error) {
  errno = error;
  return nullptr;
}

struct Created {
  SrqHandle handle;
  SrqInfo info;
};

Result<Created> create_in_engine(Engine& engine, PdHandle pd, const ibv_srq_attr& attr, uint64_t user) {
  // The limit of the creation attributes is ignored: a program arms it with ibv_modify_srq().
  const auto handle = engine.create_srq(pd, attr.max_wr, attr.max_sge, 0, user);
  if (!handle) return fail(handle.error());
  const auto info = engine.query_srq(*handle);
  if (!info) {
    (void)engine.destroy_srq(*handle);
    return fail(info.error());
  }
  return Created{*handle, *info};
}

}  // namespace

VERBS_EXPORT(ibv_create_srq);
ibv_srq* impl_ibv_create_srq(ibv_pd* ibv, ibv_srq_init_attr* init) {
  if (ibv == nullptr) return null_with(EINVAL);
  Pd& pd = *static_cast<Pd*>(ibv);
  Context& context = context_of(pd);
  if (!context.session->alive()) return null_with(ENODEV);
  const EngineConfig& config = context.session->config();
  const ibv_srq_attr& attr = init->attr;
  if (attr.max_wr == 0 || attr.max_wr > config.max_srq_wr || attr.max_sge > config.max_sge)
    return null_with(EINVAL);
  Srq* srq = allocate<Srq>();
  if (srq == nullptr) return nullptr;
  srq->context = pd.context;
  srq->srq_context = init->srq_context;
  srq->pd = &pd;
  const auto created = command(context, [&](Engine& engine, Time) {
    return create_in_engine(engine, pd.engine, attr, reinterpret_cast<uint64_t>(srq));
  });
  int error = created ? 0 : mroce::errno_of(created.error());
  if (error == 0) {
    srq->engine = created->handle;
    error = remember(context, context.srqs, srq);
    if (error != 0)
      (void)command(context, [&](Engine& engine, Time) { return engine.destroy_srq(srq->engine); });
  }
  if (error != 0) {
    delete srq;
    return null_with(error);
  }
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  init->attr.max_wr = created->info.max_wr;
  init->attr.max_sge = created->info.max_sge;
  return srq;
}

// The first members of both attribute structures are the same.
ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* attr) {
  static_assert(offsetof(ibv_srq_init_attr_ex, attr) == offsetof(ibv_srq_init_attr, attr));
  const bool basic = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attr->srq_type == IBV_SRQT_BASIC;
  const uint32_t other = attr->comp_mask & ~uint32_t{IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD};
  if (!basic || other != 0) return null_with(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) return null_with(EINVAL);
  return impl_ibv_create_srq(attr->pd, reinterpret_cast<ibv_srq_init_attr*>(attr));
}

VERBS_EXPORT(ibv_modify_srq);
int impl_ibv_modify_srq(ibv_srq* ibv, ibv_srq_attr* attr, int mask) {
  Srq& srq = *static_cast<Srq*>(ibv);
  Context& context = context_of(srq);
  if (!context.session->alive()) return ENODEV;
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  std::optional<uint32_t> max_wr;
  std::optional<uint32_t> limit;
  if ((mask & IBV_SRQ_MAX_WR) != 0) max_wr = attr->max_wr;
  if ((mask & IBV_SRQ_LIMIT) != 0) limit = attr->srq_limit;
  if (max_wr && (*max_wr == 0 || *max_wr > context.session->config().max_srq_wr)) return EINVAL;
  return errno_of(
      command(context, [&](Engine& engine, Time) { return engine.modify_srq(srq.engine, max_wr, limit); }));
}

VERBS_EXPORT(ibv_query_srq);
int impl_ibv_query_srq(ibv_srq* ibv, ibv_srq_attr* attr) {
  Srq& srq = *static_cast<Srq*>(ibv);
  const auto info =
      command(context_of(srq), [&](Engine& engine, Time) { return engine.query_srq(srq.engine); });
  if (!info) return mroce::errno_of(info.error());
  attr->max_wr = info->max_wr;
  attr->max_sge = info->max_sge;
  attr->srq_limit = info->limit;
  return 0;
}

VERBS_EXPORT(ibv_destroy_srq);
int impl_ibv_destroy_srq(ibv_srq* ibv) {
  Srq& srq = *static_cast<Srq*>(ibv);
  Context& context = context_of(srq);
  const Status done = command(context, [&](Engine& engine, Time) { return engine.destroy_srq(srq.engine); });
  if (!done) return errno_of(done);
  bury(context, context.srqs, &srq);
  return 0;
}

}  // namespace mroce::verbs
