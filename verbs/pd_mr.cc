// Protection domains and memory regions.
#include <atomic>

#include "verbs/convert.h"
#include "verbs/export.h"
#include "verbs/memory.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

std::atomic<uint32_t> next_handle{1};

bool may_write(uint32_t access) {
  return (access & (access::kLocalWrite | access::kRemoteWrite | access::kRemoteAtomic)) != 0;
}

ibv_mr* null_with(int error) {
  errno = error;
  return nullptr;
}

ibv_mr* register_mr(ibv_pd* ibv_pd_, void* addr, size_t length, uint64_t iova, unsigned int flags) {
  if (ibv_pd_ == nullptr) return null_with(EINVAL);
  Pd& pd = *static_cast<Pd*>(ibv_pd_);
  Context& context = context_of(pd);
  const auto access = to_mr_access(flags);
  if (!access) return null_with(mroce::errno_of(access.error()));
  if (length == 0) return null_with(EINVAL);
  if (!context.session->alive()) return null_with(ENODEV);
  if (const int error = check_memory(addr, length, may_write(*access)); error != 0) return null_with(error);

  Mr* mr = allocate<Mr>();
  if (mr == nullptr) return nullptr;
  mr->access = *access;
  mr->zero_based = (flags & IBV_ACCESS_ZERO_BASED) != 0;
  const uint64_t base = mr->zero_based ? 0 : iova;
  const auto info = command(context, [&](Engine& engine, Time) {
    return engine.reg_mr(pd.engine, reinterpret_cast<uint64_t>(addr), length, base, *access);
  });
  int error = info ? 0 : mroce::errno_of(info.error());
  if (error == 0) {
    mr->context = pd.context;
    mr->pd = &pd;
    mr->addr = addr;
    mr->length = length;
    mr->handle = next_handle.fetch_add(1);
    mr->lkey = info->lkey;
    mr->rkey = info->rkey;
    error = remember(context, context.mrs, mr);
    if (error != 0) (void)command(context, [&](Engine& engine, Time) { return engine.dereg_mr(mr->lkey); });
  }
  if (error == 0) return mr;
  delete mr;
  return null_with(error);
}

// rdma-core's convention: a negative code that says which of the two regions is still valid, and errno.
int rereg_failed(int code, int error) {
  errno = error;
  return code;
}

}  // namespace

VERBS_EXPORT(ibv_alloc_pd);
ibv_pd* impl_ibv_alloc_pd(ibv_context* ibv) {
  Context& context = context_of(ibv);
  Pd* pd = allocate<Pd>();
  if (pd == nullptr) return nullptr;
  const auto handle = command(context, [](Engine& engine, Time) { return engine.alloc_pd(); });
  int error = handle ? 0 : mroce::errno_of(handle.error());
  if (error == 0) {
    pd->context = ibv;
    pd->handle = next_handle.fetch_add(1);
    pd->engine = *handle;
    error = remember(context, context.pds, pd);
    if (error != 0)
      (void)command(context, [&](Engine& engine, Time) { return engine.dealloc_pd(pd->engine); });
  }
  if (error == 0) return pd;
  delete pd;
  errno = error;
  return nullptr;
}

VERBS_EXPORT(ibv_dealloc_pd);
int impl_ibv_dealloc_pd(ibv_pd* ibv) {
  Pd& pd = *static_cast<Pd*>(ibv);
  Context& context = context_of(pd);
  const Status done = command(context, [&](Engine& engine, Time) { return engine.dealloc_pd(pd.engine); });
  if (!done) return errno_of(done);
  forget(context, context.pds, &pd);
  delete &pd;
  return 0;
}

VERBS_EXPORT(ibv_reg_mr);
ibv_mr* impl_ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return register_mr(pd, addr, length, reinterpret_cast<uint64_t>(addr), static_cast<unsigned int>(access));
}

VERBS_EXPORT(ibv_reg_mr_iova);
ibv_mr* impl_ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return register_mr(pd, addr, length, iova, static_cast<unsigned int>(access));
}

VERBS_EXPORT(ibv_reg_mr_iova2);
ibv_mr* impl_ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned int access) {
  return register_mr(pd, addr, length, iova, access);
}

// No device memory is reachable from here.
VERBS_EXPORT(ibv_reg_dmabuf_mr);
ibv_mr* impl_ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  return null_with(EOPNOTSUPP);
}

VERBS_EXPORT(ibv_rereg_mr);
int impl_ibv_rereg_mr(ibv_mr* ibv, int flags, ibv_pd* ibv_pd_, void* addr, size_t length, int access) {
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  const bool changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  const bool odd = (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
                   (moves && (addr == nullptr || length == 0)) || (access != 0 && !changes_access) ||
                   (changes_pd && (ibv_pd_ == nullptr || ibv_pd_->context != ibv->context)) || flags == 0;
  if (odd) return rereg_failed(IBV_REREG_MR_ERR_INPUT, EINVAL);

  Mr& mr = *static_cast<Mr*>(ibv);
  Context& context = context_of(mr);
  std::optional<PdHandle> new_pd;
  if (changes_pd) new_pd = static_cast<Pd*>(ibv_pd_)->engine;
  bool zero_based = mr.zero_based;
  std::optional<uint32_t> new_access;
  if (changes_access) {
    const auto checked = to_mr_access(static_cast<unsigned int>(access));
    if (!checked) return rereg_failed(IBV_REREG_MR_ERR_INPUT, mroce::errno_of(checked.error()));
    new_access = *checked;
    if (moves) zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  }
  // The region as it is going to be.
  if (moves || changes_access) {
    const int error = check_memory(moves ? addr : mr.addr, moves ? length : mr.length,
                                   may_write(new_access.value_or(mr.access)));
    if (error != 0) return rereg_failed(IBV_REREG_MR_ERR_INPUT, error);
  }
  std::optional<std::array<uint64_t, 3>> range;  // address, length, iova
  const auto address = reinterpret_cast<uint64_t>(addr);
  if (moves) range = std::array<uint64_t, 3>{address, length, zero_based ? 0 : address};

  const auto info = command(
      context, [&](Engine& engine, Time) { return engine.rereg_mr(mr.lkey, new_pd, range, new_access); });
  // The engine changes all or nothing: the old region is still valid.
  if (!info) return rereg_failed(IBV_REREG_MR_ERR_INPUT, mroce::errno_of(info.error()));
  if (changes_pd) mr.pd = ibv_pd_;
  mr.access = new_access.value_or(mr.access);
  if (moves) {
    mr.addr = addr;
    mr.length = length;
    mr.zero_based = zero_based;
  }
  mr.lkey = info->lkey;
  mr.rkey = info->rkey;
  return 0;
}

VERBS_EXPORT(ibv_dereg_mr);
int impl_ibv_dereg_mr(ibv_mr* ibv) {
  Mr& mr = *static_cast<Mr*>(ibv);
  Context& context = context_of(mr);
  const Status done = command(context, [&](Engine& engine, Time) { return engine.dereg_mr(mr.lkey); });
  if (!done) return errno_of(done);
  forget(context, context.mrs, &mr);
  delete &mr;
  return 0;
}

}  // namespace mroce::verbs
