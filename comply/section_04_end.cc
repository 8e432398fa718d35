// §4.9 to §4.13: sign of life, silence, and the end of a connection.
#include "comply/section.h"

namespace mroce::comply {
namespace {

void keepalive(Tester& t) {
  Bench b(t);
  expect_alive(b);
  t.run_for(seconds(1));
  t.forget();
  b.connection.answer_probes = false;
  const Packet& probe = t.expect(type(Type::kProbe), "PROBE", seconds(11));
  check(probe.probe && probe.probe->kind == 0 && probe.probe->nstreams == 0, "kind or streams are not 0");
  check(probe.has(kAr), "it does not ask for an ACK");
  t.expect(type(Type::kProbe), "the PROBE again after 500 ms", millis(600));
  b.connection.answer_probes = true;
  t.run_for(seconds(10));
  expect_alive(b);
}

void silence_ends(Tester& t) {
  BenchOptions options;
  options.connect.timeout = 0;  // else the queue pair gives up first (§8.9)
  Bench b(t, options);
  b.connection.acknowledge = b.connection.answer_probes = false;
  b.post(b.work(1, WorkOp::kWrite, 100));
  b.post(b.work(2, WorkOp::kWrite, 100));
  t.run_for(millis(4500));
  b.expect_no_completion(millis(1));
  b.expect_completion(1, "RETRY_EXC_ERR", seconds(3));
  b.expect_completion(2, "WR_FLUSH_ERR");
  b.expect_state("err");
  t.run_for(millis(10));
  t.forget();
  t.expect_none([&](const Packet& p) { return b.connection.mine(p); }, "a datagram of the lost connection",
                seconds(2));
}

// The peer is alive, and takes nothing.
void standstill_ends(Tester& t) {
  BenchOptions options;
  options.connect.timeout = 0;
  Bench b(t, options);
  b.connection.lose = [](const Packet& p) { return p.is(Type::kData); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  for (uint64_t i = 0; i < 60; ++i) {
    b.connection.send_probe({.token = i});
    t.run_for(millis(100));
  }
  b.expect_completion(1, "RETRY_EXC_ERR", seconds(2));
}

void losses_do_not_kill(Tester& t) {
  Bench b(t);
  int n = 0;
  b.connection.lose = [&](const Packet& p) { return p.is(DataOp::kWrite) && ++n % 2 == 0; };
  for (uint64_t i = 0; i < 10; ++i) b.post(b.work(i, WorkOp::kWrite, 5000));
  for (uint64_t i = 0; i < 10; ++i) b.expect_completion(i, "SUCCESS", seconds(5));
}

// ---- §4.10

void close_confirmed(Tester& t) {
  Bench b(t);
  t.run_for(millis(5));
  b.connection.send_close(b.connection.base());
  t.expect(type(Type::kCloseAck), "CLOSE_ACK");
  t.run_for(millis(200));
  b.connection.send_close(b.connection.base());
  t.expect(type(Type::kCloseAck), "CLOSE_ACK for the repetition");
  check(t.target().query_qp(b.qp.id) == "rts", "a queue pair without work left RTS");
}

void forged_close(Tester& t) {
  Bench b(t);
  t.run_for(millis(20));
  for (const uint32_t cack :
       {b.connection.base() + 1, b.connection.base() - 1, b.connection.base() + 0x40000000U}) {
    b.connection.send_close(cack);
    t.expect_none(type(Type::kCloseAck), "CLOSE_ACK for a CLOSE with a wrong CACK", millis(5));
  }
  expect_alive(b);
}

void close_is_the_last_ack(Tester& t) {
  Bench b(t);
  b.connection.acknowledge = true;
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  const Packet* write = nullptr;
  t.until(
      [&] {
        const auto found = t.all(b.of(DataOp::kWrite));
        if (!found.empty()) write = found[0];
        return write != nullptr;
      },
      "WRITE");
  b.connection.send_close(write->data->cpsn + 1);
  t.expect(type(Type::kCloseAck), "CLOSE_ACK");
  b.expect_completion(1, "SUCCESS");
}

void close_with_work_outstanding(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  t.run_for(millis(3));
  b.connection.send_close(b.connection.base());
  t.expect(type(Type::kCloseAck), "CLOSE_ACK");
  b.expect_completion(1, "RETRY_EXC_ERR", seconds(2));
}

void orderly_end(Tester& t) {
  Bench b(t);
  b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  b.connection.confirm_close = false;
  t.forget();
  t.target().stop();
  const Packet& stop = t.expect(b.of(DataOp::kStreamStop), "STREAM_STOP");
  check(stop.control && stop.control->reason == wire::StopReason::kGone, "its reason is not GONE");
  const Packet& close = t.expect(type(Type::kClose), "CLOSE");
  check(close.close && close.close->cack == b.connection.next_cpsn(), "CLOSE has not the final CACK");
  check(close.close->reason == 0, "its reason is not 0");
  t.expect(type(Type::kClose), "CLOSE again");
  Bytes out(64);
  b.connection.confirm_close = true;
  t.expect(type(Type::kClose), "CLOSE a third time");
  t.run_for(millis(5));
  t.forget();
  t.expect_none([&](const Packet& p) { return b.connection.mine(p); }, "a datagram after CLOSE_ACK",
                millis(100));
}

void nothing_beside_close(Tester& t) {
  Bench b(t);
  b.connection.confirm_close = false;
  t.target().stop();
  t.expect(type(Type::kClose), "CLOSE");
  t.forget();
  b.stream.send(b.stream.write(b.region, 0, pattern(10)));
  b.connection.send_probe({.token = 1}, 0, {.flags = kAr});
  t.expect_none([&](const Packet& p) { return b.connection.mine(p) && !p.is(Type::kClose); },
                "something beside CLOSE", millis(50));
}

// ---- §4.11

void reset_with_token(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  t.run_for(millis(3));
  b.connection.send_reset(b.connection.peer().reset_token);
  b.expect_completion(1, "RETRY_EXC_ERR");
  b.expect_state("err");
  t.run_for(millis(20));  // what was sent before
  t.forget();
  t.expect_none([&](const Packet& p) { return b.connection.mine(p); }, "a datagram of the lost connection");
}

void reset_without_token(Tester& t) {
  Bench b(t);
  auto token = b.connection.peer().reset_token;
  token[15] ^= 1;
  expect_dropped(b, [&] {
    b.connection.send_reset(token);
    b.connection.send_reset(b.connection.init.reset_token);
    b.connection.send_reset({});
  });
}

}  // namespace

void add_endings(std::vector<Assertion>& out) {
  const auto requester = std::vector{Feature::kRequester};
  const auto slow = std::vector{Feature::kRequester, Feature::kVirtualTime};
  out.insert(
      out.end(),
      {
          {"4.9/keepalive",
           "§4.9-2",
           Level::kShould,
           "*Keepalive.* When for 10 s nothing was received and no DATA was sent, a PROBE of kind 0 with AR "
           "and without streams SHOULD be sent.",
           {Feature::kVirtualTime},
           keepalive},
          {"4.9/silence", "§4.9-4", Level::kMust,
           "*Silence.* When it has waited for 5 s, and nothing was received for 5 s, the connection MUST be "
           "given up as lost (§4.13).",
           slow, silence_ends},
          {"4.9/standstill", "§4.9-5", Level::kMust,
           "*Standstill.* When there are packets that are not accepted, and none was accepted for 5 s, the "
           "connection MUST be given up as lost too.",
           slow, standstill_ends},
          {"4.9/losses-do-not-kill", "§4.9-6", Level::kMust,
           "Losses, however many, MUST NOT end a connection; only what §4.13 lists does.", requester,
           losses_do_not_kill},
          {"4.10/close-confirmed",
           "§4.10-8",
           Level::kShould,
           "Who received CLOSE SHOULD stay in TIME_WAIT for 1 s to answer repetitions, or 20 ms if it was "
           "CLOSING itself.",
           {},
           close_confirmed},
          {"4.10/forged-close",
           "§4.10-5",
           Level::kMust,
           "Who receives CLOSE MUST drop it as forged (`drop_forged_ack`) if its CACK is below the highest "
           "CACK received so far or above the next CPSN.",
           {},
           forged_close},
          {"4.10/close-acknowledges", "§4.10-6", Level::kMust,
           "Who receives CLOSE MUST treat the CACK as that of an ACK (§5.7) before it ends the streams.",
           requester, close_is_the_last_ack},
          {"4.10/orderly-end",
           "§4.10-2",
           Level::kMust,
           "CLOSE MUST carry the final CACK and reason 0.",
           {},
           orderly_end},
          {"4.10/nothing-beside-close",
           "§4.10-4",
           Level::kMust,
           "In state CLOSING, DATA, ACK and PROBE MUST NOT be sent.",
           {},
           nothing_beside_close},
          {"4.11/right-token", "§4.11-2", Level::kMust,
           "With the right token the connection MUST be given up as lost (§4.13), in any state.", requester,
           reset_with_token},
          {"4.11/wrong-token",
           "§4.11-3",
           Level::kMust,
           "With another token the datagram MUST be dropped (`drop_reset`).",
           {},
           reset_without_token},
          {"4.13/close-with-work-outstanding", "§4.13-4", Level::kMust,
           "After an orderly end the same MUST happen, but only to queue pairs that still had work requests "
           "outstanding, and after one try (§8.6-8).",
           requester, close_with_work_outstanding},
      });
}

}  // namespace mroce::comply
