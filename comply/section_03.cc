// §3.1 to §3.12: how datagrams are written and read.
#include <algorithm>

#include "comply/section.h"

namespace mroce::comply {
namespace {

void set_byte(Bytes& bytes, size_t at, uint8_t value) {
  bytes.at(at) = static_cast<std::byte>(value);
}
void insert_bytes(Bytes& bytes, size_t at, std::initializer_list<uint8_t> values) {
  Bytes more;
  for (const uint8_t value : values) more.push_back(static_cast<std::byte>(value));
  bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), more.begin(), more.end());
}
constexpr size_t kWriteHeader = 48;

// ---- §3.1, §3.2

void reserved_bits_ignored(Tester& t) {
  Bench b(t);
  const auto dirty = [](Bytes& bytes) { bytes[1] |= std::byte{0x0b}; };  // bit 0, BL and EPH
  const Sent sent =
      b.stream.send_piece(b.stream.write(b.region, 0, pattern(40)), 0, {.flags = kAr, .shape = dirty});
  b.connection.expect_accepted(sent);
  check(b.memory(0, 40) == pattern(40), "the WRITE was not placed");
}

void reserved_ack_fields_ignored(Tester& t) {
  Bench b(t);
  b.connection.acknowledge = false;
  b.post(b.work(1, WorkOp::kWrite, 100));
  t.expect(b.of(DataOp::kStreamOpen), "STREAM_OPEN");
  wire::Ack ack = b.connection.current_ack();
  b.connection.send_ack(ack);
  t.expect(b.of(DataOp::kWrite), "WRITE");
  ack = b.connection.current_ack();
  b.connection.send_ack(ack, {.shape = [](Bytes& bytes) {
                          set_byte(bytes, 22, 0xff);  // flags of the ACK
                          set_byte(bytes, 23, 0xff);
                          set_byte(bytes, 29, 0xff);       // flags of the block
                          set_byte(bytes, 28 + 54, 0xff);  // reserved at its end
                          set_byte(bytes, 28 + 55, 0xff);
                        }});
  b.expect_completion(1, "SUCCESS");
}

void reserved_sent_as_zero(Tester& t) {
  Bench b(t, {.receives = 1});
  b.stream.send_and_wait(b.stream.message(pattern(3000)));
  b.post(b.work(1, WorkOp::kWrite, 5000));
  b.expect_completion(100, "SUCCESS");
  b.expect_completion(1, "SUCCESS");
  for (const Packet& p : t.log()) {
    if (p.sent || !p.header) continue;
    const auto flags = static_cast<uint8_t>(p.bytes[1]);
    check((flags & 0x0b) == 0, "a reserved flag is set: " + describe(p));
    if (!p.ack) continue;
    check(p.ack->flags == 0, "flags of an ACK are set");
    for (size_t i = 0; i < p.ack->nblocks; ++i) {
      const size_t block = wire::kAckBytes + i * wire::kPathBlockBytes;
      check(p.ack->blocks[i].flags == 0, "flags of a path block are set");
      check(p.bytes[block + 54] == std::byte{0} && p.bytes[block + 55] == std::byte{0},
            "the end of a path block is not zero");
    }
  }
}

void ecn_codepoints(Tester& t, bool of_data) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kWrite, 5000));
  b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  b.expect_completion(1, "SUCCESS");
  for (const Packet& p : t.log()) {
    if (p.sent || !p.header || p.is(Type::kData) != of_data) continue;
    check(p.ecn == (of_data ? Ecn::kEct0 : Ecn::kNotEct), "another ECN codepoint: " + describe(p));
  }
}

void epoch_ignored(Tester& t) {
  Bench b(t);
  for (const uint8_t epoch : {uint8_t{7}, uint8_t{200}, uint8_t{3}}) {
    const Sent sent = b.stream.send_piece(b.stream.write(b.region, epoch, pattern(1, epoch)), 0,
                                          {.flags = kAr, .epoch = epoch});
    b.connection.expect_accepted(sent);
    check(b.memory(epoch, 1) == pattern(1, epoch), "a WRITE of another epoch was not placed");
  }
}

