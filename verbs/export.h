// VERBS_EXPORT(name): the function impl_<name>, defined below it, is what programs find as `name`.
//
// Every exported name goes through a .symver directive, also one that has a single version: a function with
// an old and a new version must not be defined under its bare name, or the linker drops the default version
// without a word. The directives come from symbols.txt, so that the list of versions is in one place. The
// declaration takes its type from the system's header: a signature that differs does not compile.
#pragma once

#include <infiniband/verbs.h>

#include "exports.gen.h"

#define VERBS_EXPORT(name)                                                        \
  extern "C" __attribute__((visibility("default"))) decltype(::name) impl_##name; \
  __asm__(MROCE_SYMVER_##name)

// Names that rdma-core's libraries and tools use and that no installed header declares.
extern "C" {
int ibv_query_gid_type(struct ibv_context* context, uint8_t port_num, unsigned int index, int* type);
int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size);
const char* ibv_get_sysfs_path(void);
int ibv_dontfork_range(void* base, size_t size);
int ibv_dofork_range(void* base, size_t size);
void verbs_init_cq(struct ibv_cq* cq, struct ibv_context* context, struct ibv_comp_channel* channel,
                   void* cq_context);
struct ibv_context* verbs_open_device(struct ibv_device* device, void* private_data);
const char* ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
}
