// §6: windows, marks, the host penalty, turns.
#include <map>

#include "comply/section.h"

namespace mroce::comply {
namespace {

constexpr uint32_t kLong = 900'000;  // bytes of a WRITE that no window takes at once

// Datagrams of the target on each path that the tester has not acknowledged: what is in flight when it has
// stopped acknowledging for a moment.
std::map<uint8_t, uint32_t> flight(Bench& b) {
  b.connection.acknowledge = false;
  b.tester.forget();
  b.tester.run_for(micros(400));
  std::map<uint8_t, uint32_t> out;
  for (const Packet* p : b.tester.all(b.of(DataOp::kWrite))) ++out[p->header->path];
  return out;
}

// A long WRITE, acknowledged for a while.
void warm_up(Bench& b, Nanos time) {
  b.tester.run_for(millis(40));  // paths are challenged
  for (uint64_t i = 0; i < 8; ++i) b.post(b.work(i, WorkOp::kWrite, kLong));
  b.tester.run_for(time);
}

BenchOptions on_paths(uint8_t paths) {
  return {.shape = [=](Connection& c) { c.init.max_paths = paths; }};
}

// In rounds: the tester lets the flight come, then acknowledges all of it with the marks it wants.
std::map<uint8_t, uint32_t> flight_after_rounds(Bench& b, int rounds) {
  std::map<uint8_t, uint32_t> last;
  for (int i = 0; i < rounds; ++i) {
    last = flight(b);
    b.connection.acknowledge = true;
    b.connection.send_ack();
  }
  return last;
}

void marks_reduce_the_path(Tester& t) {
  Bench b(t, on_paths(2));
  b.tester.run_for(millis(40));
  for (uint64_t i = 0; i < 8; ++i) b.post(b.work(i, WorkOp::kWrite, kLong));
  flight_after_rounds(b, 1);
  b.connection.congested = {1};
  auto in_flight = flight_after_rounds(b, 8);
  check(in_flight[1] * 2 < in_flight[0],
        fmt::format("{} packets in flight on the marked path, {} on the other", in_flight[1], in_flight[0]));
  check(in_flight[0] >= 32, fmt::format("{} packets on the path without marks", in_flight[0]));
}

void loss_alone_does_not(Tester& t) {
  Bench b(t, on_paths(1));
  b.tester.run_for(millis(40));
  int n = 0;
  b.connection.lose = [&](const Packet& p) { return p.is(DataOp::kWrite) && ++n % 20 == 0; };
  for (uint64_t i = 0; i < 8; ++i) b.post(b.work(i, WorkOp::kWrite, kLong));
  auto in_flight = flight_after_rounds(b, 8);
  check(in_flight[0] >= 32, fmt::format("{} packets in flight after losses of 5 %", in_flight[0]));
}

uint64_t bytes_in_flight(Bench& b) {
  flight(b);
  uint64_t bytes = 0;
  for (const Packet* p : b.tester.all(b.of(DataOp::kWrite))) bytes += p->bytes.size();
  return bytes;
}

void host_penalty_scales(Tester& t) {
  Bench b(t, on_paths(1));
  b.connection.host_penalty = 127;
  warm_up(b, millis(2));
  const uint64_t bytes = bytes_in_flight(b);
  // (128 - 127) / 128 of at most 1 MiB, and never less than two packets
  check(bytes <= (1U << 20) / 128 + 2 * (b.connection.mtu() + 72),
        fmt::format("{} bytes in flight with a penalty of 127", bytes));
  check(bytes != 0, "nothing is sent");
  b.connection.host_penalty = 0;
  b.connection.acknowledge = true;
  b.connection.send_ack();
  for (uint64_t i = 20; i < 28; ++i) b.post(b.work(i, WorkOp::kWrite, kLong));
  t.run_for(micros(200));
  check(bytes_in_flight(b) > bytes, "the window did not return");
}

void half_of_the_receive_buffer(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.init.receive_buffer = 32 << 10; }});
  warm_up(b, millis(2));
  const uint64_t bytes = bytes_in_flight(b);
  check(bytes <= (16 << 10) + b.connection.mtu() + 60, fmt::format("{} bytes in flight", bytes));
}

void responses_do_not_wait(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.grant = 0; }});
  b.write_memory(0, pattern(3000));
  b.post(b.work(1, WorkOp::kSend, 100));
  t.expect(b.of(DataOp::kStreamBlocked), "STREAM_BLOCKED");
  b.stream.send(b.stream.read(b.region, 0, 3000));
  for (int i = 0; i < 3; ++i) t.expect(b.of(DataOp::kReadResp), "READ_RESP");
}

