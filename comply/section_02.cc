// §2: numbers, their arithmetic, and the invariants that a peer can see.
#include <set>

#include "comply/section.h"

namespace mroce::comply {
namespace {

void random_starts(Tester& t) {
  std::set<uint32_t> cpsns, pseqs;
  for (int i = 0; i < 3; ++i) {
    Bench b(t, {.open_stream = false});
    cpsns.insert(b.connection.peer().first_cpsn);
    pseqs.insert(b.connection.peer().first_pseq);
  }
  check(cpsns.size() == 3, "first_cpsn was the same for two connections");
  check(pseqs.size() == 3, "first_pseq was the same for two connections");
}

void first_numbers(Tester& t) {
  Bench b(t);
  const Packet& accept = *t.all(b.of(DataOp::kStreamAccept)).at(0);
  check(accept.data->cpsn == b.connection.peer().first_cpsn, "its first packet has another CPSN");
  check(accept.header->pseq == b.connection.peer().first_pseq, "its first transmission has another PSEQ");
}

// Loses some transmissions, so that packets are sent again and again.
void pseq_never_reused(Tester& t) {
  Bench b(t);
  int n = 0;
  b.connection.lose = [&](const Packet& p) { return p.is(DataOp::kWrite) && ++n % 3 == 0; };
  b.post(b.work(1, WorkOp::kWrite, 60000));
  b.expect_completion(1, "SUCCESS", seconds(5));
  std::set<std::pair<uint8_t, uint32_t>> seen;
  for (const Packet* p : t.all(type(Type::kData)))
    check(seen.insert({p->header->path, p->header->pseq}).second,
          fmt::format("PSEQ {} of path {} came twice", p->header->pseq, p->header->path));
}

void control_numbers_apart(Tester& t) {
  Bench b(t);
  for (uint32_t i = 0; i < 4; ++i) b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  b.connection.send_probe({.token = 5});
  t.expect(type(Type::kProbeAck), "PROBE_ACK");
  std::set<uint32_t> seen;
  for (const Packet* p : t.all([&](const Packet& p) { return b.connection.mine(p); })) {
    if (p->is(Type::kData) || p->header->path != 0) continue;
    check(seen.insert(p->header->pseq).second,
          fmt::format("PSEQ {} of a control datagram came twice", p->header->pseq));
    check(p->header->pseq < 1000, "control datagrams do not count from 0");
  }
}

void numbers_wrap(Tester& t, uint32_t first_cpsn, uint32_t first_pseq) {
  Bench b(t, {.shape = [=](Connection& c) {
            c.init.first_cpsn = first_cpsn;
            c.init.first_pseq = first_pseq;
          }});
  for (uint32_t i = 0; i < 8; ++i) b.stream.send(b.stream.write(b.region, i * 100, pattern(100, i)));
  t.until([&] { return b.connection.cack() == first_cpsn + 9; }, "CACK behind the last packet");
  for (uint32_t i = 0; i < 8; ++i)
    check(b.memory(i * 100, 100) == pattern(100, i), fmt::format("WRITE {} was not placed", i));
}

void duplicate_within_window(Tester& t) {
  Bench b(t);
  b.connection.take_cpsn();  // a hole, so that what follows stays above the base
  const Sent sent = b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(50)));
  b.write_memory(0, Bytes(50));
  const Sent again = b.connection.send_again(sent, {.flags = kAr});
  expect_block(b, 0, again.pseq);
  check(b.memory(0, 50) == Bytes(50), "a packet above the base was placed twice");
}

void placed_before_acknowledged(Tester& t) {
  Bench b(t);
  for (uint32_t i = 0; i < 5; ++i) {
    const Sent sent = b.stream.send(b.stream.write(b.region, i * 3000, pattern(3000, i)));
    b.connection.expect_accepted(sent);
    check(b.memory(i * 3000, 3000) == pattern(3000, i), "acknowledged, and the bytes are not there");
  }
}

void other_stream_not_held_up(Tester& t) {
  Bench b(t);
  const QueuePair second = t.target().create_qp(16, 16, std::nullopt);
  ConnectOptions connect;
  connect.remote_address = t.target().tester_address(0);
  connect.remote_qpn = b.own_qpn() + 1;
  connect.sq_psn = Bench::kSqPsn;
  connect.rq_psn = Bench::kRqPsn;
  t.target().connect_qp(second.id, connect);
  Stream other(b.connection, second, connect.remote_qpn, Bench::kRqPsn);
  other.open();
  const Message late = b.stream.write(b.region, 0, pattern(3000));
  b.stream.send_piece(late, 2);  // the first two are missing
  b.connection.expect_accepted(other.send(other.write(b.region, 9000, pattern(100))));
  check(b.memory(9000, 100) == pattern(100), "a hole in one stream held up another");
  check(b.memory(2048, 952) == Bytes(952), "the last packet was placed before the others");
}

}  // namespace

void add_model(std::vector<Assertion>& out) {
  out.insert(
      out.end(),
      {
          {"2.3/random-starts",
           "§2.3-7",
           Level::kMust,
           "`first_cpsn` and `first_pseq` MUST be chosen at random for each connection.",
           {},
           random_starts},
          {"2.3/first-numbers",
           "§2.3-3",
           Level::kMust,
           "The first transmission on each path MUST have the PSEQ `first_pseq`, and each further one on "
           "that path the next number, also after the path has failed and returned or changed its entropy.",
           {},
           first_numbers},
          {"2.3/control-numbers-apart",
           "§2.3-4",
           Level::kMust,
           "Control datagrams MUST be numbered on each path from 0, in a counter of their own.",
           {},
           control_numbers_apart},
          {"2.4/cpsn-wraps",
           "§2.4-1",
           Level::kMust,
           "A receiver MUST reconstruct the full number as the one nearest to a number that it expects.",
           {},
           [](Tester& t) { numbers_wrap(t, 0xfffffffcU, 7); }},
          {"2.4/pseq-wraps",
           "§2.4-2",
           Level::kMust,
           "The expected number MUST be the one of this table.",
           {},
           [](Tester& t) { numbers_wrap(t, 7, 0xfffffffcU); }},
          {"2.3/pseq-never-reused",
           "§2.3-3",
           Level::kMust,
           "The first transmission on each path MUST have the PSEQ `first_pseq`, and each further one on "
           "that path the next number, also after the path has failed and returned or changed its entropy.",
           {Feature::kRequester},
           pseq_never_reused},
          {"5.3/accepted-at-most-once",
           "§5.3-1",
           Level::kMust,
           "A packet whose CPSN is below the base or whose bit is set is a **duplicate**; it MUST NOT be "
           "placed or have any other effect on a stream.",
           {},
           duplicate_within_window},
          {"5.3/acknowledged-after-placement",
           "§5.3-3",
           Level::kMust,
           "Any other packet is handed to its stream; if the stream **accepts** it, both its CPSN bit and "
           "the PSEQ bit of its transmission MUST be set.",
           {},
           placed_before_acknowledged},
          {"5.3/streams-are-independent",
           "§5.3-3",
           Level::kMust,
           "Any other packet is handed to its stream; if the stream **accepts** it, both its CPSN bit and "
           "the PSEQ bit of its transmission MUST be set.",
           {},
           other_stream_not_held_up},
      });
}

}  // namespace mroce::comply
