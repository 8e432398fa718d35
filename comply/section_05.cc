// §5.2 to §5.6, §5.15 and §5.16: what a receiver does with packets, and what its acknowledgements say.
#include "comply/section.h"

namespace mroce::comply {
namespace {

constexpr uint8_t kNoAr = 0;

void duplicate_placed_once(Tester& t) {
  Bench b(t);
  const Sent sent = b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(100)));
  check(b.memory(0, 100) == pattern(100), "the WRITE was not placed");
  b.write_memory(0, Bytes(100));
  const Sent again = b.connection.send_again(sent, {.flags = kAr});
  check(says_received(expect_block(b, 0, again.pseq), again.pseq), "the duplicate was not acknowledged");
  check(b.memory(0, 100) == Bytes(100), "the duplicate was placed");
}

void repeated_datagram(Tester& t) {
  Bench b(t);
  const Sent sent = b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(100)));
  b.write_memory(0, Bytes(100));
  t.forget();
  b.connection.send_again(sent, {.flags = kAr, .pseq = sent.pseq});
  check(expect_block(b, 0, sent.pseq).largest == sent.pseq, "LARGEST");
  check(b.memory(0, 100) == Bytes(100), "the copy was placed");
}

void duplicate_at_once(Tester& t) {
  Bench b(t);
  const Sent sent = b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  t.run_for(millis(5));
  t.forget();
  b.connection.send_again(sent, {.pseq = b.connection.next_pseq(0)});
  t.expect([](const Packet& p) { return p.block(0) != nullptr; }, "an ACK at once", micros(25));
}

void limit_is_base_plus_window(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.init.cpsn_window = 1000; }});
  for (uint32_t i = 0; i < 5; ++i) b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(3000)));
  b.connection.take_cpsn();
  b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  for (const Packet* p : t.all([](const Packet& p) { return p.ack.has_value(); }))
    check(p->ack->cpsn_limit == p->ack->cack + b.connection.window(), "the limit of " + describe(*p));
}

void void_accepted(Tester& t) {
  Bench b(t);
  b.connection.expect_accepted(b.stream.send_void(0, {.flags = kAr}), "the acknowledgement of a VOID");
  wire::Data nothing;
  nothing.op = DataOp::kVoid;  // stream 0: a response or stream control was meant
  b.connection.expect_accepted(b.connection.send_data(nothing, {}, {.flags = kAr}));
  nothing.stream = 0x7777;  // nobody has it
  nothing.msn = 12345;
  b.connection.expect_accepted(b.connection.send_data(nothing, {}, {.flags = kAr}));
}

void rejected_is_not_acknowledged(Tester& t) {
  Bench b(t);
  wire::Data data = b.stream.write(b.region, 0, pattern(10)).data;
  data.stream ^= 0x40;
  const Sent sent = b.connection.send_data(data, pattern(10), {.flags = kAr});
  b.connection.expect_nak(sent, NakCode::kUnknownStream);
  b.connection.expect_not_accepted(sent, "a rejected packet");
  b.connection.expect_accepted(b.stream.send_void(0, {.flags = kAr, .cpsn = sent.data.cpsn}));
}

void stream_control_accepted(Tester& t) {
  Bench b(t);
  for (const DataOp op : {DataOp::kStreamClose, DataOp::kStreamAccept, DataOp::kStreamRefuse,
                          DataOp::kStreamStop, DataOp::kStreamBlocked, DataOp::kCreditReturn}) {
    const Sent sent = b.connection.send_control(
        op, b.qp.qpn ^ 0x40, {.src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn ^ 0x40, .incarnation = 77}, 0,
        {.flags = kAr});
    b.connection.expect_accepted(sent, fmt::format("the acknowledgement of opcode {}", int(op)));
  }
  expect_alive(b);
}

void response_nobody_waits_for(Tester& t) {
  Bench b(t);
  wire::Data data;
  data.op = DataOp::kReadResp;
  data.stream = static_cast<uint16_t>(b.qp.qpn);
  data.length = 10;
  data.rdslot = 5;
  b.connection.expect_accepted(b.connection.send_data(data, pattern(10), {.flags = kAr}));
  data.op = DataOp::kAtomicResp;
  data.length = 0;
  b.connection.expect_accepted(b.connection.send_data(data, {}, {.flags = kAr}));
  expect_alive(b);
}

