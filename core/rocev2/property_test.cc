// Random work over a bad network against a model, and hostile packets. Each run is determined by its seed,
// which a failure prints.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "core/rocev2/test_net.h"

namespace mroce::rocev2 {
namespace {

constexpr uint32_t kArea = 1 << 20;
constexpr int kOperations = 150;

struct Expected {
  uint64_t wr_id = 0;
  Opcode opcode = Opcode::kWrite;
  uint32_t offset = 0;
  uint32_t length = 0;
};

// The left host works on the right one. Every operation has a place of its own in both buffers, except the
// atomics, which all add to one word.
class WorkRun {
 public:
  WorkRun(uint64_t seed, Recovery recovery, double loss)
      : rng_(seed), net_(2, config(recovery), network(seed, loss)) {
    left_.resize(kArea);
    right_.resize(kArea);
    for (auto& b : left_) b = static_cast<uint8_t>(rng_.next());
    for (auto& b : right_) b = static_cast<uint8_t>(rng_.next());
    std::memset(right_.data(), 0, 8);
    model_left_ = left_;
    model_right_ = right_;
    QpParams a, b;
    a.max_send_wr = 16;
    a.max_rd_atomic = static_cast<uint8_t>(1 + rng_.below(8));
    b.max_dest_rd_atomic = a.max_rd_atomic;
    b.min_rnr_timer = 1;
    std::tie(qa_, qb_) = net_.connect(0, 1, a, b);
    lkey_ = *net_.engine(0).reg_mr(PdHandle{1}, addr(left_), kArea, addr(left_), access::kAll);
    rkey_ = *net_.engine(1).reg_mr(PdHandle{1}, addr(right_), kArea, 0x10000, access::kAll);
  }

  void execute() {
    const bool done = net_.run(
        [&] {
          post();
          poll();
          return posted_ == kOperations && expected_.empty() && expected_receives_.empty();
        },
        seconds(20));
    ASSERT_TRUE(done) << "stuck after " << posted_ << " posts, " << expected_.size() << " open, the oldest "
                      << (expected_.empty() ? 0 : expected_.front().wr_id) << " with opcode "
                      << (expected_.empty() ? 0 : static_cast<int>(expected_.front().opcode)) << ", "
                      << expected_sends_.size() - receives_posted_ << " receives to post, "
                      << net_.engine(0).counters().timeouts << " timeouts, rnr "
                      << net_.engine(1).counters().rnr_naks_sent;
    net_.run_for(millis(2));  // late duplicates
    poll();
    compare(left_, model_left_, "left");
    compare(right_, model_right_, "right");
    EXPECT_EQ(net_.memory(1).atomics, sum_ / kAdd);
    Event event;
    EXPECT_FALSE(net_.engine(0).poll_event(event));
    EXPECT_FALSE(net_.engine(1).poll_event(event));
  }
  const Counters& counters(uint32_t host) { return net_.engine(host).counters(); }
  Time now() const { return net_.now(); }

 private:
  static constexpr uint64_t kAdd = 3;
  static uint64_t addr(const std::vector<uint8_t>& v) { return reinterpret_cast<uint64_t>(v.data()); }
  static EngineConfig config(Recovery recovery) {
    EngineConfig c;
    c.mtu = 1024;
    c.loss.recovery = recovery;
    c.loss.timeout = micros(100);
    c.ack_interval = 4;
    c.dcqcn.time_reset = micros(20);
    if (recovery == Recovery::kSelectiveRepeat) c.window.bytes = 60'000;
    return c;
  }
  static NetOptions network(uint64_t seed, double loss) {
    NetOptions n;
    n.seed = seed;
    n.loss = loss;
    n.duplicate = loss / 2;
    n.reorder = loss;
    n.kmin = 5e3;
    n.kmax = 40e3;
    return n;
  }

  void compare(const std::vector<uint8_t>& got, const std::vector<uint8_t>& model, const char* side) const {
    const auto at = std::mismatch(got.begin(), got.end(), model.begin()).first - got.begin();
    if (at == static_cast<std::ptrdiff_t>(got.size())) return;
    const auto operation = at < 8 ? 0 : static_cast<size_t>(at - 8) / 6016;
    ADD_FAILURE() << side << " differs at " << at << ", where operation " << operation << " has opcode "
                  << static_cast<int>(history_[operation].opcode) << ", offset " << history_[operation].offset
                  << ", length " << history_[operation].length;
  }

