// Source: the input of a fuzzer as a supply of small numbers. When it is used up, all further ones are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mroce::fuzz {

class Source {
 public:
  Source(const uint8_t* data, size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }
  bool bit() { return (byte() & 1) != 0; }
  uint16_t half() { return static_cast<uint16_t>(byte() << 8 | byte()); }
  uint32_t word() { return static_cast<uint32_t>(half()) << 16 | half(); }
  uint64_t wide() { return static_cast<uint64_t>(word()) << 32 | word(); }
  // In [0, bound), bound at most 65536.
  uint32_t below(uint32_t bound) { return bound <= 1 ? 0 : (bound <= 256 ? byte() : half()) % bound; }
  // Mostly near `true_value`, now and then far away: what makes a field worth looking at.
  uint32_t near(uint32_t true_value) {
    const auto choice = static_cast<int8_t>(byte());
    return choice == -128 ? word() : true_value + static_cast<uint32_t>(choice);
  }
  std::vector<std::byte> bytes(size_t most) {
    std::vector<std::byte> out;
    for (size_t n = below(static_cast<uint32_t>(most + 1)); n > 0 && !empty(); --n)
      out.push_back(std::byte{byte()});
    return out;
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace mroce::fuzz
