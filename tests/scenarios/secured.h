// What the scenarios of mode 2 share: pairs that encrypt, traffic with every verb, an attacker's datagrams.
#pragma once

#include <array>

#include "core/mroce/security.h"

#include "tests/scenarios/support.h"

namespace mroce::test {

inline PresharedKey a_key(uint8_t fill = 0x5a) {
  PresharedKey key{};
  key.fill(fill);
  return key;
}

inline void require_security(EngineConfig& config) {
  config.security = SecurityPolicy::kRequire;
  config.preshared_key = a_key();
}

inline PairOptions secured(uint64_t seed = 1, const std::function<void(EngineConfig&)>& tweak = {}) {
  PairOptions options;
  options.seed = seed;
  options.tweak = [tweak](EngineConfig& config) {
    require_security(config);
    if (tweak) tweak(config);
  };
  return options;
}

// Some work with every verb in both directions, on regions of 1 MiB.
class EveryVerb {
 public:
  explicit EveryVerb(Pair& pair) : pair_(pair) {
    Pair::fill(pair.bytes_a(0, 500000), 11);
    Pair::fill(pair.bytes_b(500000, 300000), 12);
    pair.a.memory().set_word(pair.ma.addr + 900000, 0);
    pair.b.memory().set_word(pair.mb.addr + 900000, 7);
    for (uint64_t i = 0; i < 8; ++i)
      EXPECT_TRUE(pair.qb.post_recv(100 + i, {pair.mb.sge(810000 + 5000 * static_cast<uint32_t>(i), 5000)}));
    const Mr& a = pair.ma;
    const Mr& b = pair.mb;
    const Qp& q = pair.qa;
    EXPECT_TRUE(q.write(1, {a.sge(0, 300000)}, b.addr, b.rkey));
    EXPECT_TRUE(q.write_imm(2, {a.sge(300000, 50000)}, b.addr + 300000, b.rkey, 77));
    EXPECT_TRUE(q.send(3, {a.sge(350000, 4000)}));
    EXPECT_TRUE(q.send_imm(4, {a.sge(354000, 5000)}, 78));
    EXPECT_TRUE(q.send(5, {a.sge(359000, 100)}, send_flag::kSignaled | send_flag::kInline));
    EXPECT_TRUE(q.read(6, {a.sge(500000, 200000)}, b.addr + 500000, b.rkey));
    EXPECT_TRUE(q.fetch_add(7, a.sge(900000, 8), b.addr + 900000, b.rkey, 5));
    EXPECT_TRUE(q.compare_swap(8, a.sge(900008, 8), b.addr + 900000, b.rkey, 12, 99));
    EXPECT_TRUE(q.write(9, {a.sge(0, 100), a.sge(1000, 333), a.sge(40000, 9001)}, b.addr + 400000, b.rkey));
    EXPECT_TRUE(pair.qb.write(10, {b.sge(700000, 100000)}, a.addr + 700000, a.rkey));
    pair.pump();
  }
  void expect_done() {
    for (uint64_t wr_id = 1; wr_id <= 9; ++wr_id) {
      EXPECT_TRUE(completes(pair_, pair_.qa, wr_id, WcStatus::kSuccess, seconds(30)));
    }
    EXPECT_TRUE(completes(pair_, pair_.qb, 10, WcStatus::kSuccess, seconds(30)));
    for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(receives(pair_, pair_.qb, 100 + i));
    EXPECT_TRUE(same(pair_, 0, 0, 350000));
    EXPECT_TRUE(same(pair_, 350000, 815000, 4000));
    EXPECT_TRUE(same(pair_, 354000, 820000, 5000));
    EXPECT_TRUE(same(pair_, 359000, 825000, 100));
    EXPECT_TRUE(same(pair_, 500000, 500000, 300000));
    EXPECT_TRUE(same(pair_, 0, 400000, 100));
    EXPECT_TRUE(same(pair_, 1000, 400100, 333));
    EXPECT_TRUE(same(pair_, 40000, 400433, 9001));
    EXPECT_EQ(pair_.a.memory().word(pair_.ma.addr + 900000), 7u);
    EXPECT_EQ(pair_.a.memory().word(pair_.ma.addr + 900008), 12u);
    EXPECT_EQ(pair_.b.memory().word(pair_.mb.addr + 900000), 99u);
    EXPECT_EQ(pair_.b.memory().atomics, 2u);
  }

 private:
  Pair& pair_;
};

inline std::vector<std::byte> copy_of(const PacketView& p) {
  return {p.bytes.begin(), p.bytes.end()};
}

}  // namespace mroce::test
