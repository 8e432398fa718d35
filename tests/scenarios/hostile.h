// What the hostile scenarios share: a pair of endpoints under siege, and datagrams of every type.
//
// The attacker of these tests knows addresses, ports and connection ids, and makes every integrity check
// right. Mode 0 is no protection against somebody who also knows which packet numbers are in use at the
// moment: such a one can take the place of the peer. So the numbers that it writes lie outside the windows,
// or belong to packets that have arrived already.
#pragma once

#include <string>
#include <vector>

#include "core/wire/test_support.h"
#include "tests/scenarios/support.h"

namespace mroce::test {

using Bytes = std::vector<std::byte>;

struct Specimen {
  std::string name;
  Bytes bytes;  // with a good trailer
};

inline Bytes with_trailer(Bytes body) {
  body.resize(body.size() + wire::kTrailerBytes);
  Network::resign(body);
  return body;
}

// Two endpoints in the middle of transfers in both directions.
class Siege {
 public:
  explicit Siege(uint64_t seed = 1) : pair(options(seed)) {
    pair.network().on_sent([this](const PacketView& p) { watch(p); });
    for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(pair.qb.post_recv(100 + i, {pair.mb.sge(700000, 1000)}));
    write_and_wait(pair, 999, 64);
    pair.run_for(millis(20));
    old_cpsn = cpsn;
    old_pseq = pseq;
  }

  // Work for some eight milliseconds.
  void begin() {
    Pair::fill(pair.bytes_a(0, 400000), 1);
    Pair::fill(pair.bytes_b(400000, 300000), 2);
    pair.a.memory().set_word(pair.ma.addr + 900000, 0);
    pair.b.memory().set_word(pair.mb.addr + 900000, 7);
    EXPECT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 400000)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(pair.qa.read(2, {pair.ma.sge(400000, 100000)}, pair.mb.addr + 400000, pair.mb.rkey));
    EXPECT_TRUE(pair.qb.write(3, {pair.mb.sge(500000, 200000)}, pair.ma.addr + 500000, pair.ma.rkey));
    EXPECT_TRUE(pair.qa.fetch_add(4, pair.ma.sge(900000, 8), pair.mb.addr + 900000, pair.mb.rkey, 5));
    EXPECT_TRUE(pair.qa.send(5, {pair.ma.sge(0, 1000)}));
    pair.pump();
  }
  void inject(const Bytes& bytes, Nanos after = Nanos{0}) {
    pair.network().inject(pair.a.index(), pair.b.index(), bytes, after);
  }
  // Spreads them over the transfer.
  void inject_all(const std::vector<Bytes>& all) {
    for (size_t i = 0; i < all.size(); ++i) {
      inject(all[i], micros(static_cast<int64_t>(7000 * i / all.size())));
    }
  }
  // Everything completed as if nobody had interfered, and goes on to do so.
  void expect_unharmed() {
    for (const uint64_t wr_id : {1u, 2u, 4u, 5u}) EXPECT_TRUE(completes(pair, pair.qa, wr_id));
    EXPECT_TRUE(completes(pair, pair.qb, 3));
    EXPECT_TRUE(receives(pair, pair.qb, 100));
    EXPECT_TRUE(same(pair, 0, 0, 700000));
    EXPECT_EQ(pair.a.memory().word(pair.ma.addr + 900000), 7u);
    EXPECT_EQ(pair.b.memory().word(pair.mb.addr + 900000), 12u);
    EXPECT_EQ(pair.b.memory().atomics, 1u);
    pair.run_for(seconds(20));
    EXPECT_TRUE(is_quiet(pair, pair.b, pair.qb.recv_cq, millis(1)));
    EXPECT_EQ(pair.qa.state(), QpState::kRts);
    EXPECT_EQ(pair.qb.state(), QpState::kRts);
    EXPECT_TRUE(pair.a.events().empty() && pair.b.events().empty());
    EXPECT_EQ(open_connections(pair.a), 1u);
    EXPECT_EQ(open_connections(pair.b), 1u);
    write_and_wait(pair, 6, 100000);
    EXPECT_TRUE(same(pair, 0, 0, 100000));
  }
  const EngineCounters& counters_of_b() const { return pair.b.look().counters(); }

