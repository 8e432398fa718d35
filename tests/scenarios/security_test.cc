// Mode 2 between two endpoints: everything works as in mode 0, nothing can be read on the way, and no peer
// comes in without the key or with less than what is required.
#include <map>
#include <set>

#include "core/wire/field_table.h"
#include "tests/scenarios/secured.h"

namespace mroce::test {
namespace {

using wire::Type;

uint8_t mode_of(const Pair& pair) {
  return stats_of(pair.a, pair.b).security;
}
uint64_t both(const Pair& pair, uint64_t EngineCounters::*counter) {
  return pair.a.look().counters().*counter + pair.b.look().counters().*counter;
}

TEST(Security, carries_every_verb_through_loss_duplication_reordering_and_corruption) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PairOptions options = secured(seed);
    options.planes = seed % 3 == 0 ? 2 : 1;
    options.faults.loss = 0.03;
    options.faults.duplicate = 0.03;
    options.faults.corrupt = 0.02;
    options.faults.reorder = 0.1;
    options.faults.jitter = micros(30);
    Pair pair(options);
    EveryVerb work(pair);
    work.expect_done();
    EXPECT_EQ(mode_of(pair), 2);
    EXPECT_GT(both(pair, &EngineCounters::drop_tag), 0u) << "what was damaged";
    EXPECT_EQ(both(pair, &EngineCounters::connections_failed), 0u);
  }
}

TEST(Security, without_a_preshared_key_works_too) {
  Pair pair(secured(1, [](EngineConfig& config) { config.preshared_key.reset(); }));
  EveryVerb work(pair);
  work.expect_done();
  EXPECT_EQ(mode_of(pair), 2);
}

TEST(Security, shows_nothing_of_the_payload_on_the_way) {
  Pair pair(secured());
  constexpr std::string_view kSecret = "a secret that is long enough to be found";
  for (size_t i = 0; i < 100000; ++i) {
    pair.bytes_a(0, 100000)[i] = static_cast<std::byte>(kSecret[i % kSecret.size()]);
  }
  size_t data = 0, seen = 0, with_crc = 0;
  pair.network().on_sent([&](const PacketView& p) {
    const std::string_view bytes(reinterpret_cast<const char*>(p.bytes.data()), p.bytes.size());
    data += p.is(Type::kData);
    seen += bytes.find(kSecret.substr(0, 16)) != std::string_view::npos;
    if (!p.is(Type::kInit)) with_crc += wire::check_trailer(p.bytes);
  });
  write_and_wait(pair, 1, 100000);
  EXPECT_GT(data, 20u);
  EXPECT_EQ(seen, 0u);
  EXPECT_EQ(with_crc, 0u) << "what is not INIT has a tag";
  EXPECT_TRUE(same(pair, 0, 0, 100000));
}

TEST(Security, datagrams_fit_into_what_the_link_carries) {
  for (const uint32_t mtu : {1500u, 4000u, 9000u}) {
    PairOptions options = secured(mtu, [mtu](EngineConfig& config) {
      for (LocalPort& port : config.ports) port.link_mtu = mtu;
    });
    Pair pair(options);
    size_t longest = 0;
    pair.network().on_sent([&](const PacketView& p) { longest = std::max(longest, p.bytes.size()); });
    write_and_wait(pair, 1, 100000);
    const uint32_t payload = stats_of(pair.a, pair.b).payload_mtu;
    EXPECT_EQ(payload, std::min(4096u, (mtu - 28 - 72) / 32 * 32));
    EXPECT_EQ(longest, payload + 72);
  }
}

// ---- negotiation

struct Meeting {
  const char* name;
  SecurityPolicy a, b;
  int mode;  // -1: none
};
class Policies : public testing::TestWithParam<Meeting> {};

