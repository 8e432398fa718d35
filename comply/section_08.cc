// §8.1 to §8.8: opening, refusing, closing and stopping the halves of a stream.
#include "comply/section.h"

namespace mroce::comply {
namespace {

Match stream_answer(Bench& b) {
  return [&b](const Packet& p) {
    return b.connection.mine(p) && (p.is(DataOp::kStreamAccept) || p.is(DataOp::kStreamRefuse));
  };
}

void accept_fields(Tester& t) {
  BenchOptions options;
  options.receives = 5;
  options.connect.rd_atomic = 7;
  options.connect.min_rnr_timer = 11;
  options.open_stream = false;
  Bench b(t, options);
  b.stream.incarnation = 0x12345678;
  const wire::StreamControl accept = b.stream.open();
  check(accept.src_qpn == b.qp.qpn && accept.dst_qpn == b.own_qpn(), "its QPNs");
  check(accept.incarnation == 0x12345678, "its incarnation");
  check(accept.credit_limit == 5, fmt::format("{} credits for 5 receives", accept.credit_limit));
  check(accept.rd_atomic == 7 && accept.min_rnr_timer == 11, "rd_atomic or min_rnr_timer");
}

void expect_refusal(Tester& t, wire::StopReason reason, const BenchOptions& with,
                    const std::function<void(wire::StreamControl&)>& change, uint32_t xor_stream = 0) {
  BenchOptions options = with;
  options.open_stream = false;
  Bench b(t, options);
  wire::StreamControl open{
      .src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn ^ xor_stream, .sq_psn = Bench::kRqPsn, .incarnation = 3};
  if (change) change(open);
  const Sent sent = b.connection.send_control(DataOp::kStreamOpen, open.dst_qpn, open, 0, {.flags = kAr});
  const Packet& answer = t.expect(stream_answer(b), "an answer to STREAM_OPEN");
  check(answer.is(DataOp::kStreamRefuse), "STREAM_OPEN was accepted");
  check(answer.control->reason == reason, fmt::format("the reason is {}", int(answer.control->reason)));
  check(answer.control->incarnation == 3, "REFUSE has another incarnation");
  b.connection.expect_accepted(sent);
}

void refuse_gone(Tester& t) {
  expect_refusal(t, wire::StopReason::kGone, {}, {}, 0x40);
}
void refuse_psn(Tester& t) {
  expect_refusal(t, wire::StopReason::kMismatch, {}, [](wire::StreamControl& open) { open.sq_psn ^= 1; });
}
void refuse_qpn(Tester& t) {
  expect_refusal(t, wire::StopReason::kMismatch, {}, [](wire::StreamControl& open) { open.src_qpn ^= 1; });
}
void refuse_address(Tester& t) {
  // RFC 5737. One of the loopback range might be the tester's as well as any other.
  Gid elsewhere;
  elsewhere.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 99};
  BenchOptions options;
  options.connect.remote_address = elsewhere;
  expect_refusal(t, wire::StopReason::kMismatch, options, {});
}

void refuse_not_ready(Tester& t) {
  Bench b(t, {.open_stream = false});
  const QueuePair idle = t.target().create_qp(4, 4, std::nullopt);
  b.connection.send_control(
      DataOp::kStreamOpen, idle.qpn,
      {.src_qpn = b.own_qpn(), .dst_qpn = idle.qpn, .sq_psn = Bench::kRqPsn, .incarnation = 1}, 0,
      {.flags = kAr});
  const Packet& answer = t.expect(stream_answer(b), "an answer to STREAM_OPEN");
  check(answer.is(DataOp::kStreamRefuse) && answer.control->reason == wire::StopReason::kNotReady,
        "it is not REFUSE with NOT_READY");
}

void ready_in_rtr(Tester& t) {
  BenchOptions options;
  options.connect.to_rts = false;
  Bench b(t, options);
  expect_alive(b);
}

void older_incarnation(Tester& t) {
  Bench b(t, {.open_stream = false});
  b.stream.incarnation = 10;
  b.stream.open();
  t.forget();
  const Sent sent = b.stream.send_open([](wire::StreamControl& open) { open.incarnation = 9; });
  b.connection.expect_accepted(sent);
  t.expect_none(stream_answer(b), "an answer to an older incarnation");
  expect_alive(b);
}

void newer_incarnation(Tester& t) {
  Bench b(t, {.receives = 2});
  const Message unfinished = b.stream.message(pattern(2000));
  b.stream.send_piece(unfinished, 0);
  b.stream.incarnation = 2;
  b.stream.msn = 50;
  b.stream.open();
  b.stream.send(b.stream.message(pattern(10)));  // RQSN 0 is the oldest receive that is posted now
  check(b.expect_completion(100, "SUCCESS").bytes == 10, "another message finished");
  const Sent old = b.stream.send_piece(unfinished, 1, {.flags = kAr});
  b.connection.expect_accepted(old);  // below the oldest unfinished: without effect
  b.expect_no_completion(millis(5));
}

void close_ends(Tester& t) {
  Bench b(t);
  b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  b.connection.expect_accepted(b.stream.send_close(7));  // another incarnation: means nothing
  expect_alive(b);
  b.connection.expect_accepted(b.stream.send_close(1));
  b.connection.expect_nak(b.stream.send(b.stream.write(b.region, 0, pattern(10))), NakCode::kUnknownStream);
  check(t.target().query_qp(b.qp.id) == "rts", "the queue pair left RTS");
}

// ---- the target's sending half

void open_fields(Tester& t) {
  Bench b(t, {.open_stream = false});
  b.post(b.work(1, WorkOp::kWrite, 10));
  const Packet& open = t.expect(b.of(DataOp::kStreamOpen), "STREAM_OPEN");
  check(open.control->src_qpn == b.qp.qpn && open.control->dst_qpn == b.own_qpn(), "its QPNs");
  check(open.control->sq_psn == Bench::kSqPsn, "its starting PSN");
  check(open.control->incarnation == 1, "its incarnation is not 1");
  check(open.data->stream == (b.own_qpn() & 0xffff), "its stream");
  const Packet& write = t.expect(b.of(DataOp::kWrite), "WRITE");
  check(write.data->msn == open.data->msn, "its MSN is not that of the first message");
  b.expect_completion(1, "SUCCESS");
}

wire::StreamControl accept_of(Bench& b, const Packet& open, uint32_t incarnation) {
  return {.src_qpn = b.own_qpn(),
          .dst_qpn = open.control->src_qpn,
          .incarnation = incarnation,
          .credit_limit = 10,
          .rd_atomic = 16};
}

void nothing_before_accept(Tester& t) {
  Bench b(t, {.open_stream = false});
  b.connection.accept_streams = false;
  b.post(b.work(1, WorkOp::kWrite, 10));
  const Packet open = t.expect(b.of(DataOp::kStreamOpen), "STREAM_OPEN");
  t.expect_none([&](const Packet& p) { return b.connection.mine(p) && p.data.has_value(); },
                "DATA before ACCEPT", millis(50));
  b.connection.send_control(DataOp::kStreamAccept, b.qp.qpn, accept_of(b, open, 1));
  b.expect_completion(1, "SUCCESS");
}

void unknown_accept_closed(Tester& t) {
  Bench b(t, {.open_stream = false});
  b.connection.accept_streams = false;
  b.post(b.work(1, WorkOp::kWrite, 10));
  const Packet open = t.expect(b.of(DataOp::kStreamOpen), "STREAM_OPEN");
  b.connection.send_control(DataOp::kStreamAccept, b.qp.qpn, accept_of(b, open, 99));
  const Packet& close = t.expect(b.of(DataOp::kStreamClose), "STREAM_CLOSE");
  check(close.control->incarnation == 99, "STREAM_CLOSE has another incarnation");
  check(t.count(b.of(DataOp::kWrite)) == 0, "a WRITE was sent");
  b.connection.send_control(DataOp::kStreamAccept, b.qp.qpn, accept_of(b, open, 1));
  b.expect_completion(1, "SUCCESS");
}

void refuse(Bench& b, const Packet& open) {
  b.connection.send_control(DataOp::kStreamRefuse, b.qp.qpn,
                            {.src_qpn = b.own_qpn(),
                             .dst_qpn = b.qp.qpn,
                             .incarnation = open.control->incarnation,
                             .reason = wire::StopReason::kNotReady},
                            0, {.flags = kAr});
}

void opened_again(Tester& t) {
  Bench b(t, {.open_stream = false});
  b.connection.accept_streams = false;
  b.post(b.work(1, WorkOp::kWrite, 10));
  const Packet first = t.expect(b.of(DataOp::kStreamOpen), "STREAM_OPEN");
  refuse(b, first);
  const Packet again = t.expect(b.of(DataOp::kStreamOpen), "STREAM_OPEN again");
  check(again.control->incarnation == first.control->incarnation + 1, "its incarnation did not grow by 1");
  check(again.at - first.at >= millis(49), "it came sooner than 50 ms");
  b.connection.accept_streams = true;
  b.connection.send_control(DataOp::kStreamAccept, b.qp.qpn, accept_of(b, again, again.control->incarnation));
  b.expect_completion(1, "SUCCESS");
}

void refused_too_often(Tester& t) {
  BenchOptions options;
  options.open_stream = false;
  options.connect.retry_cnt = 2;
  options.connect.timeout = 8;
  Bench b(t, options);
  b.connection.accept_streams = false;
  b.post(b.work(1, WorkOp::kWrite, 10));
  for (int i = 0; i < 3; ++i) refuse(b, t.expect(b.of(DataOp::kStreamOpen), "STREAM_OPEN"));
  b.expect_completion(1, "RETRY_EXC_ERR");
  b.expect_state("err");
}

void error_ends_both_halves(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kWrite, 10));
  b.expect_completion(1, "SUCCESS");
  b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  t.target().modify_qp(b.qp.id, "err");
  const Packet& stop = t.expect(b.of(DataOp::kStreamStop), "STREAM_STOP");
  check(stop.control->reason == wire::StopReason::kGone, "its reason is not GONE");
  check(stop.data->msn == b.stream.msn, "its MSN is not that of the first message that is not finished");
  check(stop.control->incarnation == b.stream.incarnation, "its incarnation");
  const Packet& close = t.expect(b.of(DataOp::kStreamClose), "STREAM_CLOSE");
  check(close.control->incarnation == b.connection.half(b.own_qpn()).incarnation, "its incarnation");
  b.connection.expect_nak(b.stream.send(b.stream.write(b.region, 0, pattern(10))), NakCode::kUnknownStream);
}

