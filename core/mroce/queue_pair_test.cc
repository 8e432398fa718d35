#include "core/mroce/queue_pair.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/mroce/test_support.h"

namespace mroce::test {
namespace {

constexpr std::array kOpcodes{Opcode::kWrite,   Opcode::kWriteImm, Opcode::kSend,        Opcode::kSendImm,
                              Opcode::kSendInv, Opcode::kRead,     Opcode::kCompareSwap, Opcode::kFetchAdd};

// ---- SendWqe

SendWqe wqe_of(Opcode opcode) {
  SendWqe wqe;
  wqe.opcode = opcode;
  return wqe;
}

TEST(SendWqe, reads_and_atomics_and_no_others_want_a_response) {
  const std::set<Opcode> expected{Opcode::kRead, Opcode::kCompareSwap, Opcode::kFetchAdd};
  for (const Opcode opcode : kOpcodes) EXPECT_EQ(wqe_of(opcode).wants_response(), expected.contains(opcode));
}

TEST(SendWqe, sends_and_writes_with_immediate_consume_a_receive) {
  const std::set<Opcode> expected{Opcode::kSend, Opcode::kSendImm, Opcode::kSendInv, Opcode::kWriteImm};
  for (const Opcode opcode : kOpcodes)
    EXPECT_EQ(wqe_of(opcode).consumes_receive(), expected.contains(opcode));
}

TEST(SendWqe, is_done_when_all_is_sent_and_accepted) {
  for (const Opcode opcode : kOpcodes) {
    SendWqe wqe = wqe_of(opcode);
    EXPECT_FALSE(wqe.done());
    wqe.unaccepted = 2;
    wqe.all_sent = true;
    EXPECT_FALSE(wqe.done());
    wqe.unaccepted = 0;
    EXPECT_EQ(wqe.done(), !wqe.wants_response()) << "a request is done by its response only";
    wqe.responded = true;
    EXPECT_TRUE(wqe.done());
    wqe.voided = true;
    EXPECT_FALSE(wqe.done()) << "it starts again";
  }
}

// ---- slabs

TEST(QueuePair, each_message_of_a_full_queue_has_sges_and_inline_bytes_of_its_own) {
  Rig rig;
  QueuePair& qp = rig.make_qp({6, 1, 3, 1, 16});  // a slab of 8
  qp.state = QpState::kRts;
  qp.tx.state = TxHalf::State::kClosing;  // nothing starts
  std::array<std::byte, 16> data;
  for (int i = 0; i < 6; ++i) {
    data.fill(static_cast<std::byte>(i));
    const bool is_inline = i % 2 != 0;
    const std::vector<Sge> sges{{static_cast<uint64_t>(1000 * i), 4, 1},
                                {static_cast<uint64_t>(1000 * i + 500), 2, 2}};
    SendWr wr;
    wr.opcode = Opcode::kWrite;
    wr.flags = is_inline ? send_flag::kInline : 0;
    wr.sges = sges;
    ASSERT_TRUE(rig.engine.post_send(rig.now, qp, wr));
  }
  for (uint64_t msn = 0; msn < 6; ++msn) {
    EXPECT_EQ(qp.tx.sq[msn].length, 6u);
    if (msn % 2 == 0) {
      EXPECT_EQ(qp.tx.sq[msn].nsges, 2u);
      EXPECT_EQ(qp.sges_of(msn)[0].addr, 1000 * msn);
      EXPECT_EQ(qp.sges_of(msn)[1].addr, 1000 * msn + 500);
    } else {
      for (uint64_t i = 0; i < 6; ++i) {
        const uint64_t addr = i < 4 ? 1000 * msn + i : 1000 * msn + 500 + i - 4;
        EXPECT_EQ(qp.inline_of(msn)[i], PatternMemory::at(addr)) << msn << " " << i;
      }
    }
  }
}

TEST(QueuePair, messages_without_sges_have_none_while_there_is_no_slab) {
  Rig rig;
  QueuePair& qp = rig.make_qp({4, 1, 2, 1, 16});
  qp.state = QpState::kRts;
  qp.tx.state = TxHalf::State::kClosing;  // nothing starts
  for (uint64_t msn = 0; msn < 3; ++msn) {
    ASSERT_TRUE(rig.engine.post_send(rig.now, qp, {}));
    EXPECT_TRUE(qp.sges_of(msn).empty());
  }
}

TEST(QueuePair, slabs_are_made_when_they_are_first_needed) {
  Rig rig;
  QueuePair& qp = rig.make_qp({1024, 1024, 16, 16, 512});
  EXPECT_EQ(qp.sge_slab.capacity() + qp.inline_slab.capacity(), 0u);
  qp.state = QpState::kRts;
  qp.tx.state = TxHalf::State::kClosing;
  SendWr wr;
  wr.opcode = Opcode::kWrite;
  ASSERT_TRUE(rig.engine.post_send(rig.now, qp, wr)) << "no bytes at all";
  EXPECT_EQ(qp.sge_slab.capacity() + qp.inline_slab.capacity(), 0u);
}

// ---- creation

TEST(QueuePairCreation, needs_objects_that_exist) {
  Rig rig;
  QueuePair& good = rig.make_qp();
  QpInit init;
  init.pd = rig.pd();
  init.send_cq = init.recv_cq = good.send_cq->handle;
  ASSERT_TRUE(rig.engine.create_qp(init));
  const auto refused = [&](auto change) {
    QpInit bad = init;
    change(bad);
    const auto made = rig.engine.create_qp(bad);
    return !made && made.error() == Errc::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](QpInit& bad) { bad.pd = PdHandle{999}; }));
  EXPECT_TRUE(refused([](QpInit& bad) { bad.send_cq = CqHandle{999}; }));
  EXPECT_TRUE(refused([](QpInit& bad) { bad.recv_cq = CqHandle{}; }));
  EXPECT_TRUE(refused([](QpInit& bad) { bad.srq = SrqHandle{999}; }));
}

