// §9.3 and §9.12 at the responder: what is refused, with which code, and what follows.
#include "comply/section.h"

namespace mroce::comply {
namespace {

// The message must be refused with this code; its stream then ends with STREAM_STOP, and the queue pair with
// it.
void expect_refused(Bench& b, const Message& message, NakCode code) {
  const Sent sent = b.stream.send(message);
  b.connection.expect_nak(sent, code);
  const Packet& stop = b.tester.expect(b.of(DataOp::kStreamStop), "STREAM_STOP");
  check(stop.control->reason == wire::StopReason::kFailed, "the reason of STREAM_STOP is not FAILED");
  check(stop.control->code == code, "the code of STREAM_STOP is another one");
  check(stop.data->msn == message.data.msn, "STREAM_STOP names another message");
  check(stop.control->incarnation == b.stream.incarnation, "STREAM_STOP names another incarnation");
  b.expect_state("err");
}

void out_of_bounds(Tester& t) {
  Bench b(t);
  const Message message = b.stream.write(b.region, Bench::kRegionBytes - 100, pattern(101));
  expect_refused(b, message, NakCode::kAccess);
  check(b.memory(Bench::kRegionBytes - 100, 100) == Bytes(100), "bytes of it were placed");
}

void below_the_region(Tester& t) {
  Bench b(t);
  Message message = b.stream.write(b.region, 0, pattern(10));
  message.data.va -= 1;
  expect_refused(b, message, NakCode::kAccess);
  check(b.memory(0, 10) == Bytes(10), "bytes of it were placed");
}

// Only the last packet would leave the region: the first one must not be placed either.
void whole_message_checked(Tester& t) {
  Bench b(t);
  const uint32_t at = Bench::kRegionBytes - 2000;
  const Message message = b.stream.write(b.region, at, pattern(2500));
  b.connection.expect_nak(b.stream.send_piece(message, 0, {.flags = kAr}), NakCode::kAccess);
  check(b.memory(at, 1024) == Bytes(1024), "the first packet was placed");
}

void wrong_rkey(Tester& t) {
  Bench b(t);
  Message message = b.stream.write(b.region, 0, pattern(10));
  message.data.rkey ^= 1;  // one of its random bits
  expect_refused(b, message, NakCode::kAccess);
  check(b.memory(0, 10) == Bytes(10), "bytes of it were placed");
}

void region_rights(Tester& t) {
  for (const uint32_t right : {2U, 4U, 8U}) {
    BenchOptions options;
    options.access = 15U & ~right;
    Bench b(t, options);
    if ((right == 4 && !t.target().has(Feature::kRead)) || (right == 8 && !t.target().has(Feature::kAtomics)))
      continue;
    b.stream.send(right == 2   ? b.stream.write(b.region, 0, pattern(10))
                  : right == 4 ? b.stream.read(b.region, 0, 10)
                               : b.stream.fetch_add(b.region, 0, 1));
    // READs and atomics may have been accepted before they execute: then only STREAM_STOP says it.
    const Packet& stop = t.expect(b.of(DataOp::kStreamStop), "STREAM_STOP");
    check(stop.control->code == NakCode::kAccess, "its code is not ACCESS");
    check(b.memory(0, 10) == Bytes(10), "memory changed");
  }
}

void queue_pair_rights(Tester& t) {
  BenchOptions options;
  options.connect.access = 1 | 4 | 8;  // no remote write
  Bench b(t, options);
  expect_refused(b, b.stream.write(b.region, 0, pattern(10)), NakCode::kAccess);
  check(b.memory(0, 10) == Bytes(10), "bytes of it were placed");
}

void too_long_for_receive(Tester& t) {
  Bench b(t, {.receives = 1});
  const Message message = b.stream.message(pattern(Bench::kReceiveBytes + 1));
  b.connection.expect_nak(b.stream.send_piece(message, 0, {.flags = kAr}), NakCode::kLength);
  const Packet& stop = t.expect(b.of(DataOp::kStreamStop), "STREAM_STOP");
  check(stop.control->code == NakCode::kLength, "the code of STREAM_STOP is another one");
  b.expect_completion(100, "LOC_LEN_ERR");
  check(b.memory(Bench::kReceivesAt + Bench::kReceiveBytes, 64) == Bytes(64), "bytes behind the receive");
}

void receive_buffer_gone(Tester& t) {
  Bench b(t);
  const Region other = t.target().create_mr(4096, 15);
  t.target().post_recv(b.qp.id, 7, other.id, 0, 4096);
  t.target().destroy_mr(other.id);
  expect_refused(b, b.stream.message(pattern(10)), NakCode::kRemoteOp);
  b.expect_completion(7, "LOC_PROT_ERR");
}

void odd_offset(Tester& t) {
  Bench b(t);
  wire::Data data = b.stream.write(b.region, 0, pattern(3000)).data;
  data.offset = 100;
  const Sent sent = b.connection.send_data(data, pattern(1024), {.flags = kAr});
  b.connection.expect_nak(sent, NakCode::kInvalid);
  check(b.memory(0, 3000) == Bytes(3000), "bytes of it were placed");
  b.expect_state("err");
}

void short_piece(Tester& t) {
  Bench b(t);
  const wire::Data data = b.stream.write(b.region, 0, pattern(3000)).data;
  b.connection.expect_nak(b.connection.send_data(data, pattern(500), {.flags = kAr}), NakCode::kInvalid);
}

void contradicting_pieces(Tester& t) {
  for (int field = 0; field < 4; ++field) {
    Bench b(t);
    Message message = b.stream.write(b.region, 0, pattern(3000));
    b.connection.expect_accepted(b.stream.send_piece(message, 0, {.flags = kAr}));
    if (field == 0) message.data.va += 8;
    if (field == 1) message.data.rkey ^= 1;
    if (field == 2) message.data.length -= 1;
    if (field == 3) message.data.op = DataOp::kSend;
    const Sent sent = b.stream.send_piece(message, 1, {.flags = kAr});
    b.connection.expect_nak(sent, NakCode::kInvalid);
  }
}

void too_long(Tester& t) {
  Bench b(t);
  wire::Data data = b.stream.write(b.region, 0, pattern(1024)).data;
  data.length = 0x80000001U;
  b.connection.expect_nak(b.connection.send_data(data, pattern(1024), {.flags = kAr}), NakCode::kInvalid);
}

void message_window(Tester& t) {
  Bench b(t);
  Message message = b.stream.write(b.region, 0, pattern(10));
  message.data.msn = 1024;
  b.connection.expect_nak(b.stream.send(message), NakCode::kWindow);
  message.data.msn = 1023;
  b.connection.expect_accepted(b.stream.send(message));
  message.data.msn = 0xffffffffU;  // below the oldest unfinished
  b.connection.expect_nak(b.stream.send(message), NakCode::kWindow);
  message.data.msn = 0;
  b.connection.expect_accepted(b.stream.send(message));
}

void wrong_rqsn(Tester& t) {
  Bench b(t, {.receives = 3});
  Message message = b.stream.message(pattern(10));
  message.data.rqsn = 1;  // the receive that completes next is 0
  b.stream.send(message);
  const Packet& stop = t.expect(b.of(DataOp::kStreamStop), "STREAM_STOP");
  check(stop.control->code == NakCode::kInvalid, "its code is not INVALID");
  b.expect_state("err");
}

void no_receive(Tester& t) {
  BenchOptions options;
  options.connect.min_rnr_timer = 9;
  options.receives = 1;
  Bench b(t, options);
  Message message = b.stream.message(pattern(10));
  message.data.rqsn = 1;
  const Sent sent = b.stream.send(message);
  const Packet& ack = b.connection.expect_nak(sent, NakCode::kRnr);
  check((ack.nak(sent.data.cpsn)->arg & 0xff) == 9, "the argument is not min_rnr_timer");
  check(t.target().query_qp(b.qp.id) == "rts", "the queue pair left RTS");
}

void serves_no_reads(Tester& t) {
  BenchOptions options;
  options.connect.rd_atomic = 0;
  Bench b(t, options);
  expect_refused(b, b.stream.read(b.region, 0, 10), NakCode::kInvalid);
}

void odd_atomic(Tester& t) {
  Bench b(t);
  b.stream.send(b.stream.fetch_add(b.region, 4, 1));
  const Packet& stop = t.expect(b.of(DataOp::kStreamStop), "STREAM_STOP");
  check(stop.control->code == NakCode::kInvalid, "its code is not INVALID");
  check(b.memory(0, 16) == Bytes(16), "memory changed");
  b.expect_state("err");
}

void long_atomic(Tester& t) {
  Bench b(t);
  Message message = b.stream.fetch_add(b.region, 0, 1);
  message.data.length = 16;
  b.connection.expect_nak(b.stream.send_piece(message, 0, {.flags = kAr}), NakCode::kInvalid);
  check(b.memory(0, 16) == Bytes(16), "memory changed");
  b.expect_state("err");
}

void all_behind_are_refused(Tester& t) {
  Bench b(t);
  const Message before = b.stream.write(b.region, 0, pattern(1500));
  Message bad = b.stream.write(b.region, 2000, pattern(10));
  bad.data.rkey ^= 1;
  const Message after = b.stream.write(b.region, 3000, pattern(10));
  b.stream.send_piece(before, 0);
  b.connection.expect_nak(b.stream.send(bad), NakCode::kAccess);
  const Sent behind = b.stream.send(after);
  b.connection.expect_nak(behind, NakCode::kAccess);
  b.connection.send_again(behind, {.flags = kAr});
  b.connection.expect_nak(behind, NakCode::kAccess);
  check(b.memory(3000, 10) == Bytes(10), "a message behind the failed one was placed");
  t.expect_none(b.of(DataOp::kStreamStop), "STREAM_STOP before the earlier message is finished");
  b.connection.expect_accepted(b.stream.send_piece(before, 1, {.flags = kAr}));
  check(b.memory(0, 1500) == pattern(1500), "the message before was not placed");
  const Packet& stop = t.expect(b.of(DataOp::kStreamStop), "STREAM_STOP");
  check(stop.data->msn == bad.data.msn, "STREAM_STOP names another message");
}

void posted_work_is_flushed(Tester& t) {
  Bench b(t, {.receives = 2});
  Message bad = b.stream.write(b.region, 0, pattern(10));
  bad.data.rkey ^= 1;
  b.stream.send(bad);
  b.expect_completion(100, "WR_FLUSH_ERR");
  b.expect_completion(101, "WR_FLUSH_ERR");
}

void other_streams_live(Tester& t) {
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
  Message bad = b.stream.write(b.region, 0, pattern(10));
  bad.data.rkey ^= 1;
  expect_refused(b, bad, NakCode::kAccess);
  other.send_and_wait(other.write(b.region, 500, pattern(100)));
  check(b.memory(500, 100) == pattern(100), "another stream does not go on");
}

}  // namespace

void add_refusals(std::vector<Assertion>& out) {
  out.insert(
      out.end(),
      {
          {"9.3/out-of-bounds",
           "§9.3-14",
           Level::kMust,
           "**WRITE, WRITE_IMM**, length not 0: unless the rkey names a region in the queue pair's "
           "protection domain that covers [VA, VA + length) and allows remote writing, and the queue pair "
           "allows it, the packet MUST be rejected with ACCESS, and the message fails.",
           {},
           out_of_bounds},
          {"9.3/below-the-region",
           "§9.3-14",
           Level::kMust,
           "**WRITE, WRITE_IMM**, length not 0: unless the rkey names a region in the queue pair's "
           "protection domain that covers [VA, VA + length) and allows remote writing, and the queue pair "
           "allows it, the packet MUST be rejected with ACCESS, and the message fails.",
           {},
           below_the_region},
          {"9.3/whole-message-checked",
           "§9.3-14",
           Level::kMust,
           "**WRITE, WRITE_IMM**, length not 0: unless the rkey names a region in the queue pair's "
           "protection domain that covers [VA, VA + length) and allows remote writing, and the queue pair "
           "allows it, the packet MUST be rejected with ACCESS, and the message fails.",
           {},
           whole_message_checked},
          {"9.3/wrong-rkey",
           "§9.3-14",
           Level::kMust,
           "**WRITE, WRITE_IMM**, length not 0: unless the rkey names a region in the queue pair's "
           "protection domain that covers [VA, VA + length) and allows remote writing, and the queue pair "
           "allows it, the packet MUST be rejected with ACCESS, and the message fails.",
           {},
           wrong_rkey},
          {"9.3/rights-of-the-region",
           "§9.3-14",
           Level::kMust,
           "**WRITE, WRITE_IMM**, length not 0: unless the rkey names a region in the queue pair's "
           "protection domain that covers [VA, VA + length) and allows remote writing, and the queue pair "
           "allows it, the packet MUST be rejected with ACCESS, and the message fails.",
           {},
           region_rights},
          {"9.3/rights-of-the-queue-pair",
           "§9.3-14",
           Level::kMust,
           "**WRITE, WRITE_IMM**, length not 0: unless the rkey names a region in the queue pair's "
           "protection domain that covers [VA, VA + length) and allows remote writing, and the queue pair "
           "allows it, the packet MUST be rejected with ACCESS, and the message fails.",
           {},
           queue_pair_rights},
          {"9.3/longer-than-the-receive",
           "§9.3-16",
           Level::kMust,
           "**SEND**, **SEND_IMM**, **SEND_INV**: a message that is longer than the receive MUST be rejected "
           "with LENGTH, and fails; the receive will complete with LOC_LEN_ERR.",
           {},
           too_long_for_receive},
          {"9.3/receive-buffer-gone",
           "§9.3-17",
           Level::kMust,
           "If bytes of the receive that the payload covers are not in valid local regions, it MUST be "
           "rejected with REMOTE_OP, and the message fails; the receive will complete with LOC_PROT_ERR.",
           {},
           receive_buffer_gone},
          {"9.3/odd-offset",
           "§9.3-9",
           Level::kMust,
           "Check: offset is a multiple of the payload MTU; for WRITE* and SEND*: payload = "
           "min(payload MTU, length − offset), not empty unless length is 0, and no more bytes than "
           "the message has; for READ and atomics: offset 0 and no payload; Else: it MUST be "
           "rejected with INVALID, and the message fails.",
           {},
           odd_offset},
          {"9.3/short-piece",
           "§9.3-9",
           Level::kMust,
           "Check: offset is a multiple of the payload MTU; for WRITE* and SEND*: payload = "
           "min(payload MTU, length − offset), not empty unless length is 0, and no more bytes than "
           "the message has; for READ and atomics: offset 0 and no payload; Else: it MUST be "
           "rejected with INVALID, and the message fails.",
           {},
           short_piece},
          {"9.3/contradicting-pieces",
           "§9.3-7",
           Level::kMust,
           "Check: opcode, length, VA, rkey, RQSN, immediate and RDSLOT are those of the packets of this "
           "message that came before; Else: it MUST be rejected with INVALID, and the message fails.",
           {},
           contradicting_pieces},
          {"9.3/longest-message",
           "§9.3-6",
           Level::kMust,
           "Check: length at most 2^31; Else: it MUST be rejected with INVALID, and the message fails.",
           {},
           too_long},
          {"9.3/message-window",
           "§9.3-4",
           Level::kMust,
           "Check: MSN is less than the oldest unfinished + 1024; Else: it MUST be rejected with WINDOW.",
           {},
           message_window},
          {"9.5/wrong-rqsn",
           "§9.5-2",
           Level::kMust,
           "A message that consumes a receive MUST name the RQSN of the receive that completes next; else it "
           "fails with INVALID.",
           {},
           wrong_rqsn},
          {"8.13/rnr",
           "§8.13-1",
           Level::kMust,
           "If there is no receive for a packet's RQSN (no posted entry, or no reservation left) the packet "
           "MUST be rejected with RNR, argument = `min_rnr_timer`.",
           {},
           no_receive},
          {"9.3/serves-no-reads",
           "§9.3-12",
           Level::kMust,
           "Check: READ and atomics: max_dest_rd_atomic is not 0; Else: it MUST be rejected with INVALID, "
           "and the message fails.",
           {Feature::kRead},
           serves_no_reads},
          {"9.8/odd-address",
           "§9.8-1",
           Level::kMust,
           "An atomic MUST act on 64 bits, at an address that is a multiple of 8; else the message fails "
           "with INVALID.",
           {Feature::kAtomics},
           odd_atomic},
          {"9.8/length-is-8",
           "§9.8-6",
           Level::kMust,
           "An atomic whose length is not 8 MUST be rejected with INVALID, and the message fails.",
           {Feature::kAtomics},
           long_atomic},
          {"9.12/all-behind-are-refused",
           "§9.12-1",
           Level::kMust,
           "Every packet with an MSN at or above f MUST be rejected with that code, at each arrival.",
           {},
           all_behind_are_refused},
          {"9.12/posted-work-is-flushed",
           "§9.12-12",
           Level::kMust,
           "The oldest work request left MUST complete with the cause, the rest and all posted receives with "
           "WR_FLUSH_ERR.",
           {},
           posted_work_is_flushed},
          {"10.2/one-queue-pair-only",
           "§10.2-3",
           Level::kMust,
           "A request that is refused MUST NOT end another stream or the connection.",
           {},
           other_streams_live},
      });
}

}  // namespace mroce::comply
