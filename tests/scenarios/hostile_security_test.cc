// An attacker beside the way who knows addresses, ports, connection ids and all packet numbers: in mode 2 the
// run is the same as without it, datagram for datagram. And one who has recorded what passed, and sends it
// again.
#include <map>

#include "core/wire/field_table.h"
#include "tests/scenarios/hostile.h"
#include "tests/scenarios/secured.h"

namespace mroce::test {
namespace {

using wire::Type;

// What a run leaves behind, but for the counters of arrivals and drops.
struct Outcome {
  uint64_t packets = 0;  // hash of all that was sent, with times
  std::vector<std::byte> memory_a, memory_b;
  uint64_t placed_a = 0, placed_b = 0;
  std::vector<uint64_t> counters;
  bool operator==(const Outcome&) const = default;
};

std::vector<uint64_t> steady(const EngineCounters& c) {
  return {c.tx_datagrams,  c.tx_bytes,           c.tx_bursts,          c.duplicates,  c.naks_sent,
          c.naks_received, c.connections_opened, c.connections_failed, c.key_updates, c.retries_sent};
}

Outcome outcome_of(Pair& pair) {
  Outcome outcome;
  outcome.packets = pair.network().packet_hash();
  const auto a = pair.bytes_a(0, 1 << 20), b = pair.bytes_b(0, 1 << 20);
  outcome.memory_a.assign(a.begin(), a.end());
  outcome.memory_b.assign(b.begin(), b.end());
  outcome.placed_a = pair.a.memory().placed_bytes;
  outcome.placed_b = pair.b.memory().placed_bytes;
  for (Endpoint* endpoint : {&pair.a, &pair.b}) {
    for (const uint64_t value : steady(endpoint->look().counters())) outcome.counters.push_back(value);
  }
  return outcome;
}

void store32(std::vector<std::byte>& bytes, size_t at, uint32_t value) {
  wire::store_be(bytes.data() + at, value);
}

// Forgeries from a datagram of A that is on its way: another payload, other numbers, other types; with a CRC,
// with the tag of the original, with no tag at all.
std::vector<std::vector<std::byte>> forgeries(const PacketView& p, Rng& rng) {
  std::vector<std::vector<std::byte>> all;
  const std::vector<std::byte> original = copy_of(p);
  const auto add = [&](std::vector<std::byte> bytes) {
    all.push_back(bytes);
    Network::resign(bytes);
    all.push_back(std::move(bytes));
  };
  std::vector<std::byte> bytes = original;
  bytes[rng.below(bytes.size() - 16)] ^= std::byte{1};  // wherever it falls, the DCID too
  add(bytes);
  bytes = original;
  bytes.back() ^= std::byte{0x80};
  all.push_back(bytes);
  for (const uint32_t ahead : {1u, 2u, 100u}) {  // the packets that come next
    bytes = original;
    store32(bytes, wire::at::common::pseq.offset, p.header()->pseq + ahead);
    if (p.is(Type::kData)) {
      store32(bytes, wire::at::data::cpsn.offset,
              wire::load_be<uint32_t>(bytes.data() + wire::at::data::cpsn.offset) + ahead);
    }
    add(bytes);
  }
  for (const Type type : {Type::kInitAck, Type::kRetry, Type::kVersion, Type::kData, Type::kAck, Type::kProbe,
                          Type::kProbeAck, Type::kClose, Type::kReset, Type::kCloseAck, Type::kCm}) {
    bytes = original;
    bytes[0] = static_cast<std::byte>(0x10 | static_cast<unsigned>(type));
    bytes[1] ^= static_cast<std::byte>(rng.next() & wire::flag::kKeyPhase);
    if (type != p.header()->type) add(bytes);
  }
  bytes = original;
  bytes.resize(16 + rng.below(bytes.size() - 16));
  add(bytes);
  // What mode 0 would take: the numbers of the next packet and a good CRC.
  wire::Data data;
  data.cpsn = p.is(Type::kData) ? wire::load_be<uint32_t>(original.data() + 16) + 1 : 0;
  data.op = wire::DataOp::kVoid;
  wire::Common header = *p.header();
  header.type = Type::kData;
  ++header.pseq;
  add(with_trailer(wire::test::encoded_data(header, data, {})));
  wire::Ack ack;
  header.type = Type::kAck;
  add(with_trailer(wire::test::encoded([&](wire::Out out) { return wire::encode_ack(header, ack, out); })));
  return all;
}

Outcome run(uint64_t seed, bool attacked, EngineCounters* seen_by_b = nullptr) {
  PairOptions options = secured(seed);
  options.paths = 2;
  options.faults.rate_bps = 250000000;
  options.faults.loss = 0.01;
  Pair pair(options);
  warm_up(pair);
  Rng rng(seed);
  if (attacked) {
    pair.network().on_sent([&](const PacketView& p) {
      if (p.from != pair.a.index() || p.is(Type::kInit) || !rng.chance(0.3)) return;
      for (auto& bytes : forgeries(p, rng)) {
        // Before, together with, and after the original.
        pair.network().inject(p.from, p.to, std::move(bytes),
                              Nanos{static_cast<int64_t>(rng.below(3000000))});
      }
    });
  }
  EveryVerb work(pair);
  work.expect_done();
  pair.run_for(seconds(2));
  if (seen_by_b != nullptr) *seen_by_b = pair.b.look().counters();
  return outcome_of(pair);
}

TEST(OffPath, attacker_who_knows_all_numbers_changes_nothing_in_mode_2) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EngineCounters seen;
    EXPECT_EQ(run(seed, true, &seen), run(seed, false)) << seed;
    EXPECT_GT(seen.drop_tag, 500u);
  }
}