// ---- §5.4

void vector_contents(Tester& t) {
  Bench b(t);
  const uint32_t first = b.connection.next_pseq(0) - 1;  // of the OPEN
  std::vector<uint32_t> sent = {first};
  for (const uint32_t gap : {0U, 1U, 0U, 5U, 90U, 2U, 0U, 70U}) {
    b.connection.skip_pseq(0, gap);
    sent.push_back(b.stream.send(b.stream.write(b.region, 0, pattern(10))).pseq);
  }
  const wire::PathBlock block = expect_block(b, 0, sent.back());
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t pseq = block.largest - i;
    const bool expected = std::find(sent.begin(), sent.end(), pseq) != sent.end();
    check(says_received(block, pseq) == expected,
          fmt::format("the bit of PSEQ {} is {}", pseq, expected ? 0 : 1));
  }
}

void late_within_vector(Tester& t) {
  Bench b(t);
  const uint32_t hole = b.connection.next_pseq(0);
  b.connection.skip_pseq(0);
  for (int i = 0; i < 10; ++i) b.stream.send(b.stream.write(b.region, 0, pattern(10)));
  const Sent late =
      b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.flags = kAr, .pseq = hole});
  b.connection.expect_accepted(late);
  const Packet& ack =
      t.expect([&](const Packet& p) { return p.block(0) != nullptr && says_received(*p.block(0), hole); },
               "the bit of a datagram that came late");
  check(ack.block(0)->largest == b.connection.next_pseq(0) - 1, "LARGEST is not the highest PSEQ");
}

void too_late_for_vector(Tester& t) {
  Bench b(t);
  const uint32_t hole = b.connection.next_pseq(0);
  b.connection.skip_pseq(0, 300);
  b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  const Sent late =
      b.stream.send_piece(b.stream.write(b.region, 50, pattern(10)), 0, {.flags = kAr, .pseq = hole});
  t.until([&] { return b.connection.cack() == late.data.cpsn + 1; }, "CACK for what came too late");
  check(b.memory(50, 10) == pattern(10), "it was not placed");
}

void rx_count(Tester& t) {
  Bench b(t);
  const Sent first = b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  const uint32_t before = expect_block(b, 0, first.pseq).rx_count;
  b.connection.send_again(first);  // a duplicate
  wire::Data data = b.stream.write(b.region, 0, pattern(10)).data;
  data.stream ^= 0x40;
  b.connection.send_data(data, pattern(10));  // rejected
  b.connection.send_probe({.token = 1});      // no DATA
  b.connection.skip_pseq(0, 3);               // lost
  const Sent last =
      b.stream.send_piece({b.stream.write(b.region, 0, pattern(10)).data, pattern(10)}, 0, {.flags = kAr});
  check(expect_block(b, 0, last.pseq).rx_count == before + 3, "RX count did not grow by 3");
}

void ce_count(Tester& t) {
  Bench b(t);
  Sent last;
  for (int i = 0; i < 10; ++i) {
    last = b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0,
                               {.flags = kAr, .origin = {.ecn = i < 4 ? Ecn::kCe : Ecn::kEct0}});
  }
  check(expect_block(b, 0, last.pseq).ce_count == 4, "CE count is not 4");
}

void ts_echo_of_largest(Tester& t) {
  Bench b(t);
  const uint32_t hole = b.connection.next_pseq(0);
  b.connection.skip_pseq(0);
  b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.ts = 1111});
  const Sent late = b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0,
                                        {.flags = kAr, .pseq = hole, .ts = 2222});
  b.connection.expect_accepted(late);
  t.run_for(millis(2));
  for (const Packet* p :
       t.all([&](const Packet& p) { return p.block(0) != nullptr && p.block(0)->largest == hole + 1; }))
    check(p->block(0)->ts_echo == 1111, "TS echo is not of the datagram that LARGEST names");
}