void ts_opaque(Tester& t) {
  Bench b(t);
  for (const uint32_t ts : {0xdeadbeefU, 5U, 0xffffffffU, 0U}) {
    const Sent sent =
        b.stream.send_piece(b.stream.write(b.region, 0, pattern(10)), 0, {.flags = kAr, .ts = ts});
    check(expect_block(b, 0, sent.pseq).ts_echo == ts, "the TS came back as another number");
  }
}

// ---- §3.3 to §3.5

void reserved_types_dropped(Tester& t) {
  Bench b(t);
  for (const uint8_t number : std::initializer_list<uint8_t>{10, 11, 13, 14, 15}) {
    expect_dropped(b, [&] {
      b.connection.send_probe({.token = 1}, 0, {.flags = kAr, .shape = [=](Bytes& bytes) {
                                                  set_byte(bytes, 0, static_cast<uint8_t>(0x10 | number));
                                                }});
    });
  }
}

// A WRITE that is changed before it is sent must be dropped as if it had not come.
void expect_malformed(Bench& b, const std::function<void(Bytes&)>& shape, uint8_t flags = kAr,
                      const std::string& what = "the malformed datagram") {
  const Sent sent =
      b.connection.send_data({.stream = static_cast<uint16_t>(b.qp.qpn),
                              .msn = b.stream.msn,
                              .length = 60,
                              .va = b.region.addr,
                              .rkey = b.region.rkey},
                             pattern(60), {.flags = flags, .cpsn = b.connection.next_cpsn(), .shape = shape});
  b.connection.expect_not_accepted(sent, what);
  check(b.memory(0, 60) == Bytes(60), what + " was placed");
}

void unknown_opcodes_dropped(Tester& t) {
  Bench b(t);
  for (const uint8_t opcode : std::initializer_list<uint8_t>{11, 15, 23, 255}) {
    expect_malformed(b, [=](Bytes& bytes) { set_byte(bytes, 22, opcode); });
  }
  expect_alive(b);
}

void payload_past_length_dropped(Tester& t) {
  Bench b(t);
  expect_malformed(b, [](Bytes& bytes) { set_byte(bytes, 35, 59); });
  expect_malformed(b, [](Bytes& bytes) {
    for (const size_t at : std::initializer_list<size_t>{28, 29, 30, 31})
      set_byte(bytes, at, 0xff);  // offset 2^32 - 1
  });
  expect_alive(b);
}

void cut_within_headers_dropped(Tester& t) {
  Bench b(t);
  for (const size_t length : std::initializer_list<size_t>{17, 35, 40, 47}) {
    expect_malformed(b, [=](Bytes& bytes) { bytes.resize(length); });
  }
  expect_alive(b);
}

void payload_where_none_dropped(Tester& t) {
  Bench b(t);
  const uint32_t cpsn = b.connection.next_cpsn();
  Message read = b.stream.read(b.region, 0, 8);
  const Sent request = b.connection.send_data(read.data, pattern(8), {.flags = kAr, .cpsn = cpsn});
  b.connection.expect_not_accepted(request, "a READ_REQ with a payload");
  wire::Data nothing;
  nothing.op = DataOp::kVoid;
  nothing.stream = static_cast<uint16_t>(b.qp.qpn);
  const Sent filled = b.connection.send_data(nothing, pattern(8), {.flags = kAr, .cpsn = cpsn});
  b.connection.expect_not_accepted(filled, "a VOID with a payload");
  b.stream.msn = 0;
  expect_alive(b);
}

void stream_control_sizes(Tester& t) {
  Bench b(t, {.open_stream = false});
  for (const size_t length : std::initializer_list<size_t>{31, 33}) {
    wire::Data data;
    data.op = DataOp::kStreamOpen;
    data.stream = static_cast<uint16_t>(b.qp.qpn);
    data.length = 32;
    Bytes payload(32);
    wire::encode_stream_control(
        {.src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn, .sq_psn = Bench::kRqPsn, .incarnation = 1},
        payload.data());
    payload.resize(length);
    const Sent sent = b.connection.send_data(data, payload, {.flags = kAr, .cpsn = b.connection.next_cpsn()});
    b.connection.expect_not_accepted(sent, "stream control of another size");
  }
  b.stream.open();
}

