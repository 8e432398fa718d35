// RNR: a sender that believes to have more credit than there is gets a NAK and starts messages again. Between
// engines that keep the contract this does not happen; here the network adds to every credit.
#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

constexpr uint32_t kMessages = 8;
constexpr uint32_t kSendBytes = 3000;
constexpr uint32_t kWriteBytes = 9000;

void add_to_credits(Network& network, uint32_t more) {
  network.set_meddler([more](const PacketView& packet, std::vector<std::byte>& bytes) {
    if (packet.ack() == nullptr || packet.ack()->ncredits == 0) return;
    wire::Ack ack = *packet.ack();
    for (uint32_t i = 0; i < ack.ncredits; ++i) ack.credits[i].limit += more;
    wire::encode_ack(*packet.header(), ack, bytes);
    Network::resign(bytes);
  });
}

// SENDs without receives, and behind each a WRITE, an atomic and a READ that could go on.
void post_all(Pair& pair) {
  constexpr uint32_t kStep = 20000;
  for (uint32_t i = 0; i < kMessages; ++i) {
    const uint32_t at = i * kStep;
    ASSERT_TRUE(pair.qa.send(4 * i, {pair.ma.sge(at, kSendBytes)}));
    ASSERT_TRUE(pair.qa.write(4 * i + 1, {pair.ma.sge(at + 4000, kWriteBytes)}, pair.mb.addr + at + 4000,
                              pair.mb.rkey));
    ASSERT_TRUE(
        pair.qa.fetch_add(4 * i + 2, pair.ma.sge(500000 + 8 * i, 8), pair.mb.addr + 800000, pair.mb.rkey, 1));
    ASSERT_TRUE(pair.qa.read(4 * i + 3, {pair.ma.sge(600000 + at, kWriteBytes)}, pair.mb.addr + at + 4000,
                             pair.mb.rkey));
  }
}

// Everything must come once and whole, whatever was under way when the NAK came.
void expect_each_once(uint64_t seed, uint64_t& restarts) {
  PairOptions options;
  options.seed = seed;
  options.faults.loss = 0.15;
  options.faults.jitter = micros(100);
  options.connection.min_rnr_timer = 5;
  options.tweak = [](EngineConfig& config) { config.max_payload = 1024; };
  Pair pair(options);
  add_to_credits(pair.network(), kMessages);
  Pair::fill(pair.bytes_a(0, 200000), seed);
  // The first credit must come in an ACK: that of the ACCEPT is true.
  ASSERT_TRUE(pair.qa.write(100, {pair.ma.sge(0, 100)}, pair.mb.addr + 900000, pair.mb.rkey));
  ASSERT_TRUE(completes(pair, pair.qa, 100));
  post_all(pair);
  for (uint32_t i = 0; i < kMessages; ++i) {
    pair.run_for(micros(700));
    ASSERT_TRUE(pair.qb.post_recv(200 + i, {pair.mb.sge(i * 20000, kSendBytes)}));
  }
  for (uint32_t i = 0; i < 4 * kMessages; ++i) ASSERT_TRUE(completes(pair, pair.qa, i)) << "seed " << seed;
  for (uint32_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(receives(pair, pair.qb, 200 + i));
    EXPECT_TRUE(same(pair, i * 20000, i * 20000, kSendBytes));
    EXPECT_TRUE(same(pair, i * 20000 + 4000, i * 20000 + 4000, kWriteBytes));
    EXPECT_TRUE(std::ranges::equal(pair.bytes_a(600000 + i * 20000, kWriteBytes),
                                   pair.bytes_a(i * 20000 + 4000, kWriteBytes)));
    EXPECT_EQ(pair.a.memory().word(pair.ma.addr + 500000 + 8 * i), i);
  }
  EXPECT_EQ(pair.b.memory().atomics, kMessages);
  EXPECT_EQ(pair.b.look().held_bytes(), 0u);
  restarts += pair.a.connection_to(pair.b)->counters.rnr;
}

TEST(RnrRestart, messages_that_start_again_come_once_and_whole) {
  uint64_t restarts = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    expect_each_once(seed, restarts);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(restarts, 40u);  // of 40 runs: most have several
}

}  // namespace
}  // namespace mroce::test