// ---- §5.5

Match ack_for(uint32_t pseq, uint8_t path = 0) {
  return [=](const Packet& p) { return p.block(path) != nullptr && says_received(*p.block(path), pseq); };
}

void ar_acknowledged(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  const Sent sent = b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.flags = kAr});
  t.expect(ack_for(sent.pseq), "an ACK soon after AR", micros(30));
}

void every_datagram_acknowledged(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  for (int i = 0; i < 3; ++i) {
    const Sent sent = b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.flags = kNoAr});
    t.expect(ack_for(sent.pseq), "an ACK without AR", micros(90));
  }
}

void gap_at_once(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  b.connection.skip_pseq(0);
  const Sent sent = b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.flags = kNoAr});
  t.expect(ack_for(sent.pseq), "an ACK at once", micros(25));
}

void sixteen_at_once(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  Sent sent;
  for (int i = 0; i < 16; ++i)
    sent = b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.flags = kNoAr});
  t.expect(ack_for(sent.pseq), "an ACK at once", micros(25));
}

void probe_gets_all_blocks(Tester& t) {
  Bench b(t);
  for (const uint8_t path : std::initializer_list<uint8_t>{1, 2, 3, 4, 5}) {
    b.connection.expect_accepted(
        b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.path = path, .flags = kAr}));
  }
  t.run_for(millis(5));
  t.forget();
  b.connection.send_probe({.token = 8}, 0, {.flags = kAr});
  for (const uint8_t path : std::initializer_list<uint8_t>{0, 1, 2, 3, 4, 5}) {
    t.until([&] { return t.count([&](const Packet& p) { return p.block(path) != nullptr; }) != 0; },
            fmt::format("a block of path {}", path), millis(1));
  }
}

void more_than_four_paths(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  std::vector<Sent> sent;
  for (uint8_t path = 0; path < 9; ++path)
    sent.push_back(b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.path = path}));
  for (const Sent& each : sent)
    t.until([&] { return t.count(ack_for(each.pseq, each.path)) != 0; },
            fmt::format("a block of path {}", each.path), millis(1));
}

// ---- §5.6

void cack_is_the_base(Tester& t) {
  Bench b(t);
  const uint32_t hole = b.connection.take_cpsn();
  for (int i = 0; i < 3; ++i) b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  check(b.connection.cack() == hole, "CACK is not the lowest CPSN that is missing");
  b.stream.send_void(b.stream.msn, {.flags = kAr, .cpsn = hole});
  t.until([&] { return b.connection.cack() == b.connection.next_cpsn(); }, "CACK behind the filled hole");
}

void rate_is_zero(Tester& t) {
  Bench b(t);
  for (int i = 0; i < 5; ++i) b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(5000)));
  for (const Packet* p : t.all([](const Packet& p) { return p.block(0) != nullptr; }))
    check(p->block(0)->rate == 0, "a rate is given");
}

void ack_delay_is_honest(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  const Time sent_at = t.now();
  const Sent sent = b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.flags = kNoAr});
  const Packet& ack = t.expect(ack_for(sent.pseq), "an ACK");
  check(micros(ack.block(0)->ack_delay) * 64 / 1000 <= ack.at - sent_at,
        "ACK delay is longer than the time that passed");
}

void at_most_sixteen_naks(Tester& t) {
  Bench b(t);
  wire::Data data = b.stream.write(b.region, 0, pattern(10)).data;
  data.stream ^= 0x40;
  for (int i = 0; i < 40; ++i) b.connection.send_data(data, pattern(10), {.flags = kNoAr});
  t.run_for(millis(20));
  size_t naks = 0;
  for (const Packet* p : t.all([](const Packet& p) { return p.is(Type::kAck); })) {
    check(p->ack.has_value(), "an ACK is malformed");
    naks += p->ack->nnaks;
  }
  check(naks >= 16, "fewer than 16 NAKs for 40 packets");
}

