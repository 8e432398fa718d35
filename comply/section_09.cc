// §9.3 to §9.8: what a responder does with each operation.
#include <cstring>
#include <set>

#include "comply/section.h"

namespace mroce::comply {
namespace {

Bytes word_bytes(uint64_t value) {
  Bytes out(8);
  std::memcpy(out.data(), &value, 8);
  return out;
}

void write_placed(Tester& t) {
  Bench b(t);
  b.stream.send_and_wait(b.stream.write(b.region, 33, pattern(5000)));
  check(b.memory(33, 5000) == pattern(5000), "the bytes are not there");
  check(b.memory(0, 33) == Bytes(33) && b.memory(5033, 100) == Bytes(100), "bytes beside them changed");
}

void out_of_order_placement(Tester& t) {
  Bench b(t);
  const Message message = b.stream.write(b.region, 0, pattern(5000));
  for (const uint32_t piece : {3U, 0U, 2U}) {
    b.connection.expect_accepted(b.stream.send_piece(message, piece, {.flags = kAr}));
    check(b.memory(piece * 1024, 1024) ==
              Bytes(message.bytes.begin() + piece * 1024, message.bytes.begin() + piece * 1024 + 1024),
          "a packet was not placed on arrival");
  }
  b.stream.send_piece(message, 1);
  b.connection.expect_accepted(b.stream.send_piece(message, 4, {.flags = kAr}));
  check(b.memory(0, 5000) == pattern(5000), "the message is not whole");
}

void tail_held(Tester& t) {
  Bench b(t);
  const Message message = b.stream.write(b.region, 0, pattern(2500));
  b.connection.expect_accepted(b.stream.send_piece(message, 2, {.flags = kAr}));
  check(b.memory(2048, 452) == Bytes(452), "the last packet was placed before the others");
  b.stream.send_piece(message, 1);
  b.connection.expect_accepted(b.stream.send_piece(message, 0, {.flags = kAr}));
  check(b.memory(0, 2500) == pattern(2500), "the held packet was not placed");
}

void tail_waits_for_earlier_messages(Tester& t) {
  Bench b(t);
  const Message first = b.stream.write(b.region, 0, pattern(1500, 1));
  const Message flag = b.stream.write(b.region, 4000, pattern(1, 2));
  b.stream.send_piece(first, 0);
  b.connection.expect_accepted(b.stream.send_piece(flag, 0, {.flags = kAr}));
  check(b.memory(4000, 1) == Bytes(1), "a flag was visible before the data of the WRITE before it");
  b.connection.expect_accepted(b.stream.send_piece(first, 1, {.flags = kAr}));
  check(b.memory(0, 1500) == pattern(1500, 1) && b.memory(4000, 1) == pattern(1, 2), "not all was placed");
}

void write_imm(Tester& t) {
  Bench b(t, {.receives = 1});
  b.stream.send(b.stream.write_imm(b.region, 0, pattern(3000), 0x01020304));
  const Completion done = b.expect_completion(100, "SUCCESS");
  check(done.opcode == "RECV_RDMA_WITH_IMM" && done.bytes == 3000, "its opcode or length");
  check(done.imm == 0x01020304U, "its immediate");
  check(b.memory(0, 3000) == pattern(3000), "the bytes are not there");
}

void send_received(Tester& t) {
  Bench b(t, {.receives = 2});
  b.stream.send(b.stream.message(pattern(3000)));
  const Completion done = b.expect_completion(100, "SUCCESS");
  check(done.opcode == "RECV" && done.bytes == 3000 && !done.imm, "its opcode, length or immediate");
  check(b.memory(Bench::kReceivesAt, 3000) == pattern(3000), "the bytes are not there");
  b.stream.send(b.stream.send_imm(pattern(10), 0xdeadbeef));
  check(b.expect_completion(101, "SUCCESS").imm == 0xdeadbeefU, "its immediate");
}

void send_inv(Tester& t) {
  Bench b(t, {.receives = 1});
  const Region other = t.target().create_mr(4096, 15);
  b.stream.send_and_wait(b.stream.write(other, 0, pattern(10)));
  b.stream.send(b.stream.send_inv(pattern(10), other.rkey));
  b.expect_completion(100, "SUCCESS");
  b.connection.expect_nak(b.stream.send(b.stream.write(other, 0, pattern(10))), NakCode::kAccess);
}

void receives_in_order(Tester& t) {
  Bench b(t, {.receives = 3});
  std::vector<Message> messages;
  for (uint32_t i = 0; i < 3; ++i) messages.push_back(b.stream.message(pattern(500 + i, i)));
  b.connection.expect_accepted(b.stream.send(messages[2]));
  b.connection.expect_accepted(b.stream.send(messages[1]));
  b.expect_no_completion();
  b.stream.send(messages[0]);
  for (uint32_t i = 0; i < 3; ++i) {
    check(b.expect_completion(100 + i, "SUCCESS").bytes == 500 + i, "a receive has another message's length");
    check(b.memory(Bench::kReceivesAt + i * Bench::kReceiveBytes, 500 + i) == pattern(500 + i, i),
          "a receive has another message's bytes");
  }
}

void empty_messages(Tester& t) {
  Bench b(t, {.receives = 1});
  Message nothing = b.stream.write(b.region, 0, {});
  nothing.data.rkey = 0x12345;  // is not looked at
  b.stream.send_and_wait(nothing);
  b.stream.send(b.stream.message({}));
  check(b.expect_completion(100, "SUCCESS").bytes == 0, "an empty SEND has a length");
  expect_alive(b);
}

// ---- READ

Bytes collect_response(Bench& b, const Message& request, uint32_t length) {
  Bytes out(length);
  std::set<uint32_t> pieces;  // by offset: one may come again whose acknowledgement was late
  size_t got = 0;
  while (got < length) {
    const Packet& p = b.tester.expect(
        [&](const Packet& each) {
          return b.of(DataOp::kReadResp)(each) && each.data->rdslot == request.data.rdslot;
        },
        "READ_RESP");
    check(p.data->status == NakCode::kNone, "its status is not 0");
    check(p.data->length == length, "its length is not that of the READ");
    check(p.data->offset % b.connection.mtu() == 0 && p.data->offset + p.payload.size() <= length,
          "its offset");
    std::copy(p.payload.begin(), p.payload.end(), out.begin() + p.data->offset);
    if (pieces.insert(p.data->offset).second) got += p.payload.size();
  }
  return out;
}

void read_answered(Tester& t) {
  Bench b(t);
  b.write_memory(100, pattern(3000));
  const Message read = b.stream.read(b.region, 100, 3000);
  b.stream.send(read);
  check(collect_response(b, read, 3000) == pattern(3000), "other bytes than memory has");
  check(t.count(b.of(DataOp::kReadResp)) == 3, "the response is not cut at the payload MTU");
}

void rdslot_echoed(Tester& t) {
  Bench b(t);
  for (const uint32_t slot : {0xffffffffU, 0U, 0x80000001U}) {
    Message read = b.stream.read(b.region, 0, 100);
    read.data.rdslot = slot;
    b.stream.send(read);
    collect_response(b, read, 100);
    Message add = b.stream.fetch_add(b.region, 0, 1);
    add.data.rdslot = slot;
    b.stream.send(add);
    const Packet& answer = t.expect(b.of(DataOp::kAtomicResp), "ATOMIC_RESP");
    check(answer.data->rdslot == slot, "RDSLOT of an ATOMIC_RESP");
  }
}

void read_waits_for_write(Tester& t) {
  Bench b(t);
  const Message write = b.stream.write(b.region, 0, pattern(1500));
  const Message read = b.stream.read(b.region, 0, 1500);
  b.stream.send_piece(write, 1);
  b.stream.send(read);
  t.expect_none(b.of(DataOp::kReadResp), "READ_RESP before the WRITE was placed");
  b.stream.send_piece(write, 0);
  check(collect_response(b, read, 1500) == pattern(1500), "the READ did not see the WRITE");
}

void read_under_loss(Tester& t) {
  Bench b(t);
  b.write_memory(0, pattern(60000));
  int n = 0;
  b.connection.lose = [&](const Packet& p) { return p.is(DataOp::kReadResp) && ++n % 4 == 0; };
  const Message read = b.stream.read(b.region, 0, 60000);
  const Sent request = b.stream.send(read);
  check(collect_response(b, read, 60000) == pattern(60000), "other bytes than memory has");
  b.connection.send_again(request, {.flags = kAr});
  t.run_for(millis(5));
  t.forget();
  t.expect_none(b.of(DataOp::kReadResp), "a second response to one READ_REQ", millis(50));
}

void read_of_vanished_region(Tester& t) {
  Bench b(t);
  const Region other = t.target().create_mr(64 << 10, 15);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kReadResp); };
  const Message read = b.stream.read(other, 0, 3000);
  b.stream.send(read);
  t.until([&] { return t.count(b.of(DataOp::kReadResp)) > 0; }, "READ_RESP");
  t.target().destroy_mr(other.id);
  b.connection.lose = {};
  const Packet& p = t.expect(
      [&](const Packet& each) {
        return b.of(DataOp::kReadResp)(each) && each.data->status != NakCode::kNone;
      },
      "a READ_RESP with a status");
  check(p.data->status == NakCode::kAccess && p.payload.empty(),
        "its status is not ACCESS, or has a payload");
}

