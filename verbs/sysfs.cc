// Reading sysfs for tools that do it through the library. `mroce run` shows the device there; without it the
// files are missing, and these calls say so.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "verbs/export.h"

namespace mroce::verbs {
namespace {

// Not for a program that runs with somebody else's rights.
std::string find_sysfs() {
  const char* text = getuid() == geteuid() ? std::getenv("SYSFS_PATH") : nullptr;
  std::string path = text != nullptr ? std::string(text).substr(0, IBV_SYSFS_PATH_MAX - 1) : "/sys";
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

int fail_with(int error) {
  errno = error;
  return -1;
}

}  // namespace

VERBS_EXPORT(ibv_get_sysfs_path);
const char* impl_ibv_get_sysfs_path() {
  static const std::string* const path = new std::string(find_sysfs());
  return path->c_str();
}

// The bytes read, without the newline at the end, always with a terminating zero.
VERBS_EXPORT(ibv_read_sysfs_file);
int impl_ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size) try {
  const std::string path = std::string(directory) + "/" + file;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t got = ::read(fd, buffer, size);
  const int error = errno;
  ::close(fd);
  if (got < 0) return fail_with(error);
  auto length = static_cast<size_t>(got);
  if (length > 0 && buffer[length - 1] == '\n') --length;
  if (length >= size) return fail_with(EOVERFLOW);
  buffer[length] = '\0';
  return static_cast<int>(length);
} catch (const std::bad_alloc&) {
  return fail_with(ENOMEM);
}

// Memory is copied by the process itself: a child that touches its copy takes nothing away from the parent.
VERBS_EXPORT(ibv_fork_init);
int impl_ibv_fork_init() {
  return 0;
}

VERBS_EXPORT(ibv_is_fork_initialized);
ibv_fork_status impl_ibv_is_fork_initialized() {
  return IBV_FORK_UNNEEDED;
}

VERBS_EXPORT(ibv_dontfork_range);
int impl_ibv_dontfork_range(void*, size_t) {
  return 0;
}

VERBS_EXPORT(ibv_dofork_range);
int impl_ibv_dofork_range(void*, size_t) {
  return 0;
}

}  // namespace mroce::verbs