TEST_P(Policies, of_both_ends_decide) {
  const Meeting& meeting = GetParam();
  PairOptions options;
  options.tweak = [&meeting](EngineConfig& config) {
    config.security = config.ports[0].address.raw[15] == 1 ? meeting.a : meeting.b;
  };
  Pair pair(options);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey));
  if (meeting.mode >= 0) {
    EXPECT_TRUE(completes(pair, pair.qa, 1));
    EXPECT_EQ(mode_of(pair), meeting.mode);
    EXPECT_EQ(stats_of(pair.b, pair.a).security, meeting.mode);
  } else {
    EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
    EXPECT_GT(both(pair, &EngineCounters::drop_security), 0u);
    EXPECT_EQ(both(pair, &EngineCounters::connections_opened), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    all, Policies,
    testing::Values(Meeting{"off_off", SecurityPolicy::kOff, SecurityPolicy::kOff, 0},
                    Meeting{"off_prefer", SecurityPolicy::kOff, SecurityPolicy::kPrefer, 0},
                    Meeting{"prefer_off", SecurityPolicy::kPrefer, SecurityPolicy::kOff, 0},
                    Meeting{"prefer_prefer", SecurityPolicy::kPrefer, SecurityPolicy::kPrefer, 2},
                    Meeting{"prefer_require", SecurityPolicy::kPrefer, SecurityPolicy::kRequire, 2},
                    Meeting{"require_prefer", SecurityPolicy::kRequire, SecurityPolicy::kPrefer, 2},
                    Meeting{"off_require", SecurityPolicy::kOff, SecurityPolicy::kRequire, -1},
                    Meeting{"require_off", SecurityPolicy::kRequire, SecurityPolicy::kOff, -1}),
    [](const auto& param) { return param.param.name; });

TEST(Security, refuses_a_peer_with_another_key_and_says_so) {
  PairOptions options;
  options.tweak = [](EngineConfig& config) {
    config.security = SecurityPolicy::kPrefer;
    config.preshared_key = a_key(config.ports[0].address.raw[15]);
  };
  Pair pair(options);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 500)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_GT(pair.b.look().counters().drop_key_id, 0u);
  EXPECT_EQ(both(pair, &EngineCounters::connections_opened), 0u);
}

// Somebody in the middle makes the key ids equal: the keys that follow are still different.
TEST(Security, refuses_a_peer_that_only_names_the_right_key) {
  PairOptions options;
  options.tweak = [](EngineConfig& config) {
    config.security = SecurityPolicy::kRequire;
    config.preshared_key = a_key(config.ports[0].address.raw[15]);
  };
  Pair pair(options);
  pair.network().set_meddler([&](const PacketView& p, std::vector<std::byte>& bytes) {
    if (!p.is(Type::kInit) && !p.is(Type::kInitAck)) return;
    const auto id = key_id_of(a_key(p.is(Type::kInit) ? 2 : 1));
    std::memcpy(&bytes[wire::end_of::init + wire::kInitPortBytes + 2 + 32], id.data(), id.size());
    if (p.is(Type::kInit)) Network::resign(bytes);
  });
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 500)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  EXPECT_GT(pair.a.look().counters().drop_tag, 0u);
  EXPECT_EQ(pair.a.look().counters().connections_opened, 0u);
  EXPECT_EQ(pair.b.memory().placed_bytes, 0u);
}

// ---- downgrade

TEST(Downgrade, by_taking_the_offer_away_fails_where_security_is_required) {
  for (const SecurityPolicy acceptor : {SecurityPolicy::kPrefer, SecurityPolicy::kRequire}) {
    PairOptions options;
    options.tweak = [acceptor](EngineConfig& config) {
      require_security(config);
      if (config.ports[0].address.raw[15] == 2) config.security = acceptor;
    };
    Pair pair(options);
    pair.network().set_meddler([&](const PacketView& p, std::vector<std::byte>& bytes) {
      if (!p.is(Type::kInit)) return;
      bytes[wire::at::init::security.offset] = std::byte{1};
      Network::resign(bytes);
    });
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 500)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
    Endpoint& refuses = acceptor == SecurityPolicy::kPrefer ? pair.a : pair.b;
    EXPECT_GT(refuses.look().counters().drop_security, 0u);
    EXPECT_EQ(pair.b.memory().placed_bytes, 0u);
  }
}

TEST(Downgrade, of_two_that_only_prefer_security_is_possible_as_the_specification_says) {
  PairOptions options;
  options.tweak = [](EngineConfig& config) { config.security = SecurityPolicy::kPrefer; };
  Pair pair(options);
  pair.network().set_meddler([&](const PacketView& p, std::vector<std::byte>& bytes) {
    if (!p.is(Type::kInit)) return;
    bytes[wire::at::init::security.offset] = std::byte{1};
    Network::resign(bytes);
  });
  write_and_wait(pair, 1, 5000);
  EXPECT_EQ(mode_of(pair), 0);
}

