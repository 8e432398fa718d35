// Atomics: once each, in order, whatever the network repeats or loses.
#include <set>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

PairOptions stormy(uint64_t seed) {
  PairOptions options;
  options.seed = seed;
  options.faults.loss = 0.2;
  options.faults.duplicate = 0.3;
  options.faults.jitter = micros(80);
  return options;
}

class Atomics : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(in_a_storm, Atomics, testing::Range<uint64_t>(1, 6));

TEST_P(Atomics, of_four_streams_on_one_word_execute_once_each) {
  Pair pair(stormy(GetParam()));
  std::vector<Link> links;
  for (int i = 0; i < 4; ++i) links.push_back(add_link(pair));
  for (uint32_t s = 0; s < 4; ++s) {
    for (uint32_t i = 0; i < 50; ++i) {
      ASSERT_TRUE(links[s].a.fetch_add(i, pair.ma.sge((s * 50 + i) * 8, 8), pair.mb.addr, pair.mb.rkey, 1));
    }
  }
  for (const Link& link : links) {
    for (uint64_t i = 0; i < 50; ++i)
      ASSERT_TRUE(completes(pair, link.a, i, WcStatus::kSuccess, seconds(30)));
  }
  EXPECT_EQ(pair.b.memory().word(pair.mb.addr), 200u);
  EXPECT_EQ(pair.b.memory().atomics, 200u);
  std::set<uint64_t> originals;
  for (uint32_t s = 0; s < 4; ++s) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < 50; ++i) {
      const uint64_t original = pair.a.memory().word(pair.ma.addr + (s * 50 + i) * 8);
      originals.insert(original);
      if (i != 0) {
        EXPECT_GT(original, last) << "in the order of posting within a stream";
      }
      last = original;
    }
  }
  EXPECT_EQ(originals.size(), 200u);
  EXPECT_EQ(*originals.rbegin(), 199u);
  EXPECT_GT(pair.b.look().counters().duplicates, 50u);
}

TEST_P(Atomics, a_chain_of_compare_and_swap_never_misses_a_link) {
  Pair pair(stormy(GetParam()));
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.qa.compare_swap(i, pair.ma.sge(static_cast<uint32_t>(i) * 8, 8), pair.mb.addr + 64,
                                     pair.mb.rkey, i, i + 1));
  }
  for (uint64_t i = 0; i < 100; ++i)
    ASSERT_TRUE(completes(pair, pair.qa, i, WcStatus::kSuccess, seconds(30)));
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(pair.a.memory().word(pair.ma.addr + i * 8), i);
  EXPECT_EQ(pair.b.memory().word(pair.mb.addr + 64), 100u);
}

TEST(AtomicsOf, both_directions_at_once_do_not_block_each_other) {
  Pair pair(stormy(9));
  for (uint64_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(pair.qa.fetch_add(i, pair.ma.sge(800, 8), pair.mb.addr, pair.mb.rkey, 2));
    ASSERT_TRUE(pair.qb.fetch_add(i, pair.mb.sge(800, 8), pair.ma.addr, pair.ma.rkey, 3));
  }
  for (uint64_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(completes(pair, pair.qa, i));
    ASSERT_TRUE(completes(pair, pair.qb, i));
  }
  EXPECT_EQ(pair.b.memory().word(pair.mb.addr), 120u);
  EXPECT_EQ(pair.a.memory().word(pair.ma.addr), 180u);
}

TEST(AtomicsOf, an_address_that_is_not_aligned_fail) {
  Pair pair;
  ASSERT_TRUE(pair.qa.fetch_add(1, pair.ma.sge(0, 8), pair.mb.addr + 4, pair.mb.rkey, 2));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRemInvReqErr));
  EXPECT_EQ(pair.b.memory().atomics, 0u);
  pair.run_for(millis(5));
  EXPECT_EQ(pair.qb.state(), QpState::kErr);
  EXPECT_TRUE(pair.b.take_event(EventKind::kQpRequestError));
}

TEST(AtomicsOf, a_failed_comparison_change_nothing) {
  Pair pair;
  pair.b.memory().set_word(pair.mb.addr, 7);
  ASSERT_TRUE(pair.qa.compare_swap(1, pair.ma.sge(0, 8), pair.mb.addr, pair.mb.rkey, 8, 9));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_EQ(pair.a.memory().word(pair.ma.addr), 7u);
  EXPECT_EQ(pair.b.memory().word(pair.mb.addr), 7u);
}

}  // namespace
}  // namespace mroce::test