// §10.2: without keys, who knows the numbers can take the place of the peer. That is what mode 2 is for.
TEST(OffPath, attacker_who_knows_all_numbers_can_do_in_mode_0_what_the_specification_says) {
  Pair pair;
  warm_up(pair);
  wire::Common header;
  uint32_t cpsn = 0;
  pair.network().on_sent([&](const PacketView& p) {
    if (p.from != pair.a.index() || !p.is(Type::kData)) return;
    header = *p.header();
    cpsn = p.data()->cpsn;
  });
  write_and_wait(pair, 1, 100);
  wire::Data data;
  data.op = wire::DataOp::kVoid;
  data.cpsn = cpsn + 1;
  ++header.pseq;
  pair.network().inject(0, 1, with_trailer(wire::test::encoded_data(header, data, {})), micros(1));
  pair.run_for(millis(1));
  ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  const uint64_t duplicates = pair.b.look().counters().duplicates;
  pair.run_for(millis(10));
  EXPECT_GT(pair.b.look().counters().duplicates, duplicates) << "the true packet is taken for a duplicate";
}

TEST(Replay, of_everything_that_ever_passed_changes_nothing) {
  PairOptions options = secured(3, [](EngineConfig& config) { config.key_update_packets = 100; });
  Pair pair(options);
  std::map<Type, std::vector<std::vector<std::byte>>> recorded;
  bool recording = true;
  pair.network().on_sent([&](const PacketView& p) {
    if (recording && p.from == pair.a.index()) recorded[p.header()->type].push_back(copy_of(p));
  });
  warm_up(pair);
  EveryVerb work(pair);
  work.expect_done();
  pair.run_for(seconds(21));  // keepalives, too
  recording = false;
  EXPECT_TRUE(recorded.contains(Type::kInit) && recorded.contains(Type::kData) &&
              recorded.contains(Type::kAck) && recorded.contains(Type::kProbe) &&
              recorded.contains(Type::kProbeAck));
  const Outcome before = outcome_of(pair);
  const ConnectionStats connection = stats_of(pair.b, pair.a);
  const EngineCounters drops = pair.b.look().counters();
  uint64_t others = 0;
  for (const auto& [type, datagrams] : recorded) {
    if (type == Type::kData) continue;
    for (const auto& bytes : datagrams) {
      pair.network().inject(0, 1, bytes, micros(static_cast<int64_t>(++others)));
    }
  }
  pair.run_for(millis(50));
  const EngineCounters after = pair.b.look().counters();
  // INIT is the only one that anybody can send; it is a repetition that needs no answer.
  EXPECT_EQ(after.drop_replay + after.drop_tag - drops.drop_replay - drops.drop_tag,
            others - recorded[Type::kInit].size());
  EXPECT_EQ(outcome_of(pair), before);

  // Old DATA that still opens is a duplicate: acknowledged, never placed.
  for (const auto& bytes : recorded[Type::kData]) pair.network().inject(0, 1, bytes, micros(1));
  pair.run_for(millis(50));
  const Outcome later = outcome_of(pair);
  EXPECT_EQ(later.memory_a, before.memory_a);
  EXPECT_EQ(later.memory_b, before.memory_b);
  EXPECT_EQ(later.placed_b, before.placed_b);
  EXPECT_EQ(stats_of(pair.b, pair.a).counters.payload_bytes_received,
            connection.counters.payload_bytes_received);
  write_and_wait(pair, 50, 100000);
  EXPECT_TRUE(same(pair, 0, 0, 100000));
}