// STREAM_STOP for the target's half while it waits for two WRITEs.
void stop(Bench& b, wire::StopReason reason, NakCode code, uint32_t msn) {
  b.connection.send_control(DataOp::kStreamStop, b.qp.qpn,
                            {.src_qpn = b.own_qpn(),
                             .dst_qpn = b.qp.qpn,
                             .incarnation = b.connection.half(b.own_qpn()).incarnation,
                             .reason = reason,
                             .code = code},
                            msn, {.flags = kAr});
}

void begin_two_writes(Bench& b) {
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 10));
  b.post(b.work(2, WorkOp::kWrite, 10));
  b.tester.until([&] { return b.tester.count(b.of(DataOp::kWrite)) >= 2; }, "the WRITEs");
}

void stop_completes_what_is_finished(Tester& t) {
  Bench b(t);
  begin_two_writes(b);
  const uint32_t first = b.connection.half(b.own_qpn()).first_msn;
  stop(b, wire::StopReason::kGone, NakCode::kNone, first + 1);
  b.expect_completion(1, "SUCCESS");
  b.expect_completion(2, "RETRY_EXC_ERR", seconds(2));
  check(t.count(b.of(DataOp::kStreamClose)) == 0, "a STREAM_CLOSE was sent");
  b.expect_state("err");
}

