// INIT from anybody: answered by no more than it brought, bounded in number, counted by its fault.
#include <map>
#include <set>

#include "tests/scenarios/hostile.h"

namespace mroce::test {
namespace {

using wire::Type;

size_t total(const std::vector<BareEngine::Sent>& sent) {
  size_t bytes = 0;
  for (const auto& each : sent) bytes += each.bytes;
  return bytes;
}

TEST(HostileInit, is_answered_by_one_datagram_of_its_own_size) {
  BareEngine bare;
  for (const size_t size : {1200u, 1500u, 4156u, 8900u}) {
    const wire::Init init = good_init(static_cast<uint32_t>(size));
    const auto sent = bare.feed(init_datagram(init, size), source_of(init));
    ASSERT_EQ(sent.size(), 1u) << size;
    EXPECT_EQ(sent[0].header.type, Type::kInitAck);
    EXPECT_LE(sent[0].bytes, size);
    EXPECT_EQ(sent[0].to.ip, init.ports[0].address);
  }
}

TEST(HostileInit, whose_sender_never_shows_again_costs_the_victim_no_more_than_three_times_its_size) {
  BareEngine bare;
  const wire::Init init = good_init(1);
  const Bytes bytes = init_datagram(init);
  size_t sent = total(bare.feed(bytes, source_of(init)));
  for (int i = 0; i < 600; ++i) {
    for (const auto& each : bare.run_for(millis(100))) {
      EXPECT_LE(each.bytes, bytes.size());
      sent += each.bytes;
    }
  }
  EXPECT_LE(sent, 3 * bytes.size());
  EXPECT_TRUE(bare.engine().quiescent()) << "and is forgotten";
}

wire::Init answer_to(const BareEngine::Sent& sent) {
  wire::Init answer;
  EXPECT_TRUE(wire::decode_init(wire::In(sent.data).first(sent.data.size() - wire::kTrailerBytes), answer));
  return answer;
}

// Endpoint ids are no secret: all whom an endpoint ever called know its own.
TEST(HostileInit, with_the_endpoint_id_of_another_hears_nothing_of_the_connection_of_that_one) {
  BareEngine bare;
  wire::Init first = good_init(1);
  first.ports[first.nports++] = {BareEngine::host(200, 9), 24, 0};
  const auto accepted = bare.feed(init_datagram(first), source_of(first));
  ASSERT_EQ(accepted.size(), 1u);
  const wire::Init secrets = answer_to(accepted[0]);

  wire::Init thief = good_init(2);
  thief.endpoint_id = first.endpoint_id;
  const auto stolen = bare.feed(init_datagram(thief), {BareEngine::host(66, 6), first.listen_port});
  ASSERT_EQ(stolen.size(), 1u);
  const wire::Init got = answer_to(stolen[0]);
  EXPECT_EQ(got.flags, 0u) << "a connection of its own";
  EXPECT_NE(got.scid, secrets.scid);
  EXPECT_NE(got.reset_token, secrets.reset_token);
  EXPECT_NE(got.first_cpsn, secrets.first_cpsn);
  EXPECT_NE(got.first_pseq, secrets.first_pseq);

  wire::Init other_port = thief;
  other_port.scid += 1;
  ++other_port.listen_port;
  const auto beside = bare.feed(init_datagram(other_port), {source_of(first).ip, other_port.listen_port});
  ASSERT_EQ(beside.size(), 1u);
  EXPECT_EQ(answer_to(beside[0]).flags, 0u) << "nor another program of the same host";

  for (const Gid& address : {source_of(first).ip, BareEngine::host(200, 9)}) {
    wire::Init again = first;
    again.scid += 7;
    const auto told = bare.feed(init_datagram(again), {address, first.listen_port});
    ASSERT_EQ(told.size(), 1u);
    const wire::Init known = answer_to(told[0]);
    EXPECT_EQ(known.flags, static_cast<uint8_t>(wire::InitAckFlag::kExists)) << "the peer itself is told";
    EXPECT_EQ(known.scid, secrets.scid);
    EXPECT_EQ(known.known_cid, first.scid);
    EXPECT_EQ(known.reset_token, secrets.reset_token);
    EXPECT_EQ(known.first_cpsn, 0u);
    EXPECT_EQ(known.first_pseq, 0u);
  }
}

TEST(HostileInit, repeated_from_elsewhere_is_answered_within_what_came_from_where_the_answer_goes) {
  BareEngine bare;
  const wire::Init init = good_init(1);
  const Bytes bytes = init_datagram(init);
  size_t sent = total(bare.feed(bytes, source_of(init)));
  for (int i = 0; i < 20; ++i) {
    for (const auto& each : bare.feed(bytes, {BareEngine::host(66, 6), init.listen_port})) {
      EXPECT_EQ(each.to.ip, source_of(init).ip);
      sent += each.bytes;
    }
  }
  EXPECT_LE(sent, 3 * bytes.size());
  EXPECT_EQ(bare.feed(bytes, source_of(init)).size(), 1u) << "the peer itself gets its answer again";
}

TEST(HostileInit, flood_is_bounded_and_passes) {
  constexpr uint32_t kMost = 100;
  BareEngine bare([](EngineConfig& config) {
    config.max_connections = kMost;
    config.retry_above = kMost;  // else it would not get as far as that
  });
  size_t in = 0, out = 0;
  for (uint32_t i = 0; i < 5000; ++i) {
    const wire::Init init = good_init(i);
    const Bytes bytes = init_datagram(init, 1200);
    in += bytes.size();
    for (const auto& each : bare.feed(bytes, source_of(init))) {
      EXPECT_LE(each.bytes, bytes.size());
      out += each.bytes;
    }
  }
  EXPECT_EQ(bare.engine().counters().connections_opened, kMost);
  EXPECT_EQ(bare.engine().counters().drop_limit, 5000u - kMost);
  EXPECT_LE(bare.engine().connection_stats().size(), kMost);
  out += total(bare.run_for(seconds(30)));
  EXPECT_LE(out, in);
  EXPECT_TRUE(bare.engine().quiescent());
  const wire::Init late = good_init(9999);
  EXPECT_EQ(bare.feed(init_datagram(late), source_of(late)).size(), 1u) << "the next one is welcome";
}

TEST(HostileInit, of_another_version_gets_one_small_answer_for_each) {
  BareEngine bare;
  for (const uint8_t version : std::array<uint8_t, 4>{0, 2, 7, 15}) {
    const wire::Init init = good_init(version);
    const Bytes bytes = init_datagram(init, 1200, version);
    const auto sent = bare.feed(bytes, source_of(init));
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].header.type, Type::kVersion);
    EXPECT_LT(sent[0].bytes, 64u);
    EXPECT_EQ(sent[0].to, source_of(init));
  }
  EXPECT_EQ(bare.engine().counters().drop_version, 4u);
  EXPECT_TRUE(bare.run_for(seconds(60)).empty()) << "and nothing is remembered of it";
}