TEST(QueuePairCreation, refuses_each_capability_above_its_limit) {
  Rig rig;
  QueuePair& good = rig.make_qp();
  const EngineConfig& limits = rig.engine.config;
  const QpCap most{limits.max_qp_wr, limits.max_qp_wr, limits.max_sge, limits.max_sge, limits.max_inline};
  const auto create = [&](auto change) {
    QpInit init;
    init.pd = rig.pd();
    init.send_cq = init.recv_cq = good.send_cq->handle;
    init.cap = most;
    change(init.cap);
    return rig.engine.create_qp(init).has_value();
  };
  EXPECT_TRUE(create([](QpCap&) {}));
  EXPECT_FALSE(create([](QpCap& cap) { ++cap.max_send_wr; }));
  EXPECT_FALSE(create([](QpCap& cap) { ++cap.max_recv_wr; }));
  EXPECT_FALSE(create([](QpCap& cap) { ++cap.max_send_sge; }));
  EXPECT_FALSE(create([](QpCap& cap) { ++cap.max_recv_sge; }));
  EXPECT_FALSE(create([](QpCap& cap) { ++cap.max_inline_data; }));
}

TEST(QueuePairCreation, ends_at_the_limit_of_queue_pairs) {
  Rig rig([](EngineConfig& config) { config.max_qp = 3; });
  QueuePair& first = rig.make_qp();
  rig.make_qp();
  rig.make_qp();
  QpInit init;
  init.pd = rig.pd();
  init.send_cq = init.recv_cq = first.send_cq->handle;
  const auto more = rig.engine.create_qp(init);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error(), Errc::kNoMemory);
  ASSERT_TRUE(rig.engine.destroy_qp(rig.now, first.handle));
  EXPECT_TRUE(rig.engine.create_qp(init));
}

TEST(QueuePairCreation, numbers_carry_the_slot) {
  Rig rig([](EngineConfig& config) { config.slot = 0xab; });
  const QueuePair& qp = rig.make_qp();
  EXPECT_EQ(qp.qpn, 0xab0000u | qp.stream);
  EXPECT_EQ(rig.engine.stream_qp(qp.stream), &qp);
}

