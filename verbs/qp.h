// Shared by the files about queue pairs.
#pragma once

#include <infiniband/verbs.h>

namespace mroce::verbs {

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);

}  // namespace mroce::verbs
