// What a packet looks like in one line.
#include "core/wire/lines.h"

#include <gtest/gtest.h>

namespace mroce::wire {
namespace {

TEST(Lines, of_a_header_name_its_type_path_and_numbers) {
  Common header;
  header.type = Type::kData;
  header.path = 2;
  header.epoch = 1;
  header.dcid = 0x51;
  header.pseq = 7;
  EXPECT_EQ(line_of(header), "DATA p2 e1 dcid 0x51 pseq 7");
  header.flags = flag::kRetransmit | flag::kAckRequest;
  EXPECT_EQ(line_of_flags(header), " RTX AR");
  header.type = static_cast<Type>(200);
  EXPECT_EQ(line_of(header), "? p2 e1 dcid 0x51 pseq 7");
}

TEST(Lines, of_data_show_what_their_operation_has) {
  Data data;
  data.op = DataOp::kSendImm;
  data.cpsn = 3;
  data.length = 5000;
  data.offset = 4096;
  data.rqsn = 9;
  data.imm = 0xab;
  EXPECT_EQ(line_of(data, nullptr, 904), " cpsn 3 SEND_IMM stream 0 msn 0 4096+904 of 5000 rqsn 9 imm 0xab");
  data.op = DataOp::kVoid;
  EXPECT_EQ(line_of(data, nullptr, 0), " cpsn 3 VOID stream 0 msn 0");
  data.op = DataOp::kStreamOpen;
  StreamControl control;
  control.src_qpn = 0x11;
  control.credit_limit = 4;
  EXPECT_EQ(line_of(data, &control, 40),
            " cpsn 3 OPEN stream 0 msn 0 src 0x11 dst 0x0 inc 0 credit 4 reason 0 code 0");
}

TEST(Lines, of_an_acknowledgement_show_only_what_it_carries) {
  Ack ack;
  ack.cack = 5;
  ack.cpsn_limit = 100;
  EXPECT_EQ(line_of(ack), " cack 5 limit 100");
  ack.nblocks = 1;
  ack.blocks[0].path = 1;
  ack.blocks[0].largest = 12;
  ack.blocks[0].vector[0] = 0xfd;
  ack.host_penalty = 3;
  EXPECT_EQ(line_of(ack), " cack 5 limit 100 penalty 3 [p1 largest 12 bits ..fd rx 0 ce 0]");
}

}  // namespace
}  // namespace mroce::wire