void stream_control_wide_numbers(Tester& t) {
  Bench b(t, {.open_stream = false});
  for (const size_t at : std::initializer_list<size_t>{36, 40, 44}) {  // source QPN, destination QPN, PSN
    const uint32_t cpsn = b.connection.next_cpsn();
    const Sent sent = b.connection.send_control(
        DataOp::kStreamOpen, b.qp.qpn,
        {.src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn, .sq_psn = Bench::kRqPsn, .incarnation = 1}, 0,
        {.flags = kAr, .cpsn = cpsn, .shape = [=](Bytes& bytes) { set_byte(bytes, at, 1); }});
    b.connection.expect_not_accepted(sent, "stream control with a number of 25 bits");
  }
  b.stream.open();
}

// ---- §3.7, §3.8

// Of a WRITE of the target, although it counts as lost.
uint32_t cpsn_of_write(Bench& b) {
  const Packet* found = nullptr;
  b.tester.until(
      [&] {
        const auto writes = b.tester.all(b.of(DataOp::kWrite));
        if (!writes.empty()) found = writes[0];
        return found != nullptr;
      },
      "WRITE");
  return found->data->cpsn;
}

void expect_ack_ignored(Tester& t, const std::function<void(Bytes&)>& shape) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  const uint32_t cpsn = cpsn_of_write(b);
  wire::Ack ack = b.connection.current_ack();
  ack.nblocks = 0;
  ack.cack = cpsn + 1;
  b.connection.send_ack(ack, {.shape = shape});
  b.expect_no_completion();
  ack = b.connection.current_ack();
  ack.nblocks = 0;
  ack.cack = cpsn + 1;
  b.connection.send_ack(ack);  // the same without the defect
  b.expect_completion(1, "SUCCESS");
}

void malformed_acks_dropped(Tester& t) {
  expect_ack_ignored(t, [](Bytes& bytes) { set_byte(bytes, 20, 1); });    // ends within its block
  expect_ack_ignored(t, [](Bytes& bytes) { set_byte(bytes, 21, 200); });  // host penalty
  expect_ack_ignored(t, [](Bytes& bytes) {
    set_byte(bytes, 20, 5);
    bytes.resize(28 + 5 * 56);
  });
}

void too_many_naks(Tester& t) {
  expect_ack_ignored(t, [](Bytes& bytes) {
    for (int i = 0; i < 17; ++i) insert_bytes(bytes, 28, {1, 12, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0});
  });
}

void malformed_tlvs(Tester& t) {
  expect_ack_ignored(t, [](Bytes& bytes) { insert_bytes(bytes, 28, {2, 7, 0, 0, 0, 0, 0, 0, 0}); });
  expect_ack_ignored(t, [](Bytes& bytes) { insert_bytes(bytes, 28, {99, 4, 0, 0}); });
  expect_ack_ignored(t, [](Bytes& bytes) { insert_bytes(bytes, 28, {99}); });
}

void unknown_tlv_on_ack(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  wire::Ack ack = b.connection.current_ack();
  ack.cack = cpsn_of_write(b) + 1;
  ack.nblocks = 0;
  b.connection.send_ack(ack, {.shape = [](Bytes& bytes) { insert_bytes(bytes, 28, {99, 3, 1, 2, 3}); }});
  b.expect_completion(1, "SUCCESS");
}

void tlvs_on_data_skipped(Tester& t) {
  Bench b(t);
  const Sent sent = b.stream.send_piece(b.stream.write(b.region, 0, pattern(40)), 0,
                                        {.flags = kAr | wire::flag::kExtension, .shape = [](Bytes& bytes) {
                                           insert_bytes(bytes, kWriteHeader, {99, 2, 7, 7, 200, 0, 0, 0});
                                         }});
  b.connection.expect_accepted(sent);
  check(b.memory(0, 40) == pattern(40), "the payload behind the TLVs was not placed as it is");
}

void data_tlvs_need_end(Tester& t) {
  Bench b(t);
  expect_malformed(
      b,
      [](Bytes& bytes) {
        bytes.resize(kWriteHeader);
        insert_bytes(bytes, kWriteHeader, {99, 2, 7, 7});
      },
      kAr | wire::flag::kExtension, "a list without END");
  expect_malformed(
      b,
      [](Bytes& bytes) {
        insert_bytes(bytes, kWriteHeader, {0, 1, 7});
      },
      kAr | wire::flag::kExtension, "END with a value");
  expect_alive(b);
}

