#include "verbs/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "verbs/keep_errno.h"

namespace mroce::verbs {
namespace {

// With a length of 0 madvise() only says whether it knows the advice.
bool kernel_populates() {
  static const bool known =
      ::madvise(nullptr, 0, MADV_POPULATE_READ) == 0 && ::madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0;
  return known;
}

// MS_ASYNC does nothing but walk the mappings.
bool is_mapped(void* first, size_t length) {
  return ::msync(first, length, MS_ASYNC) == 0;
}

}  // namespace

int check_memory(const void* addr, size_t length, bool writable) {
  const KeepErrno guard;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(addr);
  uintptr_t end = 0;
  if (__builtin_add_overflow(begin, length, &end) || __builtin_add_overflow(end, page - 1, &end))
    return EINVAL;
  end &= ~(page - 1);
  auto* const first = reinterpret_cast<void*>(begin & ~(page - 1));
  const size_t bytes = end - (begin & ~(page - 1));

  if (!kernel_populates()) return is_mapped(first, bytes) ? 0 : EFAULT;
  while (::madvise(first, bytes, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) {
    if (errno == EINTR) continue;
    // ENOMEM means either that something is not mapped or that memory ran out.
    const bool scarce = errno == EAGAIN || (errno == ENOMEM && is_mapped(first, bytes));
    return scarce ? ENOMEM : EFAULT;
  }
  return 0;
}

}  // namespace mroce::verbs
