#include "doctor/collect/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace mroce::doctor {
namespace {

constexpr size_t kMaxNames = 4096;

}  // namespace

tl::expected<std::string, std::string> Tree::read(const std::string& path, size_t bound) const {
  // Not blocking, as a recorded tree may hold anything, a pipe for example.
  const int fd = ::open(on_disk(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return tl::unexpected<std::string>(std::strerror(errno));
  std::string text;
  std::array<char, 16384> piece;
  int error = 0;
  while (text.size() < bound) {
    const ssize_t got = ::read(fd, piece.data(), std::min(piece.size(), bound - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    text.append(piece.data(), static_cast<size_t>(got));
  }
  ::close(fd);
  if (error != 0) return tl::unexpected<std::string>(std::strerror(error));
  return text;
}

std::vector<std::string> Tree::names(const std::string& folder) const {
  std::vector<std::string> out;
  DIR* open = ::opendir(on_disk(folder).c_str());
  if (open == nullptr) return out;
  while (const dirent* entry = ::readdir(open)) {
    if (entry->d_name[0] == '.') continue;
    out.emplace_back(entry->d_name);
    if (out.size() == kMaxNames) break;
  }
  ::closedir(open);
  // "2" before "10"
  std::sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) {
    const bool digits = std::all_of(a.begin(), a.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
                        std::all_of(b.begin(), b.end(), [](char c) { return c >= '0' && c <= '9'; });
    return digits && a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return out;
}

bool Tree::exists(const std::string& path) const {
  return ::access(on_disk(path).c_str(), F_OK) == 0;
}

bool Tree::is_folder(const std::string& path) const {
  struct stat status {};
  return ::stat(on_disk(path).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string Tree::link(const std::string& path) const {
  std::array<char, 4096> target;
  const ssize_t length = ::readlink(on_disk(path).c_str(), target.data(), target.size());
  return length <= 0 ? std::string() : std::string(target.data(), static_cast<size_t>(length));
}

std::string Tree::link_name(const std::string& path) const {
  const std::string target = link(path);
  return target.substr(target.rfind('/') + 1);
}

std::string Tree::command_file(std::string_view command_line) {
  std::string name(command_line);
  for (char& c : name) {
    const bool keep =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
    if (!keep) c = '_';
  }
  return "/commands/" + name + ".txt";
}

}  // namespace mroce::doctor
