#include "core/mroce/connection.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/base/rng.h"

namespace mroce {
namespace {

CpsnWindow window_of(uint64_t first, uint64_t window) {
  CpsnWindow result;
  result.open(first, window);
  return result;
}

TEST(CpsnWindow, begins_where_the_peer_begins) {
  const CpsnWindow window = window_of(77, 64);
  EXPECT_EQ(window.base(), 77u);
  EXPECT_EQ(window.limit(), 141u);
  EXPECT_FALSE(window.has_holes());
  EXPECT_FALSE(window.is_set(77));
}

TEST(CpsnWindow, in_order_moves_on_and_takes_no_memory) {
  CpsnWindow window = window_of(77, 64);
  for (uint64_t cpsn = 77; cpsn < 1077; ++cpsn) {
    window.set(cpsn);
    ASSERT_EQ(window.base(), cpsn + 1);
    ASSERT_EQ(window.limit(), cpsn + 1 + 64);
  }
  EXPECT_FALSE(window.has_holes());
  EXPECT_EQ(window.memory_bytes(), 0u);
}

TEST(CpsnWindow, waits_for_the_hole_and_then_releases_all_behind_it) {
  CpsnWindow window = window_of(0, 64);
  for (uint64_t cpsn = 1; cpsn < 64; ++cpsn) window.set(cpsn);
  EXPECT_EQ(window.base(), 0u);
  EXPECT_TRUE(window.has_holes());
  EXPECT_EQ(window.limit(), 64u) << "what has arrived beyond the hole opens nothing";
  window.set(0);
  EXPECT_EQ(window.base(), 64u);
  EXPECT_EQ(window.limit(), 128u);
  EXPECT_FALSE(window.has_holes());
}

TEST(CpsnWindow, stops_at_the_next_hole) {
  CpsnWindow window = window_of(10, 64);
  for (const uint64_t cpsn : {11u, 12u, 14u, 15u}) window.set(cpsn);
  window.set(10);
  EXPECT_EQ(window.base(), 13u);
  EXPECT_TRUE(window.has_holes());
  EXPECT_TRUE(window.is_set(14));
  EXPECT_FALSE(window.is_set(13));
  window.set(13);
  EXPECT_EQ(window.base(), 16u);
  EXPECT_FALSE(window.has_holes());
}

TEST(CpsnWindow, tells_what_waits_and_nothing_else) {
  CpsnWindow window = window_of(1000, 256);
  window.set(1005);
  window.set(1255);
  for (uint64_t cpsn = 0; cpsn < 3000; ++cpsn) {
    ASSERT_EQ(window.is_set(cpsn), cpsn == 1005 || cpsn == 1255) << cpsn;
  }
}

TEST(CpsnWindow, old_bits_do_not_show_through_when_the_numbers_come_round) {
  CpsnWindow window = window_of(0, 128);
  for (int round = 0; round < 20; ++round) {
    const uint64_t base = window.base();
    for (uint64_t cpsn = base + 127; cpsn > base; --cpsn) window.set(cpsn);
    window.set(base);
    ASSERT_EQ(window.base(), base + 128);
    for (uint64_t cpsn = window.base(); cpsn < window.limit(); ++cpsn) ASSERT_FALSE(window.is_set(cpsn));
  }
}

TEST(CpsnWindow, keeps_its_bits_when_it_grows) {
  CpsnWindow window = window_of(50, 4096);
  std::set<uint64_t> waiting;
  for (const uint64_t ahead : {3u, 60u, 64u, 100u, 129u, 500u, 1000u, 2047u, 4095u}) {
    window.set(50 + ahead);
    waiting.insert(50 + ahead);
    for (uint64_t cpsn = 50; cpsn < window.limit(); ++cpsn) {
      ASSERT_EQ(window.is_set(cpsn), waiting.contains(cpsn)) << cpsn;
    }
  }
  EXPECT_EQ(window.memory_bytes(), 4096u / 8) << "no more than the window";
}

TEST(CpsnWindow, goes_over_the_wrap_of_the_number_on_the_wire) {
  CpsnWindow window = window_of(0xfffffff0, 64);
  for (uint64_t i = 63; i > 0; --i) {
    const auto on_wire = static_cast<uint32_t>(0xfffffff0 + i);
    const uint64_t cpsn = wire::expand32(on_wire, window.base());
    ASSERT_EQ(cpsn, 0xfffffff0 + i);
    ASSERT_LT(cpsn, window.limit());
    window.set(cpsn);
  }
  window.set(0xfffffff0);
  EXPECT_EQ(window.base(), 0x100000030ULL);
  EXPECT_EQ(static_cast<uint32_t>(window.base()), 0x30u);
  // A duplicate from before the wrap is below the base, not far above it.
  EXPECT_EQ(wire::expand32(0xfffffff5, window.base()), 0xfffffff5ULL);
}

// As receive.cc uses it: what is below the base or set is a duplicate, what is at or above the limit is
// refused, everything else is delivered, once.
TEST(CpsnWindow, delivers_each_number_once_as_a_plain_set_would) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const uint64_t size = 64ULL << rng.below(5);
    const uint64_t first = rng.chance(0.5) ? 0xffffff00 + rng.below(512) : rng.below(1000);
    CpsnWindow window = window_of(first, size);
    std::set<uint64_t> all;
    uint64_t base = first;
    for (int i = 0; i < 5000; ++i) {
      const uint64_t cpsn =
          rng.chance(0.3) ? base
                          : base + rng.below(size + 20) - std::min<uint64_t>(base - first, rng.below(20));
      const bool duplicate = cpsn < window.base() || window.is_set(cpsn);
      ASSERT_EQ(duplicate, cpsn < first || all.contains(cpsn)) << cpsn;
      ASSERT_EQ(cpsn >= window.limit(), cpsn >= base + size);
      if (duplicate || cpsn >= window.limit()) continue;
      window.set(cpsn);
      all.insert(cpsn);
      while (all.contains(base)) ++base;
      ASSERT_EQ(window.base(), base);
      ASSERT_EQ(window.has_holes(), *all.rbegin() >= base);
    }
    EXPECT_LE(window.memory_bytes(), size / 8);
    EXPECT_GT(base - first, 1000u);
  }
}