TEST(Replay, of_another_connection_with_the_same_key_opens_nothing) {
  std::vector<std::vector<std::byte>> recorded;
  for (const uint64_t seed : {1u, 2u}) {
    Pair pair(secured(seed));
    uint32_t id_of_b = 0;
    pair.network().on_sent([&](const PacketView& p) {
      if (p.from != pair.a.index() || p.is(Type::kInit)) return;
      id_of_b = p.header()->dcid;
      if (seed == 1) recorded.push_back(copy_of(p));
    });
    warm_up(pair);
    if (seed == 1) continue;
    const uint64_t before = pair.b.look().counters().drop_tag;
    for (auto& bytes : recorded) {
      store32(bytes, wire::at::common::dcid.offset, id_of_b);
      pair.network().inject(0, 1, bytes, micros(1));
    }
    pair.run_for(millis(1));
    EXPECT_EQ(pair.b.look().counters().drop_tag - before, recorded.size());
  }
}

// ---- handshakes by hand

// What an initiator does, written down here once more.
class Stranger {
 public:
  explicit Stranger(uint32_t number) : init(good_init(number)), keys_(secret(number)) {
    init.security = 4;
    init.has_key_share = true;
    init.key_share = {keys_.public_key(), key_id_of(a_key())};
  }
  Bytes hello() const { return init_datagram(init, 1200); }
  // Takes an INIT_ACK; false if its tag is wrong.
  bool take(const Bytes& bytes) {
    wire::Init answer;
    const wire::In body = wire::In(bytes).first(bytes.size() - wire::kTagBytes);
    if (!wire::decode_init(body, answer) || !answer.has_key_share) return false;
    const auto shared = keys_.shared_with(answer.key_share.public_key);
    if (!shared) return false;
    const Bytes ours = hello();
    const FirstKeys keys = derive_keys(
        a_key(), *shared, wire::init_transcript(wire::In(ours).first(ours.size() - wire::kTrailerBytes)),
        wire::init_transcript(body));
    security_.emplace(keys, true, 0);
    peer_ = answer.scid;
    wire::Common header;
    wire::decode_common(body, header);
    crypto::Aead& aead = security_->rx.begin(false, header.path, header.pseq);
    aead.associate(body);
    return aead.open(bytes.data() + body.size());
  }
  Bytes probe(uint32_t pseq) {
    wire::Common header;
    header.type = Type::kProbe;
    header.dcid = peer_;
    header.pseq = pseq;
    Bytes bytes = wire::test::encoded([&](wire::Out out) { return wire::encode_probe(header, {}, 0, out); });
    const size_t size = bytes.size();
    bytes.resize(size + wire::kTagBytes);
    crypto::Aead& aead = security_->tx.begin(false, 0, pseq);
    aead.associate(wire::In(bytes).first(size));
    aead.seal(bytes.data() + size);
    return bytes;
  }

