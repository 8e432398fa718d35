// Who fills which part of the tables of operations in a context.
#pragma once

#include <infiniband/verbs.h>

namespace mroce::verbs {

struct Context;

// post.cc and cq.cc: what the inline functions of <infiniband/verbs.h> call without a detour.
void fill_fast_path(ibv_context_ops& ops);
void fill_post_operations(ibv_context_ops& ops);
// The *_ex calls.
void fill_object_operations(Context& context);

}  // namespace mroce::verbs
