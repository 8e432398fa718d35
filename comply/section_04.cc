// §4.1 to §4.8: addresses, the handshake, and connections that exist already.
#include <set>

#include "comply/section.h"

namespace mroce::comply {
namespace {

// A target that has been told to call the tester: it sends INIT.
struct Caller : Bench {
  explicit Caller(Tester& t, const StartOptions& start = {}, const ConnectOptions& connect = {})
      : Bench(t, {.start = start, .connect = connect, .open_connection = false}) {
    post(work(1, WorkOp::kWrite, 100));
  }
  const Packet& expect_init(Nanos within = Tester::kPatience) {
    return tester.expect([](const Packet& p) { return p.is(Type::kInit) && p.init; }, "INIT", within);
  }
};

// ---- §4.1

void stream_numbers(Tester& t) {
  const Started& started = t.start();
  for (int i = 0; i < 20; ++i) {
    const QueuePair qp = t.target().create_qp(4, 4, std::nullopt);
    check((qp.qpn & 0xffff) >= 16 && (qp.qpn & 0xffff) != 65535, fmt::format("QPN {:#x}", qp.qpn));
    check(qp.qpn >> 16 == started.slot, "the QPN does not carry the slot");
  }
}

void to_the_listening_port(Tester& t) {
  Bench b(t);
  for (const uint8_t source : std::initializer_list<uint8_t>{1, 2, 3}) {
    b.connection.expect_accepted(b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0,
                                                     {.flags = kAr, .origin = {.source = source}}));
    b.connection.send_probe({.token = source}, 0, {.flags = kAr, .origin = {.source = source}});
    t.expect(type(Type::kProbeAck), "PROBE_ACK");
  }
  for (const Packet& p : t.log())
    check(p.sent || !p.to_source_port, "a datagram went to a source port: " + describe(p));
}

// ---- §4.3

void init_fields(Tester& t) {
  Caller b(t);
  const Packet& p = b.expect_init();
  const wire::Init& init = *p.init;
  check(p.good_trailer, "its trailer is wrong");
  check(p.header->dcid == 0 && p.header->path == 0 && p.header->epoch == 0, "DCID, path or epoch is not 0");
  check(init.magic == wire::kMagic, "magic");
  check(init.version_min <= 1 && init.version_max >= 1, "version 1 is not in its range");
  check((init.security & 1) != 0, "mode 0 is not offered");
  check(init.flags == 0 && init.known_cid == 0, "flags or known CID is not 0");
  check(init.scid != 0, "SCID is 0");
  check(init.listen_port == t.started().port, "it names another listening port");
  check(init.payload_mtu >= 512 && init.payload_mtu % 32 == 0, "payload MTU");
  check(init.max_paths >= 1 && init.max_paths <= 32, "max paths");
  check(init.cpsn_window >= 64 && init.cpsn_window <= (1U << 20), "CPSN window");
  check(init.ports[0].address == t.started().address, "the port in use is not first");
}

void init_padded(Tester& t) {
  Caller b(t);
  const Packet& p = b.expect_init();
  check(p.bytes.size() == std::max<size_t>(1200, size_t{p.init->payload_mtu} + 60),
        fmt::format("{} bytes with payload MTU {}", p.bytes.size(), p.init->payload_mtu));
  const size_t body = 16 + 80 + size_t{p.init->nports} * 24;
  for (size_t i = body; i + 4 < p.bytes.size(); ++i) check(p.bytes[i] == std::byte{0}, "padding is not zero");
}

void init_repeated(Tester& t) {
  Caller b(t);
  const Packet& first = b.expect_init();
  for (int i = 1; i < 4; ++i) {
    const Packet& again = b.expect_init();
    check(again.init->scid == first.init->scid && again.init->nonce == first.init->nonce &&
              again.init->first_cpsn == first.init->first_cpsn,
          "it is not the same INIT");
    check(again.header->pseq != first.header->pseq, "it has the same PSEQ");
  }
  b.connection.answer_init(first);
  b.expect_completion(1, "SUCCESS");
}

void init_shrinks(Tester& t) {
  Caller b(t, {.limits = {.max_payload = 4096}});
  const Packet* p = &b.expect_init();
  for (int i = 2; i <= 9; ++i) p = &b.expect_init();
  check(p->init->payload_mtu <= 1024, fmt::format("the ninth INIT offers {}", p->init->payload_mtu));
}

// The queue pair has no time-out of its own (0 stands for ever): only the connection can end it.
void no_answer_fails(Tester& t) {
  ConnectOptions connect;
  connect.timeout = 0;
  Caller b(t, {}, connect);
  b.expect_completion(1, "RETRY_EXC_ERR", seconds(6));
  b.expect_state("err");
  t.forget();
  t.expect_none(type(Type::kInit), "INIT of a connection that was given up", seconds(2));
}

// ---- §4.4

void init_ack_fields(Tester& t) {
  Bench b(t, {.open_connection = false});
  const Packet& p = b.connection.open();
  check(p.init->nonce == b.connection.init.nonce, "the nonce is another one");
  check(p.header->dcid == b.connection.init.scid, "DCID is not the SCID of the INIT");
  check(p.header->path == 0, "it did not come through path 0");
  check(p.init->scid != 0 && p.init->magic == wire::kMagic && p.init->flags == 0, "SCID, magic or flags");
  check(p.init->security == 0, "the mode is not 0");
  check(!p.to_source_port, "it did not come to the listening port");
}

void init_ack_size(Tester& t) {
  for (const uint16_t mtu : std::initializer_list<uint16_t>{512, 1024, 1408}) {
    Bench b(t, {.shape = [=](Connection& c) { c.init.payload_mtu = mtu; }, .open_connection = false});
    const Packet& p = b.connection.open();
    check(p.bytes.size() == b.connection.init_bytes(),
          fmt::format("{} bytes for an INIT of {}", p.bytes.size(), b.connection.init_bytes()));
  }
}

void minimum_of_both(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) {
            c.init.payload_mtu = 512;
            c.init.cpsn_window = 64;
          }});
  check(b.connection.peer().payload_mtu == 512, "payload MTU is not the smaller one");
  check(b.connection.peer().cpsn_window == 64, "the CPSN window is not the smaller one");
  const Sent sent = b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(1200)));
  const Packet& ack =
      t.expect([&](const Packet& p) { return p.ack && p.ack->cack == sent.data.cpsn + 1; }, "an ACK for all");
  check(ack.ack->cpsn_limit == ack.ack->cack + 64, "the limit does not follow from the smaller window");
  check(b.memory(0, 1200) == pattern(1200), "the WRITE was not placed");
}

