// What every case of verbs_check is made of: failures, deadlines, the control channel to the other side,
// patterns.
//
// Two processes run each case, the initiator and the responder, and both run the same function. They agree on
// what to do by drawing from generators with the same seed, and meet at barriers on the control channel, a
// socket pair that has nothing to do with verbs.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/rng.h"

namespace mroce::check {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// REQUIRE(condition, "format", arguments…): ends the case with a sentence unless the condition holds.
#define REQUIRE(condition, ...)                                                                       \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      throw ::mroce::check::Failure(fmt::format("{}:{}: {}: {}", ::mroce::check::base_name(__FILE__), \
                                                __LINE__, #condition, fmt::format(__VA_ARGS__)));     \
    }                                                                                                 \
  } while (false)

constexpr std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Nothing in a case may take longer than this: loss makes things slow, but not endless.
inline constexpr std::chrono::seconds kPatience{60};

class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds after = kPatience)
      : at_(std::chrono::steady_clock::now() + after) {}
  bool passed() const { return std::chrono::steady_clock::now() > at_; }

 private:
  std::chrono::steady_clock::time_point at_;
};

// The socket to the other side.
class Control {
 public:
  explicit Control(int fd);
  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> bytes);

  template <class T>
  void send_value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    send(std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  T receive_value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    receive(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  // Both sides call it: gives mine, returns theirs.
  template <class T>
  T exchange(const T& mine) {
    send_value(mine);
    return receive_value<T>();
  }
  void barrier() { exchange<uint32_t>(0xba221e2); }

 private:
  int fd_;
};

struct Side {
  bool initiator;
  Control& control;
  uint64_t seed;  // the same on both sides
  uint32_t iterations;

  // A generator that both sides have in common, different for each purpose.
  Rng common(uint64_t purpose = 0) const { return Rng(seed * 0x9e3779b97f4a7c15 + purpose); }
};

// Content that tells messages apart and bytes within a message: byte i is that of a generator keyed by `tag`.
void fill_pattern(std::span<uint8_t> bytes, uint64_t tag);
// Index of the first byte that differs, or bytes.size().
size_t pattern_mismatch(std::span<const uint8_t> bytes, uint64_t tag, uint64_t first = 0);
void require_pattern(std::span<const uint8_t> bytes, uint64_t tag, std::string_view what);

// Message sizes worth trying: powers of two, their neighbours, packet boundaries, up to 4 MiB.
std::vector<uint32_t> interesting_sizes();

struct Case {
  const char* name;
  void (*run)(Side&);
  bool responder_dies = false;  // killed on purpose
};
std::span<const Case> all_cases();

}  // namespace mroce::check
