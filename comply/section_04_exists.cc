// §4.7, and §4.4 as far as it is about a connection that exists: who is told of it, and what.
#include "comply/section.h"

namespace mroce::comply {
namespace {

// Another INIT of the endpoint that the connection is with, and the target's answer to it.
struct SecondInit {
  explicit SecondInit(Bench& b) : connection(b.tester) {
    connection.init.endpoint_id = b.connection.init.endpoint_id;
    connection.send_init();
    answer = &b.tester.expect(answer_to(connection), "INIT_ACK");
  }
  Connection connection;
  const Packet* answer = nullptr;
};

void existing_connection(Tester& t) {
  Bench b(t);
  const SecondInit again(b);
  const Packet& answer = *again.answer;
  check((answer.init->flags & 1) != 0, "flag bit 0 is not set");
  check(answer.header->pseq == 0, "PSEQ is not 0");
  check(answer.init->nonce == again.connection.init.nonce, "the nonce is another one");
  check(answer.init->scid == b.connection.peer().scid, "SCID is not that of the existing connection");
  check(answer.init->known_cid == b.connection.init.scid, "known CID is not the tester's id");
  check(answer.init->reset_token == b.connection.peer().reset_token, "the reset token is another one");
  expect_alive(b);
}

void starts_of_numbering_are_not_told(Tester& t) {
  Bench b(t);
  const SecondInit again(b);
  const Packet& answer = *again.answer;
  check(answer.init->first_cpsn == 0 && answer.init->first_pseq == 0, "first CPSN or first PSEQ is not 0");
}

// The target's answer goes to the listening port of the tester's INIT at another address than the
// connection's.
void need_two_addresses(Tester& t) {
  const Target& target = t.target();
  if (target.stranger_address() == target.tester_address(0)) throw Unsupported("the tester has one address");
}

void strangers_are_not_told(Tester& t) {
  Bench b(t);
  need_two_addresses(t);
  const auto betrayed = [&](const Packet& p) {
    return p.is(Type::kInitAck) && p.init &&
           ((p.init->flags & 1) != 0 || p.init->scid == b.connection.peer().scid ||
            p.init->reset_token == b.connection.peer().reset_token);
  };
  Connection thief(t);
  thief.init.endpoint_id = b.connection.init.endpoint_id;
  thief.send_init({.origin = {.stranger = true}});
  t.expect_none(betrayed, "an INIT_ACK that tells of the connection to another address", millis(20));
  Connection beside(t);
  beside.init.endpoint_id = b.connection.init.endpoint_id;
  beside.init.listen_port ^= 1;
  beside.send_init();
  t.expect_none(betrayed, "an INIT_ACK that tells of the connection to another port", millis(20));
  expect_alive(b);
}

// All answers go to where the first INIT came from, and only what comes from there pays for them.
void repetitions_from_elsewhere(Tester& t) {
  Bench b(t, {.open_connection = false});
  need_two_addresses(t);
  b.connection.send_init();
  for (int i = 0; i < 12; ++i) b.connection.send_init({.origin = {.stranger = true}});
  t.run_for(millis(50));
  size_t all = 0;
  for (const Packet* each : t.all([&](const Packet& p) { return b.connection.mine(p) && !p.to_stranger; }))
    all += each->bytes.size();
  check(all >= b.connection.init_bytes(), "no INIT_ACK came");
  check(all <= 3 * b.connection.init_bytes(),
        fmt::format("{} bytes for an INIT of {}", all, b.connection.init_bytes()));
}

}  // namespace

void add_existing(std::vector<Assertion>& out) {
  out.insert(
      out.end(),
      {
          {"4.7/existing-connection",
           "§4.7-1",
           Level::kMust,
           "The answer to an INIT from an endpoint that is connected already MUST be an INIT_ACK with bit 0 "
           "of its flags set (EXISTS), the nonce of the INIT, DCID = SCID of the INIT, SCID = the answerer's "
           "id of the *existing* connection, known CID = the",
           {},
           existing_connection},
          {"4.7/starts-not-told",
           "§4.7-9",
           Level::kMust,
           "First CPSN and first PSEQ of such an answer MUST be 0.",
           {},
           starts_of_numbering_are_not_told},
          {"4.4/told-to-its-peer",
           "§4.4-17",
           Level::kMust,
           "An existing connection MUST NOT be named to a peer's address with another UDP port than the "
           "connection's, or with an IP address that is neither the connection's nor among the ports that "
           "its peer listed in INIT or INIT_ACK.",
           {},
           strangers_are_not_told},
          {"10.4/repetitions-from-elsewhere",
           "§10.4-3",
           Level::kMust,
           "Until then an acceptor MUST NOT send more than three times the bytes that it has received from "
           "that address on it.",
           {},
           repetitions_from_elsewhere},
      });
}

}  // namespace mroce::comply