  void post() {
    while (posted_ < kOperations && expected_.size() < 16) {
      const uint32_t length = static_cast<uint32_t>(rng_.chance(.5) ? rng_.below(600) : rng_.below(6000));
      constexpr Opcode kOps[] = {Opcode::kWrite, Opcode::kWriteImm, Opcode::kSend,   Opcode::kSendImm,
                                 Opcode::kRead,  Opcode::kFetchAdd, Opcode::kSendInv};
      Expected e{static_cast<uint64_t>(posted_), kOps[rng_.below(std::size(kOps))],
                 8 + static_cast<uint32_t>(posted_) * 6016, length};
      if (e.opcode == Opcode::kFetchAdd) e.length = 8;
      const Sge pieces[2] = {{addr(left_) + e.offset, e.length / 3, lkey_},
                             {addr(left_) + e.offset + e.length / 3, e.length - e.length / 3, lkey_}};
      SendWr wr;
      wr.wr_id = e.wr_id;
      wr.opcode = e.opcode;
      wr.flags = send_flag::kSignaled | (rng_.chance(.1) ? send_flag::kFence : 0);
      wr.sges = pieces;
      wr.rkey = rkey_;
      wr.remote_addr = 0x10000 + (e.opcode == Opcode::kFetchAdd ? 0 : e.offset);
      wr.imm_or_invalidate = static_cast<uint32_t>(posted_) + 1000;
      wr.compare_or_add = kAdd;
      ASSERT_TRUE(net_.engine(0).post_send(net_.now(), qa_, wr));
      expected_.push_back(e);
      history_.push_back(e);
      apply(e);
      ++posted_;
    }
    // Receives are posted late now and then.
    while (receives_posted_ < expected_sends_.size() && rng_.chance(.05)) {
      const Expected& e = expected_sends_[receives_posted_];
      const Sge sge{0x10000 + e.offset, 6016, rkey_};
      ASSERT_TRUE(net_.engine(1).post_recv(net_.now(), qb_, {e.wr_id, {&sge, 1}}));
      ++receives_posted_;
    }
  }

  void apply(const Expected& e) {
    const auto from = static_cast<std::ptrdiff_t>(e.offset);
    const auto to = from + static_cast<std::ptrdiff_t>(e.length);
    if (e.opcode == Opcode::kRead) {
      std::copy(model_right_.begin() + from, model_right_.begin() + to, model_left_.begin() + from);
    } else if (e.opcode == Opcode::kFetchAdd) {
      std::memcpy(model_left_.data() + e.offset, &sum_, 8);  // in order, so the sum of those before
      sum_ += kAdd;
      std::memcpy(model_right_.data(), &sum_, 8);
    } else {
      std::copy(model_left_.begin() + from, model_left_.begin() + to, model_right_.begin() + from);
    }
    if (e.opcode != Opcode::kWrite && e.opcode != Opcode::kRead && e.opcode != Opcode::kFetchAdd) {
      expected_sends_.push_back(e);
      expected_receives_.push_back(e);
    }
  }

  void poll() {
    Wc wc;
    while (net_.engine(0).poll_completion(wc)) {
      ASSERT_EQ(wc.status, WcStatus::kSuccess);
      ASSERT_FALSE(expected_.empty());
      ASSERT_EQ(wc.wr_id, expected_.front().wr_id);
      expected_.pop_front();
    }
    while (net_.engine(1).poll_completion(wc)) {
      ASSERT_EQ(wc.status, WcStatus::kSuccess);
      ASSERT_FALSE(expected_receives_.empty());
      const Expected e = expected_receives_.front();
      expected_receives_.pop_front();
      ASSERT_EQ(wc.wr_id, e.wr_id);
      ASSERT_EQ(wc.byte_len, e.length);
      ASSERT_EQ(wc.opcode, e.opcode == Opcode::kWriteImm ? WcOpcode::kRecvWriteImm : WcOpcode::kRecv);
      if (e.opcode != Opcode::kSend) {
        ASSERT_EQ(wc.imm_or_invalidated, e.wr_id + 1000);
      }
    }
  }

