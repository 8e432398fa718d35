// What must be there for a program or a driver library to load, and does nothing: old versions, the interface
// between rdma-core's library and its drivers, and calls newer than the header that this library is built
// with.
//
// The driver libraries (libmlx5, libefa …) that perftest and UCX pull in register themselves with
// verbs_register_driver_<n>() when they are loaded and are not asked again.
#include <cerrno>

#define MROCE_STUB_errno(symbol, directives, error)                \
  extern "C" __attribute__((visibility("default"))) int symbol() { \
    return error;                                                  \
  }                                                                \
  __asm__(directives);

#define MROCE_STUB_minus(symbol, directives, error)                \
  extern "C" __attribute__((visibility("default"))) int symbol() { \
    errno = error;                                                 \
    return -1;                                                     \
  }                                                                \
  __asm__(directives);

#define MROCE_STUB_null(symbol, directives, error)                   \
  extern "C" __attribute__((visibility("default"))) void* symbol() { \
    errno = error;                                                   \
    return nullptr;                                                  \
  }                                                                  \
  __asm__(directives);

#define MROCE_STUB_zero(symbol, directives, error)                  \
  extern "C" __attribute__((visibility("default"))) long symbol() { \
    return 0;                                                       \
  }                                                                 \
  __asm__(directives);

#define MROCE_STUB_void(symbol, directives, error)                   \
  extern "C" __attribute__((visibility("default"))) void symbol() {} \
  __asm__(directives);

#define MROCE_STUB_data(symbol, directives, error)               \
  extern "C" __attribute__((visibility("default"))) bool symbol; \
  bool symbol = false;                                           \
  __asm__(directives);

#include "stubs.gen.inc"
