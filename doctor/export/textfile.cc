#include "doctor/export/textfile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mroce::doctor {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

tl::unexpected<std::string> failed(const std::string& name) {
  return tl::unexpected(fmt::format("{} cannot be written: {}", name, std::strerror(errno)));
}

}  // namespace

tl::expected<void, std::string> replace_file(const std::string& name, std::string_view text) {
  struct stat status {};
  const bool exists = ::stat(name.c_str(), &status) == 0;
  const bool in_place = exists && !S_ISREG(status.st_mode);
  const std::string beside = in_place ? name : fmt::format("{}.{}.new", name, ::getpid());
  const int flags = O_WRONLY | O_CLOEXEC | (in_place ? 0 : O_CREAT | O_EXCL | O_NOFOLLOW);
  const int fd = ::open(beside.c_str(), flags, 0644);
  if (fd < 0) return failed(beside);
  const bool written = write_all(fd, text);
  const bool closed = ::close(fd) == 0;
  if (in_place) {
    if (!written || !closed) return failed(name);
    return {};
  }
  if (!written || !closed || ::rename(beside.c_str(), name.c_str()) != 0) {
    auto error = failed(name);
    ::unlink(beside.c_str());
    return error;
  }
  return {};
}

}  // namespace mroce::doctor
