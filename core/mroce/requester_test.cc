#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/mroce/test_support.h"

namespace mroce::test {
namespace {

using wire::NakCode;

const std::map<NakCode, WcStatus> kVerdicts{
    {NakCode::kAccess, WcStatus::kRemAccessErr},      {NakCode::kInvalid, WcStatus::kRemInvReqErr},
    {NakCode::kLength, WcStatus::kRemInvReqErr},      {NakCode::kRemoteOp, WcStatus::kRemOpErr},
    {NakCode::kWindow, WcStatus::kRetryExcErr},       {NakCode::kRnr, WcStatus::kRetryExcErr},
    {NakCode::kUnknownStream, WcStatus::kRetryExcErr}};

class Verdicts : public testing::Test {
 protected:
  // A READ of which everything is sent and accepted, and nothing has come back.
  struct Reading {
    Reading() {
      rig.open_stream(c, qp);
      SendWr wr;
      wr.opcode = Opcode::kRead;
      EXPECT_TRUE(rig.engine.post_send(rig.now, qp, wr));
      SendWqe& wqe = qp.tx.sq.front();
      wqe.started = wqe.all_sent = true;
      qp.tx.next = 1;
      qp.tx.rd_outstanding = 1;
    }
    WcStatus status() {
      const auto all = rig.completions(qp);
      EXPECT_EQ(all.size(), 1u);
      return all.empty() ? WcStatus::kSuccess : all.front().status;
    }
    Rig rig;
    Connection& c = rig.open(1);
    QueuePair& qp = rig.make_qp();
  };
};

TEST_F(Verdicts, mean_the_same_in_a_response_and_in_a_stop) {
  for (const auto& [code, status] : kVerdicts) {
    SCOPED_TRACE("code " + std::to_string(static_cast<int>(code)));
    Reading answered;
    wire::Data data;
    data.op = wire::DataOp::kReadResp;
    data.stream = answered.qp.stream;
    data.status = code;
    answered.rig.engine.on_read_response(answered.rig.now, answered.c, data, {});
    EXPECT_EQ(answered.status(), status);
    EXPECT_EQ(answered.qp.state, QpState::kErr);

    Reading stopped;
    wire::StreamControl stop;
    stop.reason = wire::StopReason::kFailed;
    stop.code = code;
    stopped.rig.engine.on_stream_stop(stopped.rig.now, stopped.qp, 0, stop);
    EXPECT_EQ(stopped.status(), status);
    EXPECT_EQ(stopped.qp.state, QpState::kErr);
  }
}

// A NAK decides only with the codes that name a fault of the message; the others are for loss recovery, the
// rewind, or the STOP that follows.
TEST_F(Verdicts, mean_the_same_in_a_nak_if_it_decides) {
  for (const NakCode code : {NakCode::kAccess, NakCode::kInvalid, NakCode::kLength, NakCode::kRemoteOp}) {
    SCOPED_TRACE("code " + std::to_string(static_cast<int>(code)));
    Rig rig;
    Connection& c = rig.open(1);
    QueuePair& qp = rig.make_qp();
    rig.open_stream(c, qp);
    SendWr wr;
    wr.opcode = Opcode::kWrite;
    ASSERT_TRUE(rig.engine.post_send(rig.now, qp, wr));
    TxBurst burst;
    while (rig.engine.poll_transmit(rig.now, burst)) {
    }
    ASSERT_EQ(c.tx.size(), 1u);
    rig.engine.on_nak(rig.now, c, {static_cast<uint32_t>(c.tx.begin()), code, 0});
    const auto all = rig.completions(qp);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all.front().status, kVerdicts.at(code));
  }
}

}  // namespace
}  // namespace mroce::test
