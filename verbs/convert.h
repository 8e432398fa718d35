// Between <infiniband/verbs.h> and core/rdma/types.h. Values are equal (values_test is at compile time, in
// convert.cc); what is left is to check what a program passes in, and to keep what the transport does not
// care about.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "core/mroce/engine.h"
#include "core/rdma/types.h"
#include "verbs/objects.h"

namespace mroce::verbs {

// ---- memory regions
// ------------------------------------------------------------------------------------------------ The access
// flags for the engine, or kInvalidArgument (unknown flags), kNotSupported (on-demand paging). Optional flags
// (relaxed ordering and others that may be ignored) and hints are dropped.
Result<uint32_t> to_mr_access(unsigned int flags);

// ---- queue pairs
// ---------------------------------------------------------------------------------------------------
struct QpChange {
  QpAttr attr;
  uint32_t mask = 0;  // for the engine
};
// Checks what the engine does not see; `kept` takes over what belongs to it. `gids` is the length of the GID
// table.
Result<QpChange> to_qp_change(const ibv_qp_attr& attr, int mask, size_t gids, QpKept& kept);
void from_qp_info(const QpInfo& info, const QpKept& kept, ibv_qp_attr& out);

// An address handle or address vector that this device can use: global, port 1, a GID that exists, a unicast
// destination.
Status check_ah_attr(const ibv_ah_attr& attr, size_t gids);

QpCap to_cap(const ibv_qp_cap& cap);
ibv_qp_cap from_cap(const QpCap& cap);

// ---- work requests and completions
// ---------------------------------------------------------------------------------
inline std::span<const Sge> to_sges(const ibv_sge* list, int count) {
  return {reinterpret_cast<const Sge*>(list), static_cast<size_t>(count)};
}
Result<SendWr> to_send_wr(const ibv_send_wr& wr);
Result<RecvWr> to_recv_wr(const ibv_recv_wr& wr);
void from_wc(const Wc& wc, ibv_wc& out);
// The immediate, in network order, or the key that was invalidated, a number: programs find both in one
// place.
uint32_t immediate_or_key(const Wc& wc);

// ---- ports
// ---------------------------------------------------------------------------------------------------------
struct LinkSpeed {  // as InfiniBand encodes it
  uint8_t width = 0;
  uint8_t speed = 0;
};
// The encoding that comes nearest from above; 10 Gbit/s for an unknown rate.
LinkSpeed to_link_speed(uint64_t rate_bps);

}  // namespace mroce::verbs