TEST(StreamNumbers, go_round_and_leave_the_reserved_ones_out) {
  Rig rig;
  rig.engine.next_stream = 65530;
  std::vector<uint16_t> numbers;
  for (int i = 0; i < 8; ++i) numbers.push_back(*rig.engine.allocate_stream());
  EXPECT_EQ(numbers, (std::vector<uint16_t>{65530, 65531, 65532, 65533, 65534, 16, 17, 18}));
}

TEST(StreamNumbers, in_use_or_resting_are_passed_over) {
  Rig rig;
  rig.engine.next_stream = 100;
  const QueuePair& qp = rig.make_qp();
  ASSERT_EQ(qp.stream, 100);
  rig.engine.busy_streams[101] = 1;
  rig.engine.next_stream = 100;
  EXPECT_EQ(*rig.engine.allocate_stream(), 102);
}

TEST(StreamNumbers, all_in_use_is_an_error) {
  Rig rig;
  for (uint32_t i = 16; i < 65535; ++i) rig.engine.busy_streams[static_cast<uint16_t>(i)] = 1;
  EXPECT_EQ(rig.engine.allocate_stream().error(), Errc::kNoMemory);
  rig.engine.busy_streams.erase(777);
  EXPECT_EQ(*rig.engine.allocate_stream(), 777);
}

// ---- posting

class Posting : public testing::Test {
 protected:
  Errc error_of(const SendWr& wr) {
    const auto posted = rig.engine.post_send(rig.now, qp, wr);
    EXPECT_FALSE(posted.has_value());
    return posted ? Errc::kNetwork : posted.error();
  }
  SendWr write(uint64_t wr_id = 0) {
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = Opcode::kWrite;
    wr.flags = send_flag::kSignaled;
    wr.sges = {sges, 1};
    return wr;
  }

  Rig rig;
  QueuePair& qp = rig.make_qp({4, 4, 2, 2, 64});
  Sge sges[3] = {{0, 8, 1}, {8, 8, 1}, {16, 8, 1}};
};

TEST_F(Posting, sends_needs_rts_or_later) {
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kRtr}) {
    qp.state = state;
    EXPECT_EQ(error_of(write()), Errc::kBadState);
  }
}

TEST_F(Posting, sends_ends_when_the_queue_is_full) {
  qp.state = QpState::kSqd;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(rig.engine.post_send(rig.now, qp, write()));
  EXPECT_EQ(error_of(write()), Errc::kQueueFull);
}

TEST_F(Posting, refuses_what_is_too_long_or_of_the_wrong_shape) {
  qp.state = QpState::kSqd;
  SendWr wr = write();
  wr.sges = sges;
  EXPECT_EQ(error_of(wr), Errc::kInvalidArgument) << "three SGEs of two";
  Sge huge[2] = {{0, 0x80000000U, 1}, {0, 1, 1}};
  wr.sges = huge;
  EXPECT_EQ(error_of(wr), Errc::kInvalidArgument) << "more than 2^31 bytes";
  Sge small[1] = {{0, 65, 1}};
  wr.sges = small;
  wr.flags |= send_flag::kInline;
  EXPECT_EQ(error_of(wr), Errc::kInvalidArgument) << "65 bytes inline of 64";
  wr = write();
  wr.opcode = Opcode::kRead;
  wr.flags |= send_flag::kInline;
  EXPECT_EQ(error_of(wr), Errc::kInvalidArgument) << "a READ has nothing to inline";
  for (const Opcode opcode : {Opcode::kCompareSwap, Opcode::kFetchAdd}) {
    for (const uint32_t length : {0u, 4u, 7u, 9u, 16u}) {
      wr = write();
      wr.opcode = opcode;
      Sge one[1] = {{0, length, 1}};
      wr.sges = one;
      EXPECT_EQ(error_of(wr), Errc::kInvalidArgument) << length;
    }
  }
  wr = write();
  wr.opcode = static_cast<Opcode>(8);
  EXPECT_EQ(error_of(wr), Errc::kInvalidArgument) << "no such operation";
  EXPECT_TRUE(qp.tx.sq.empty()) << "none of them left anything behind";
}

