// Memory for tests, mapped and protected as they like.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace mroce::verbs {

// Private anonymous memory.
class Mapping {
 public:
  Mapping(size_t pages, int protection) : bytes_(pages * kPage) {
    at_ = ::mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) ADD_FAILURE() << "mmap";
  }
  ~Mapping() { ::munmap(at_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  char* at(size_t offset) const { return static_cast<char*>(at_) + offset; }
  size_t bytes() const { return bytes_; }

  static inline const auto kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

 private:
  size_t bytes_;
  void* at_;
};

}  // namespace mroce::verbs