// Any one bit of the handshake may change on the way (with a good CRC where there is one): the pair works
// after a repetition, encrypted, with parameters that both know.
TEST(Downgrade, by_changing_the_handshake_is_noticed) {
  std::map<Type, uint64_t> refused;
  for (const Type type : {Type::kInit, Type::kInitAck}) {
    const size_t end = wire::end_of::init + wire::kInitPortBytes + 42 + 2;
    for (size_t byte = 0; byte < end; byte += 3) {
      SCOPED_TRACE("byte " + std::to_string(byte) + " of type " + std::to_string(static_cast<int>(type)));
      Pair pair(secured(byte + 1));
      bool done = false;
      pair.network().set_meddler([&](const PacketView& p, std::vector<std::byte>& bytes) {
        if (done || !p.is(type)) return;
        done = true;
        bytes[byte] ^= static_cast<std::byte>(1u << (byte % 8));
        if (type == Type::kInit) Network::resign(bytes);
      });
      write_and_wait(pair, 1, 20000);
      EXPECT_EQ(mode_of(pair), 2);
      EXPECT_TRUE(same(pair, 0, 0, 20000));
      refused[type] += both(pair, &EngineCounters::drop_tag);
    }
  }
  EXPECT_GT(refused[Type::kInit], 10u);
  EXPECT_GT(refused[Type::kInitAck], 10u);
}

// ---- keys

TEST(KeyUpdate, happens_again_and_again_in_both_directions_under_loss_and_reordering) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PairOptions options = secured(seed, [](EngineConfig& config) { config.key_update_packets = 40; });
    options.faults.loss = 0.05;
    options.faults.duplicate = 0.05;
    options.faults.reorder = 0.2;
    options.faults.jitter = micros(20);
    Pair pair(options);
    for (uint64_t round = 0; round < 4; ++round) {
      Pair::fill(pair.bytes_a(0, 1 << 20), seed * 100 + round);
      write_and_wait(pair, round, 1 << 20);
      ASSERT_TRUE(same(pair, 0, 0, 1 << 20));
    }
    EXPECT_GT(pair.a.look().counters().key_updates, 5u) << "of DATA";
    EXPECT_GE(pair.b.look().counters().key_updates, 1u) << "of ACKs";
    EXPECT_EQ(both(pair, &EngineCounters::connections_failed), 0u);
  }
}

TEST(KeyUpdate, does_not_cost_a_datagram_where_nothing_is_lost) {
  Pair pair(secured(1, [](EngineConfig& config) { config.key_update_packets = 40; }));
  warm_up(pair);
  for (uint64_t round = 0; round < 4; ++round) write_and_wait(pair, round, 1 << 20);
  EXPECT_GT(pair.a.look().counters().key_updates, 8u);
  EXPECT_EQ(both(pair, &EngineCounters::drop_tag), 0u);
  EXPECT_EQ(stats_of(pair.a, pair.b).counters.retransmissions, 0u);
}

TEST(KeyUpdate, waits_until_the_peer_has_shown_that_it_has_the_keys) {
  Pair pair(secured(1, [](EngineConfig& config) { config.key_update_packets = 8; }));
  warm_up(pair);
  std::set<uint8_t> phases;
  pair.network().on_sent([&](const PacketView& p) {
    if (p.from == pair.a.index()) phases.insert(p.header()->flags & wire::flag::kKeyPhase);
  });
  const uint64_t before = pair.a.look().counters().key_updates;
  pair.network().faults(pair.b.index(), pair.a.index()).cut = true;
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 200000)}, pair.mb.addr, pair.mb.rkey));
  pair.run_for(millis(500));
  EXPECT_LE(pair.a.look().counters().key_updates, before + 1) << "nothing came back";
  pair.network().stop_faults();
  EXPECT_TRUE(completes(pair, pair.qa, 1));
}

// One that only acknowledges learns by a PROBE that the peer has its keys, and the answer may take longer
// than it waits before it asks again.
TEST(KeyUpdate, happens_on_a_way_that_is_longer_than_the_longest_timer) {
  PairOptions options = secured(1, [](EngineConfig& config) { config.key_update_packets = 8; });
  options.faults.latency = millis(120);
  Pair pair(options);
  warm_up(pair);
  const uint64_t before = pair.b.look().counters().key_updates;
  for (uint64_t round = 1; round <= 40; ++round) write_and_wait(pair, round, 1000);
  EXPECT_GE(pair.b.look().counters().key_updates, before + 3);
}

// Bursts end wherever they like: the limits here lie at each place within one.
TEST(KeyUpdate, that_is_impossible_ends_the_connection_before_a_key_protects_too_much) {
  for (uint64_t most = 80; most < 100; ++most) {
    SCOPED_TRACE("limit " + std::to_string(most));
    Pair pair(secured(1, [most](EngineConfig& config) {
      config.key_update_packets = 8;
      config.key_max_packets = most;
    }));
    warm_up(pair);
    uint64_t of_phase = 0;
    uint8_t phase = 0;
    pair.network().on_sent([&](const PacketView& p) {
      if (p.from != pair.a.index() || p.is(Type::kInit) || p.is(Type::kReset)) return;
      const uint8_t shown = p.header()->flags & wire::flag::kKeyPhase;
      of_phase = shown == phase ? of_phase + 1 : 1;
      phase = shown;
    });
    pair.network().faults(pair.b.index(), pair.a.index()).cut = true;
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 1 << 20)}, pair.mb.addr, pair.mb.rkey));
    pair.run_for(millis(500));
    EXPECT_EQ(open_connections(pair.a), 0u) << "long before silence would have ended it";
    EXPECT_LE(of_phase, most);
    EXPECT_GT(of_phase, 8u);
  }
}

