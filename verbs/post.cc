// The fast path of work requests. A chain takes the endpoint's lock once; it stops at the first request that
// the engine refuses, and those before it stay posted.
#include "verbs/context.h"
#include "verbs/convert.h"
#include "verbs/cq.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

int post_send(ibv_qp* ibv, ibv_send_wr* wr, ibv_send_wr** bad) {
  Qp& qp = *static_cast<Qp*>(ibv);
  ibv_send_wr* next = wr;
  const Status done = command(context_of(qp), [&](Engine& engine, Time now) -> Status {
    for (; next != nullptr; next = next->next) {
      const auto converted = to_send_wr(*next);
      if (!converted) return fail(converted.error());
      if (const Status posted = engine.post_send(now, qp.engine, *converted); !posted) return posted;
    }
    return {};
  });
  if (!done) *bad = next;
  return errno_of(done);
}

template <class Post>
int post_receives(Context& context, ibv_recv_wr* wr, ibv_recv_wr** bad, Post&& post) {
  ibv_recv_wr* next = wr;
  const Status done = command(context, [&](Engine& engine, Time now) -> Status {
    for (; next != nullptr; next = next->next) {
      const auto converted = to_recv_wr(*next);
      if (!converted) return fail(converted.error());
      if (const Status posted = post(engine, now, *converted); !posted) return posted;
    }
    return {};
  });
  if (!done) *bad = next;
  return errno_of(done);
}

int post_recv(ibv_qp* ibv, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Qp& qp = *static_cast<Qp*>(ibv);
  return post_receives(context_of(qp), wr, bad, [&](Engine& engine, Time now, const RecvWr& recv) {
    return engine.post_recv(now, qp.engine, recv);
  });
}

int post_srq_recv(ibv_srq* ibv, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Srq& srq = *static_cast<Srq*>(ibv);
  return post_receives(context_of(srq), wr, bad, [&](Engine& engine, Time now, const RecvWr& recv) {
    return engine.post_srq_recv(now, srq.engine, recv);
  });
}

}  // namespace

void fill_fast_path(ibv_context_ops& ops) {
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;
  fill_cq_operations(ops);
}

}  // namespace mroce::verbs
