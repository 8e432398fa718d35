// §8.10 to §8.14: receive credits, shared receive queues, RNR.
#include <set>

#include "comply/section.h"

namespace mroce::comply {
namespace {

Match credit_of(Bench& b, uint32_t own_qpn) {
  return [&b, own_qpn](const Packet& p) {
    return b.connection.mine(p) && p.credit(static_cast<uint16_t>(own_qpn)) != nullptr;
  };
}

void receives_are_credits(Tester& t) {
  Bench b(t, {.receives = 2});
  t.run_for(millis(2));
  t.forget();
  b.post_recv(102);
  b.stream.send(b.stream.message(pattern(10)));  // provokes an ACK
  const Packet& ack = t.expect(credit_of(b, b.own_qpn()), "RQ_CREDIT");
  check(ack.credit(static_cast<uint16_t>(b.own_qpn()))->limit == 3, "the limit is not 3");
  b.expect_completion(100, "SUCCESS");
}

void blocked_is_answered(Tester& t) {
  Bench b(t);
  b.connection.send_control(
      DataOp::kStreamBlocked, b.qp.qpn,
      {.src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn, .incarnation = 1, .credit_limit = 1}, 0, {.flags = kAr});
  t.run_for(millis(2));
  t.forget();
  b.post_recv(100);
  const Packet& ack = t.expect(credit_of(b, b.own_qpn()), "RQ_CREDIT as soon as a receive is posted");
  check(ack.credit(static_cast<uint16_t>(b.own_qpn()))->limit == 1, "the limit is not 1");
}

void no_more_than_granted(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.grant = 2; }});
  for (uint64_t i = 0; i < 5; ++i) b.post(b.work(i, WorkOp::kSend, 10));
  for (int i = 0; i < 2; ++i) t.expect(b.of(DataOp::kSend), "SEND");
  t.expect_none(b.of(DataOp::kSend), "a SEND without credit");
  b.connection.grant_credit(b.own_qpn(), 4);
  for (int i = 0; i < 2; ++i) t.expect(b.of(DataOp::kSend), "SEND after a credit");
  t.expect_none(b.of(DataOp::kSend), "a SEND without credit");
  b.connection.grant_credit(b.own_qpn(), 5);
  for (uint64_t i = 0; i < 5; ++i) b.expect_completion(i, "SUCCESS");
}

void writes_need_none(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.grant = 0; }});
  b.post(b.work(1, WorkOp::kWrite, 10));
  b.expect_completion(1, "SUCCESS");
}

void blocked_says_how_many(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.grant = 1; }});
  for (uint64_t i = 0; i < 4; ++i) b.post(b.work(i, WorkOp::kSend, 10));
  const Packet& blocked = t.expect(b.of(DataOp::kStreamBlocked), "STREAM_BLOCKED");
  check(blocked.control->credit_limit >= 2 && blocked.control->credit_limit <= 4,
        fmt::format("it asks for {}", blocked.control->credit_limit));
  check(blocked.control->incarnation == b.connection.half(b.own_qpn()).incarnation, "its incarnation");
}

void older_credit_ignored(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.grant = 2; }});
  const auto send_credit = [&](uint32_t limit, uint16_t incarnation) {
    wire::Ack ack = b.connection.current_ack();
    ack.ncredits = 1;
    ack.credits[0] = {static_cast<uint16_t>(b.qp.qpn), limit, incarnation};
    b.connection.send_ack(ack);
  };
  b.post(b.work(0, WorkOp::kSend, 10));
  b.expect_completion(0, "SUCCESS");
  send_credit(1, 1);    // less than before
  send_credit(100, 2);  // of another incarnation
  for (uint64_t i = 1; i < 4; ++i) b.post(b.work(i, WorkOp::kSend, 10));
  b.expect_completion(1, "SUCCESS");
  t.run_for(millis(20));
  check(t.count(b.of(DataOp::kSend)) == 2, "a SEND without credit");
}

void receiver_not_ready(Tester& t) {
  BenchOptions options;
  options.connect.rnr_retry = 1;
  options.shape = [](Connection& c) { c.grant = 0; };
  Bench b(t, options);
  b.post(b.work(1, WorkOp::kSend, 10));
  b.expect_completion(1, "RNR_RETRY_EXC_ERR", seconds(2));
}

