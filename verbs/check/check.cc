#include "verbs/check/check.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mroce::check {
namespace {

uint64_t pattern_word(uint64_t tag, uint64_t index) {
  uint64_t z = (tag * 0x9e3779b97f4a7c15 + index) * 0xbf58476d1ce4e5b9;
  z ^= z >> 29;
  z *= 0x94d049bb133111eb;
  return z ^ (z >> 32);
}

}  // namespace

Control::Control(int fd) : fd_(fd) {
  const timeval limit{kPatience.count(), 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

void Control::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    REQUIRE(sent > 0, "the other side is gone: {}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
}

void Control::receive(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
    REQUIRE(got != 0, "the other side is gone");
    REQUIRE(got > 0, "no word from the other side: {}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

void fill_pattern(std::span<uint8_t> bytes, uint64_t tag) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = pattern_word(tag, i / 8);
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i));
  }
}

size_t pattern_mismatch(std::span<const uint8_t> bytes, uint64_t tag, uint64_t first) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t at = first + i;
    // Whole words where the position allows it.
    if (at % 8 == 0 && bytes.size() - i >= 8) {
      const uint64_t word = pattern_word(tag, at / 8);
      if (std::memcmp(bytes.data() + i, &word, 8) == 0) {
        i += 7;
        continue;
      }
    }
    if (bytes[i] != static_cast<uint8_t>(pattern_word(tag, at / 8) >> (at % 8 * 8))) return i;
  }
  return bytes.size();
}

void require_pattern(std::span<const uint8_t> bytes, uint64_t tag, std::string_view what) {
  const size_t at = pattern_mismatch(bytes, tag);
  REQUIRE(at == bytes.size(), "{}: byte {} of {} is {:#04x}", what, at, bytes.size(), bytes[at]);
}

std::vector<uint32_t> interesting_sizes() {
  std::vector<uint32_t> sizes{0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 256, 1023, 1024, 1025};
  for (const uint32_t payload : {1408u, 4096u}) {  // of a packet, on Ethernet and on loopback
    for (const uint32_t packets : {1u, 2u, 15u, 16u}) {
      for (const uint32_t more : {0u, 1u, 2u}) sizes.push_back(payload * packets + more - 1);
    }
  }
  for (const uint32_t size : {100'003u, 1u << 20, (1u << 20) + 13, (4u << 20) - 1, 4u << 20})
    sizes.push_back(size);
  return sizes;
}

}  // namespace mroce::check
