#include "core/rdma/mr_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace mroce {
namespace {

constexpr PdHandle kPd{7};
constexpr PdHandle kOtherPd{8};
constexpr uint64_t kTop = ~uint64_t{0};

MemoryRegion region(uint64_t iova, uint64_t length, uint32_t access = access::kAll) {
  return {kPd, 0x7000'0000, length, iova, access, 0};
}

Errc error_of(const MemoryRegion& bad) {
  MrTable table(1, 8);
  const auto result = table.add(bad);
  EXPECT_FALSE(result.has_value());
  return result.has_value() ? Errc::kNetwork : result.error();
}

TEST(MrTable, finds_what_was_added_by_its_key_only) {
  MrTable table(1, 8);
  const auto key = table.add(region(0x1000, 0x100));
  ASSERT_TRUE(key.has_value());
  ASSERT_NE(table.find(*key), nullptr);
  EXPECT_EQ(table.find(*key)->iova, 0x1000u);
  EXPECT_EQ(table.find(*key)->key, *key);
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(*key ^ 1), nullptr);
  EXPECT_EQ(table.find(*key ^ (1u << 12)), nullptr);
  EXPECT_EQ(table.find(0xffffffff), nullptr);
}

TEST(MrTable, translates_exactly_the_bytes_of_the_region) {
  MrTable table(1, 8);
  const uint32_t key = *table.add(region(0x1000, 0x100));
  EXPECT_EQ(table.translate(key, kPd, 0x1000, 0x100, 0), 0x7000'0000u);
  EXPECT_EQ(table.translate(key, kPd, 0x10ff, 1, 0), 0x7000'00ffu);
  EXPECT_EQ(table.translate(key, kPd, 0x0fff, 1, 0), std::nullopt);
  EXPECT_EQ(table.translate(key, kPd, 0x0fff, 2, 0), std::nullopt);
  EXPECT_EQ(table.translate(key, kPd, 0x1000, 0x101, 0), std::nullopt);
  EXPECT_EQ(table.translate(key, kPd, 0x10ff, 2, 0), std::nullopt);
  EXPECT_EQ(table.translate(key, kPd, 0x1100, 1, 0), std::nullopt);
  EXPECT_EQ(table.translate(key, kPd, 0x1080, kTop, 0), std::nullopt) << "iova + length wraps";
  EXPECT_EQ(table.translate(key, kPd, kTop, 2, 0), std::nullopt);
  EXPECT_EQ(table.translate(key + 1, kPd, 0x1000, 1, 0), std::nullopt);
}

TEST(MrTable, translates_a_region_that_ends_with_the_address_space) {
  MrTable table(1, 8);
  const uint32_t key = *table.add({kPd, kTop - 0xff, 0x100, kTop - 0xff, access::kLocalWrite, 0});
  EXPECT_EQ(table.translate(key, kPd, kTop, 1, access::kLocalWrite), kTop);
  EXPECT_EQ(table.translate(key, kPd, kTop, 2, access::kLocalWrite), std::nullopt);
}

TEST(MrTable, another_protection_domain_has_no_access) {
  MrTable table(1, 8);
  const uint32_t key = *table.add(region(0, 16));
  EXPECT_EQ(table.translate(key, kOtherPd, 0, 16, 0), std::nullopt);
}

TEST(MrTable, every_needed_right_must_be_there) {
  for (uint32_t granted = 0; granted <= access::kAll; ++granted) {
    MrTable table(1, 8);
    const auto key = table.add(region(0, 16, granted));
    const bool remote_change = (granted & (access::kRemoteWrite | access::kRemoteAtomic)) != 0;
    ASSERT_EQ(key.has_value(), !remote_change || (granted & access::kLocalWrite) != 0) << granted;
    if (!key) continue;
    for (uint32_t needed = 0; needed <= access::kAll; ++needed) {
      EXPECT_EQ(table.translate(*key, kPd, 0, 16, needed).has_value(), (needed & ~granted) == 0)
          << granted << " granted, " << needed << " needed";
    }
  }
}

TEST(MrTable, nothing_may_be_accessed_with_any_key) {
  MrTable table(1, 8);
  EXPECT_EQ(table.translate(0, kPd, 0x1234, 0, access::kRemoteWrite), 0u);
  EXPECT_EQ(table.translate(0xdeadbeef, kOtherPd, kTop, 0, access::kAll), 0u);
}

TEST(MrTable, refuses_regions_that_cannot_be) {
  EXPECT_EQ(error_of({PdHandle{}, 0, 16, 0, 0, 0}), Errc::kInvalidArgument) << "no protection domain";
  EXPECT_EQ(error_of(region(0, 16, access::kRemoteWrite)), Errc::kInvalidArgument);
  EXPECT_EQ(error_of(region(0, 16, access::kRemoteAtomic | access::kRemoteRead)), Errc::kInvalidArgument);
  EXPECT_EQ(error_of(region(0, 16, 16)), Errc::kInvalidArgument) << "unknown right";
  EXPECT_EQ(error_of(region(0, (uint64_t{1} << 63) + 1)), Errc::kInvalidArgument);
  EXPECT_EQ(error_of(region(kTop, 2)), Errc::kInvalidArgument) << "iova wraps";
  EXPECT_EQ(error_of({kPd, kTop, 2, 0, 0, 0}), Errc::kInvalidArgument) << "address wraps";
}

TEST(MrTable, is_full_at_its_limit_and_has_room_after_a_removal) {
  MrTable table(1, 3);
  const uint32_t first = *table.add(region(0, 1));
  ASSERT_TRUE(table.add(region(0, 1)).has_value());
  ASSERT_TRUE(table.add(region(0, 1)).has_value());
  EXPECT_EQ(table.add(region(0, 1)).error(), Errc::kNoMemory);
  ASSERT_TRUE(table.remove(first).has_value());
  EXPECT_EQ(table.size(), 2u);
  EXPECT_TRUE(table.add(region(0, 1)).has_value());
}

TEST(MrTable, a_removed_key_is_dead_and_its_slot_gets_another_one) {
  MrTable table(1, 1);
  uint32_t previous = *table.add(region(0, 1));
  for (int i = 0; i < 20000; ++i) {  // often enough for each of the 4095 tags to come by
    ASSERT_TRUE(table.remove(previous).has_value());
    ASSERT_EQ(table.find(previous), nullptr);
    ASSERT_EQ(table.remove(previous).error(), Errc::kNotFound);
    const uint32_t key = *table.add(region(0, 1));
    ASSERT_NE(key, previous);
    ASSERT_NE(key, 0u);
    ASSERT_EQ(table.find(previous), nullptr);
    ASSERT_NE(table.find(key), nullptr);
    previous = key;
  }
}

TEST(MrTable, keys_are_unpredictable_and_follow_from_the_seed) {
  const auto tags_of = [](uint64_t seed) {
    MrTable table(seed, 1000);
    std::vector<uint32_t> tags;
    for (int i = 0; i < 1000; ++i) tags.push_back(*table.add(region(0, 1)) & 0xfff);
    return tags;
  };
  const auto tags = tags_of(1);
  EXPECT_EQ(tags, tags_of(1));
  EXPECT_NE(tags, tags_of(2));
  // 1000 draws from 4095: about 887 distinct ones are expected.
  EXPECT_GT(std::set<uint32_t>(tags.begin(), tags.end()).size(), 800u);
}

TEST(MrTable, a_freed_slot_rests_before_it_is_used_again) {
  MrTable table(1, 1000);
  const uint32_t key = *table.add(region(0, 1));
  ASSERT_TRUE(table.remove(key).has_value());
  const uint32_t freed = key >> 12;
  for (int i = 0; i < 30; ++i) {
    const uint32_t next = *table.add(region(0, 1));
    EXPECT_NE(next >> 12, freed);
    ASSERT_TRUE(table.remove(next).has_value());
  }
}

TEST(MrTable, replace_keeps_the_key_and_checks_like_add) {
  MrTable table(1, 8);
  const uint32_t key = *table.add(region(0x1000, 0x100));
  MemoryRegion other = region(0x9000, 0x10, access::kRemoteRead);
  other.pd = kOtherPd;
  ASSERT_TRUE(table.replace(key, other).has_value());
  EXPECT_EQ(table.translate(key, kPd, 0x1000, 1, 0), std::nullopt);
  EXPECT_EQ(table.translate(key, kOtherPd, 0x9001, 1, access::kRemoteRead), 0x7000'0001u);
  EXPECT_EQ(table.find(key)->key, key);
  EXPECT_EQ(table.replace(key, region(0, 1, access::kRemoteWrite)).error(), Errc::kInvalidArgument);
  EXPECT_EQ(table.find(key)->iova, 0x9000u) << "a refused change changes nothing";
  EXPECT_EQ(table.replace(key ^ 1, other).error(), Errc::kNotFound);
}

TEST(MrTable, counts_the_regions_of_a_protection_domain) {
  MrTable table(1, 8);
  EXPECT_EQ(table.count_of(kPd), 0u);
  const uint32_t key = *table.add(region(0, 1));
  MemoryRegion other = region(0, 1);
  other.pd = kOtherPd;
  ASSERT_TRUE(table.add(other).has_value());
  ASSERT_TRUE(table.add(region(0, 1)).has_value());
  EXPECT_EQ(table.count_of(kPd), 2u);
  EXPECT_EQ(table.count_of(kOtherPd), 1u);
  EXPECT_EQ(table.count_of(PdHandle{}), 0u);
  ASSERT_TRUE(table.remove(key).has_value());
  EXPECT_EQ(table.count_of(kPd), 1u);
}

TEST(MrTable, agrees_with_a_map_over_random_operations) {
  Rng rng(5);
  MrTable table(6, 200);
  std::map<uint32_t, uint64_t> live;  // key → iova
  for (uint64_t i = 0; i < 20000; ++i) {
    if (live.size() < 200 && rng.chance(0.52)) {
      const auto key = table.add(region(i, 8));
      ASSERT_TRUE(key.has_value());
      ASSERT_TRUE(live.emplace(*key, i).second) << "a key that is in use was given out again";
    } else if (!live.empty()) {
      const auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(rng.below(live.size())));
      ASSERT_TRUE(table.remove(victim->first).has_value());
      live.erase(victim);
    }
    ASSERT_EQ(table.size(), live.size());
    if (live.empty()) continue;
    const auto probe = std::next(live.begin(), static_cast<std::ptrdiff_t>(rng.below(live.size())));
    ASSERT_NE(table.find(probe->first), nullptr);
    ASSERT_EQ(table.find(probe->first)->iova, probe->second);
  }
}

}  // namespace
}  // namespace mroce
