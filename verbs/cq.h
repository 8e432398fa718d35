// Shared by ibv_create_cq and ibv_create_cq_ex.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace mroce::verbs {

struct Cq;

// Null and errno on failure.
Cq* create_cq(ibv_context* context, uint64_t entries, void* cq_context, ibv_comp_channel* channel,
              uint64_t vector);

void fill_cq_operations(ibv_context_ops& ops);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);

}  // namespace mroce::verbs