TEST(HostileInit, of_another_version_that_is_too_small_or_damaged_gets_no_answer) {
  BareEngine bare;
  const wire::Init init = good_init(1);
  Bytes small = init_datagram(init, 1199, 2);
  EXPECT_TRUE(bare.feed(small, source_of(init)).empty());
  Bytes damaged = init_datagram(init, 1200, 2);
  damaged[100] ^= std::byte{1};
  EXPECT_TRUE(bare.feed(damaged, source_of(init)).empty());
  for (int type = 1; type < 16; ++type) {
    Bytes other = init_datagram(init, 1200, 2);
    other[0] = static_cast<std::byte>(0x20 | type);
    Network::resign(other);
    EXPECT_TRUE(bare.feed(other, source_of(init)).empty()) << "type " << type << ": no answer to answers";
  }
  EXPECT_EQ(bare.engine().counters().drop_version, 17u);
}

struct BadInit {
  const char* name;
  std::function<void(wire::Init&)> spoil;
  uint64_t EngineCounters::*counter;
};

class RefusedInit : public testing::TestWithParam<BadInit> {};

TEST_P(RefusedInit, is_counted_and_not_answered) {
  BareEngine bare;
  wire::Init init = good_init(1);
  GetParam().spoil(init);
  EXPECT_TRUE(bare.feed(init_datagram(init), {BareEngine::host(2), 1024}).empty());
  EXPECT_EQ(bare.engine().counters().*GetParam().counter, 1u);
  EXPECT_EQ(bare.engine().counters().connections_opened, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    with, RefusedInit,
    testing::Values(
        BadInit{"another_magic", [](wire::Init& i) { i.magic ^= 1; }, &EngineCounters::drop_magic},
        BadInit{"only_newer_versions", [](wire::Init& i) { i.version_min = i.version_max = 2; },
                &EngineCounters::drop_version},
        BadInit{"connection_id_zero", [](wire::Init& i) { i.scid = 0; }, &EngineCounters::drop_malformed},
        BadInit{"no_security_mode_that_we_have", [](wire::Init& i) { i.security = 4; },
                &EngineCounters::drop_security},
        BadInit{"a_tiny_payload", [](wire::Init& i) { i.payload_mtu = 511; },
                &EngineCounters::drop_malformed},
        BadInit{"no_paths", [](wire::Init& i) { i.max_paths = 0; }, &EngineCounters::drop_malformed},
        BadInit{"a_tiny_window", [](wire::Init& i) { i.cpsn_window = 63; }, &EngineCounters::drop_malformed},
        BadInit{"no_listening_port", [](wire::Init& i) { i.listen_port = 0; },
                &EngineCounters::drop_malformed}),
    [](const auto& param) { return param.param.name; });

TEST(HostileInit, with_the_largest_values_everywhere_is_cut_down_to_ours) {
  BareEngine bare;
  wire::Init init = good_init(1);
  init.payload_mtu = 65535;
  init.max_paths = 255;
  init.cpsn_window = 0xffffffff;
  init.receive_buffer = 0xffffffff;
  init.max_streams = 65535;
  ASSERT_EQ(bare.feed(init_datagram(init), source_of(init)).size(), 1u);
  const auto stats = bare.engine().connection_stats();
  ASSERT_EQ(stats.size(), 1u);
  EXPECT_LE(stats[0].payload_mtu, 4096u);
  EXPECT_LE(stats[0].paths.size(), 32u);
  EXPECT_LT(stats[0].memory_bytes, 65536u);
}

// The handshake with any one byte changed ends in a working pair or in an error, never in a crash or a hang.
TEST(ChangedHandshake, with_one_bit_flipped_works_or_fails_cleanly) {
  std::map<WcStatus, int> ends;
  for (const Type type : {Type::kInit, Type::kInitAck}) {
    for (size_t byte = 0; byte < wire::kCommonBytes + wire::kInitFixedBytes + wire::kInitPortBytes; ++byte) {
      SCOPED_TRACE("byte " + std::to_string(byte));
      Pair pair;
      bool done = false;
      pair.network().set_meddler([&](const PacketView& p, std::vector<std::byte>& bytes) {
        if (done || !p.is(type)) return;
        done = true;
        bytes[byte] ^= static_cast<std::byte>(1u << (byte * 5 % 8));
        Network::resign(bytes);
      });
      ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100000)}, pair.mb.addr, pair.mb.rkey));
      const auto wc = pair.wait_for(pair.a, pair.qa.send_cq, seconds(10));
      ASSERT_TRUE(wc.has_value());
      ++ends[wc->status];
      if (wc->status == WcStatus::kSuccess) {
        EXPECT_TRUE(same(pair, 0, 0, 100000));
      }
    }
  }
  EXPECT_GT(ends[WcStatus::kSuccess], 150)
      << "most changes only make the packet be dropped, and the next one does it";
  EXPECT_EQ(ends[WcStatus::kSuccess] + ends[WcStatus::kRetryExcErr], 240);
}

TEST(SpoofedInit, of_a_known_address_does_not_cut_the_connection_that_is_in_use) {
  Siege siege;
  siege.begin();
  wire::Init init = good_init(1);
  init.ports[0].address = siege.pair.a.gid();
  std::vector<Bytes> forged;
  for (uint32_t i = 0; i < 50; ++i) {
    wire::Init each = good_init(i);
    each.ports[0].address = siege.pair.a.gid();
    forged.push_back(init_datagram(each));
  }
  siege.inject_all(forged);
  for (const uint64_t wr_id : {1u, 2u, 4u, 5u}) EXPECT_TRUE(completes(siege.pair, siege.pair.qa, wr_id));
  EXPECT_TRUE(completes(siege.pair, siege.pair.qb, 3));
  EXPECT_TRUE(same(siege.pair, 0, 0, 700000));
  // New streams must still find the real peer.
  const Link link = add_link(siege.pair);
  ASSERT_TRUE(link.b.write(8, {siege.pair.mb.sge(0, 1000)}, siege.pair.ma.addr, siege.pair.ma.rkey));
  EXPECT_TRUE(completes(siege.pair, link.b, 8, WcStatus::kSuccess, seconds(1)));
}

}  // namespace
}  // namespace mroce::test
