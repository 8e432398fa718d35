// CPSN and PSEQ: wrapping round 32 bits on the wire, duplicates however late, and never the same number
// twice.
#include <map>
#include <set>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

// Seeds whose engines draw a first number shortly before 2^32. Each test checks on the wire that the wrap
// really happened; if the engine draws its numbers in another order some day, look for new seeds.
constexpr uint64_t kCpsnWrapsSoon = 32205452;  // after 448 packets
constexpr uint64_t kPseqWrapsSoon = 9277048;   // after 152 packets of a path

struct Wrapped {
  bool high = false, low = false;
  void note(uint32_t number) {
    high = high || number >= 0xffffff00U;
    low = low || number < 0x100;
  }
  bool done() const { return high && low; }
};

PairOptions seeded(uint64_t engine_seed, uint32_t paths, double loss) {
  PairOptions options;
  options.paths = paths;
  options.faults.loss = loss;
  options.faults.duplicate = loss;
  options.tweak = [engine_seed](EngineConfig& config) { config.seed = engine_seed; };
  return options;
}

class NumbersWrap : public testing::TestWithParam<double> {};

TEST_P(NumbersWrap, of_the_connection_goes_unnoticed) {
  Pair pair(seeded(kCpsnWrapsSoon, 4, GetParam()));
  Wrapped wrapped;
  pair.network().on_sent([&](const PacketView& p) {
    if (p.from == pair.a.index() && p.data() != nullptr) wrapped.note(p.data()->cpsn);
  });
  Pair::fill(pair.bytes_a(0, 1 << 20), 3);
  for (uint32_t i = 0; i < 16; ++i) write_and_wait(pair, i, 1 << 18, (i % 4) << 18);
  EXPECT_TRUE(wrapped.done());
  EXPECT_TRUE(same(pair, 0, 0, 1 << 20));
  EXPECT_EQ(pair.b.memory().placed_bytes, 16u << 18) << "each packet placed once";
}

TEST_P(NumbersWrap, of_a_path_goes_unnoticed) {
  Pair pair(seeded(kPseqWrapsSoon, 2, GetParam()));
  std::array<Wrapped, 2> wrapped;
  pair.network().on_sent([&](const PacketView& p) {
    if (p.from == pair.a.index() && p.is(wire::Type::kData)) wrapped[p.path].note(p.header()->pseq);
  });
  Pair::fill(pair.bytes_a(0, 1 << 20), 3);
  for (uint32_t i = 0; i < 16; ++i) write_and_wait(pair, i, 1 << 18, (i % 4) << 18);
  EXPECT_TRUE(wrapped[0].done() && wrapped[1].done());
  EXPECT_TRUE(same(pair, 0, 0, 1 << 20));
  EXPECT_EQ(pair.b.memory().placed_bytes, 16u << 18);
  const auto stats = stats_of(pair.a, pair.b);
  if (GetParam() == 0) {
    EXPECT_EQ(stats.counters.retransmissions, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(wrap, NumbersWrap, testing::Values(0.0, 0.05),
                         [](const auto& param) { return param.param == 0 ? "lossless" : "lossy"; });

TEST(Numbers, a_path_never_uses_a_pseq_twice) {
  PairOptions options;
  options.faults.loss = 0.2;
  Pair pair(options);
  std::map<std::pair<uint32_t, uint8_t>, std::set<uint32_t>> used;
  uint64_t again = 0;
  uint64_t retransmissions = 0;
  pair.network().on_sent([&](const PacketView& p) {
    if (!p.is(wire::Type::kData)) return;
    again += used[{p.from, p.header()->path}].insert(p.header()->pseq).second ? 0u : 1u;
    retransmissions += p.is_retransmission() ? 1u : 0u;
  });
  // A path fails and comes back in between.
  pair.network().drop_path_between(2, pair.now() + millis(20), pair.now() + millis(200));
  for (uint32_t i = 0; i < 40; ++i) {
    write_and_wait(pair, i, 200000);
    pair.run_for(millis(10));
  }
  EXPECT_GT(retransmissions, 100u);
  EXPECT_EQ(again, 0u);
}

TEST(Numbers, every_packet_twice_is_placed_once) {
  PairOptions options;
  options.faults.duplicate = 1;
  options.faults.jitter = micros(80);
  options.faults.loss = 0.05;
  Pair pair(options);
  Pair::fill(pair.bytes_a(0, 1 << 20), 21);
  write_and_wait(pair, 1, 1 << 20);
  EXPECT_TRUE(same(pair, 0, 0, 1 << 20));
  EXPECT_EQ(pair.b.memory().placed_bytes, 1u << 20);
  EXPECT_GT(pair.b.look().counters().duplicates, 200u);
}

TEST(Numbers, duplicates_after_an_hour_touch_nothing) {
  PairOptions options;
  options.faults.late_duplicate = 1;
  Pair pair(options);
  write_and_wait(pair, 1, 200000);
  ASSERT_TRUE(pair.qb.post_recv(2, {pair.mb.sge(300000, 1000)}));
  ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 1000)}));
  EXPECT_TRUE(completes(pair, pair.qa, 2));
  EXPECT_TRUE(receives(pair, pair.qb, 2));
  pair.network().faults().late_duplicate = 0;
  Pair::fill(pair.bytes_b(0, 400000),
             77);  // the application has used the memory for something else meanwhile
  const std::vector<std::byte> mine(pair.bytes_b(0, 400000).begin(), pair.bytes_b(0, 400000).end());
  const uint64_t before = pair.b.look().counters().duplicates;
  pair.run_for(seconds(3700));
  EXPECT_TRUE(std::ranges::equal(mine, pair.bytes_b(0, 400000)));
  EXPECT_GT(pair.b.look().counters().duplicates, before + 40);
  EXPECT_EQ(pair.qa.state(), QpState::kRts);
  EXPECT_EQ(pair.qb.state(), QpState::kRts);
  write_and_wait(pair, 3, 200000);
  EXPECT_TRUE(same(pair, 0, 0, 200000));
}

