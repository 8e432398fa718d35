#include "net/host_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace mroce::net {
namespace {

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

TEST(HostMemory, tails_of_all_lengths_and_alignments_arrive_whole_and_touch_nothing_else) {
  HostMemory memory;
  std::array<std::byte, 64> source;
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i + 1);
  for (size_t offset = 0; offset < 16; ++offset) {
    for (size_t length = 0; length <= 40; ++length) {
      alignas(16) std::array<std::byte, 64> target{};
      memory.place_tail(address_of(target.data() + offset), std::span(source).first(length));
      for (size_t i = 0; i < target.size(); ++i) {
        const bool inside = i >= offset && i < offset + length;
        ASSERT_EQ(target[i], inside ? source[i - offset] : std::byte{0})
            << offset << " " << length << " " << i;
      }
    }
  }
}

TEST(HostMemory, who_polls_the_last_byte_sees_all_before_it) {
  HostMemory memory;
  constexpr size_t kLength = 1003;  // ends unaligned
  alignas(8) static std::array<std::byte, 1024> target;
  constexpr int kRounds = 2000;
  std::atomic<int> seen{0};
  std::atomic<bool> torn{false};
  std::thread reader([&] {
    for (int round = 1; round <= kRounds; ++round) {
      const auto value = static_cast<std::byte>(round % 250 + 1);
      auto* last = reinterpret_cast<uint8_t*>(target.data() + kLength - 1);
      while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != std::to_integer<uint8_t>(value))
        std::this_thread::yield();
      for (size_t i = 0; i < kLength; ++i) torn = torn || target[i] != value;
      seen.store(round, std::memory_order_release);
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    const std::vector<std::byte> bytes(kLength, static_cast<std::byte>(round % 250 + 1));
    memory.place_tail(address_of(target.data()), bytes);
    while (seen.load(std::memory_order_acquire) < round) std::this_thread::yield();
  }
  reader.join();
  EXPECT_FALSE(torn.load());
}

TEST(HostMemory, atomics_return_the_value_before) {
  HostMemory memory;
  alignas(8) uint64_t word = 5;
  EXPECT_EQ(memory.fetch_add(address_of(&word), 7), 5u);
  EXPECT_EQ(memory.compare_swap(address_of(&word), 11, 1), 12u) << "no match: the value found";
  EXPECT_EQ(word, 12u);
  EXPECT_EQ(memory.compare_swap(address_of(&word), 12, 1), 12u);
  EXPECT_EQ(word, 1u);
  EXPECT_EQ(memory.fetch_add(address_of(&word), UINT64_MAX), 1u) << "wraps";
  EXPECT_EQ(word, 0u);
}

TEST(HostMemory, fetch_names_the_bytes_themselves) {
  HostMemory memory;
  const std::array<std::byte, 4> source{};
  EXPECT_EQ(memory.fetch(address_of(source.data()), 4), source.data());
}

}  // namespace
}  // namespace mroce::net