void nak_rnr_again(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kSend) && p.data->offset != 0; };
  b.post(b.work(1, WorkOp::kSend, 2000));
  t.until([&] { return t.count(b.of(DataOp::kSend)) >= 2; }, "both packets");
  const Packet first = *t.all(b.of(DataOp::kSend)).at(0), second = *t.all(b.of(DataOp::kSend)).at(1);
  wire::Ack ack = b.connection.current_ack();
  ack.nnaks = 1;
  ack.naks[0] = {second.data->cpsn, NakCode::kRnr, 1};
  t.forget();
  b.connection.send_ack(ack);
  std::set<uint32_t> voids;
  voids.insert(t.expect(b.of(DataOp::kVoid), "VOID").data->cpsn);
  voids.insert(t.expect(b.of(DataOp::kVoid), "one more VOID").data->cpsn);
  check(voids.contains(second.data->cpsn), "no VOID in the place of the rejected packet");
  check(voids.size() == 2 && !voids.contains(first.data->cpsn), "the second VOID has no fresh CPSN");
  b.connection.lose = {};
  const Packet& again = t.expect(
      [&](const Packet& p) {
        return b.of(DataOp::kSend)(p) && p.data->offset == 0 && p.data->cpsn != first.data->cpsn;
      },
      "the message from its first byte");
  check(again.data->msn == first.data->msn && again.data->rqsn == first.data->rqsn, "its MSN or RQSN differ");
  b.expect_completion(1, "SUCCESS");
}

// ---- shared receive queues

struct SharedBench : Bench {
  explicit SharedBench(Tester& t, uint32_t receives)
      : Bench(t, {.receives = receives, .with_srq = true}),
        second_qp(t.target().create_qp(16, 0, srq)),
        second(connection, second_qp, own_qpn() + 1, kRqPsn) {
    ConnectOptions connect;
    connect.remote_address = target.tester_address(0);
    connect.remote_qpn = second.own_qpn();
    connect.sq_psn = kSqPsn;
    connect.rq_psn = kRqPsn;
    target.connect_qp(second_qp.id, connect);
  }
  void ask(Stream& stream, uint32_t credits) {
    connection.send_control(DataOp::kStreamBlocked, stream.target().qpn,
                            {.src_qpn = stream.own_qpn(),
                             .dst_qpn = stream.target().qpn,
                             .incarnation = 1,
                             .credit_limit = credits},
                            0, {.flags = kAr});
  }
  // The highest limit that was granted to a stream.
  uint32_t granted(const Stream& stream) {
    uint32_t most = 0;
    for (const Packet* p : tester.all(credit_of(*this, stream.own_qpn())))
      most = std::max(most, p->credit(static_cast<uint16_t>(stream.own_qpn()))->limit);
    for (const Packet* p : tester.all(of(DataOp::kStreamAccept))) {
      if (p->control->dst_qpn == stream.own_qpn()) most = std::max(most, p->control->credit_limit);
    }
    return most;
  }
  QueuePair second_qp;
  Stream second;
};

void srq_grants_on_demand(Tester& t) {
  SharedBench b(t, 8);
  b.ask(b.stream, 6);
  t.until([&] { return b.granted(b.stream) == 6; }, "the credits that were asked for");
  b.second.open();
  b.ask(b.second, 6);
  t.run_for(millis(5));
  check(b.granted(b.stream) + b.granted(b.second) == 8, "credits are not the receives that are posted");
}

void srq_reclaims(Tester& t) {
  SharedBench b(t, 4);
  b.ask(b.stream, 4);
  t.until([&] { return b.granted(b.stream) == 4; }, "all credits for the first stream");
  b.second.open();
  b.ask(b.second, 2);
  t.expect(
      [&](const Packet& p) {
        if (!p.ack) return false;
        for (size_t i = 0; i < p.ack->nreclaims; ++i) {
          if (p.ack->reclaims[i] == (b.own_qpn() & 0xffff)) return true;
        }
        return false;
      },
      "CREDIT_RECLAIM for the stream that has unused credits");
  b.connection.send_control(
      DataOp::kCreditReturn, b.qp.qpn,
      {.src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn, .incarnation = 1, .credit_limit = 3}, 0, {.flags = kAr});
  t.until([&] { return b.granted(b.second) >= 2; }, "credits for the one that waits");
}

void srq_binds_in_order(Tester& t) {
  SharedBench b(t, 4);
  b.ask(b.stream, 2);
  t.until([&] { return b.granted(b.stream) >= 2; }, "two credits");
  const Message first = b.stream.message(pattern(10, 1)), later = b.stream.message(pattern(20, 2));
  b.connection.expect_accepted(b.stream.send(later));
  b.connection.expect_accepted(b.stream.send(first));
  check(b.expect_completion(100, "SUCCESS").bytes == 10, "the first receive took the later message");
  check(b.expect_completion(101, "SUCCESS").bytes == 20, "the second receive took another message");
}

