// Forged acknowledgements, bogus NAKs, CLOSE and RESET of somebody else.
#include "tests/scenarios/hostile.h"

namespace mroce::test {
namespace {

using wire::Type;

Bytes ack_of(const Siege& siege, const wire::Ack& ack) {
  return with_trailer(wire::test::encoded(
      [&](wire::Out out) { return wire::encode_ack(siege.header(Type::kAck), ack, out); }));
}

TEST(ForgedAck, of_what_was_never_sent_is_dropped_and_counted) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> forged;
  for (const uint32_t ahead : {20000u, 70000u, 0x1000000u, 0x40000000u, 0x7fffffffu}) {
    wire::Ack cack = siege.last_ack;
    cack.nblocks = 0;
    cack.cack += ahead;
    forged.push_back(ack_of(siege, cack));
    wire::Ack largest = siege.last_ack;
    largest.nblocks = 1;
    largest.blocks[0].path = 0;
    largest.blocks[0].largest += ahead;
    largest.blocks[0].vector.fill(~0ULL);
    forged.push_back(ack_of(siege, largest));
  }
  siege.inject_all(forged);
  siege.expect_unharmed();
  EXPECT_EQ(siege.counters_of_b().drop_forged_ack, forged.size());
}

TEST(ForgedAck, of_long_ago_is_harmless) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> forged;
  for (const uint32_t behind : {1u, 300u, 100000u, 0x40000000u}) {
    wire::Ack ack = siege.last_ack;
    ack.cack -= behind;
    ack.cpsn_limit -= behind;
    for (uint8_t i = 0; i < ack.nblocks; ++i) ack.blocks[i].largest -= behind;
    forged.push_back(ack_of(siege, ack));
  }
  siege.inject_all(forged);
  siege.expect_unharmed();
}

TEST(ForgedAck, about_a_path_that_does_not_exist_is_counted) {
  Siege siege;
  siege.begin();
  wire::Ack ack = siege.last_ack;
  ack.nblocks = 1;
  std::vector<Bytes> forged;
  for (const uint8_t path : std::array<uint8_t, 3>{2, 17, 63}) {
    ack.blocks[0].path = path;
    forged.push_back(ack_of(siege, ack));
  }
  siege.inject_all(forged);
  siege.expect_unharmed();
  EXPECT_EQ(siege.counters_of_b().drop_path, 3u);
}

TEST(ForgedAck, with_a_limit_beyond_the_window_opens_nothing) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> forged;
  for (const uint32_t ahead : {20000u, 1u << 20, 0x7fffffffu}) {
    wire::Ack ack = siege.last_ack;
    ack.nblocks = 0;
    ack.cpsn_limit = ack.cack + ahead;
    forged.push_back(ack_of(siege, ack));
  }
  siege.inject_all(forged);
  siege.expect_unharmed();
}

TEST(BogusNak, for_numbers_that_are_not_outstanding_is_ignored) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> forged;
  for (int code = 1; code <= 10; ++code) {
    wire::Ack ack = siege.last_ack;
    ack.nblocks = 0;
    ack.nnaks = 16;
    for (uint32_t i = 0; i < 16; ++i) {
      ack.naks[i] = {siege.last_ack.cack + (i < 8 ? 0u - 2 - i : 100000 * i),
                     static_cast<wire::NakCode>(code), 31};
    }
    forged.push_back(ack_of(siege, ack));
  }
  siege.inject_all(forged);
  siege.expect_unharmed();
  EXPECT_EQ(siege.counters_of_b().naks_received, 160u);
}

TEST(ForgedReset, without_the_token_is_dropped_and_counted) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> forged;
  Rng rng(1);
  for (int i = 0; i < 128; ++i) {
    wire::Reset reset = siege.token_of_b;
    reset.token[static_cast<size_t>(i) / 8] ^= static_cast<uint8_t>(1u << (i % 8));
    forged.push_back(with_trailer(wire::test::encoded(
        [&](wire::Out out) { return wire::encode_reset(siege.header(Type::kReset), reset, out); })));
  }
  siege.inject_all(forged);
  siege.expect_unharmed();
  EXPECT_EQ(siege.counters_of_b().drop_reset, 128u);
}