// ---- atomics

void atomics_execute(Tester& t) {
  Bench b(t);
  b.write_memory(64, word_bytes(1000));
  b.stream.send(b.stream.fetch_add(b.region, 64, 7));
  check(t.expect(b.of(DataOp::kAtomicResp), "ATOMIC_RESP").data->operand == 1000, "the value before");
  b.stream.send(b.stream.compare_swap(b.region, 64, 1007, 0x0102030405060708));
  check(t.expect(b.of(DataOp::kAtomicResp), "ATOMIC_RESP").data->operand == 1007, "the value before");
  b.stream.send(b.stream.compare_swap(b.region, 64, 1, 2));
  check(t.expect(b.of(DataOp::kAtomicResp), "ATOMIC_RESP").data->operand == 0x0102030405060708,
        "the value before");
  check(b.word(64) == 0x0102030405060708, "the word in memory");
}

void atomics_execute_once(Tester& t) {
  Bench b(t);
  const Sent sent = b.stream.send(b.stream.fetch_add(b.region, 0, 1));
  t.expect(b.of(DataOp::kAtomicResp), "ATOMIC_RESP");
  for (int i = 0; i < 5; ++i) b.connection.send_again(sent, {.flags = kAr});
  const Sent last = b.connection.send_again(sent, {.path = 3, .flags = kAr});
  b.connection.expect_accepted(last);
  t.run_for(millis(5));
  check(b.word(0) == 1, fmt::format("executed {} times", b.word(0)));
}