  // A header for B, numbers of something that arrived long ago.
  wire::Common header(wire::Type type) const {
    wire::Common common;
    common.type = type;
    common.dcid = id_of_b;
    common.pseq = old_pseq;
    return common;
  }
  Bytes data(wire::DataOp op, size_t payload) const {
    Rng rng(static_cast<uint64_t>(op) + 77);
    wire::Data data = wire::test::any_data(rng, op, payload);
    data.cpsn = old_cpsn;
    data.stream = static_cast<uint16_t>(pair.qb.number & 0xffff);
    data.msn = 0;
    data.offset = 0;
    data.length = static_cast<uint32_t>(payload);
    data.va = pair.mb.addr;
    data.rkey = pair.mb.rkey;
    Bytes body(payload, std::byte{0xee});
    if (wire::is_stream_control(op)) {
      body.assign(wire::kStreamControlBytes, std::byte{0});
      wire::encode_stream_control(wire::test::any_stream_control(rng), body.data());
    }
    return with_trailer(wire::test::encoded_data(header(wire::Type::kData), data, body));
  }

  // One datagram of every type and operation.
  std::vector<Specimen> zoo() const {
    using wire::DataOp;
    using wire::Type;
    std::vector<Specimen> all;
    for (const DataOp op : wire::test::kAllOps) {
      all.push_back(
          {"DATA op " + std::to_string(static_cast<int>(op)), data(op, wire::carries_message(op) ? 100 : 0)});
    }
    const auto add = [&](const char* name, auto&& encode) {
      all.push_back({name, with_trailer(wire::test::encoded(encode, 2048))});
    };
    Rng rng(5);
    wire::Ack ack = last_ack;
    ack.ncredits = 1;
    ack.credits[0] = {static_cast<uint16_t>(pair.qb.number & 0xffff), 0, 1};
    add("ACK", [&](wire::Out out) { return wire::encode_ack(header(Type::kAck), ack, out); });
    wire::Probe probe;
    probe.nstreams = 1;
    probe.streams[0] = static_cast<uint16_t>(pair.qb.number & 0xffff);
    add("PROBE", [&](wire::Out out) { return wire::encode_probe(header(Type::kProbe), probe, 0, out); });
    add("PROBE_ACK", [&](wire::Out out) { return wire::encode_probe_ack(header(Type::kProbeAck), {}, out); });
    add("CLOSE", [&](wire::Out out) {
      return wire::encode_close(header(Type::kClose), {old_cpsn ^ 0x5a5a0000U, 0}, out);
    });
    add("CLOSE_ACK", [&](wire::Out out) { return wire::encode_close(header(Type::kCloseAck), {}, out); });
    add("RESET", [&](wire::Out out) { return wire::encode_reset(header(Type::kReset), {}, out); });
    add("VERSION", [&](wire::Out out) {
      return wire::encode_version(header(Type::kVersion), wire::test::any_version_list(rng), out);
    });
    wire::Init init = wire::test::any_init(rng);
    init.magic = wire::kMagic;
    init.version_min = init.version_max = wire::kVersion;
    add("INIT_ACK",
        [&](wire::Out out) { return wire::encode_init(header(Type::kInitAck), init, 1200, out); });
    wire::Retry retry;
    retry.cookie.length = 20;
    add("RETRY", [&](wire::Out out) { return wire::encode_retry(header(Type::kRetry), retry, out); });
    for (const Type type : {Type::kUdDatagram, Type::kCm}) {
      Bytes plain(200, std::byte{0});
      wire::encode_common(header(type), plain.data());
      all.push_back({"type " + std::to_string(static_cast<int>(type)), with_trailer(plain)});
    }
    return all;
  }

  Pair pair;
  uint32_t id_of_a = 0, id_of_b = 0;  // as the peer writes them
  uint32_t cpsn = 0, pseq = 0;        // newest from A
  uint32_t old_cpsn = 0, old_pseq = 0;
  wire::Ack last_ack;      // from A
  wire::Reset token_of_b;  // what ends the connection at B