TEST(Reset, with_the_token_ends_the_connection_at_once) {
  Siege siege;
  siege.begin();
  siege.pair.run_for(millis(1));
  siege.inject(with_trailer(wire::test::encoded(
      [&](wire::Out out) { return wire::encode_reset(siege.header(Type::kReset), siege.token_of_b, out); })));
  siege.pair.run_for(micros(1));
  EXPECT_EQ(siege.pair.qb.state(), QpState::kErr);
  EXPECT_TRUE(completes(siege.pair, siege.pair.qb, 3, WcStatus::kRetryExcErr, millis(1)));
  EXPECT_EQ(siege.counters_of_b().connections_failed, 1u);
}

TEST(ForgedClose, that_names_numbers_outside_the_window_ends_nothing) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> forged;
  for (const uint32_t offset : {0u - 1000u, 50000u, 0x1000000u, 0x80000000u, 0u - 100000u}) {
    const wire::Close close{siege.last_ack.cack + offset, 0};
    forged.push_back(with_trailer(wire::test::encoded(
        [&](wire::Out out) { return wire::encode_close(siege.header(Type::kClose), close, out); })));
  }
  siege.inject_all(forged);
  siege.expect_unharmed();
}

TEST(ForgedClose, acknowledgement_of_a_close_that_was_not_sent_is_ignored) {
  Siege siege;
  siege.begin();
  const Bytes forged = with_trailer(wire::test::encoded([&](wire::Out out) {
    return wire::encode_close(siege.header(Type::kCloseAck), {siege.last_ack.cack, 0}, out);
  }));
  siege.inject_all(std::vector<Bytes>(20, forged));
  siege.expect_unharmed();
}

TEST(ForgedProbe, is_answered_by_no_more_than_it_brought) {
  Siege siege;
  siege.begin();
  wire::Probe probe;
  probe.nstreams = 64;
  for (size_t i = 0; i < 64; ++i) probe.streams[i] = static_cast<uint16_t>(i * 1021);
  wire::Common header = siege.header(Type::kProbe);
  header.flags = wire::flag::kAckRequest;
  const Bytes forged = with_trailer(
      wire::test::encoded([&](wire::Out out) { return wire::encode_probe(header, probe, 0, out); }));
  size_t largest_answer = 0;
  siege.pair.network().on_sent([&](const PacketView& p) {
    if (p.is(Type::kProbeAck)) largest_answer = std::max(largest_answer, p.bytes.size());
  });
  siege.inject_all(std::vector<Bytes>(500, forged));
  siege.expect_unharmed();
  EXPECT_GT(largest_answer, 0u);
  EXPECT_LE(largest_answer, forged.size());
}

// ---- sequences

TEST(RandomDatagrams, with_good_trailers_and_blind_numbers_change_nothing) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Siege siege(seed);
    siege.begin();
    Rng rng(seed);
    std::vector<Bytes> all;
    while (all.size() < 2000) {
      wire::Common header = wire::test::any_common(rng, static_cast<Type>(rng.between(1, 15)));
      header.version = wire::kVersion;
      header.dcid = rng.chance(0.9) ? siege.id_of_b : header.dcid;
      header.flags &= static_cast<uint8_t>(~wire::flag::kExtension);
      Bytes bytes;
      switch (header.type) {
        case Type::kData: {
          // Of the numbers, one may be right: an attacker who has guessed half.
          const bool know_pseq = rng.chance(0.5);
          if (know_pseq) header.pseq = siege.old_pseq;
          const wire::DataOp op = wire::test::kAllOps[rng.below(wire::test::kAllOps.size())];
          const size_t payload = wire::test::any_payload_bytes(rng, op);
          wire::Data data = wire::test::any_data(rng, op, payload);
          if (!know_pseq && rng.chance(0.5)) data.cpsn = siege.cpsn + static_cast<uint32_t>(rng.below(100));
          if (know_pseq && data.cpsn - siege.cpsn + 0x200000 < 0x400000) continue;
          if (!know_pseq && header.pseq - siege.pseq + 0x40000 < 0x80000) continue;
          data.stream = static_cast<uint16_t>(siege.pair.qb.number & 0xffff);
          bytes = wire::test::encoded_data(header, data, wire::test::any_bytes(rng, payload));
          break;
        }
        case Type::kAck:
          bytes = wire::test::encoded([&](wire::Out out) {
            wire::Ack ack = wire::test::any_ack(rng);
            ack.has_port_status = false;
            return wire::encode_ack(header, ack, out);
          });
          break;
        case Type::kProbe:
          bytes = wire::test::encoded(
              [&](wire::Out out) { return wire::encode_probe(header, wire::test::any_probe(rng), 0, out); });
          break;
        default:
          bytes.resize(rng.between(wire::kCommonBytes, 400));
          for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next());
          wire::encode_common(header, bytes.data());
          break;
      }
      all.push_back(with_trailer(std::move(bytes)));
    }
    siege.inject_all(all);
    siege.expect_unharmed();
  }
}

