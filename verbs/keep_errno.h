// KeepErrno: inside the library system calls fail in the ordinary course (a socket has nothing to read, a
// port is taken and the next one is tried). A call of the library that succeeds must leave errno as it was,
// and one that fails says so by what it assigns after the object is gone.
#pragma once

#include <cerrno>

namespace mroce::verbs {

class KeepErrno {
 public:
  KeepErrno() = default;
  ~KeepErrno() { errno = before_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int before_ = errno;
};

}  // namespace mroce::verbs