void stop_with_code(Tester& t) {
  Bench b(t);
  begin_two_writes(b);
  stop(b, wire::StopReason::kFailed, NakCode::kAccess, b.connection.half(b.own_qpn()).first_msn);
  t.expect(b.of(DataOp::kVoid), "VOID");
  b.expect_completion(1, "REM_ACCESS_ERR");
  b.expect_completion(2, "WR_FLUSH_ERR");
}

void stop_of_another_incarnation(Tester& t) {
  Bench b(t);
  begin_two_writes(b);
  b.connection.send_control(
      DataOp::kStreamStop, b.qp.qpn,
      {.src_qpn = b.own_qpn(), .dst_qpn = b.qp.qpn, .incarnation = 77, .reason = wire::StopReason::kGone}, 0,
      {.flags = kAr});
  t.run_for(millis(3));
  b.connection.lose = {};
  b.expect_completion(1, "SUCCESS");
  b.expect_completion(2, "SUCCESS");
}

}  // namespace

void add_streams(std::vector<Assertion>& out) {
  const auto requester = std::vector{Feature::kRequester};
  out.insert(
      out.end(),
      {
          {"8.2/open", "§8.2-2", Level::kMust,
           "STREAM_OPEN MUST carry the sender's own QPN, the destination QPN, its incarnation, its starting "
           "PSN (`sq_psn`), and in the header the MSN of its first message.",
           requester, open_fields},
          {"8.2/nothing-before-accept", "§8.2-3", Level::kMust,
           "A request MUST NOT be sent on a half before its ACCEPT has come.", requester,
           nothing_before_accept},
          {"8.3/accept",
           "§8.3-6",
           Level::kMust,
           "**STREAM_ACCEPT** MUST carry the incarnation of the OPEN, the credits granted so far, "
           "`rd_atomic` = the number of READs and atomics that the queue pair can serve at once "
           "(max_dest_rd_atomic), and its `min_rnr_timer`.",
           {},
           accept_fields},
          {"8.3/refuse-gone",
           "§8.3-2",
           Level::kMust,
           "The first of these that applies MUST decide the answer.",
           {},
           refuse_gone},
          {"8.3/refuse-not-ready",
           "§8.3-7",
           Level::kMust,
           "**STREAM_REFUSE** MUST carry the incarnation of the OPEN and the reason.",
           {},
           refuse_not_ready},
          {"8.3/ready-in-rtr",
           "§8.3-2",
           Level::kMust,
           "The first of these that applies MUST decide the answer.",
           {},
           ready_in_rtr},
          {"8.3/refuse-another-psn",
           "§8.3-2",
           Level::kMust,
           "The first of these that applies MUST decide the answer.",
           {},
           refuse_psn},
          {"8.3/refuse-another-qpn",
           "§8.3-2",
           Level::kMust,
           "The first of these that applies MUST decide the answer.",
           {},
           refuse_qpn},
          {"8.3/refuse-another-address",
           "§8.3-2",
           Level::kMust,
           "The first of these that applies MUST decide the answer.",
           {},
           refuse_address},
          {"8.3/older-incarnation",
           "§8.3-1",
           Level::kMust,
           "OPEN MUST be accepted (§5.3) in every case.",
           {},
           older_incarnation},
          {"8.3/newer-incarnation",
           "§8.3-5",
           Level::kMust,
           "In the new half RQSN 0 MUST stand for the receive that is posted first (without SRQ: the oldest "
           "that is posted now), and initial credits are granted (§8.10, §8.12).",
           {},
           newer_incarnation},
          {"8.4/unknown-accept", "§8.4-2", Level::kMust,
           "ACCEPT for a half that is not current (another incarnation, another connection, no such queue "
           "pair), or that is CLOSING, MUST be answered with STREAM_CLOSE for that incarnation.",
           requester, unknown_accept_closed},
          {"8.4/opened-again", "§8.4-4", Level::kShould,
           "If work requests wait, the half SHOULD be opened again after an interval of the queue pair's "
           "timeout (4.096 us × 2^timeout; 100 ms for timeout 0), clamped to 50 ms … 4 s.",
           requester, opened_again},
          {"8.4/refused-too-often", "§8.4-5", Level::kShould,
           "When it has been refused more than `retry_cnt` times in a row and the timeout is not 0, the "
           "queue pair SHOULD go to ERR with RETRY_EXC_ERR for its oldest work request.",
           requester, refused_too_often},
          {"8.5/close",
           "§8.5-5",
           Level::kMust,
           "The receiver of a CLOSE that means its open half (§8.1-4) MUST end the half: unfinished messages "
           "and held tails are given up, and responses that were not accepted become VOID.",
           {},
           close_ends},
          {"8.6/error-ends-both-halves", "§8.6-4", Level::kMust,
           "A receiver MUST send STOP with reason GONE when its queue pair goes to ERR or RESET or is "
           "destroyed, and when its endpoint ends.",
           requester, error_ends_both_halves},
          {"8.6/stop-completes-what-is-finished", "§8.6-6", Level::kMust,
           "The work requests before the MSN of the STOP MUST complete with success, up to the first READ or "
           "atomic whose response is not complete (they were finished; only the acknowledgements were lost).",
           requester, stop_completes_what_is_finished},
          {"8.6/stop-with-code", "§8.6-7", Level::kMust,
           "If the then oldest work request has begun, the queue pair MUST go to ERR; the status of that "
           "work request is that of `code` (§9.12) if the reason is FAILED and it is the message that was "
           "named, else RETRY_EXC_ERR.",
           requester, stop_with_code},
          {"8.1/another-incarnation", "§8.1-4", Level::kMust,
           "CLOSE, BLOCKED and RETURN MUST be accepted without effect unless they come on the connection of "
           "an open receiving half, carry its incarnation, and their source QPN is its peer.",
           requester, stop_of_another_incarnation},
      });
}

}  // namespace mroce::comply
