// §10.4 and §10.5: what an address that is not validated can provoke, and bounds.
#include "comply/section.h"

namespace mroce::comply {
namespace {

Match anything() {
  return [](const Packet&) { return true; };
}

size_t received_bytes(Tester& t) {
  size_t bytes = 0;
  for (const Packet* p : t.all(anything())) bytes += p->bytes.size();
  return bytes;
}

void amplification(Tester& t) {
  Bench b(t, {.open_connection = false});
  b.connection.init.max_paths = 4;
  b.connection.send_init();  // and never a word again
  t.run_for(millis(5));
  for (uint64_t i = 0; i < 20; ++i) b.post(b.work(i, WorkOp::kWrite, 10'000));
  t.run_for(millis(1200));
  check(received_bytes(t) <= 3 * b.connection.init_bytes(),
        fmt::format("{} bytes for an INIT of {}", received_bytes(t), b.connection.init_bytes()));
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
  out.insert(out.end(),
             {
                 {"10.2/guessed-id", "§10.2", Level::kMust, "", {}, guessed_dcid},
                 {"10.4/amplification", "§10.4", Level::kMust, "", {Feature::kRequester}, amplification},
                 {"10.4/no-challenge-before-validation",
                  "§10.4",
                  Level::kMust,
                  "",
                  {Feature::kPaths},
                  no_challenge_before_validation},
                 {"10.4/not-validated-in-time",
                  "§10.4",
                  Level::kMust,
                  "",
                  {Feature::kVirtualTime},
                  not_validated_is_lost},
                 {"10.4/strangers-get-nothing", "§10.4", Level::kMust, "", {}, strangers_get_nothing},
                 {"10.5/probes-without-end", "§10.5", Level::kMust, "", {}, probes_without_end},
                 {"10.5/path-numbers", "§10.5", Level::kMust, "", {}, many_path_numbers},
             });
}

}  // namespace mroce::comply
