// Immediates, from one program's ibv_send_wr to the other's ibv_wc. A program writes htonl(number) and reads
// ntohl(imm_data), as RFC and man page have it: the four bytes of imm_data go over the wire as they lie in
// memory, whatever the byte order of either host. A key to invalidate, in the same place, is a plain number.
#include <arpa/inet.h>

#include <cstring>

#include "tests/scenarios/support.h"
#include "verbs/convert.h"

namespace mroce::test {
namespace {

using wire::DataOp;

constexpr uint32_t kNumber = 0x01020304;

struct Immediates : public testing::Test {
  Immediates() {
    warm_up(pair);
    pair.network().on_sent([this](const PacketView& p) {
      if (p.is(DataOp::kSendImm) || p.is(DataOp::kWriteImm) || p.is(DataOp::kSendInv))
        seen.assign(p.bytes.begin(), p.bytes.end());
    });
  }
  // One work request through the verbs structures, to the completion of the peer's receive.
  ibv_wc carried(ibv_send_wr wr) {
    ibv_sge sge{pair.ma.addr, 8, pair.ma.lkey};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr_id = 1;
    const auto converted = verbs::to_send_wr(wr);
    EXPECT_TRUE(converted.has_value());
    EXPECT_TRUE(pair.qb.post_recv(2, {pair.mb.sge(500, 100)}));
    EXPECT_TRUE(pair.qa.post(*converted));
    const auto wc = pair.wait_for(pair.b, pair.qb.recv_cq);
    EXPECT_TRUE(wc.has_value());
    ibv_wc out{};
    verbs::from_wc(wc.value_or(Wc{}), out);
    return out;
  }
  bool on_the_wire(const void* four_bytes) const {
    const auto* bytes = static_cast<const std::byte*>(four_bytes);
    return std::search(seen.begin(), seen.end(), bytes, bytes + 4) != seen.end();
  }

  Pair pair;
  std::vector<std::byte> seen;
};

TEST_F(Immediates, arrive_as_the_number_that_was_sent_and_travel_in_network_order) {
  const std::array<uint8_t, 4> network_order{1, 2, 3, 4};
  for (const auto opcode : {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.imm_data = htonl(kNumber);
    wr.wr.rdma.remote_addr = pair.mb.addr;
    wr.wr.rdma.rkey = pair.mb.rkey;
    const ibv_wc wc = carried(wr);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
    EXPECT_EQ(ntohl(wc.imm_data), kNumber);
    EXPECT_TRUE(on_the_wire(network_order.data())) << "opcode " << opcode;
  }
}

TEST_F(Immediates, a_key_to_invalidate_is_a_number_and_is_told_as_one) {
  const Mr mr = pair.b.make_mr(100);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.invalidate_rkey = mr.rkey;
  const ibv_wc wc = carried(wr);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
  EXPECT_EQ(wc.invalidated_rkey, mr.rkey);
  const uint32_t network_order = htonl(mr.rkey);
  EXPECT_TRUE(on_the_wire(&network_order));
}

}  // namespace
}  // namespace mroce::test
