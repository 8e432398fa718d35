// ibv_create_srq_ex, which has no exported function of its own.
#pragma once

#include <infiniband/verbs.h>

namespace mroce::verbs {

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);

}  // namespace mroce::verbs
