// RETRY: a flood of INITs makes no state, and those who can be reached come through it.
#include "tests/scenarios/hostile.h"

namespace mroce::test {
namespace {

using wire::Type;
constexpr uint32_t kAbove = 10;

BareEngine::Sent only(const std::vector<BareEngine::Sent>& sent) {
  EXPECT_EQ(sent.size(), 1u);
  return sent.empty() ? BareEngine::Sent{} : sent[0];
}

wire::Retry retry_in(const BareEngine::Sent& sent) {
  EXPECT_EQ(sent.header.type, Type::kRetry);
  wire::Retry retry;
  EXPECT_TRUE(wire::check_trailer(sent.data));
  EXPECT_TRUE(wire::decode_retry(wire::In(sent.data).first(sent.data.size() - wire::kTrailerBytes), retry));
  return retry;
}

// An engine to which as many strangers as it bears have spoken.
class Flooded {
 public:
  explicit Flooded(const std::function<void(EngineConfig&)>& tweak = {})
      : bare([tweak](EngineConfig& config) {
          config.retry_above = kAbove;
          if (tweak) tweak(config);
        }) {
    for (uint32_t i = 0; i <= kAbove; ++i) send(good_init(i));
    EXPECT_EQ(opened(), kAbove + 1);
  }
  std::vector<BareEngine::Sent> send(const wire::Init& init) {
    return bare.feed(init_datagram(init, 1200), source_of(init));
  }
  std::vector<BareEngine::Sent> send(const wire::Init& init, const UdpAddress& from) {
    return bare.feed(init_datagram(init, 1200), from);
  }
  uint64_t opened() const { return bare_counters().connections_opened; }
  const EngineCounters& bare_counters() const { return const_cast<BareEngine&>(bare).engine().counters(); }