TEST_F(Posting, in_the_error_state_is_flushed_at_once) {
  qp.state = QpState::kErr;
  ASSERT_TRUE(rig.engine.post_send(rig.now, qp, write(7)));
  ASSERT_TRUE(rig.engine.post_recv(rig.now, qp, {8, {sges, 1}}));
  const auto all = rig.completions(qp);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].wr_id, 7u);
  EXPECT_EQ(all[0].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(all[1].wr_id, 8u);
  EXPECT_EQ(all[1].status, WcStatus::kWrFlushErr);
  EXPECT_TRUE(qp.tx.sq.empty());
}

TEST_F(Posting, receives_needs_init_or_later) {
  EXPECT_EQ(rig.engine.post_recv(rig.now, qp, {1, {sges, 1}}).error(), Errc::kBadState);
  qp.state = QpState::kInit;
  EXPECT_TRUE(rig.engine.post_recv(rig.now, qp, {1, {sges, 1}}));
  EXPECT_EQ(rig.engine.post_recv(rig.now, qp, {1, sges}).error(), Errc::kInvalidArgument);
}

// ---- ends

TEST_F(Posting, an_error_fails_the_oldest_and_flushes_the_rest_in_order) {
  qp.state = QpState::kSqd;
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(rig.engine.post_send(rig.now, qp, write(i)));
  for (uint64_t i = 11; i <= 12; ++i) ASSERT_TRUE(rig.engine.post_recv(rig.now, qp, {i, {sges, 1}}));
  rig.engine.enter_error(rig.now, qp, WcStatus::kRemAccessErr);
  EXPECT_EQ(qp.state, QpState::kErr);
  const auto all = rig.completions(qp);
  ASSERT_EQ(all.size(), 5u);
  const std::array<uint64_t, 5> order{1, 2, 3, 11, 12};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all[i].wr_id, order[i]);
    EXPECT_EQ(all[i].status, i == 0 ? WcStatus::kRemAccessErr : WcStatus::kWrFlushErr);
  }
  rig.engine.enter_error(rig.now, qp, WcStatus::kRetryExcErr);
  EXPECT_TRUE(rig.completions(qp).empty()) << "once";
}

TEST_F(Posting, unsignaled_work_is_told_of_only_when_it_fails) {
  SendWqe wqe;
  rig.engine.push_send_completion(qp, wqe, WcStatus::kSuccess);
  EXPECT_TRUE(rig.completions(qp).empty());
  rig.engine.push_send_completion(qp, wqe, WcStatus::kWrFlushErr);
  EXPECT_EQ(rig.completions(qp).size(), 1u);
  qp.signal_all = true;
  rig.engine.push_send_completion(qp, wqe, WcStatus::kSuccess);
  EXPECT_EQ(rig.completions(qp).size(), 1u);
}

TEST_F(Posting, reset_forgets_work_and_attributes_and_completions) {
  qp.state = QpState::kSqd;
  qp.attr.dest_qpn = 5;
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(rig.engine.post_send(rig.now, qp, write(i)));
  ASSERT_TRUE(rig.engine.post_recv(rig.now, qp, {9, {sges, 1}}));
  rig.engine.push_send_completion(qp, SendWqe{}, WcStatus::kWrFlushErr);
  QpAttr attr;
  attr.state = QpState::kReset;
  ASSERT_TRUE(rig.engine.modify_qp(rig.now, qp, attr, qp_mask::kState));
  EXPECT_EQ(qp.state, QpState::kReset);
  EXPECT_TRUE(qp.tx.sq.empty());
  EXPECT_EQ(qp.tx.next, qp.tx.sq.begin());
  EXPECT_EQ(qp.rq->depth(), 0u);
  EXPECT_EQ(qp.attr.dest_qpn, 0u);
  EXPECT_TRUE(rig.completions(qp).empty());
}

TEST(QueuePairDestruction, lets_go_of_everything_it_used) {
  Rig rig;
  QueuePair& qp = rig.make_qp();
  Cq& cq = *qp.send_cq;
  const uint16_t stream = qp.stream;
  const QpHandle handle = qp.handle;
  EXPECT_EQ(cq.users, 2u);
  EXPECT_EQ(rig.engine.find(rig.pd())->users, 1u);
  ASSERT_TRUE(rig.engine.destroy_qp(rig.now, handle));
  EXPECT_EQ(cq.users, 0u);
  EXPECT_EQ(rig.engine.find(rig.pd())->users, 0u);
  EXPECT_EQ(rig.engine.stream_qp(stream), nullptr);
  EXPECT_EQ(rig.engine.destroy_qp(rig.now, handle).error(), Errc::kNotFound);
}