// ---- Connection::window_bytes

Connection with(uint64_t receive_buffer, uint8_t penalty) {
  Connection c;
  c.payload_mtu = 1024;
  c.peer_receive_buffer = receive_buffer;
  c.peer_penalty = penalty;
  return c;
}
constexpr uint64_t kLeast = 2 * (1024 + 72);  // two packets, §6.1 of docs/spec

TEST(ConnectionWindow, is_half_of_the_peers_buffer_up_to_our_own_limit) {
  EXPECT_EQ(with(1 << 20, 0).window_bytes(1 << 20), 1u << 19);
  EXPECT_EQ(with(64 << 20, 0).window_bytes(1 << 20), 1u << 20);
}

TEST(ConnectionWindow, shrinks_with_the_host_penalty) {
  EXPECT_EQ(with(1 << 20, 64).window_bytes(1 << 20), 1u << 18);
  EXPECT_EQ(with(1 << 20, 127).window_bytes(1 << 20), (1u << 19) / 128);
  uint64_t last = UINT64_MAX;
  for (int penalty = 0; penalty < 128; ++penalty) {
    const uint64_t window = with(1 << 20, static_cast<uint8_t>(penalty)).window_bytes(1 << 20);
    EXPECT_LT(window, last);
    last = window;
  }
}

TEST(ConnectionWindow, always_has_room_for_two_packets) {
  EXPECT_EQ(with(0, 0).window_bytes(1 << 20), kLeast);
  EXPECT_EQ(with(4096, 127).window_bytes(1 << 20), kLeast);
  EXPECT_EQ(with(1 << 20, 0).window_bytes(0), kLeast);
}

}  // namespace
}  // namespace mroce