// Keeps copies of what was sent.
struct Recorder {
  explicit Recorder(Network& network, std::function<bool(const PacketView&)> wanted) {
    network.on_sent([this, wanted = std::move(wanted)](const PacketView& p) {
      if (wanted(p)) datagrams.emplace_back(p.bytes.begin(), p.bytes.end());
    });
  }
  std::vector<std::vector<std::byte>> datagrams;
};

TEST(Numbers, an_old_packet_is_acknowledged_again_and_not_placed) {
  Pair pair;
  Recorder recorder(pair.network(), [](const PacketView& p) { return p.is(wire::DataOp::kWrite); });
  write_and_wait(pair, 1, 100000);
  pair.run_for(millis(5));
  const auto old = recorder.datagrams;
  ASSERT_GT(old.size(), 20u);
  const uint64_t placed = pair.b.memory().placed_bytes;
  const uint64_t duplicates = pair.b.look().counters().duplicates;
  const uint64_t acks = stats_of(pair.b, pair.a).counters.acks_sent;
  for (const auto& each : old) pair.network().inject(pair.a.index(), pair.b.index(), each, micros(10));
  pair.run_for(millis(1));
  EXPECT_EQ(pair.b.look().counters().duplicates, duplicates + old.size());
  EXPECT_EQ(pair.b.memory().placed_bytes, placed);
  EXPECT_GT(stats_of(pair.b, pair.a).counters.acks_sent, acks);
}

TEST(Numbers, a_known_cpsn_under_a_new_pseq_of_another_path_is_a_duplicate) {
  Pair pair;
  Recorder recorder(pair.network(), [](const PacketView& p) { return p.is(wire::DataOp::kWrite); });
  write_and_wait(pair, 1, 100);
  ASSERT_EQ(recorder.datagrams.size(), 1u);
  std::vector<std::byte> copy = recorder.datagrams[0];
  wire::Common header;
  ASSERT_TRUE(wire::decode_common(copy, header));
  header.path = static_cast<uint8_t>((header.path + 1) % 4);
  header.pseq += 1;
  wire::encode_common(header, copy.data());
  copy[copy.size() - 10] ^= std::byte{0xff};  // another payload, so that a placement would be seen
  Network::resign(copy);
  pair.network().inject(pair.a.index(), pair.b.index(), copy, micros(10));
  pair.run_for(millis(1));
  EXPECT_EQ(pair.b.look().counters().duplicates, 1u);
  EXPECT_TRUE(same(pair, 0, 0, 100));
}

TEST(Numbers, a_packet_above_the_limit_is_dropped_and_counted) {
  Pair pair;
  Recorder recorder(pair.network(), [](const PacketView& p) { return p.is(wire::DataOp::kWrite); });
  write_and_wait(pair, 1, 100);
  for (const uint32_t ahead : {16384u, 100000u, 0x40000000u, 0x7fffffffu}) {
    std::vector<std::byte> copy = recorder.datagrams.at(0);
    const uint32_t cpsn = wire::load_be<uint32_t>(&copy[16]) + 1 + ahead;
    wire::store_be(&copy[16], cpsn);
    Network::resign(copy);
    pair.network().inject(pair.a.index(), pair.b.index(), copy, micros(10));
  }
  pair.run_for(millis(1));
  EXPECT_EQ(pair.b.look().counters().drop_cpsn, 4u);
  EXPECT_EQ(pair.b.memory().placed_bytes, 100u);
}

}  // namespace
}  // namespace mroce::test
