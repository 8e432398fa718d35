// §10.4 and §10.5: what an address that is not validated can provoke, and bounds.
#include "comply/section.h"

namespace mroce::comply {
namespace {

Match anything() {
  return [](const Packet&) { return true; };
}

void amplification(Tester& t) {
  Bench b(t, {.open_connection = false});
  b.connection.init.max_paths = 4;
  b.connection.send_init();  // and never a word again
  t.expect(type(Type::kInitAck), "INIT_ACK");
  for (uint64_t i = 0; i < 20; ++i) b.post(b.work(i, WorkOp::kWrite, 10'000));
  t.run_for(millis(1200));
  size_t bytes = 0;
  for (const Packet* p : t.all([&](const Packet& each) { return b.connection.mine(each); }))
    bytes += p->bytes.size();
  check(bytes <= 3 * b.connection.init_bytes(),
        fmt::format("{} bytes for an INIT of {}", bytes, b.connection.init_bytes()));
}

// Many queue pairs have something to say to an address that has sent one INIT.
void amplification_by_streams(Tester& t) {
  Bench b(t, {.open_connection = false});
  b.connection.send_init();
  t.expect(type(Type::kInitAck), "INIT_ACK");
  for (uint32_t i = 1; i <= 60; ++i) {
    const QueuePair qp = t.target().create_qp(4, 4, std::nullopt);
    ConnectOptions connect;
    connect.remote_address = t.target().tester_address(0);
    connect.remote_qpn = b.own_qpn() + i;
    t.target().connect_qp(qp.id, connect);
    t.target().post_send(qp.id, b.work(i, WorkOp::kWrite, 100));
  }
  t.run_for(millis(300));
  size_t bytes = 0;
  for (const Packet* p : t.all([&](const Packet& each) { return b.connection.mine(each); }))
    bytes += p->bytes.size();
  check(bytes <= 3 * b.connection.init_bytes(),
        fmt::format("{} bytes for an INIT of {}", bytes, b.connection.init_bytes()));
}

void no_challenge_before_validation(Tester& t) {
  Bench b(t, {.open_connection = false});
  b.connection.init.max_paths = 4;
  const Match challenge = [](const Packet& p) { return p.probe && p.probe->kind == 1; };
  b.connection.send_init();
  t.expect(type(Type::kInitAck), "INIT_ACK");
  t.expect_none(challenge, "a challenge", millis(100));
  b.connection.open();
  t.forget();
  t.expect_none(challenge, "a challenge after another INIT", millis(50));
  b.connection.send_probe({.token = 1}, 0, {.flags = kAr});
  t.expect(challenge, "a challenge after something that carries the connection's id");
}

void not_validated_is_lost(Tester& t) {
  Bench b(t, {.open_connection = false});
  b.connection.answer_probes = false;
  const uint32_t first = b.connection.open().init->scid;
  t.run_for(millis(5500));
  b.connection.send_init();
  const Packet& again = t.expect(type(Type::kInitAck), "INIT_ACK");
  check(again.init->scid != first, "the connection that was never validated is still there");
}

void strangers_get_nothing(Tester& t) {
  t.start();
  Connection nobody(t);
  nobody.send_probe({.token = 1}, 1100, {.flags = kAr, .dcid = 5});
  nobody.send_data({}, {}, {.flags = kAr, .dcid = 5});
  nobody.send_close(0, {.dcid = 5});
  nobody.send_reset({}, {.dcid = 5});
  t.send(pattern(1300));
  t.expect_none(anything(), "an answer");
}

void probes_without_end(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  t.forget();
  for (uint64_t i = 0; i < 500; ++i) b.connection.send_probe({.token = i});
  t.run_for(millis(50));
  check(t.count(type(Type::kProbeAck)) <= 500, "more answers than PROBEs");
  expect_alive(b);
}

void many_path_numbers(Tester& t) {
  Bench b(t);
  for (uint8_t path = 0; path < 64; ++path) {
    b.connection.expect_accepted(b.stream.send_piece(b.stream.write(b.region, path, pattern(1, path)), 0,
                                                     {.path = path, .flags = kAr}));
  }
  expect_alive(b);
}

void guessed_dcid(Tester& t) {
  Bench b(t);
  // Somebody who knows the connection id and nothing else.
  expect_dropped(b, [&] {
    b.connection.send_close(b.connection.base() + 77, {.origin = {.stranger = true}});
    b.connection.send_reset({}, {.origin = {.stranger = true}});
    b.connection.send_data({.stream = static_cast<uint16_t>(b.qp.qpn)}, {},
                           {.flags = kAr,
                            .cpsn = b.connection.next_cpsn() + 0x30000000U,
                            .pseq = b.connection.next_pseq(0) + 0x30000000U,
                            .origin = {.stranger = true}});
    wire::Ack ack;
    ack.cack = b.connection.base() + 5;
    ack.cpsn_limit = ack.cack + 100;
    b.connection.send_ack(ack, {.origin = {.stranger = true}});
  });
}

}  // namespace

void add_security(std::vector<Assertion>& out) {
  out.insert(
      out.end(),
      {
          {"3.13/guessed-id",
           "§3.13-14",
           Level::kMust,
           "Check: DATA whose CPSN is not below the limit, or is more than 2 windows + 2^20 below the lowest "
           "that is missing, MUST be dropped.",
           {},
           guessed_dcid},
          {"10.4/amplification",
           "§10.4-3",
           Level::kMust,
           "Until then an acceptor MUST NOT send more than three times the bytes that it has received from "
           "that address on it.",
           {Feature::kRequester},
           amplification},
          {"10.4/amplification-by-streams",
           "§10.4-3",
           Level::kMust,
           "Until then an acceptor MUST NOT send more than three times the bytes that it has received from "
           "that address on it.",
           {Feature::kRequester},
           amplification_by_streams},
          {"10.4/no-challenge-before-validation",
           "§10.4-4",
           Level::kMust,
           "Until then an acceptor MUST NOT send challenges, neither to that address nor to those that the "
           "INIT listed.",
           {Feature::kPaths},
           no_challenge_before_validation},
          {"10.4/not-validated-in-time",
           "§10.4-5",
           Level::kMust,
           "Until then a connection that is not validated within 5 s MUST be given up as lost (§4.9).",
           {Feature::kVirtualTime},
           not_validated_is_lost},
          {"10.4/strangers-get-nothing",
           "§10.4-1",
           Level::kMust,
           "An endpoint MUST NOT answer a datagram that names no connection, except INIT.",
           {},
           strangers_get_nothing},
          {"10.5/probes-without-end",
           "§10.5-1",
           Level::kMust,
           "An implementation MUST bound what a peer can make grow.",
           {},
           probes_without_end},
          {"4.8/path-numbers",
           "§4.8-9",
           Level::kMust,
           "A receiver MUST take datagrams of any path number below 64, without having been told of it.",
           {},
           many_path_numbers},
      });
}

}  // namespace mroce::comply