void close_with_tlvs(Tester& t) {
  Bench b(t);
  b.connection.send_close(b.connection.base(), {.shape = [](Bytes& bytes) {
                            insert_bytes(bytes, bytes.size(), {99, 1, 7});
                          }});
  t.expect_none(type(Type::kCloseAck), "CLOSE_ACK for a CLOSE with bytes behind it and no EXT");
  b.connection.send_close(b.connection.base(), {.flags = wire::flag::kExtension, .shape = [](Bytes& bytes) {
                                                  insert_bytes(bytes, bytes.size(), {99, 1, 7});
                                                }});
  t.expect(type(Type::kCloseAck), "CLOSE_ACK for a CLOSE with an unknown TLV");
}

// ---- §3.9

void probe_padding(Tester& t) {
  Bench b(t);
  b.connection.send_probe({.token = 0x1122334455667788, .kind = 1}, 1000, {.shape = [](Bytes& bytes) {
                            for (size_t i = 40; i < bytes.size(); ++i) set_byte(bytes, i, 0xa5);
                          }});
  const Packet& answer = t.expect(type(Type::kProbeAck), "PROBE_ACK");
  check(answer.probe_ack && answer.probe_ack->token == 0x1122334455667788, "PROBE_ACK has another token");
}

void probe_kind_ignored(Tester& t) {
  Bench b(t);
  for (const uint8_t kind : std::initializer_list<uint8_t>{0, 1, 2, 255}) {
    const uint64_t token = 1000U + kind;
    b.connection.send_probe({.token = token, .kind = kind});
    t.expect([=](const Packet& p) { return p.probe_ack && p.probe_ack->token == token; },
             fmt::format("PROBE_ACK for kind {}", kind));
  }
}

void probe_with_too_many_streams(Tester& t) {
  Bench b(t);
  expect_dropped(b, [&] {
    b.connection.send_probe({.token = 9}, 0, {.flags = kAr, .shape = [](Bytes& bytes) {
                                                set_byte(bytes, 24, 65);
                                                bytes.resize(28 + 65 * 2);
                                              }});
  });
  expect_dropped(b, [&] {  // cut off within its list
    b.connection.send_probe({.token = 9}, 0,
                            {.flags = kAr, .shape = [](Bytes& bytes) { set_byte(bytes, 24, 3); }});
  });
}

}  // namespace

