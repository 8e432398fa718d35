// Calls of the public interface that this device does not have, and the operations of a context that it does
// have beside the fast path. An operation left null in verbs_context is EOPNOTSUPP in the inline functions.
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/objects.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

namespace mroce::verbs {
namespace {

template <class T>
T* unsupported() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

void fill_object_operations(Context& context) {
  context.create_cq_ex = create_cq_ex;
  context.create_srq_ex = create_srq_ex;
  context.create_qp_ex = create_qp_ex;
}

// Multicast needs unreliable datagrams.
VERBS_EXPORT(ibv_attach_mcast);
int impl_ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) {
  return EOPNOTSUPP;
}

VERBS_EXPORT(ibv_detach_mcast);
int impl_ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) {
  return EOPNOTSUPP;
}

// Enhanced connection establishment is a vendor's business. Callers probe with null pointers.
VERBS_EXPORT(ibv_set_ece);
int impl_ibv_set_ece(ibv_qp*, ibv_ece*) {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

VERBS_EXPORT(ibv_query_ece);
int impl_ibv_query_ece(ibv_qp*, ibv_ece*) {
  return EOPNOTSUPP;
}

// Objects of another process live in that process's endpoint.
VERBS_EXPORT(ibv_import_device);
ibv_context* impl_ibv_import_device(int) {
  return unsupported<ibv_context>();
}

VERBS_EXPORT(ibv_import_pd);
ibv_pd* impl_ibv_import_pd(ibv_context*, uint32_t) {
  return unsupported<ibv_pd>();
}

VERBS_EXPORT(ibv_unimport_pd);
void impl_ibv_unimport_pd(ibv_pd*) {}

VERBS_EXPORT(ibv_import_mr);
ibv_mr* impl_ibv_import_mr(ibv_pd*, uint32_t) {
  return unsupported<ibv_mr>();
}

VERBS_EXPORT(ibv_unimport_mr);
void impl_ibv_unimport_mr(ibv_mr*) {}

VERBS_EXPORT(ibv_import_dm);
ibv_dm* impl_ibv_import_dm(ibv_context*, uint32_t) {
  return unsupported<ibv_dm>();
}

VERBS_EXPORT(ibv_unimport_dm);
void impl_ibv_unimport_dm(ibv_dm*) {}

// Packets leave through the kernel's UDP sockets: the neighbour's Ethernet address is the kernel's to find.
VERBS_EXPORT(ibv_resolve_eth_l2_from_gid);
int impl_ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, uint8_t*, uint16_t*) {
  errno = ENOSYS;
  return -ENOSYS;
}

}  // namespace mroce::verbs