  Rng rng_;
  TestNet net_;
  std::vector<uint8_t> left_, right_, model_left_, model_right_;
  uint32_t qa_ = 0, qb_ = 0, lkey_ = 0, rkey_ = 0;
  int posted_ = 0;
  size_t receives_posted_ = 0;
  uint64_t sum_ = 0;
  std::deque<Expected> expected_, expected_receives_;
  std::vector<Expected> expected_sends_, history_;
};

class RoceProperty : public testing::TestWithParam<std::tuple<Recovery, double>> {};

TEST_P(RoceProperty, everything_happens_once_and_in_order) {
  const auto [recovery, loss] = GetParam();
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    WorkRun run(seed, recovery, loss);
    run.execute();
    if (HasFailure()) return;
    EXPECT_EQ(run.counters(0).drop_malformed + run.counters(1).drop_malformed, 0u);
    if (loss > 0) {
      EXPECT_GT(run.counters(0).retransmitted, 0u);
    } else {
      EXPECT_EQ(run.counters(0).timeouts, 0u);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Networks, RoceProperty,
                         testing::Combine(testing::Values(Recovery::kGoBackN, Recovery::kSelectiveRepeat),
                                          testing::Values(0.0, 0.01, 0.06)));

TEST(RoceRandom, the_same_seed_gives_the_same_run) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    WorkRun a(seed, Recovery::kGoBackN, 0.03), b(seed, Recovery::kGoBackN, 0.03);
    a.execute();
    b.execute();
    EXPECT_EQ(a.now(), b.now());
    EXPECT_EQ(a.counters(0).tx_packets, b.counters(0).tx_packets);
  }
}

// Packets that the network changed at will: whatever happens, memory outside of the regions stays as it is
// and the engine goes on.
TEST(RoceRandom, hostile_packets_neither_crash_nor_write_outside) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    EngineConfig config;
    config.mtu = 1024;
    config.loss.recovery = seed % 2 == 0 ? Recovery::kGoBackN : Recovery::kSelectiveRepeat;
    config.loss.timeout = micros(50);
    TestNet net(2, config, {});
    std::vector<uint8_t> left(65536), right(65536 + 2 * 4096, 0xa5);
    const auto [qa, qb] = net.connect(0, 1);
    const auto base = reinterpret_cast<uint64_t>(right.data()) + 4096;
    const auto from = reinterpret_cast<uint64_t>(left.data());
    const uint32_t lkey = *net.engine(0).reg_mr(PdHandle{1}, from, left.size(), from, access::kAll);
    const uint32_t rkey = *net.engine(1).reg_mr(PdHandle{1}, base, 65536, base, access::kAll);
    const Sge receive{base, 4000, rkey};
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(net.engine(1).post_recv(net.now(), qb, {1, {&receive, 1}}));
    std::vector<NetPacket> seen;
    net.filter = [&](const NetPacket& p) {
      seen.push_back(p);
      return false;
    };
    constexpr Opcode kOps[] = {Opcode::kWrite, Opcode::kSend, Opcode::kRead, Opcode::kFetchAdd,
                               Opcode::kWriteImm};
    for (int round = 0; round < 300; ++round) {
      SendWr wr;
      wr.opcode = kOps[rng.below(std::size(kOps))];
      const Sge sge{from, wr.opcode == Opcode::kFetchAdd ? 8 : static_cast<uint32_t>(rng.below(5000)), lkey};
      wr.sges = {&sge, 1};
      wr.remote_addr = base;
      wr.rkey = rkey;
      static_cast<void>(net.engine(0).post_send(net.now(), qa, wr));
      net.run_for(micros(1));
      if (seen.empty()) break;
      NetPacket bad = seen[rng.below(seen.size())];
      const size_t header = std::min<size_t>(bad.bytes.size(), 44);
      for (uint64_t flips = 1 + rng.below(4); flips != 0; --flips) {
        const size_t at = rng.chance(.3) ? 8 + rng.below(4) : rng.below(header);
        bad.bytes[at] ^= static_cast<std::byte>(1u << rng.below(8));
      }
      if (rng.chance(.2)) bad.bytes.resize(rng.below(bad.bytes.size() + 8));
      RxPacket rx;
      rx.peer = bad.from;
      rx.ecn = static_cast<Ecn>(rng.below(4));
      rx.bytes = bad.bytes;
      rx.virtual_behind = rng.chance(.05) ? static_cast<uint32_t>(rng.next()) : 0;
      net.engine(bad.to).on_packet(net.now(), rx);
    }
    net.run_for(millis(5));
    for (size_t i = 0; i < 4096; ++i) {
      ASSERT_EQ(right[i], 0xa5);
      ASSERT_EQ(right[right.size() - 1 - i], 0xa5);
    }
  }
}

}  // namespace
}  // namespace mroce::rocev2
