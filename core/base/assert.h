// MROCE_ASSERT: our own bug, and only that. A caller's bug is an Errc, a peer's bug is a counter.
//
// Always on: the state machine must stop rather than place data wrongly. Keep the condition cheap.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace mroce::detail {
[[noreturn]] inline void assert_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "mroce: internal error: %s is false at %s:%d\n", condition, file, line);
  std::abort();
}
}  // namespace mroce::detail

#define MROCE_ASSERT(condition)                                       \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::mroce::detail::assert_failed(#condition, __FILE__, __LINE__); \
  } while (false)
