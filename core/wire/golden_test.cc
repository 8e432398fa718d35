// One packet of each kind, its bytes written by hand from the tables of fields.def (print them with
// mroce_print_fields). A codec that is wrong in both directions alike fails here.
#include <gtest/gtest.h>

#include "core/wire/test_support.h"

namespace mroce::wire {
namespace {

using namespace test;

// ver|type flags path epoch, dcid, pseq, ts. `first` is version 1 and the type.
Bytes golden(std::string_view first, std::string_view rest) {
  Bytes bytes = from_hex(first);
  for (const std::string_view part : {std::string_view("a0 05 07 01020304 11121314 21222324"), rest}) {
    const Bytes more = from_hex(part);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return bytes;
}

Common golden_common(Type type) {
  return {1, type, flag::kAckRequest | flag::kLast, 5, 7, 0x01020304, 0x11121314, 0x21222324};
}

// cpsn, stream, op, backlog, msn, offset, length; then the extension.
void expect_data(std::string_view op, std::string_view extension, Data data, std::string_view payload = "") {
  data.cpsn = 0x31323334;
  data.stream = 0x4142;
  data.backlog = 0x1b;
  data.msn = 0x51525354;
  data.offset = 0x00001000;
  data.length = 0x00002003;
  Bytes expected = golden("14", "31323334 4142");
  for (const std::string_view part :
       {op, std::string_view("1b 51525354 00001000 00002003"), extension, payload}) {
    const Bytes more = from_hex(part);
    expected.insert(expected.end(), more.begin(), more.end());
  }
  EXPECT_EQ(encoded_data(golden_common(Type::kData), data, from_hex(payload)), expected);
  Common header;
  Data back;
  In payload_back;
  ASSERT_TRUE(decode_common(expected, header));
  ASSERT_TRUE(decode_data(expected, header, back, payload_back));
  EXPECT_EQ(header, golden_common(Type::kData));
  EXPECT_EQ(back, data);
  EXPECT_EQ(payload_back.size(), from_hex(payload).size());
}

Data with_op(DataOp op) {
  Data data;
  data.op = op;
  return data;
}

TEST(Golden, data_that_writes) {
  Data write = with_op(DataOp::kWrite);
  write.va = 0x6162636465666768;
  write.rkey = 0x71727374;
  expect_data("00", "6162636465666768 71727374", write, "cafe");
  Data write_imm = write;
  write_imm.op = DataOp::kWriteImm;
  write_imm.rqsn = 0x81828384;
  write_imm.imm = 0x91929394;
  expect_data("01", "6162636465666768 71727374 81828384 91929394", write_imm, "cafe");
}

TEST(Golden, data_that_sends) {
  Data send = with_op(DataOp::kSend);
  send.rqsn = 0x81828384;
  expect_data("02", "81828384 00000000", send, "cafe");
  send.imm = 0x91929394;
  send.op = DataOp::kSendImm;
  expect_data("03", "81828384 91929394", send, "cafe");
  send.op = DataOp::kSendInv;
  expect_data("04", "81828384 91929394", send, "cafe");
}

TEST(Golden, data_that_reads) {
  Data request = with_op(DataOp::kReadReq);
  request.va = 0x6162636465666768;
  request.rkey = 0x71727374;
  request.rdslot = 0xa1a2a3a4;
  expect_data("05", "6162636465666768 71727374 a1a2a3a4", request);
  Data response = with_op(DataOp::kReadResp);
  response.rdslot = 0xa1a2a3a4;
  response.status = NakCode::kAccess;
  expect_data("06", "a1a2a3a4 04 000000", response, "cafe");
}

TEST(Golden, data_of_atomics) {
  Data request = with_op(DataOp::kCompareSwap);
  request.va = 0x6162636465666768;
  request.rkey = 0x71727374;
  request.rdslot = 0xa1a2a3a4;
  request.operand = 0xb1b2b3b4b5b6b7b8;
  request.compare = 0xc1c2c3c4c5c6c7c8;
  expect_data("07", "6162636465666768 71727374 a1a2a3a4 b1b2b3b4b5b6b7b8 c1c2c3c4c5c6c7c8", request);
  request.op = DataOp::kFetchAdd;
  request.compare = 0;
  expect_data("08", "6162636465666768 71727374 a1a2a3a4 b1b2b3b4b5b6b7b8 0000000000000000", request);
  Data response = with_op(DataOp::kAtomicResp);
  response.rdslot = 0xa1a2a3a4;
  response.operand = 0xb1b2b3b4b5b6b7b8;
  expect_data("09", "a1a2a3a4 00 000000 b1b2b3b4b5b6b7b8", response);
}

TEST(Golden, data_without_a_message) {
  expect_data("0a", "", with_op(DataOp::kVoid));
  const std::string_view payload =
      "00d1d2d3 00e1e2e3 00f1f2f3 01020304 05060708 10 0c 05 04 0000000000000000";
  expect_data("10", "", with_op(DataOp::kStreamOpen), payload);
  StreamControl control{0xd1d2d3,        0xe1e2e3, 0xf1f2f3, 0x01020304,
                        0x05060708,      0x10,     0x0c,     StopReason::kFailed,
                        NakCode::kAccess};
  Bytes bytes(kStreamControlBytes, std::byte{0xff});
  encode_stream_control(control, bytes.data());
  EXPECT_EQ(bytes, from_hex(payload));
  StreamControl back;
  ASSERT_TRUE(decode_stream_control(bytes, back));
  EXPECT_EQ(back, control);
}

TEST(Golden, ack_with_a_block_and_every_tlv) {
  Ack ack;
  ack.cack = 0x31323334;
  ack.nblocks = 1;
  ack.host_penalty = 0x7f;
  ack.flags = 0x8001;
  ack.cpsn_limit = 0x41424344;
  ack.blocks[0] = {
      0x3f,       0x02,       0x5c01,     0x51525354, {0x6162636465666768, 1, 2, 0xff00000000000000},
      0x71727374, 0x81828384, 0x91929394, 0xa1a2};
  ack.nnaks = 1;
  ack.naks[0] = {0xb1b2b3b4, NakCode::kRnr, 0x0000000c};
  ack.ncredits = 1;
  ack.credits[0] = {0xc1c2, 0xc3c4c5c6, 0xc7c8};
  ack.nreclaims = 1;
  ack.reclaims[0] = 0xd1d2;
  ack.has_port_status = true;
  ack.port_status = {0x0000000b, 0x00000009};
  const Bytes expected = golden("15",
                                "31323334 01 7f 8001 41424344"
                                "3f 02 5c01 51525354"
                                "6162636465666768 0000000000000001 0000000000000002 ff00000000000000"
                                "71727374 81828384 91929394 a1a2 0000"
                                "01 0c b1b2b3b4 03 000000 0000000c"
                                "02 08 c1c2 c7c8 c3c4c5c6"
                                "06 02 d1d2"
                                "03 08 0000000b 00000009");
  EXPECT_EQ(encoded([&](Out out) { return encode_ack(golden_common(Type::kAck), ack, out); }), expected);
  Ack back;
  ASSERT_TRUE(decode_ack(expected, back));
  EXPECT_EQ(back, ack);
}

TEST(Golden, probe_and_its_answer) {
  Probe probe;
  probe.token = 0x3132333435363738;
  probe.kind = 1;
  probe.nstreams = 2;
  probe.streams[0] = 0x4142;
  probe.streams[1] = 0x4344;
  const Bytes expected = golden("16", "3132333435363738 02 01 0000 4142 4344 000000");
  EXPECT_EQ(encoded([&](Out out) { return encode_probe(golden_common(Type::kProbe), probe, 35, out); }),
            expected);
  Probe back;
  ASSERT_TRUE(decode_probe(expected, back));
  EXPECT_EQ(back, probe);

  const ProbeAck answer{0x3132333435363738};
  const Bytes answered = golden("17", "3132333435363738");
  EXPECT_EQ(encoded([&](Out out) { return encode_probe_ack(golden_common(Type::kProbeAck), answer, out); }),
            answered);
  ProbeAck answer_back;
  ASSERT_TRUE(decode_probe_ack(answered, answer_back));
  EXPECT_EQ(answer_back, answer);
}

TEST(Golden, close_and_close_ack) {
  const Close close{0x31323334, 0x41424344};
  for (const auto& [type, first] : {std::pair{Type::kClose, "18"}, {Type::kCloseAck, "1c"}}) {
    const Bytes expected = golden(first, "31323334 41424344");
    const Common header = golden_common(type);
    EXPECT_EQ(encoded([&](Out out) { return encode_close(header, close, out); }), expected);
    Close back;
    ASSERT_TRUE(decode_close(expected, back));
    EXPECT_EQ(back, close);
  }
}

TEST(Golden, reset_and_version) {
  Reset reset;
  for (uint8_t i = 0; i < 16; ++i) reset.token[i] = static_cast<uint8_t>(0xe0 + i);
  const Bytes expected = golden("19", "e0e1e2e3e4e5e6e7e8e9eaebecedeeef");
  EXPECT_EQ(encoded([&](Out out) { return encode_reset(golden_common(Type::kReset), reset, out); }),
            expected);
  Reset back;
  ASSERT_TRUE(decode_reset(expected, back));
  EXPECT_EQ(back, reset);

  VersionList list;
  list.count = 2;
  list.versions[0] = 1;
  list.versions[1] = 15;
  const Bytes listed = golden("13", "02 000000 01 0f");
  EXPECT_EQ(encoded([&](Out out) { return encode_version(golden_common(Type::kVersion), list, out); }),
            listed);
  VersionList list_back;
  ASSERT_TRUE(decode_version(listed, list_back));
  EXPECT_EQ(list_back, list);
}

Init golden_init() {
  Init init;
  init.version_min = 1;
  init.version_max = 3;
  init.security = 0x05;
  init.flags = 0x01;
  init.scid = 0x31323334;
  for (uint8_t i = 0; i < 16; ++i) {
    init.endpoint_id[i] = static_cast<uint8_t>(0x40 + i);
    init.reset_token[i] = static_cast<uint8_t>(0x50 + i);
  }
  init.nonce = 0x6162636465666768;
  init.listen_port = 0x7172;
  init.payload_mtu = 0x0580;
  init.max_paths = 0x20;
  init.nports = 1;
  init.max_streams = 0x8182;
  init.cpsn_window = 0x00004000;
  init.first_cpsn = 0x91929394;
  init.first_pseq = 0xa1a2a3a4;
  init.receive_buffer = 0x00100000;
  init.known_cid = 0xb1b2b3b4;
  init.ports[0].address.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  init.ports[0].prefix_bits = 104;
  init.ports[0].rate_mbps = 100000;
  return init;
}

TEST(Golden, init_and_init_ack) {
  const Init init = golden_init();
  const std::string_view body =
      "6d524f43 01 03 05 01 31323334"
      "404142434445464748494a4b4c4d4e4f"
      "505152535455565758595a5b5c5d5e5f"
      "6162636465666768 7172 0580 20 01 8182"
      "00004000 91929394 a1a2a3a4 00100000 b1b2b3b4"
      "00000000000000000000ffff7f000001 00000068 000186a0";
  for (const auto& [type, first] : {std::pair{Type::kInit, "10"}, {Type::kInitAck, "11"}}) {
    const Bytes expected = golden(first, body);
    const Common header = golden_common(type);
    EXPECT_EQ(encoded([&](Out out) { return encode_init(header, init, 0, out); }), expected);
    Init back;
    ASSERT_TRUE(decode_init(expected, back));
    EXPECT_EQ(back, init);
  }
}

}  // namespace
}  // namespace mroce::wire