// ---- when a message may start

class Starting : public testing::Test {
 protected:
  Starting() { rig.open_stream(c, qp, 2, 3); }
  bool may_start(Opcode opcode, uint32_t flags = 0) {
    SendWqe wqe = wqe_of(opcode);
    wqe.flags = flags;
    return rig.engine.may_start(rig.now, qp, wqe);
  }

  Rig rig;
  Connection& c = rig.open(2);
  QueuePair& qp = rig.make_qp();
};

TEST_F(Starting, is_allowed_for_everything_at_first) {
  for (const Opcode opcode : kOpcodes) EXPECT_TRUE(may_start(opcode));
}

TEST_F(Starting, waits_for_rts) {
  for (const QpState state : {QpState::kSqd, QpState::kErr, QpState::kRtr}) {
    qp.state = state;
    EXPECT_FALSE(may_start(Opcode::kWrite));
  }
}

TEST_F(Starting, a_fence_waits_for_reads_and_atomics_and_nothing_else) {
  qp.tx.rd_outstanding = 1;
  EXPECT_FALSE(may_start(Opcode::kWrite, send_flag::kFence));
  EXPECT_TRUE(may_start(Opcode::kWrite));
  qp.tx.rd_outstanding = 0;
  EXPECT_TRUE(may_start(Opcode::kWrite, send_flag::kFence));
}

TEST_F(Starting, reads_and_atomics_are_bounded_by_what_the_peer_holds) {
  qp.tx.rd_outstanding = 2;
  EXPECT_TRUE(may_start(Opcode::kRead));
  qp.tx.rd_outstanding = 3;
  for (const Opcode opcode : kOpcodes) EXPECT_EQ(may_start(opcode), !wqe_of(opcode).wants_response());
}

TEST_F(Starting, without_credit_waits_and_asks_once) {
  qp.tx.next_rqsn = 2;
  for (int i = 0; i < 3; ++i) {
    for (const Opcode opcode : kOpcodes) EXPECT_EQ(may_start(opcode), !wqe_of(opcode).consumes_receive());
  }
  EXPECT_TRUE(qp.tx.credit_blocked);
  ASSERT_EQ(c.control.size(), 1u);
  EXPECT_EQ(c.control.front().op, wire::DataOp::kStreamBlocked);
  rig.engine.on_credit(rig.now, qp, 3);
  EXPECT_TRUE(may_start(Opcode::kSend));
}

TEST_F(Starting, credit_that_was_given_back_is_gone) {
  qp.tx.next_rqsn = 1;
  qp.tx.credits_returned = 1;
  EXPECT_FALSE(may_start(Opcode::kSend));
}

TEST_F(Starting, credit_counters_wrap) {
  qp.tx.next_rqsn = 0xfffffffe;
  qp.tx.credit_limit = 0xffffffff;
  EXPECT_TRUE(may_start(Opcode::kSend));
  qp.tx.next_rqsn = 0xffffffff;
  EXPECT_FALSE(may_start(Opcode::kSend));
  rig.engine.on_credit(rig.now, qp, 1);
  EXPECT_EQ(qp.tx.credit_limit, 1u);
  EXPECT_TRUE(may_start(Opcode::kSend));
  rig.engine.on_credit(rig.now, qp, 0xfffffff0);
  EXPECT_EQ(qp.tx.credit_limit, 1u) << "a late, lower limit takes nothing away";
}

TEST_F(Starting, ends_at_the_window_of_unfinished_messages) {
  qp.tx.next = qp.tx.accepted + kMessageWindow - 1;
  EXPECT_TRUE(may_start(Opcode::kWrite));
  ++qp.tx.next;
  EXPECT_FALSE(may_start(Opcode::kWrite));
}

}  // namespace
}  // namespace mroce::test
