// §7: challenges, failing and returning paths, links, entropy.
#include <set>

#include "comply/section.h"

namespace mroce::comply {
namespace {

BenchOptions four_paths(bool answer = true) {
  BenchOptions options;
  options.shape = [=](Connection& c) {
    c.init.max_paths = 4;
    c.answer_probes = answer;
  };
  options.start.limits.max_paths = 4;
  return options;
}

Match challenge(Bench& b) {
  return [&b](const Packet& p) { return b.connection.mine(p) && p.probe && p.probe->kind == 1; };
}

void answer(Bench& b, const Packet& probe, uint64_t token_change = 0) {
  Bytes out(64);
  out.resize(wire::encode_probe_ack(b.connection.header(Type::kProbeAck, {}),
                                    {probe.probe->token ^ token_change}, out));
  b.connection.send_body(std::move(out), {});
}

std::set<uint8_t> paths_of(Bench& b, DataOp op) {
  std::set<uint8_t> out;
  for (const Packet* p : b.tester.all(b.of(op))) out.insert(p->header->path);
  return out;
}

void send_much(Bench& b, uint64_t wr_id = 1, uint32_t bytes = 400'000) {
  b.post(b.work(wr_id, WorkOp::kWrite, bytes));
  b.expect_completion(wr_id, "SUCCESS", seconds(4));
}

// ---- §7.2, §7.3

void new_paths_carry_nothing(Tester& t) {
  Bench b(t, four_paths(false));
  send_much(b);
  check(paths_of(b, DataOp::kWrite) == std::set<uint8_t>{0}, "data went by a path without an answer");
}

void answered_path_carries(Tester& t) {
  Bench b(t, four_paths());
  t.run_for(millis(50));
  send_much(b);
  check(paths_of(b, DataOp::kWrite).size() == 4, "not all paths that answered carry data");
}

void challenge_is_full_size(Tester& t) {
  Bench b(t, four_paths(false));
  std::set<uint64_t> tokens;
  for (int i = 0; i < 6; ++i) {
    const Packet& probe = t.expect(challenge(b), "a challenge");
    check(probe.bytes.size() == b.connection.mtu() + 60, fmt::format("it has {} bytes", probe.bytes.size()));
    check(tokens.insert(probe.probe->token).second, "a token came twice");
    check(probe.header->path != 0, "path 0 is challenged");
  }
}

void wrong_token(Tester& t) {
  Bench b(t, four_paths(false));
  for (int i = 0; i < 9; ++i) answer(b, t.expect(challenge(b), "a challenge"), 1);
  send_much(b);
  check(paths_of(b, DataOp::kWrite) == std::set<uint8_t>{0}, "a path with wrong answers carries data");
}

void probe_answered(Tester& t) {
  Bench b(t);
  for (const size_t size : {size_t{0}, size_t{100}, size_t{b.connection.mtu() + 60}}) {
    b.connection.send_probe({.token = 0xfeed0000 + size, .kind = 1}, size, {.path = 2});
    const Packet& reply = t.expect(
        [&](const Packet& p) { return p.probe_ack && p.probe_ack->token == 0xfeed0000 + size; }, "PROBE_ACK");
    check(reply.bytes.size() <= std::max<size_t>(size, 32), "it is longer than the PROBE");
  }
}

// ---- §7.4, §7.6

// Everything of path 1 is lost, in both senses.
void silence_path(Bench& b) {
  b.connection.lose = [](const Packet& p) {
    return p.header->path == 1 && (p.is(Type::kData) || p.is(Type::kProbe));
  };
}

// Sends a little now and then until path 1 is challenged: then it has failed.
const Packet& fail_path(Bench& b) {
  b.tester.run_for(millis(50));
  send_much(b, 10);
  silence_path(b);
  b.tester.forget();
  for (uint64_t i = 0; i < 300; ++i) {
    send_much(b, 20 + i, 60'000);
    b.tester.run_for(micros(300));
    const auto all = b.tester.all(challenge(b) && on_path(1));
    if (!all.empty()) return *all[0];
  }
  throw RuleBroken("a path that is silent was not challenged, so it did not fail");
}

void silent_path_fails(Tester& t) {
  Bench b(t, four_paths());
  fail_path(b);
  t.forget();
  send_much(b, 1000);
  check(!paths_of(b, DataOp::kWrite).contains(1), "data went by the path that failed");
}

void failed_path_changes(Tester& t) {
  Bench b(t, four_paths());
  const Packet& probe = fail_path(b);
  const auto before = t.all(b.of(DataOp::kWrite) && on_path(1));
  check(!before.empty(), "path 1 carried nothing");
  check(static_cast<uint8_t>(probe.header->epoch - before[0]->header->epoch) == 1,
        "its epoch did not grow by 1");
}

void failed_path_returns(Tester& t) {
  Bench b(t, four_paths());
  fail_path(b);
  const auto before = t.all(b.of(DataOp::kWrite) && on_path(1));
  b.connection.lose = {};
  t.forget();
  t.run_for(seconds(1));
  const size_t challenges = t.count(challenge(b) && on_path(1));
  check(challenges >= 3, fmt::format("{} challenges", challenges));
  send_much(b, 1001);
  const auto after = t.all(b.of(DataOp::kWrite) && on_path(1));
  check(!after.empty(), "the path carries nothing again");
  for (const Packet* p : after)
    for (const Packet* q : before) check(p->header->pseq != q->header->pseq, "a PSEQ came twice");
}

void three_answers_needed(Tester& t) {
  Bench b(t, four_paths());
  fail_path(b);
  int answers = 0;
  b.connection.lose = [&](const Packet& p) {
    if (p.header->path != 1) return false;
    return !p.is(Type::kProbe) || ++answers % 3 == 0;  // two in a row, never three
  };
  t.forget();
  t.run_for(seconds(1));
  send_much(b, 1001);
  check(!paths_of(b, DataOp::kWrite).contains(1), "data went by it after two answers");
}

void last_path_does_not_fail(Tester& t) {
  Bench b(t);
  send_much(b, 1, 50'000);
  b.connection.lose = [](const Packet&) { return true; };
  b.post(b.work(2, WorkOp::kWrite, 50'000));
  t.run_for(millis(700));
  b.connection.lose = {};
  b.expect_completion(2, "SUCCESS", seconds(2));
}

// ---- §7.5: links

BenchOptions two_planes() {
  BenchOptions options = four_paths();
  options.shape = [](Connection& c) {
    c.init.max_paths = 4;
    c.list_planes(2);
  };
  return options;
}

void port_status_sent(Tester& t) {
  Bench b(t, two_planes());
  t.run_for(millis(50));
  t.forget();
  t.target().link(1, false);
  const auto status = [&](const Packet& p) {
    return b.connection.mine(p) && p.ack && p.ack->has_port_status;
  };
  const Packet& first = t.expect(status, "PORT_STATUS");
  check((first.ack->port_status.mask & 3) == 1, "its mask");
  for (int i = 0; i < 12; ++i) b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  const size_t times = t.count(status);
  check(times == 8, fmt::format("it was in {} ACKs", times));
  t.target().link(1, true);
  const Packet& second = t.expect(
      [&](const Packet& p) {
        return status(p) && p.ack->port_status.sequence != first.ack->port_status.sequence;
      },
      "another PORT_STATUS");
  check(second.ack->port_status.sequence == first.ack->port_status.sequence + 1, "its sequence number");
  check((second.ack->port_status.mask & 3) == 3, "its mask");
}

void send_status(Bench& b, uint32_t mask, uint32_t sequence) {
  wire::Ack ack = b.connection.current_ack();
  ack.has_port_status = true;
  ack.port_status = {mask, sequence};
  b.connection.send_ack(ack);
}

bool uses_plane_1(Bench& b, uint64_t wr_id) {
  b.tester.forget();
  send_much(b, wr_id);
  return b.tester.count([&](const Packet& p) { return b.of(DataOp::kWrite)(p) && p.plane == 1; }) != 0;
}

void port_status_obeyed(Tester& t) {
  Bench b(t, two_planes());
  t.run_for(millis(50));
  check(uses_plane_1(b, 1), "plane 1 carries nothing");
  send_status(b, 1, 5);
  t.run_for(millis(1));
  check(!uses_plane_1(b, 2), "data goes to a port that is down");
  send_status(b, 3, 4);  // not later
  send_status(b, 3, 5);
  t.run_for(millis(100));
  check(!uses_plane_1(b, 3), "an older PORT_STATUS was obeyed");
  send_status(b, 3, 6);
  t.run_for(millis(300));
  check(uses_plane_1(b, 4), "plane 1 did not come back");
}

void own_link_down(Tester& t) {
  Bench b(t, two_planes());
  t.run_for(millis(50));
  check(uses_plane_1(b, 1), "plane 1 carries nothing");
  t.target().link(1, false);
  t.run_for(millis(1));
  check(!uses_plane_1(b, 2), "data goes by a port that is down");
  t.target().link(1, true);
  t.run_for(millis(300));
  check(uses_plane_1(b, 3), "plane 1 did not come back");
}

// ---- §5.10

void rack_across_paths(Tester& t) {
  Bench b(t, four_paths());
  t.run_for(millis(50));
  send_much(b, 10);
  silence_path(b);
  t.forget();
  send_much(b, 11);  // what path 1 lost went by others, or this would not complete
  size_t moved = 0;
  for (const Packet* lost : t.all([](const Packet& p) { return p.data && !p.note.empty(); })) {
    const uint32_t cpsn = lost->data->cpsn;
    moved += t.count([&](const Packet& p) {
      return b.of(DataOp::kWrite)(p) && p.data->cpsn == cpsn && p.header->path != 1;
    });
  }
  check(moved > 0, "nothing moved to another path");
}

}  // namespace

void add_paths(std::vector<Assertion>& out) {
  const auto paths = std::vector{Feature::kRequester, Feature::kPaths};
  const auto planes = std::vector{Feature::kRequester, Feature::kPaths, Feature::kPlanes};
  out.insert(
      out.end(),
      {
          {"5.12/rack-across-paths", "§5.12-1", Level::kMust,
           "If a lost transmission was the newest of its packet, and the packet is not accepted, the packet "
           "MUST be sent again.",
           paths, rack_across_paths},
          {"4.8/new-paths-carry-nothing", "§4.8-7", Level::kMust,
           "All other paths MUST NOT carry data before a challenge on them was answered (§7.3).", paths,
           new_paths_carry_nothing},
          {"4.8/answered-path-carries", "§4.8-5", Level::kShould,
           "Path i SHOULD run on plane i mod (number of planes).", paths, answered_path_carries},
          {"7.3/challenge",
           "§7.3-1",
           Level::kMust,
           "A challenge MUST be a PROBE of kind 1 with a fresh random 64-bit token, sent through the path "
           "that it tests and padded to the full packet size.",
           {Feature::kPaths},
           challenge_is_full_size},
          {"7.3/wrong-token", "§7.3-2", Level::kMust,
           "A PROBE_ACK with another token than that of an outstanding challenge MUST NOT change a path.",
           paths, wrong_token},
          {"7.3/probe-answered",
           "§7.3-3",
           Level::kMust,
           "A receiver MUST answer every PROBE that passes its checks with a PROBE_ACK that repeats the "
           "token, except those that come while 64 answers wait.",
           {},
           probe_answered},
          {"7.4/silent-path-fails", "§7.4-2", Level::kShould,
           "A SUSPECT path SHOULD become FAILED when three expiries each gave up a transmission that was "
           "sent since it is SUSPECT, if some other path is usable.",
           paths, silent_path_fails},
          {"7.4/epoch-of-a-failed-path", "§7.4-5", Level::kShould,
           "It SHOULD get a new random entropy, and with it a new epoch (§7.7); its PSEQs go on (§2.3).",
           paths, failed_path_changes},
          {"7.4/last-path",
           "§7.4-3",
           Level::kShould,
           "The last usable path SHOULD NOT fail by silence, nor any path while nothing sent later is "
           "acknowledged on any.",
           {Feature::kRequester},
           last_path_does_not_fail},
          {"7.2/three-answers-needed", "§7.2-3", Level::kShould,
           "A FAILED path SHOULD NOT carry data again before three challenges in a row were answered on it.",
           paths, three_answers_needed},
          {"7.6/returns", "§7.6-3", Level::kShould,
           "A FAILED path SHOULD carry data again within one second after the network does.", paths,
           failed_path_returns},
          {"7.5/port-status-sent", "§7.5-3", Level::kShould,
           "After each change the endpoint SHOULD put PORT_STATUS into its next 8 ACKs of every connection "
           "that has paths on that port, the first at once.",
           planes, port_status_sent},
          {"7.5/port-status-obeyed", "§7.5-6", Level::kMust,
           "A receiver MUST ignore a status whose sequence number is not later (serially) than the newest "
           "one seen; the first is always taken.",
           planes, port_status_obeyed},
          {"7.5/own-link", "§7.5-1", Level::kShould,
           "When a local port loses its link, its paths stop being usable; if the connection has more than "
           "one plane they SHOULD fail at once.",
           planes, own_link_down},
      });
}

}  // namespace mroce::comply