void blocks_are_repeated(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  const Sent one = b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.flags = kAr});
  t.run_for(millis(2));
  b.connection.expect_accepted(
      b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.path = 1, .flags = kAr}));
  b.connection.expect_accepted(
      b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.path = 1, .flags = kAr}));
  t.run_for(millis(2));
  check(t.count(ack_for(one.pseq, 0)) >= 3, "the block of path 0 was not in two further ACKs");
}

// ---- §5.15, §5.16

void void_makes_forget(Tester& t) {
  Bench b(t, {.receives = 1});
  const Message message = b.stream.write_imm(b.region, 0, pattern(3000), 5);
  b.stream.send_piece(message, 0);
  b.stream.send_piece(message, 1);
  b.connection.expect_accepted(b.stream.send_void(message.data.msn, {.flags = kAr}));
  b.connection.expect_accepted(b.stream.send_piece(message, 2, {.flags = kAr}));
  b.expect_no_completion();
  b.stream.send_piece(message, 0);
  b.stream.send_piece(message, 1, {.flags = kAr});
  b.expect_completion(100, "SUCCESS");
  check(b.memory(0, 3000) == pattern(3000), "the message is not whole");
}

void nak_at_each_arrival(Tester& t) {
  Bench b(t);
  wire::Data data = b.stream.write(b.region, 0, pattern(10)).data;
  data.stream ^= 0x40;
  const Sent sent = b.connection.send_data(data, pattern(10), {.flags = kAr});
  b.connection.expect_nak(sent, NakCode::kUnknownStream);
  for (int i = 0; i < 3; ++i) {
    b.connection.send_again(sent, {.flags = kAr});
    b.connection.expect_nak(sent, NakCode::kUnknownStream);
  }
}

}  // namespace