void own_limits_count(Tester& t) {
  Bench b(t, {.start = {.limits = {.max_payload = 1024}},
              .shape = [](Connection& c) { c.init.payload_mtu = 1408; },
              .open_connection = false});
  check(b.connection.open().init->payload_mtu <= 1024, "payload MTU is above what the target offers");
}

void one_round_trip(Tester& t) {
  Bench b(t, {.open_stream = false});
  b.stream.open();
  expect_alive(b);
}

void init_repetition(Tester& t) {
  Bench b(t, {.open_connection = false});
  const uint32_t scid = b.connection.open().init->scid;
  b.connection.send_init();
  const Packet& again = t.expect(answer_to(b.connection), "INIT_ACK again");
  check(again.init->scid == scid && again.init->flags == 0, "it is not the same connection");
  b.stream.open();
  b.connection.expect_accepted(b.stream.send(b.stream.write(b.region, 0, pattern(5))));
}

void lost_init_ack(Tester& t) {
  Bench b(t, {.open_connection = false});
  b.connection.send_init();
  const wire::Init first = *t.expect(answer_to(b.connection), "INIT_ACK").init;
  t.run_for(millis(30));
  b.connection.open();
  check(b.connection.peer().first_cpsn == first.first_cpsn && b.connection.peer().scid == first.scid &&
            b.connection.peer().reset_token == first.reset_token,
        "the second INIT_ACK says something else");
  b.stream.open();
}

void smaller_repetition(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.init.payload_mtu = 1408; }, .open_connection = false});
  b.connection.send_init();
  t.expect(answer_to(b.connection), "INIT_ACK");
  b.connection.init.payload_mtu = 1024;
  check(b.connection.open().init->payload_mtu == 1024, "payload MTU is not what this INIT offers");
}

void expect_init_dropped(Tester& t, const std::function<void(wire::Init&)>& change) {
  Bench b(t, {.open_connection = false});
  const wire::Init good = b.connection.init;
  change(b.connection.init);
  b.connection.send_init();
  t.expect_none(type(Type::kInitAck), "INIT_ACK");
  b.connection.init = good;
  b.connection.open();
}