void lost_atomic_response(Tester& t) {
  Bench b(t);
  int n = 0;
  b.connection.lose = [&](const Packet& p) { return p.is(DataOp::kAtomicResp) && ++n <= 2; };
  b.stream.send(b.stream.fetch_add(b.region, 0, 1));
  check(t.expect(b.of(DataOp::kAtomicResp), "ATOMIC_RESP").data->operand == 0, "the value before");
  check(b.word(0) == 1, "executed more than once");
}

void atomics_after_write(Tester& t) {
  Bench b(t);
  const Message write = b.stream.write(b.region, 0, word_bytes(41));
  const Message add = b.stream.fetch_add(b.region, 0, 1);
  b.stream.send(add);
  t.expect_none(b.of(DataOp::kAtomicResp), "ATOMIC_RESP before the WRITE");
  b.stream.send(write);
  check(t.expect(b.of(DataOp::kAtomicResp), "ATOMIC_RESP").data->operand == 41, "the value before");
  check(b.word(0) == 42, "the word in memory");
}

}  // namespace

void add_placement(std::vector<Assertion>& out) {
  const auto read = std::vector{Feature::kRead};
  const auto atomics = std::vector{Feature::kAtomics};
  out.insert(
      out.end(),
      {
          {"2.3/rdslot-echoed",
           "§2.3-9",
           Level::kMust,
           "A responder MUST echo RDSLOT unchanged.",
           {Feature::kRead, Feature::kAtomics},
           rdslot_echoed},
          {"9.3/write-placed",
           "§9.3-15",
           Level::kMust,
           "The payload of a WRITE MUST be stored at VA + offset, or held (§9.4).",
           {},
           write_placed},
          {"9.3/any-order",
           "§9.3-15",
           Level::kMust,
           "The payload of a WRITE MUST be stored at VA + offset, or held (§9.4).",
           {},
           out_of_order_placement},
          {"9.4/tail-held",
           "§9.4-2",
           Level::kShould,
           "Until then that packet SHOULD be **held** and accepted (custody).",
           {},
           tail_held},
          {"9.4/tail-waits-for-earlier-messages",
           "§9.4-1",
           Level::kMust,
           "The last packet of a WRITE or WRITE_IMM (offset + payload = length, length not 0) MUST NOT be "
           "visible in memory before all other bytes of its message and all earlier messages of its half are "
           "placed.",
           {},
           tail_waits_for_earlier_messages},
          {"9.5/write-with-immediate",
           "§9.5-1",
           Level::kMust,
           "Messages MUST be **finished** strictly in MSN order, each when it is complete and everything "
           "before it is finished.",
           {},
           write_imm},
          {"9.3/send",
           "§9.3-18",
           Level::kMust,
           "The payload of a SEND MUST be stored at its offset of the receive's scatter list.",
           {},
           send_received},
          {"9.5/send-with-invalidate",
           "§9.5-5",
           Level::kMust,
           "That region MUST lose its remote rights and keep its local ones, not before the message "
           "finishes.",
           {},
           send_inv},
          {"9.5/finished-in-order",
           "§9.5-1",
           Level::kMust,
           "Messages MUST be **finished** strictly in MSN order, each when it is complete and everything "
           "before it is finished.",
           {},
           receives_in_order},
          {"9.3/empty-messages",
           "§9.3-19",
           Level::kMust,
           "An empty WRITE MUST NOT be refused for its key.",
           {},
           empty_messages},
          {"9.6/read", "§9.6-4", Level::kMust,
           "READ_RESP MUST carry the RDSLOT, the length of the READ, the offset, and status 0 otherwise.",
           read, read_answered},
          {"9.5/read-after-write", "§9.5-1", Level::kMust,
           "Messages MUST be **finished** strictly in MSN order, each when it is complete and everything "
           "before it is finished.",
           read, read_waits_for_write},
          {"9.6/read-under-loss", "§9.6-9", Level::kMust, "A READ_REQ MUST be executed at most once.", read,
           read_under_loss},
          {"9.6/region-vanished", "§9.6-2", Level::kMust,
           "The responder MUST check them again at each transmission of each response packet with payload; "
           "if that fails the packet carries the status ACCESS and no payload.",
           read, read_of_vanished_region},
          {"9.8/atomics", "§9.8-5", Level::kMust, "ATOMIC_RESP MUST carry the value before.", atomics,
           atomics_execute},
          {"9.8/executed-once", "§9.8-3", Level::kMust,
           "Each atomic MUST execute exactly once, atomic with respect to all others.", atomics,
           atomics_execute_once},
          {"9.8/lost-response", "§9.8-3", Level::kMust,
           "Each atomic MUST execute exactly once, atomic with respect to all others.", atomics,
           lost_atomic_response},
          {"9.5/atomic-after-write", "§9.5-1", Level::kMust,
           "Messages MUST be **finished** strictly in MSN order, each when it is complete and everything "
           "before it is finished.",
           atomics, atomics_after_write},
      });
}

}  // namespace mroce::comply