void asks_before_it_stops(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kWrite, 5000));
  b.expect_completion(1, "SUCCESS");
  const auto all = t.all(b.of(DataOp::kWrite));
  check(all.back()->has(kAr), "the last datagram does not ask for an ACK");
}

void one_size_in_a_burst(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kWrite, 20'000));
  b.expect_completion(1, "SUCCESS");
  const auto all = t.all(b.of(DataOp::kWrite));
  for (size_t i = 0; i + 1 < all.size(); ++i)
    check(all[i]->bytes.size() == all[0]->bytes.size(), "sizes differ within a message");
}

// ---- hints

void zero_rate_ignored(Tester& t) {
  Bench b(t);
  b.connection.shape_ack = [](wire::Ack& ack) {
    for (size_t i = 0; i < ack.nblocks; ++i) ack.blocks[i].rate = 0;
  };
  b.post(b.work(1, WorkOp::kWrite, 200'000));
  b.expect_completion(1, "SUCCESS");
}

void hint_obeyed(Tester& t) {
  Bench b(t, {.start = {.rate_hints = true}});
  b.connection.shape_ack = [](wire::Ack& ack) {
    for (size_t i = 0; i < ack.nblocks; ++i) ack.blocks[i].rate = wire::encode_rate(10'000'000);
  };
  b.post(b.work(9, WorkOp::kWrite, 100));
  b.expect_completion(9, "SUCCESS");
  t.forget();
  const Time began = t.now();
  b.post(b.work(1, WorkOp::kWrite, 200'000));
  b.expect_completion(1, "SUCCESS");
  check(t.now() - began > millis(15), "200,000 bytes went in less than 15 ms at 10 MB/s");
}

}  // namespace

void add_congestion(std::vector<Assertion>& out) {
  const auto paths = std::vector{Feature::kRequester, Feature::kPaths, Feature::kVirtualTime};
  const auto exact = std::vector{Feature::kRequester, Feature::kVirtualTime};
  const auto requester = std::vector{Feature::kRequester};
  out.insert(out.end(), {
                            {"6.1/half-of-the-receive-buffer", "§6.1-1", Level::kShould,
                             "The window of a connection SHOULD be, in bytes in flight over all paths.",
                             exact, half_of_the_receive_buffer},
                            {"6.4/marks-reduce-the-path", "§6.4-1", Level::kMust,
                             "A sender MUST reduce its rate on a path when CE marks are reported for it, at "
                             "least once a round trip.",
                             paths, marks_reduce_the_path},
                            {"6.5/loss-alone-does-not", "§6.5-1", Level::kShould,
                             "At the end of a round with losses, cwnd SHOULD be halved (at least 1) and slow "
                             "start end, only if at least one holds.",
                             exact, loss_alone_does_not},
                            {"6.7/ar-before-it-stops", "§6.7-5", Level::kShould,
                             "AR SHOULD be set on the last datagram of a burst if the sender will then stop: "
                             "nothing more to send, no room on this path, the connection's window or the "
                             "CPSN limit reached, or a rate hint in force.",
                             requester, asks_before_it_stops},
                            {"3.14/one-size-in-a-burst", "§3.14-2", Level::kShould,
                             "Datagrams of one burst SHOULD have one size, except a shorter last one.",
                             requester, one_size_in_a_burst},
                            {"6.8/responses-do-not-wait",
                             "§6.8-3",
                             Level::kMust,
                             "Responses MUST NOT wait for requests, credits or fences.",
                             {Feature::kRequester, Feature::kRead},
                             responses_do_not_wait},
                            {"6.9/host-penalty", "§6.9-3", Level::kMust,
                             "A sender MUST lower its window by the newest penalty received, as in §6.1.",
                             exact, host_penalty_scales},
                            {"6.10/rate-zero-ignored", "§6.10-2", Level::kMust,
                             "A sender MUST ignore a rate of 0.", requester, zero_rate_ignored},
                            {"6.10/hint-obeyed",
                             "§6.10-10",
                             Level::kShould,
                             "Else, if it obeys hints a transmission SHOULD wait until the last on the plane "
                             "was at least bytes / rate ago (a sender that fell behind does not catch up).",
                             {Feature::kRequester, Feature::kVirtualTime, Feature::kRateHints},
                             hint_obeyed},
                        });
}

}  // namespace mroce::comply