  BareEngine bare;
};

TEST(Retry, is_the_small_answer_to_every_init_of_a_flood_and_makes_no_state) {
  Flooded flooded;
  size_t in = 0, out = 0;
  for (uint32_t i = 100; i < 5100; ++i) {
    const wire::Init init = good_init(i);
    in += 1200;
    const auto sent = only(flooded.send(init));
    EXPECT_EQ(sent.header.type, Type::kRetry);
    EXPECT_EQ(sent.header.dcid, init.scid);
    EXPECT_EQ(sent.to, (UdpAddress{init.ports[0].address, init.listen_port}));
    EXPECT_LT(sent.bytes, 100u);
    out += sent.bytes;
  }
  EXPECT_EQ(flooded.opened(), kAbove + 1);
  EXPECT_EQ(flooded.bare_counters().retries_sent, 5000u);
  EXPECT_LT(out * 10, in);
  for (const auto& each : flooded.bare.run_for(seconds(30))) out += each.bytes;
  EXPECT_LE(out, 3 * in);
  EXPECT_TRUE(flooded.bare.engine().quiescent());
}

TEST(Retry, waits_for_nobody_and_is_bounded_when_nothing_can_be_sent) {
  BareEngine bare([](EngineConfig& config) { config.retry_above = 0; });
  Bytes all;
  for (uint32_t i = 0; i < 60; ++i) {
    const Bytes bytes = init_datagram(good_init(i), 1000 + 200);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  TxBurst burst;
  bare.engine().on_burst(bare.now(), {0, source_of(good_init(1)), Ecn::kNotEct}, all, 1200);
  size_t sent = 0;
  while (bare.engine().poll_transmit(bare.now(), burst)) ++sent;
  EXPECT_LE(sent, 17u);
}

TEST(Retry, brings_a_cookie_that_opens_the_door) {
  Flooded flooded;
  wire::Init init = good_init(500);
  const wire::Retry retry = retry_in(only(flooded.send(init)));
  EXPECT_EQ(retry.nonce, init.nonce);
  init.cookie = retry.cookie;
  EXPECT_EQ(only(flooded.send(init)).header.type, Type::kInitAck);
  EXPECT_EQ(flooded.opened(), kAbove + 2);
}

TEST(Retry, cookie_is_good_for_its_init_from_its_address_only) {
  Flooded flooded;
  wire::Init init = good_init(500);
  const UdpAddress from = source_of(init);
  init.cookie = retry_in(only(flooded.send(init))).cookie;
  const auto refused = [&](const wire::Init& other, const UdpAddress& source) {
    return only(flooded.send(other, source)).header.type == Type::kRetry;
  };
  EXPECT_TRUE(refused(init, {BareEngine::host(251), 1024}));
  wire::Init other = init;
  ++other.nonce;
  EXPECT_TRUE(refused(other, from));
  other = init;
  ++other.scid;
  EXPECT_TRUE(refused(other, from));
  other = init;
  ++other.listen_port;
  EXPECT_TRUE(refused(other, from));
  for (size_t byte = 0; byte < init.cookie.length; ++byte) {
    other = init;
    other.cookie.bytes[byte] ^= 1;
    EXPECT_TRUE(refused(other, from)) << "byte " << byte;
  }
  for (const uint8_t length : std::array<uint8_t, 5>{0, 1, 19, 21, 64}) {
    other = init;
    other.cookie.length = length;
    EXPECT_TRUE(refused(other, from)) << int{length};
  }
  EXPECT_EQ(flooded.opened(), kAbove + 1);
  EXPECT_FALSE(refused(init, {from.ip, 7})) << "the source port does not matter";
}

TEST(Retry, cookie_is_good_for_four_seconds_and_not_for_eight) {
  for (const int wait : {1, 4, 9}) {
    Flooded flooded([](EngineConfig& config) { config.silence_limit = seconds(60); });
    wire::Init init = good_init(500);
    init.cookie = retry_in(only(flooded.send(init))).cookie;
    flooded.bare.run_for(seconds(wait));
    EXPECT_EQ(only(flooded.send(init)).header.type, wait < 8 ? Type::kInitAck : Type::kRetry) << wait;
  }
}

TEST(Retry, cookie_of_another_engine_is_worth_nothing) {
  Flooded one, two([](EngineConfig&config) { config.seed = 99; });
  wire::Init init = good_init(500);
  init.cookie = retry_in(only(one.send(init))).cookie;
  EXPECT_EQ(only(two.send(init)).header.type, Type::kRetry);
}

// ---- from the side of the initiator

PairOptions flooded_pair(SecurityPolicy policy, uint64_t seed) {
  PairOptions options;
  options.seed = seed;
  options.tweak = [policy](EngineConfig& config) {
    config.retry_above = kAbove;
    config.security = policy;
  };
  return options;
}

void flood(Pair& pair) {
  for (uint32_t i = 0; i < 200; ++i) {
    wire::Init init = good_init(i);
    init.listen_port = static_cast<uint16_t>(1000 + i);  // where nobody listens
    pair.network().inject(pair.a.index(), pair.b.index(), init_datagram(init, 1200),
                          micros(static_cast<int64_t>(i)));
  }
  pair.run_for(millis(1));
}

TEST(Retry, lets_a_true_peer_through_a_flood) {
  for (const SecurityPolicy policy : {SecurityPolicy::kOff, SecurityPolicy::kPrefer}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      PairOptions options = flooded_pair(policy, seed);
      options.faults.loss = seed == 1 ? 0 : 0.1;
      Pair pair(options);
      flood(pair);
      write_and_wait(pair, 1, 50000);
      EXPECT_TRUE(same(pair, 0, 0, 50000));
      EXPECT_GE(pair.b.look().counters().retries_sent, 200u - kAbove);
      EXPECT_EQ(stats_of(pair.a, pair.b).security, policy == SecurityPolicy::kOff ? 0 : 2);
      EXPECT_EQ(stats_of(pair.a, pair.b).payload_mtu, 4096u) << "a RETRY is no reason to offer less";
    }
  }
}

TEST(Retry, costs_one_round_trip) {
  Pair pair(flooded_pair(SecurityPolicy::kOff, 1));
  flood(pair);
  std::vector<Type> types;
  pair.network().on_sent([&](const PacketView& p) {
    if (p.from == pair.a.index() || p.is(Type::kRetry) || p.is(Type::kInitAck))
      types.push_back(p.header()->type);
  });
  write_and_wait(pair, 1, 100);
  ASSERT_GE(types.size(), 4u);
  EXPECT_EQ(std::vector<Type>(types.begin(), types.begin() + 4),
            (std::vector<Type>{Type::kInit, Type::kRetry, Type::kInit, Type::kInitAck}));
}

TEST(Retry, that_does_not_know_the_nonce_is_ignored_and_the_others_are_obeyed_four_times) {
  Pair pair;
  pair.network().faults(pair.a.index(), pair.b.index()).cut = true;  // B hears nothing
  size_t inits = 0, with_cookie = 0;
  wire::Init init;
  pair.network().on_sent([&](const PacketView& p) {
    if (!p.is(Type::kInit)) return;
    ++inits;
    ASSERT_TRUE(wire::decode_init(p.bytes.first(p.bytes.size() - wire::kTrailerBytes), init));
    with_cookie += init.cookie.length != 0;
  });
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(millis(1));
  ASSERT_EQ(inits, 1u);
  wire::Common header;
  header.type = Type::kRetry;
  header.dcid = init.scid;
  wire::Retry retry;
  retry.cookie.length = 5;
  const auto send = [&] {
    pair.network().inject(1, 0, with_trailer(wire::test::encoded([&](wire::Out out) {
                            return wire::encode_retry(header, retry, out);
                          })),
                          micros(1));
    pair.run_for(micros(100));
  };
  retry.nonce = init.nonce + 1;
  send();
  EXPECT_EQ(inits, 1u);
  EXPECT_EQ(pair.a.look().counters().drop_connection, 1u);
  retry.nonce = init.nonce;
  for (int i = 0; i < 10; ++i) send();
  EXPECT_EQ(inits, 5u);
  EXPECT_EQ(with_cookie, 4u);
  pair.network().stop_faults();
  EXPECT_TRUE(completes(pair, pair.qa, 1)) << "a cookie that nobody asked for does not matter";
}

}  // namespace
}  // namespace mroce::test