void bad_magic(Tester& t) {
  expect_init_dropped(t, [](wire::Init& init) { init.magic ^= 1; });
}
void bad_version_range(Tester& t) {
  expect_init_dropped(t, [](wire::Init& init) { init.version_min = init.version_max = 2; });
  expect_init_dropped(t, [](wire::Init& init) { init.version_min = init.version_max = 0; });
}
void bad_init_values(Tester& t) {
  expect_init_dropped(t, [](wire::Init& init) { init.listen_port = 0; });
  expect_init_dropped(t, [](wire::Init& init) { init.scid = 0; });
  expect_init_dropped(t, [](wire::Init& init) { init.payload_mtu = 511; });
  expect_init_dropped(t, [](wire::Init& init) { init.max_paths = 0; });
  expect_init_dropped(t, [](wire::Init& init) { init.cpsn_window = 63; });
}
void no_allowed_mode(Tester& t) {
  expect_init_dropped(t, [](wire::Init& init) { init.security = 0; });
  expect_init_dropped(t, [](wire::Init& init) { init.security = 0xfa; });  // all but modes 0 and 2
}

void bad_init_ports(Tester& t) {
  Bench b(t, {.open_connection = false});
  const auto set = [](size_t at, uint8_t value) {
    return [=](Bytes& bytes) { bytes[at] = static_cast<std::byte>(value); };
  };
  b.connection.send_init({.shape = set(73, 0)});         // no port
  b.connection.send_init({.shape = set(73, 9)});         // nine
  b.connection.send_init({.shape = set(96 + 19, 129)});  // a prefix of 129 bits
  t.expect_none(type(Type::kInitAck), "INIT_ACK");
  b.connection.open();
}

void another_endpoint_id(Tester& t) {
  Bench b(t);
  Connection second(t);  // the same address, another endpoint id
  second.open();
  check(second.peer().scid != b.connection.peer().scid, "it is the old connection");
  expect_alive(b);
}

void connection_limit(Tester& t) {
  Bench b(t, {.start = {.limits = {.max_connections = 1}}});
  Connection second(t);
  second.send_init();
  t.expect_none(answer_to(second), "INIT_ACK");
  expect_alive(b);
}

// ---- §4.5

void wrong_nonce(Tester& t) {
  Caller b(t);
  const Packet& init = b.expect_init();
  Packet changed = init;
  changed.init->nonce ^= 1;
  b.connection.answer_init(changed);
  t.expect_none(type(Type::kData), "DATA after an INIT_ACK with another nonce");
  b.connection.answer_init(init);
  b.expect_completion(1, "SUCCESS");
}

void smaller_answer(Tester& t) {
  Caller b(t);
  const Packet& init = b.expect_init();
  b.connection.init.payload_mtu = 512;
  b.connection.answer_init(init);
  b.expect_completion(1, "SUCCESS");
  b.post(b.work(2, WorkOp::kWrite, 3000));
  b.expect_completion(2, "SUCCESS");
  for (const Packet* p : t.all(b.of(DataOp::kWrite))) {
    check(p->payload.size() <= 512,
          fmt::format("a payload of {} bytes where 512 were agreed", p->payload.size()));
  }
}

void malformed_init_ack(Tester& t) {
  Caller b(t);
  const Packet& init = b.expect_init();
  const wire::Init good = b.connection.init;
  const auto try_with = [&](const std::function<void(wire::Init&)>& change) {
    b.connection.init = good;
    Packet offer = init;
    offer.init->cpsn_window = 1U << 20;  // so that answer_init() does not take the smaller one
    offer.init->payload_mtu = 4096;
    change(b.connection.init);
    b.connection.answer_init(offer);
    t.expect_none(type(Type::kData), "DATA after a malformed INIT_ACK", millis(5));
  };
  try_with([](wire::Init& ack) { ack.scid = 0; });
  try_with([](wire::Init& ack) { ack.max_paths = 0; });
  try_with([](wire::Init& ack) { ack.payload_mtu = 511; });
  try_with([](wire::Init& ack) { ack.cpsn_window = 63; });
  try_with([&](wire::Init& ack) { ack.cpsn_window = init.init->cpsn_window + 1; });
  try_with([](wire::Init& ack) { ack.version_min = ack.version_max = 2; });
  b.connection.init = good;
  b.connection.answer_init(init);
  b.expect_completion(1, "SUCCESS");
}

// ---- §4.6, §4.7

void both_at_once(Tester& t, bool tester_is_lower) {
  Caller b(t);
  b.connection.init.endpoint_id.fill(tester_is_lower ? 0 : 0xff);
  const Packet& theirs = b.expect_init();
  b.connection.send_init();
  if (tester_is_lower) {
    b.connection.take_init_ack(t.expect(answer_to(b.connection), "INIT_ACK of the one with the higher id"));
  } else {
    t.expect_none(type(Type::kInitAck), "INIT_ACK of the one with the lower id");
    b.connection.answer_init(theirs);
  }
  b.expect_completion(1, "SUCCESS");
}

