// Which state changes of a reliable-connected queue pair are allowed, and with which attributes.
//
// IBTA 10.3.1 and table 91, in the form that Linux programs know (ibv_modify_qp(3)): each change has
// attributes that must be given and attributes that may be given; any other attribute makes the call fail.
// Every state may go to RESET and to ERR with no attribute at all. SQE does not exist for RC and has no other
// way out.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/error.h"
#include "core/rdma/types.h"

namespace mroce {

struct QpTransition {
  uint32_t required = 0;  // qp_mask
  uint32_t optional = 0;  // qp_mask
};

// nullopt: there is no such change.
std::optional<QpTransition> transition(QpState from, QpState to);

// May a QP in `current` be modified like this? Without kState in `mask` the state stays. kBadState: no such
// change, or cur_state is given and is not `current`. kInvalidArgument: attributes missing, not allowed, or
// out of range; READ and atomic depths may not exceed `max_rd_atomic`. Looks only at attributes that `mask`
// names.
Status check_modify(QpState current, const QpAttr& attr, uint32_t mask, uint8_t max_rd_atomic = 255);

}  // namespace mroce