  wire::Init init;

 private:
  static crypto::Key32 secret(uint32_t number) {
    Rng rng(number + 77);
    crypto::Key32 key{};
    for (auto& byte : key) byte = static_cast<uint8_t>(rng.next());
    return key;
  }
  crypto::KeyPair keys_;
  std::optional<Security> security_;
  uint32_t peer_ = 0;
};

TEST(SecuredConnections, four_thousand_and_ninety_six_of_them_live_in_one_engine) {
  BareEngine bare([](EngineConfig& config) {
    require_security(config);
    config.max_payload = 1024;
    config.max_paths = 1;
  });
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (uint32_t i = 0; i < 4096; ++i) {
    strangers.push_back(std::make_unique<Stranger>(i));
    const auto sent = bare.feed(strangers[i]->hello(), source_of(strangers[i]->init));
    ASSERT_EQ(sent.size(), 1u) << i;
    ASSERT_TRUE(strangers[i]->take(sent[0].data)) << i;
    ASSERT_EQ(bare.feed(strangers[i]->probe(i), source_of(strangers[i]->init)).size(), 1u) << "PROBE_ACK";
  }
  for (uint32_t i = 0; i < 4096; i += 97) {  // each still has keys of its own
    EXPECT_EQ(bare.feed(strangers[i]->probe(i + 1), source_of(strangers[i]->init)).size(), 1u);
    EXPECT_TRUE(bare.feed(strangers[(i + 1) % 4096]->probe(i + 1), source_of(strangers[i]->init)).empty());
  }
  EXPECT_EQ(bare.engine().counters().connections_opened, 4096u);
  const Stranger late(5000);
  EXPECT_TRUE(bare.feed(late.hello(), source_of(late.init)).empty());
  EXPECT_EQ(bare.engine().counters().drop_limit, 1u);
  for (const ConnectionStats& each : bare.engine().connection_stats()) {
    EXPECT_EQ(each.security, 2);
    EXPECT_LT(each.memory_bytes, 8192u);
  }
}

TEST(SecuredInit, with_a_public_key_that_makes_the_secret_zero_is_refused) {
  BareEngine bare(require_security);
  Stranger stranger(1);
  stranger.init.key_share.public_key.fill(0);
  EXPECT_TRUE(bare.feed(stranger.hello(), source_of(stranger.init)).empty());
  EXPECT_EQ(bare.engine().counters().drop_malformed, 1u);
  EXPECT_EQ(bare.engine().counters().connections_opened, 0u);
}

TEST(SecuredInit, without_a_key_share_is_refused) {
  BareEngine bare(require_security);
  Stranger stranger(1);
  stranger.init.has_key_share = false;
  EXPECT_TRUE(bare.feed(stranger.hello(), source_of(stranger.init)).empty());
  EXPECT_EQ(bare.engine().counters().drop_malformed, 1u);
}

// Who sees an INIT can race it with one that bears the same ids and another key.
TEST(SecuredInit, that_comes_behind_a_forged_one_with_its_ids_gets_an_answer_of_its_own) {
  BareEngine bare([](EngineConfig& config) {
    require_security(config);
    config.max_paths = 1;  // no challenges
  });
  Stranger good(1), forged(2);
  forged.init.scid = good.init.scid;
  forged.init.endpoint_id = good.init.endpoint_id;
  forged.init.nonce = good.init.nonce;
  ASSERT_EQ(bare.feed(forged.hello(), source_of(good.init)).size(), 1u);
  const auto sent = bare.feed(good.hello(), source_of(good.init));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(good.take(sent[0].data));
  const auto again = bare.feed(good.hello(), source_of(good.init));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(good.take(again[0].data)) << "the same answer to a repetition";
  EXPECT_EQ(bare.feed(good.probe(0), source_of(good.init)).size(), 1u);
  EXPECT_TRUE(bare.feed(good.hello(), source_of(good.init)).empty()) << "it has shown that it has it";
}

}  // namespace
}  // namespace mroce::test