// An attacker on the way, who sees and changes everything: no promise but that we do not crash, do not touch
// memory outside the regions (the memory of the tests stops us there), and come to an end.
class OnTheWay : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(seed, OnTheWay, testing::Range<uint64_t>(1, 41));

TEST_P(OnTheWay, changes_of_genuine_packets_end_in_completions_of_some_kind) {
  PairOptions options;
  options.seed = GetParam();
  options.faults.loss = 0.02;
  options.memory_bytes = 200000;
  Pair pair(options);
  Rng rng(GetParam() * 7919);
  std::vector<Bytes> seen;
  pair.network().set_meddler([&](const PacketView& p, std::vector<std::byte>& bytes) {
    if (seen.size() < 500) seen.emplace_back(p.bytes.begin(), p.bytes.end());
    if (!rng.chance(0.02)) return;
    switch (rng.below(4)) {
      case 0:  // another packet of some time
        bytes = seen[rng.below(seen.size())];
        return;
      case 1:  // a number becomes another
        for (int i = 0; i < 4; ++i)
          bytes[rng.below(std::min<size_t>(bytes.size(), 100))] = static_cast<std::byte>(rng.next());
        break;
      default:
        bytes[rng.below(std::min<size_t>(bytes.size(), 120))] ^= static_cast<std::byte>(1u << rng.below(8));
        break;
    }
    if (bytes.size() > wire::kTrailerBytes) Network::resign(bytes);
  });
  pair.network().set_coalesce(false);
  uint64_t posted = 0;
  for (uint64_t i = 0; i < 15; ++i) {
    posted += pair.qb.post_recv(i, {pair.mb.sge(0, 20000)}).has_value() ? 0u : 0u;
    posted += pair.qa.write(i, {pair.ma.sge(0, 50000)}, pair.mb.addr, pair.mb.rkey).has_value() ? 1u : 0u;
    posted += pair.qa.send(i, {pair.ma.sge(0, 20000)}).has_value() ? 1u : 0u;
    posted += pair.qa.read(i, {pair.ma.sge(100000, 50000)}, pair.mb.addr, pair.mb.rkey).has_value() ? 1u : 0u;
    posted += pair.qa.fetch_add(i, pair.ma.sge(0, 8), pair.mb.addr, pair.mb.rkey, 1).has_value() ? 1u : 0u;
  }
  uint64_t completed = 0;
  // 7: a receive that never gets its credit may wait for ever, so the receives are ended by hand.
  pair.run_until(
      [&] {
        completed += pair.a.poll_all(pair.qa.send_cq).size();
        return completed == posted;
      },
      seconds(30));
  pair.qa.to_error();
  pair.run_for(seconds(1));
  completed += pair.a.poll_all(pair.qa.send_cq).size();
  EXPECT_EQ(completed, posted) << "each work request completes exactly once";
  pair.network().set_meddler(nullptr);
  pair.a.restart();
  pair.b.restart();
  const Mr ma = pair.a.make_mr(50000), mb = pair.b.make_mr(50000);
  const Link link = add_link(pair);
  ASSERT_TRUE(link.a.write(1, {ma.sge()}, mb.addr, mb.rkey));
  EXPECT_TRUE(completes(pair, link.a, 1));
}

}  // namespace
}  // namespace mroce::test