 private:
  static PairOptions options(uint64_t seed) {
    PairOptions options;
    options.seed = seed;
    options.paths = 2;
    options.faults.rate_bps = 250000000;
    return options;
  }
  void watch(const PacketView& p) {
    if (p.from == pair.b.index() && p.is(wire::Type::kInitAck)) {
      wire::Init init;
      if (wire::decode_init(p.bytes.first(p.bytes.size() - wire::kTrailerBytes), init))
        token_of_b.token = init.reset_token;
    }
    if (p.header() == nullptr || p.is(wire::Type::kInit) || p.is(wire::Type::kInitAck)) return;
    (p.from == pair.a.index() ? id_of_b : id_of_a) = p.header()->dcid;
    if (p.from != pair.a.index()) return;
    if (p.data() != nullptr) {
      cpsn = p.data()->cpsn;
      pseq = p.header()->pseq;
    }
    if (p.ack() != nullptr) last_ack = *p.ack();
  }
};

// An engine alone, fed by hand.
class BareEngine {
 public:
  struct Sent {
    UdpAddress to;
    size_t bytes = 0;
    wire::Common header;
    Bytes data;
  };
  explicit BareEngine(const std::function<void(EngineConfig&)>& tweak = {})
      : engine_(config(tweak), memory_) {}

  std::vector<Sent> feed(const Bytes& bytes, const UdpAddress& from) {
    engine_.on_burst(now_, {0, from, Ecn::kNotEct}, bytes, static_cast<uint32_t>(bytes.size()));
    return drain();
  }
  std::vector<Sent> run_for(Nanos duration) {
    std::vector<Sent> all;
    const Time end = now_ + duration;
    while (engine_.next_deadline() <= end) {
      now_ = std::max(now_, engine_.next_deadline());
      engine_.on_timeout(now_);
      for (const Sent& each : drain()) all.push_back(each);
    }
    now_ = end;
    return all;
  }
  Engine& engine() { return engine_; }
  Time now() const { return now_; }

 private:
  static EngineConfig config(const std::function<void(EngineConfig&)>& tweak) {
    EngineConfig config;
    LocalPort port;
    port.address = host(1);
    port.link_mtu = 9000;
    config.ports = {port};
    config.endpoint_id.fill(0x77);
    if (tweak) tweak(config);
    return config;
  }
  std::vector<Sent> drain() {
    std::vector<Sent> all;
    TxBurst burst;
    while (engine_.poll_transmit(now_, burst)) {
      Sent sent{burst.to, burst.total_bytes, {}, {}};
      for (const Slice& slice : burst.slices) {
        sent.data.insert(sent.data.end(), slice.data, slice.data + slice.length);
      }
      wire::decode_common(sent.data, sent.header);
      all.push_back(sent);
    }
    return all;
  }
  WorldMemory memory_;
  Engine engine_;
  Time now_ = time_from_ns(1000000000);

 public:
  static Gid host(uint8_t last, uint8_t before = 0) {
    Gid gid;
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[12] = 10;
    gid.raw[14] = before;
    gid.raw[15] = last;
    return gid;
  }
};

// An INIT as a stranger may send it, and where it comes from.
inline wire::Init good_init(uint32_t number) {
  Rng rng(number + 1);
  wire::Init init;
  init.security = 1;
  init.scid = number + 1;
  for (auto& byte : init.endpoint_id) byte = static_cast<uint8_t>(rng.next());
  for (auto& byte : init.reset_token) byte = static_cast<uint8_t>(rng.next());
  init.nonce = rng.next();
  init.listen_port = 61440;
  init.payload_mtu = 4096;
  init.max_paths = 8;
  init.nports = 1;
  init.max_streams = 65535;
  init.cpsn_window = 16384;
  init.first_cpsn = static_cast<uint32_t>(rng.next());
  init.first_pseq = static_cast<uint32_t>(rng.next());
  init.receive_buffer = 1 << 20;
  init.ports[0].address =
      BareEngine::host(static_cast<uint8_t>(number % 250 + 2), static_cast<uint8_t>(number / 250));
  init.ports[0].prefix_bits = 120;
  return init;
}

inline Bytes init_datagram(const wire::Init& init, size_t size = 4156, uint8_t version = wire::kVersion) {
  wire::Common header;
  header.version = version;
  header.type = wire::Type::kInit;
  return with_trailer(wire::test::encoded(
      [&](wire::Out out) { return wire::encode_init(header, init, size - wire::kTrailerBytes, out); }, 9000));
}

inline UdpAddress source_of(const wire::Init& init) {
  return {init.ports[0].address, 1024};
}

}  // namespace mroce::test
