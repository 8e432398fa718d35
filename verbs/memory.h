// Can the memory of a region be what its rights say? A device pins the pages when they are registered, and
// learns so that something is not mapped or may not be written. Here nothing is pinned, and the engine would
// crash the program when a packet arrives; so the kernel is asked to fault the pages in, which fails for the
// same reasons: MADV_POPULATE_READ and MADV_POPULATE_WRITE of madvise(2), Linux 5.14. Older kernels are only
// asked whether everything is mapped. What the program unmaps or protects later is beyond this.
#pragma once

#include <cstddef>

namespace mroce::verbs {

// 0, or an errno: EFAULT for memory that is not mapped or lacks the permission, ENOMEM when the host has no
// more of it, EINVAL for a range that goes around the end of the address space. The pages are there
// afterwards. `length` is not 0.
int check_memory(const void* addr, size_t length, bool writable);

}  // namespace mroce::verbs