void no_reclaim_without_srq(Tester& t) {
  Bench b(t, {.receives = 4});
  for (int i = 0; i < 4; ++i) b.stream.send(b.stream.message(pattern(10)));
  b.connection.send_control(
      DataOp::kStreamBlocked, b.qp.qpn,
      {.src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn, .incarnation = 1, .credit_limit = 10}, 0, {.flags = kAr});
  b.connection.send_control(
      DataOp::kCreditReturn, b.qp.qpn,
      {.src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn, .incarnation = 1, .credit_limit = 2}, 0, {.flags = kAr});
  t.run_for(millis(5));
  for (const Packet* p : t.all([](const Packet& p) { return p.ack.has_value(); }))
    check(p->ack->nreclaims == 0, "CREDIT_RECLAIM without a shared receive queue");
}

void returns_credits(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.grant = 20; }});
  b.post(b.work(1, WorkOp::kSend, 10));
  b.expect_completion(1, "SUCCESS");
  wire::Ack ack = b.connection.current_ack();
  ack.nreclaims = 1;
  ack.reclaims[0] = static_cast<uint16_t>(b.qp.qpn);
  b.connection.send_ack(ack);
  const Packet& back = t.expect(b.of(DataOp::kCreditReturn), "CREDIT_RETURN");
  check(back.control->credit_limit == 19, fmt::format("it returns {} of 19", back.control->credit_limit));
}

}  // namespace

void add_credits(std::vector<Assertion>& out) {
  const auto requester = std::vector{Feature::kRequester};
  const auto srq = std::vector{Feature::kSrq};
  out.insert(
      out.end(),
      {
          {"8.10/receives-are-credits",
           "§8.10-1",
           Level::kMust,
           "`granted` MUST be the receives posted since the half opened plus those that were waiting then.",
           {},
           receives_are_credits},
          {"8.10/told-to-who-waits",
           "§8.10-2",
           Level::kShould,
           "A new value SHOULD go with the next ACK, and at once if the peer is known to wait for it.",
           {},
           blocked_is_answered},
          {"8.10/no-more-than-granted", "§8.10-4", Level::kMust,
           "A sender MUST NOT start a message that consumes a receive (SEND, SEND_IMM, SEND_INV, WRITE_IMM) "
           "unless `next RQSN + credits returned ≠ credit limit`.",
           requester, no_more_than_granted},
          {"8.10/writes-need-none", "§8.10-4", Level::kMust,
           "A sender MUST NOT start a message that consumes a receive (SEND, SEND_IMM, SEND_INV, WRITE_IMM) "
           "unless `next RQSN + credits returned ≠ credit limit`.",
           requester, writes_need_none},
          {"8.10/older-credit-ignored", "§8.10-3", Level::kMust,
           "RQ_CREDIT for a half that is not OPEN, of another connection or of another incarnation MUST be "
           "ignored, and a value that is not later (serially) than the last does not change the limit.",
           requester, older_credit_ignored},
          {"8.11/blocked", "§8.11-1", Level::kMust,
           "A sender without credit MUST send **STREAM_BLOCKED** once: `credit_limit` = next RQSN + credits "
           "returned + the number of work requests in its queue that consume a receive, of which at most 64 "
           "are "
           "counted.",
           requester, blocked_says_how_many},
          {"8.11/receiver-not-ready", "§8.11-4", Level::kMust,
           "If the time passes, the work request MUST fail with RNR_RETRY_EXC_ERR; any later credit ends the "
           "waiting.",
           requester, receiver_not_ready},
          {"8.12/granted-on-demand", "§8.12-2", Level::kShould,
           "*Demand.* A STREAM_BLOCKED SHOULD get what is free, up to what it wants.", srq,
           srq_grants_on_demand},
          {"8.12/reclaimed", "§8.12-5", Level::kShould,
           "*Reclaim.* When a half has to wait, **CREDIT_RECLAIM** SHOULD be sent, in the next ACK, to the "
           "peer of every other half of the SRQ that holds unused credits, and again each time the waiting "
           "peer asks.",
           srq, srq_reclaims},
          {"8.12/bound-in-order", "§8.12-8", Level::kMust,
           "*Binding.* Entries MUST be bound to messages in RQSN order up to the highest RQSN seen: when a "
           "packet with RQSN n arrives, every RQSN up to n that has no entry yet gets one.",
           srq, srq_binds_in_order},
          {"8.12/no-reclaim-without-srq",
           "§8.12-9",
           Level::kMust,
           "A receiver without an SRQ MUST NOT send CREDIT_RECLAIM, and ignores CREDIT_RETURN.",
           {},
           no_reclaim_without_srq},
          {"8.12/returned", "§8.12-6", Level::kMust,
           "A sender that receives it MUST return with **CREDIT_RETURN** (`credit_limit`: credits returned "
           "so far by this half) what its queued work requests do not need (they need at most 64).",
           requester, returns_credits},
          {"8.14/starts-again", "§8.14-3", Level::kMust,
           "For each message that had a VOID the sender MUST send one more VOID, **with a fresh CPSN**, and "
           "wait until these are accepted, too.",
           requester, nak_rnr_again},
      });
}

}  // namespace mroce::comply