void add_packets(std::vector<Assertion>& out) {
  const auto needs_requester = std::vector{Feature::kRequester};
  out.insert(
      out.end(),
      {
          {"3.1/reserved-bits-ignored",
           "§3.1-3",
           Level::kMust,
           "Reserved fields and bits MUST be ignored on arrival.",
           {},
           reserved_bits_ignored},
          {"3.1/reserved-ack-fields-ignored", "§3.1-3", Level::kMust,
           "Reserved fields and bits MUST be ignored on arrival.", needs_requester,
           reserved_ack_fields_ignored},
          {"3.1/reserved-sent-as-zero", "§3.1-2", Level::kMust,
           "Reserved fields and bits MUST be sent as zero.", needs_requester, reserved_sent_as_zero},
          {"3.1/data-is-ect0", "§3.1-7", Level::kShould,
           "Datagrams of type DATA SHOULD be sent with the ECN codepoint ECT(0).", needs_requester,
           [](Tester& t) { ecn_codepoints(t, true); }},
          {"3.1/control-is-not-ect", "§3.1-8", Level::kShould, "Control datagrams SHOULD be sent Not-ECT.",
           needs_requester, [](Tester& t) { ecn_codepoints(t, false); }},
          {"3.2/epoch-ignored",
           "§3.2-12",
           Level::kMust,
           "A receiver MUST NOT act upon RTX, LAST, epoch or TS; it only echoes TS (§5.6).",
           {},
           epoch_ignored},
          {"3.2/ts-opaque",
           "§3.2-12",
           Level::kMust,
           "A receiver MUST NOT act upon RTX, LAST, epoch or TS; it only echoes TS (§5.6).",
           {},
           ts_opaque},
          {"3.3/reserved-types-dropped",
           "§3.3-1",
           Level::kMust,
           "Datagrams of a type that is reserved or unknown MUST be dropped.",
           {},
           reserved_types_dropped},
          {"3.4/unknown-opcode-dropped",
           "§3.4-11",
           Level::kMust,
           "A receiver MUST drop a DATA datagram as malformed if its opcode is not in fields.md.",
           {},
           unknown_opcodes_dropped},
          {"3.4/cut-off-dropped",
           "§3.4-12",
           Level::kMust,
           "A receiver MUST drop a DATA datagram as malformed if it ends within its headers.",
           {},
           cut_within_headers_dropped},
          {"3.4/payload-past-length-dropped",
           "§3.4-15",
           Level::kMust,
           "A receiver MUST drop a DATA datagram as malformed if offset plus payload exceeds `length` in "
           "64-bit arithmetic, where the payload is a piece of a message.",
           {},
           payload_past_length_dropped},
          {"3.4/payload-where-none-dropped",
           "§3.4-16",
           Level::kMust,
           "A receiver MUST drop a DATA datagram as malformed if it has a payload and its opcode has none.",
           {Feature::kRead},
           payload_where_none_dropped},
          {"3.4/stream-control-size",
           "§3.4-17",
           Level::kMust,
           "A receiver MUST drop a DATA datagram as malformed if it is stream control and has not exactly 32 "
           "bytes of payload.",
           {},
           stream_control_sizes},
          {"3.5/wide-numbers-dropped",
           "§3.5-3",
           Level::kMust,
           "A receiver MUST drop stream control as malformed if it has a QPN or PSN of more than 24 bits, an "
           "RNR timer code above 31, a reason above 5 or a code that is not in fields.md.",
           {},
           stream_control_wide_numbers},
          {"3.7/malformed-ack-dropped", "§3.7-2", Level::kMust,
           "A receiver MUST drop an ACK as malformed if it ends within its blocks.", needs_requester,
           malformed_acks_dropped},
          {"3.7/too-many-naks-dropped", "§3.7-6", Level::kMust,
           "A receiver MUST drop an ACK as malformed if it has more than 16 NAKs, 64 RQ_CREDITs, 16 "
           "CREDIT_RECLAIMs or one PORT_STATUS.",
           needs_requester, too_many_naks},
          {"3.8/malformed-tlv-list", "§3.8-2", Level::kMust,
           "A list whose last TLV is cut off MUST be treated as malformed.", needs_requester, malformed_tlvs},
          {"3.8/unknown-tlv-skipped", "§3.8-1", Level::kMust,
           "A TLV of unknown or reserved type, or of one that has no meaning where it stands, MUST "
           "be skipped.",
           needs_requester, unknown_tlv_on_ack},
          {"3.8/tlvs-on-data-skipped",
           "§3.8-6",
           Level::kMust,
           "On DATA with EXT the list MUST begin behind the extension and end with END without a value, "
           "behind which the payload begins.",
           {},
           tlvs_on_data_skipped},
          {"3.8/data-tlvs-end-with-end",
           "§3.8-7",
           Level::kMust,
           "On DATA an END with a value, or a list without END, MUST be treated as malformed.",
           {},
           data_tlvs_need_end},
          {"3.8/bytes-behind-close",
           "§3.8-8",
           Level::kMust,
           "On PROBE_ACK, CLOSE, RESET, RETRY and VERSION, bytes behind the body MUST be treated as "
           "malformed unless EXT is set and they are a well-formed list.",
           {},
           close_with_tlvs},
          {"3.8/probe-padding-ignored",
           "§3.8-9",
           Level::kMust,
           "On PROBE whatever follows the body, and on INIT and INIT_ACK what follows the ports or, "
           "with EXT, the END of their list, is padding and MUST be ignored.",
           {},
           probe_padding},
          {"3.9/kind-ignored",
           "§3.9-2",
           Level::kMust,
           "A receiver MUST NOT act upon `kind`.",
           {},
           probe_kind_ignored},
          {"3.9/malformed-probe-dropped",
           "§3.9-4",
           Level::kMust,
           "A PROBE with `nstreams` above 64, or cut off within its stream numbers, MUST be dropped as "
           "malformed.",
           {},
           probe_with_too_many_streams},
      });
}

}  // namespace mroce::comply
