#include "net/key_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "net/setting_rules.h"

namespace mroce::net {
namespace {

using Failure = tl::unexpected<std::string>;
constexpr std::string_view kHint = "make one with: (umask 077; openssl rand -hex 32 > FILE)";

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Wiped when it goes: the compiler may not leave out what goes through a volatile pointer.
struct Text {
  std::array<char, 256> bytes{};
  size_t length = 0;
  ~Text() {
    volatile char* p = bytes.data();
    for (size_t i = 0; i < bytes.size(); ++i) p[i] = 0;
  }
};

std::optional<uint8_t> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

std::optional<PresharedKeyBytes> from_hex(std::string_view text) {
  PresharedKeyBytes key{};
  if (text.size() != 2 * key.size()) return std::nullopt;
  for (size_t i = 0; i < key.size(); ++i) {
    const auto high = digit(text[2 * i]);
    const auto low = digit(text[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    key[i] = static_cast<uint8_t>(*high << 4 | *low);
  }
  return key;
}

}  // namespace

tl::expected<PresharedKeyBytes, std::string> read_key_file(const std::string& path) {
  const Descriptor file(path);
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) {
    return Failure(fmt::format("key_file {}: {}; {}", path, std::strerror(errno), kHint));
  }
  if (!S_ISREG(status.st_mode)) {
    return Failure(fmt::format("key_file {}: not a regular file; {}", path, kHint));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Failure(fmt::format("key_file {}: others than its owner can read or change it; type: chmod 600 {}",
                               path, path));
  }
  Text text;
  const ssize_t got = read(file.get(), text.bytes.data(), text.bytes.size());
  if (got < 0) return Failure(fmt::format("key_file {}: {}", path, std::strerror(errno)));
  text.length = static_cast<size_t>(got);
  PresharedKeyBytes key{};
  if (text.length == key.size()) {
    std::memcpy(key.data(), text.bytes.data(), key.size());
    return key;
  }
  if (const auto parsed = from_hex(trimmed({text.bytes.data(), text.length}))) return *parsed;
  return Failure(fmt::format("key_file {}: neither 32 bytes nor 64 hexadecimal digits; {}", path, kHint));
}

}  // namespace mroce::net