void connection_that_only_the_peer_knows(Tester& t) {
  Caller b(t);
  const Packet& init = b.expect_init();
  b.connection.init.flags = 1;
  b.connection.init.known_cid = 0x1234567;
  b.connection.answer_init(init);
  const Packet& reset = t.expect(type(Type::kReset), "RESET");
  check(reset.reset && reset.reset->token == b.connection.init.reset_token, "it has another token");
  check(reset.header->dcid == b.connection.init.scid, "it goes to another connection");
  b.expect_init();
}

// ---- §4.8

void paths_within_limits(Tester& t) {
  for (const uint8_t most : std::initializer_list<uint8_t>{1, 3}) {
    Bench b(
        t, {.start = {.limits = {.max_paths = 4}}, .shape = [=](Connection& c) { c.init.max_paths = most; }});
    t.run_for(millis(30));  // challenges are answered
    for (uint64_t i = 0; i < 20; ++i) b.post(b.work(i, WorkOp::kWrite, 8000));
    for (uint64_t i = 0; i < 20; ++i) b.expect_completion(i, "SUCCESS");
    for (const Packet* p : t.all([&](const Packet& p) { return b.connection.mine(p) && p.data.has_value(); }))
      check(p->header->path < most, fmt::format("path {} of {}", p->header->path, most));
  }
}

}  // namespace