TEST(Tags, that_fail_too_often_end_the_connection) {
  Pair pair(secured(1, [](EngineConfig& config) { config.tag_failure_limit = 10; }));
  std::vector<std::byte> specimen;
  pair.network().on_sent([&](const PacketView& p) {
    if (p.from == pair.a.index() && p.is(Type::kData)) specimen = copy_of(p);
  });
  warm_up(pair);
  specimen.back() ^= std::byte{1};
  for (int i = 0; i < 9; ++i) pair.network().inject(0, 1, specimen, micros(1));
  pair.run_for(millis(1));
  EXPECT_EQ(open_connections(pair.b), 1u);
  pair.network().inject(0, 1, specimen, micros(1));
  pair.run_for(millis(1));
  EXPECT_EQ(open_connections(pair.b), 0u);
  EXPECT_EQ(pair.qb.state(), QpState::kErr);
}

// ---- connections that meet

TEST(SecuredConnections, of_two_that_call_each_other_at_once_become_one) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    PairOptions options = secured(seed);
    options.planes = seed % 2 == 0 ? 2 : 1;
    Pair pair(options);
    ConnectOptions crossed;
    if (options.planes == 2) crossed.local_port = crossed.remote_port = 1;
    const Link link = add_link(pair, {}, crossed);
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey));
    ASSERT_TRUE(link.b.write(2, {pair.mb.sge(60000, 50000)}, pair.ma.addr + 60000, pair.ma.rkey));
    EXPECT_TRUE(completes(pair, pair.qa, 1));
    EXPECT_TRUE(completes(pair, link.b, 2));
    pair.run_for(seconds(12));
    EXPECT_EQ(open_connections(pair.a), 1u) << seed;
    EXPECT_EQ(open_connections(pair.b), 1u) << seed;
    EXPECT_EQ(mode_of(pair), 2);
    write_and_wait(pair, 3, 50000);
  }
}

// When both call at once, the end whose INIT loses becomes acceptor under the same id: a late copy of that
// INIT is none of a new connection.
TEST(SecuredConnections, of_two_that_call_each_other_are_not_followed_by_one_of_a_late_copy) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Pair pair(secured(seed));
    std::vector<std::pair<uint32_t, std::vector<std::byte>>> inits;
    pair.network().on_sent([&](const PacketView& p) {
      if (p.is(Type::kInit)) inits.emplace_back(p.from, copy_of(p));
    });
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 5000)}, pair.mb.addr, pair.mb.rkey));
    ASSERT_TRUE(pair.qb.write(2, {pair.mb.sge(60000, 5000)}, pair.ma.addr + 60000, pair.ma.rkey));
    EXPECT_TRUE(completes(pair, pair.qa, 1));
    EXPECT_TRUE(completes(pair, pair.qb, 2));
    ASSERT_EQ(inits.size(), 2u) << "both called";
    for (const auto& [from, bytes] : inits) pair.network().inject(from, 1 - from, bytes, micros(1));
    pair.run_for(seconds(12));
    EXPECT_EQ(both(pair, &EngineCounters::connections_opened), 2u);
    EXPECT_EQ(both(pair, &EngineCounters::connections_failed), 0u);
  }
}

TEST(SecuredConnections, that_exist_are_found_by_another_address) {
  PairOptions options = secured();
  options.planes = 2;
  Pair pair(options);
  warm_up(pair);
  ConnectOptions other;
  other.local_port = other.remote_port = 1;
  const Link link = add_link(pair, {}, other);
  ASSERT_TRUE(link.a.write(2, {pair.ma.sge(0, 5000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, link.a, 2));
  EXPECT_EQ(open_connections(pair.a), 1u);
  EXPECT_EQ(both(pair, &EngineCounters::connections_opened), 2u);
}

TEST(SecuredConnections, end_in_order_through_loss) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    PairOptions options = secured(seed);
    options.faults.loss = 0.2;
    Pair pair(options);
    warm_up(pair);
    pair.a.engine().shutdown(pair.now());
    pair.run_for(seconds(3));
    EXPECT_TRUE(pair.a.look().quiescent());
    EXPECT_TRUE(pair.b.look().quiescent());
    EXPECT_EQ(both(pair, &EngineCounters::connections_failed), 0u);
  }
}

}  // namespace
}  // namespace mroce::test