void add_receiving(std::vector<Assertion>& out) {
  out.insert(
      out.end(),
      {
          {"5.3/duplicate-cpsn-placed-once",
           "§5.3-1",
           Level::kMust,
           "A packet whose CPSN is below the base or whose bit is set is a **duplicate**; it MUST NOT be "
           "placed or have any other effect on a stream.",
           {},
           duplicate_placed_once},
          {"5.3/repeated-datagram",
           "§5.3-2",
           Level::kMust,
           "The PSEQ bit of a duplicate MUST be set.",
           {},
           repeated_datagram},
          {"5.6/limit-is-base-plus-window",
           "§5.6-1",
           Level::kMust,
           "**CACK** MUST be the base (every CPSN below is accepted), and **CPSN limit** base + window.",
           {},
           limit_is_base_plus_window},
          {"5.3/rejected-not-acknowledged",
           "§5.3-5",
           Level::kMust,
           "If the stream **rejects** the packet with a NAK code, its CPSN bit and its PSEQ bit MUST stay "
           "clear.",
           {},
           rejected_is_not_acknowledged},
          {"5.3/stream-control-accepted",
           "§5.3-8",
           Level::kMust,
           "Stream control MUST be accepted, whatever the state of its stream, unless it is malformed; then "
           "it is dropped in this sense.",
           {},
           stream_control_accepted},
          {"5.3/unwanted-response-accepted",
           "§5.3-9",
           Level::kMust,
           "READ_RESP and ATOMIC_RESP MUST be accepted, also when nobody waits for them any more or they "
           "contradict the request (§9.6).",
           {},
           response_nobody_waits_for},
          {"5.4/vector",
           "§5.4-1",
           Level::kMust,
           "If s is above LARGEST, or the first, LARGEST MUST become s and the vector be shifted by the "
           "difference.",
           {},
           vector_contents},
          {"5.4/late-within-vector",
           "§5.4-2",
           Level::kMust,
           "If s is above LARGEST, or below it by less than 256, its bit MUST be set if the packet was "
           "accepted or a duplicate.",
           {},
           late_within_vector},
          {"5.4/too-late-for-vector",
           "§5.4-3",
           Level::kMust,
           "If s is below LARGEST by 256 or more, the vector MUST stay as it is.",
           {},
           too_late_for_vector},
          {"5.4/rx-count",
           "§5.4-4",
           Level::kMust,
           "RX count MUST count every DATA datagram of the path that passed the checks of §3.13, duplicates "
           "and rejected ones included.",
           {},
           rx_count},
          {"5.4/ce-count",
           "§5.4-5",
           Level::kMust,
           "CE count MUST count those DATA datagrams of them that arrived with the codepoint CE.",
           {},
           ce_count},
          {"5.6/ts-echo",
           "§5.6-7",
           Level::kMust,
           "**TS echo** MUST be the TS of the datagram that LARGEST names, and **ACK delay** the time from "
           "its arrival to this ACK in units of 64 ns, at most 65535.",
           {},
           ts_echo_of_largest},
          {"5.5/ar-answered",
           "§5.5-7",
           Level::kShould,
           "After AR an ACK SHOULD be sent within 2 us.",
           {},
           ar_acknowledged},
          {"5.5/every-datagram-acknowledged",
           "§5.5-11",
           Level::kMust,
           "A receiver MUST send an ACK with a block for the path after every DATA datagram that it counted "
           "(§5.4-4), within the delay that it has chosen for §5.5-8.",
           {},
           every_datagram_acknowledged},
          {"5.5/gap-at-once",
           "§5.5-1",
           Level::kShould,
           "An ACK SHOULD be sent at once after a datagram that left a gap below it (s > LARGEST + 1), or "
           "came at or below LARGEST within the vector.",
           {},
           gap_at_once},
          {"5.5/duplicate-at-once",
           "§5.5-2",
           Level::kShould,
           "An ACK SHOULD be sent at once after a duplicate CPSN.",
           {},
           duplicate_at_once},
          {"5.5/sixteen-at-once",
           "§5.5-6",
           Level::kShould,
           "An ACK SHOULD be sent at once when 16 packets are unacknowledged.",
           {},
           sixteen_at_once},
          {"5.5/probe-with-ar",
           "§5.5-9",
           Level::kMust,
           "After a PROBE with AR an ACK MUST be sent at once, with blocks for all paths ever seen.",
           {},
           probe_gets_all_blocks},
          {"5.6/cack",
           "§5.6-1",
           Level::kMust,
           "**CACK** MUST be the base (every CPSN below is accepted), and **CPSN limit** base + window.",
           {},
           cack_is_the_base},
          {"5.6/more-than-four-paths",
           "§5.6-3",
           Level::kMust,
           "Every path from which DATA came since it was last reported MUST have a block; if these are more "
           "than 4, another ACK follows at once.",
           {},
           more_than_four_paths},
          {"5.6/ack-delay",
           "§5.6-7",
           Level::kMust,
           "**TS echo** MUST be the TS of the datagram that LARGEST names, and **ACK delay** the time from "
           "its arrival to this ACK in units of 64 ns, at most 65535.",
           {},
           ack_delay_is_honest},
          {"5.3/naks-are-bounded",
           "§5.3-6",
           Level::kMust,
           "A NAK for a rejected packet MUST go into the next ACK, if fewer than 16 wait already.",
           {},
           at_most_sixteen_naks},
          {"5.6/blocks-repeated",
           "§5.6-4",
           Level::kShould,
           "Blocks that are left free SHOULD repeat what was reported: each report goes out with up to 2 "
           "further ACKs.",
           {},
           blocks_are_repeated},
          {"5.15/void-accepted",
           "§5.15-4",
           Level::kMust,
           "A receiver MUST accept every VOID, also one that names nothing it knows.",
           {},
           void_accepted},
          {"5.15/void-makes-forget",
           "§5.15-5",
           Level::kMust,
           "If a VOID names a stream with an open receiving half on this connection and a message of that "
           "half that has begun and is not complete, everything that has arrived of that message MUST be "
           "forgotten, a held tail included; the message may begin again.",
           {},
           void_makes_forget},
          {"5.16/nak-at-each-arrival",
           "§5.16-1",
           Level::kMust,
           "A receiver MUST NAK again at each arrival of the packet, as long as the reason lasts.",
           {},
           nak_at_each_arrival},
          {"6.10/no-rate",
           "§6.10-1",
           Level::kMust,
           "A receiver that gives no hints MUST set `rate` to 0.",
           {},
           rate_is_zero},
      });
}

}  // namespace mroce::comply