void add_handshake(std::vector<Assertion>& out) {
  const auto initiator = std::vector{Feature::kRequester, Feature::kInitiator};
  out.insert(
      out.end(),
      {
          {"4.1/stream-numbers",
           "§4.1-4",
           Level::kMust,
           "Stream numbers 0 to 15 and 65535 MUST NOT be given to queue pairs.",
           {},
           stream_numbers},
          {"4.1/to-the-listening-port",
           "§4.1-5",
           Level::kMust,
           "All datagrams of a connection MUST be sent to the listening UDP port of the peer.",
           {},
           to_the_listening_port},
          {"4.3/init-fields", "§4.3-2", Level::kMust, "The fields of INIT MUST be those of this table.",
           initiator, init_fields},
          {"4.3/init-padded", "§4.3-3", Level::kMust,
           "INIT MUST be padded with zeros to the larger of 1200 bytes and `payload MTU + 60` (72 if "
           "mode 2 is offered), trailer included.",
           initiator, init_padded},
          {"4.3/init-repeated", "§4.3-5", Level::kMust,
           "A repeated INIT MUST have the same values, except the payload MTU and a COOKIE.", initiator,
           init_repeated},
          {"4.3/init-shrinks", "§4.3-6", Level::kShould,
           "From the fifth INIT on the payload MTU SHOULD be at most 1344, and from the ninth at most 1024.",
           initiator, init_shrinks},
          {"4.3/no-answer",
           "§4.3-7",
           Level::kMust,
           "A connection whose INIT is not answered for 5 s MUST be given up as lost (§4.13).",
           {Feature::kRequester, Feature::kInitiator, Feature::kVirtualTime},
           no_answer_fails},
          {"4.4/init-ack-fields",
           "§4.4-13",
           Level::kMust,
           "The fields of INIT_ACK are those of §4.3, except those of this table, which MUST be as it says.",
           {},
           init_ack_fields},
          {"4.4/init-ack-size",
           "§4.4-12",
           Level::kMust,
           "INIT_ACK MUST go to the peer's address through path 0, with the same size as the INIT that it "
           "answers.",
           {},
           init_ack_size},
          {"4.4/smaller-of-both",
           "§4.4-13",
           Level::kMust,
           "The fields of INIT_ACK are those of §4.3, except those of this table, which MUST be as it says.",
           {},
           minimum_of_both},
          {"4.4/own-payload-limit",
           "§4.4-13",
           Level::kMust,
           "The fields of INIT_ACK are those of §4.3, except those of this table, which MUST be as it says.",
           {},
           own_limits_count},
          {"4.4/data-after-one-round-trip",
           "§4.4-9",
           Level::kMust,
           "Otherwise a new connection MUST begin in state OPEN, with the receiver as acceptor.",
           {},
           one_round_trip},
          {"4.4/repetition",
           "§4.4-5",
           Level::kMust,
           "*Repetition.* If the receiver is acceptor of a connection with this endpoint id and this SCID, "
           "it MUST send INIT_ACK again and create nothing.",
           {},
           init_repetition},
          {"4.4/lost-init-ack",
           "§4.4-5",
           Level::kMust,
           "*Repetition.* If the receiver is acceptor of a connection with this endpoint id and this SCID, "
           "it MUST send INIT_ACK again and create nothing.",
           {},
           lost_init_ack},
          {"4.4/repetition-with-smaller-mtu",
           "§4.4-6",
           Level::kMust,
           "If nothing but INITs has been received on that connection yet, the payload MTU of the connection "
           "MUST first become the smaller of what it was and what this INIT offers.",
           {},
           smaller_repetition},
          {"4.4/magic",
           "§4.4-2",
           Level::kMust,
           "The receiver MUST drop an INIT whose magic is not 0x6d524f43 (`drop_magic`).",
           {},
           bad_magic},
          {"4.4/version-range",
           "§4.4-3",
           Level::kMust,
           "The receiver MUST drop an INIT whose range of versions does not contain 1 (`drop_version`).",
           {},
           bad_version_range},
          {"4.4/init-values",
           "§4.4-1",
           Level::kMust,
           "The receiver MUST drop an INIT that is malformed (§3.10), or has an SCID, listen UDP "
           "port or max paths of 0, a payload MTU below 512 or a CPSN window below 64 "
           "(`drop_malformed`).",
           {},
           bad_init_values},
          {"4.4/no-allowed-mode",
           "§4.4-15",
           Level::kMust,
           "An INIT that offers no mode which the receiver allows MUST be dropped (`drop_security`).",
           {},
           no_allowed_mode},
          {"3.10/init-ports",
           "§3.10-2",
           Level::kMust,
           "An INIT or INIT_ACK MUST be dropped as malformed if it ends within its body or ports, if "
           "`nports` is 0 or above 8, or if a prefix is above 128 bits.",
           {},
           bad_init_ports},
          {"4.4/another-endpoint-id",
           "§4.4-9",
           Level::kMust,
           "Otherwise a new connection MUST begin in state OPEN, with the receiver as acceptor.",
           {},
           another_endpoint_id},
          {"4.4/connection-limit",
           "§4.4-11",
           Level::kMust,
           "At the limit of connections the INIT MUST be dropped (`drop_limit`).",
           {},
           connection_limit},
          {"4.5/nonce", "§4.5-3", Level::kMust,
           "An initiator that receives INIT_ACK makes these checks in this order; the first that fails "
           "decides: one whose nonce is not the one that was sent MUST be dropped (`drop_connection`).",
           initiator, wrong_nonce},
          {"4.5/malformed-init-ack", "§4.5-6", Level::kMust,
           "An initiator that receives INIT_ACK makes these checks in this order; the first that "
           "fails decides: one with an SCID or max paths of 0, a chosen mode other than 0 that was "
           "not offered, a payload MTU below 512, a CPSN window below 64 or above what was offered, "
           "or a range",
           initiator, malformed_init_ack},
          {"4.6/lower-id-wins", "§4.6-1", Level::kMust,
           "If an endpoint in INIT_SENT receives an INIT from the very address that it is calling, the INIT "
           "of the endpoint with the lower endpoint id (compared as byte strings) wins: the endpoint with "
           "the lower id MUST ignore the other's INIT.",
           initiator, [](Tester& t) { both_at_once(t, false); }},
          {"4.6/higher-id-gives-up", "§4.6-2", Level::kMust,
           "If an endpoint in INIT_SENT receives an INIT from the very address that it is calling, the INIT "
           "of the endpoint with the lower endpoint id (compared as byte strings) wins: the one with the "
           "higher id MUST give up its own and become acceptor under the",
           initiator, [](Tester& t) { both_at_once(t, true); }},
          {"4.7/forgotten-connection", "§4.7-6", Level::kMust,
           "If there is none, or it has another peer's id, the peer still believes in a connection that is "
           "lost here: the initiator MUST send RESET (§4.11) to the SCID with the reset token that came with "
           "this answer, and go on sending INIT.",
           initiator, connection_that_only_the_peer_knows},
          {"4.8/agreed-payload", "§4.8-10", Level::kMust,
           "The payload MTU MUST NOT change in the life of the connection.", initiator, smaller_answer},
          {"4.8/number-of-paths",
           "§4.8-4",
           Level::kMust,
           "A sender MUST NOT use more paths than that.",
           {Feature::kRequester, Feature::kPaths},
           paths_within_limits},
      });
}

}  // namespace mroce::comply
