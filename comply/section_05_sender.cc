// §5.1, §5.2, §5.7 to §5.17: what a sender does about losses, and what it believes.
#include <map>
#include <set>

#include "comply/section.h"

namespace mroce::comply {
namespace {

const Packet& expect_any(Bench& b, DataOp op, const std::string& what) {  // lost by the tester or not
  const Packet* found = nullptr;
  b.tester.until(
      [&] {
        const auto all = b.tester.all(b.of(op));
        if (!all.empty()) found = all[0];
        return found != nullptr;
      },
      what);
  return *found;
}

// Loses the WRITEs whose numbers of arrival (from 0) are in `numbers`.
void lose_writes(Bench& b, std::set<int> numbers) {
  b.connection.lose = [numbers, n = -1](const Packet& p) mutable {
    return p.is(DataOp::kWrite) && numbers.contains(++n);
  };
}

// All transmissions of one packet.
std::vector<const Packet*> transmissions(Bench& b, uint32_t cpsn) {
  return b.tester.all(
      [&, cpsn](const Packet& p) { return b.connection.mine(p) && p.data && p.data->cpsn == cpsn; });
}

void same_packet_again(Tester& t, bool check_flag) {
  Bench b(t);
  b.write_memory(0, pattern(3000));
  lose_writes(b, {1});
  b.post(b.work(1, WorkOp::kWrite, 3000));
  b.expect_completion(1, "SUCCESS");
  const auto lost = t.all([](const Packet& p) { return !p.note.empty(); });
  check(lost.size() == 1, "the tester lost nothing");
  const auto both = transmissions(b, lost[0]->data->cpsn);
  check(both.size() >= 2, "it was not sent again");
  if (check_flag) {
    check(!both[0]->has(wire::flag::kRetransmit) && both[1]->has(wire::flag::kRetransmit), "RTX is wrong");
    return;
  }
  check(*both[0]->data == *both[1]->data || both[0]->data->backlog != both[1]->data->backlog,
        "headers differ: " + describe(*both[1]));
  check(both[0]->payload == both[1]->payload, "payloads differ");
  check(both[0]->data->offset == both[1]->data->offset && both[0]->data->va == both[1]->data->va &&
            both[0]->data->msn == both[1]->data->msn && both[0]->data->op == both[1]->data->op,
        "it is another packet");
}

void fresh_pseq(Tester& t) {
  Bench b(t);
  lose_writes(b, {0, 1, 2});
  b.post(b.work(1, WorkOp::kWrite, 3000));
  b.expect_completion(1, "SUCCESS");
  std::set<uint32_t> seen;
  for (const Packet* p : t.all(b.of(DataOp::kWrite)))
    check(seen.insert(p->header->pseq).second, "a retransmission has a PSEQ that was used before");
  check(seen.size() >= 6, "nothing was sent again");
}

// ---- §5.2

void window_respected(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.init.cpsn_window = 64; }});
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 200'000));
  t.run_for(millis(60));
  const auto all = t.all(b.of(DataOp::kWrite));
  check(!all.empty(), "no WRITE came");
  std::set<uint32_t> cpsns;
  for (const Packet* p : all) cpsns.insert(p->data->cpsn - b.connection.base());
  check(*cpsns.rbegin() < 64, fmt::format("{} packets from the oldest unaccepted", *cpsns.rbegin() + 1));
}

void limit_respected(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) {
            c.init.cpsn_window = 64;
            c.move_limit = false;
          }});
  b.post(b.work(1, WorkOp::kWrite, 200'000));
  t.run_for(millis(60));
  const uint32_t limit = b.connection.peer().first_cpsn + 64;
  check(b.connection.base() == limit, "the sender stopped before the limit, or went beyond it");
  b.connection.move_limit = true;
  b.connection.send_ack();
  b.expect_completion(1, "SUCCESS");
}

void strange_limits_ignored(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) {
            c.init.cpsn_window = 64;
            c.move_limit = false;
            c.shape_ack = [&c](wire::Ack& ack) { ack.cpsn_limit = c.base() - 1000; };  // lower than before
          }});
  b.post(b.work(1, WorkOp::kWrite, 200'000));
  t.run_for(millis(40));
  const uint32_t limit = b.connection.peer().first_cpsn + 64;
  check(b.connection.base() == limit, "a lower limit was taken over");
  wire::Ack ack = b.connection.current_ack();
  ack.cpsn_limit = ack.cack + (1U << 21);  // above any window
  b.connection.send_ack(ack);
  t.run_for(millis(40));
  check(b.connection.base() == limit, "a limit above the own window was taken over");
  b.connection.move_limit = true;
  b.connection.shape_ack = {};
  b.connection.send_ack();
  b.expect_completion(1, "SUCCESS");
}

// ---- §5.7

// An ACK that would complete the target's WRITE but for one thing.
void expect_ack_dropped(Tester& t, const std::function<void(Bench&, wire::Ack&)>& change) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  const Packet write = expect_any(b, DataOp::kWrite, "WRITE");
  wire::Ack ack = b.connection.current_ack();
  ack.cack = write.data->cpsn + 1;
  change(b, ack);
  b.connection.send_ack(ack);
  b.expect_no_completion(millis(5));
  b.connection.lose = {};
  b.expect_completion(1, "SUCCESS");
}

void forged_cack(Tester& t) {
  expect_ack_dropped(t, [](Bench&, wire::Ack& ack) { ack.cack += 1; });
  expect_ack_dropped(t, [](Bench&, wire::Ack& ack) { ack.cack += 0x7fff0000U; });
}
void forged_largest(Tester& t) {
  expect_ack_dropped(t, [](Bench&, wire::Ack& ack) { ack.blocks[0].largest += 1000; });
}
void unknown_path_in_block(Tester& t) {
  expect_ack_dropped(t, [](Bench&, wire::Ack& ack) {
    ack.blocks[1] = ack.blocks[0];
    ack.blocks[1].path = 63;
    ack.nblocks = 2;
  });
}
void nak_without_code(Tester& t) {
  expect_ack_dropped(t, [](Bench&, wire::Ack& ack) {
    ack.nnaks = 1;
    ack.naks[0] = {ack.cack - 1, NakCode::kNone, 0};
  });
  expect_ack_dropped(t, [](Bench&, wire::Ack& ack) {
    ack.nnaks = 1;
    ack.naks[0] = {ack.cack - 1, static_cast<NakCode>(11), 0};
  });
}

void cack_alone_accepts(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  wire::Ack ack = b.connection.current_ack();
  ack.cack = expect_any(b, DataOp::kWrite, "WRITE").data->cpsn + 1;
  ack.nblocks = 0;
  b.connection.send_ack(ack);
  b.expect_completion(1, "SUCCESS");
}

void vector_alone_accepts(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  const Packet write = expect_any(b, DataOp::kWrite, "WRITE");
  wire::Ack ack = b.connection.current_ack();
  ack.blocks[0].largest = write.header->pseq;
  ack.blocks[0].vector = {1, 0, 0, 0};
  ack.blocks[0].rx_count += 1;
  b.connection.send_ack(ack);
  b.expect_completion(1, "SUCCESS");
}

void stale_ack(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kWrite, 3000));
  b.expect_completion(1, "SUCCESS");
  const wire::Ack old = b.connection.current_ack();
  b.post(b.work(2, WorkOp::kWrite, 3000));
  b.expect_completion(2, "SUCCESS");
  t.forget();
  b.connection.send_ack(old);
  t.expect_none(b.of(DataOp::kWrite), "a retransmission after an old ACK");
  b.post(b.work(3, WorkOp::kWrite, 3000));
  b.expect_completion(3, "SUCCESS");
}

// ---- §5.9 to §5.13

void gap_means_loss(Tester& t) {
  Bench b(t);
  b.post(b.work(9, WorkOp::kWrite, 100));  // a first round-trip sample
  b.expect_completion(9, "SUCCESS");
  t.run_for(millis(5));
  t.forget();
  lose_writes(b, {1});
  b.post(b.work(1, WorkOp::kWrite, 4000));
  b.expect_completion(1, "SUCCESS");
  const auto lost = t.all([](const Packet& p) { return !p.note.empty(); });
  const auto both = transmissions(b, lost.at(0)->data->cpsn);
  check(both.size() == 2, "it was not sent exactly once more");
  check(both[1]->at - both[0]->at < micros(100), "it was repeated by a timer, not by the gap");
}

// The tester reports datagrams late, as if the network had changed their order by `distance`.
void reorder_once(Bench& b, uint64_t wr_id, uint32_t distance) {
  b.connection.acknowledge = false;
  b.tester.forget();
  b.post(b.work(wr_id, WorkOp::kWrite, 1024 * (distance + 2)));
  b.tester.until([&] { return b.tester.count(b.of(DataOp::kWrite)) >= distance + 2; }, "the WRITEs");
  const uint32_t first = b.tester.all(b.of(DataOp::kWrite)).at(0)->header->pseq;
  wire::Ack ack = b.connection.current_ack();
  const uint32_t below = ack.blocks[0].largest - first;
  const wire::Ack whole = ack;
  ack.cack = b.tester.all(b.of(DataOp::kWrite)).at(0)->data->cpsn;
  ack.blocks[0].vector[below / 64] &= ~(uint64_t{1} << (below % 64));
  ack.blocks[0].rx_count -= 1;
  b.connection.send_ack(ack);
  b.tester.run_for(micros(40));
  b.connection.send_ack(whole);
  b.connection.acknowledge = true;
  b.expect_completion(wr_id, "SUCCESS");
  b.tester.run_for(millis(3));
}

void threshold_adapts(Tester& t) {
  Bench b(t);
  b.post(b.work(9, WorkOp::kWrite, 100));
  b.expect_completion(9, "SUCCESS");
  reorder_once(b, 1, 3);
  const size_t first = t.count(b.of(DataOp::kWrite));
  check(first == 6, fmt::format("{} transmissions of 5 packets, the first of them late", first));
  reorder_once(b, 2, 3);
  check(t.count(b.of(DataOp::kWrite)) == 5, "the same reordering was taken for a loss again");
}

void threshold_decays(Tester& t) {
  Bench b(t);
  b.post(b.work(9, WorkOp::kWrite, 100));
  b.expect_completion(9, "SUCCESS");
  reorder_once(b, 1, 3);
  // A round for each WRITE; the threshold was 4 at most.
  for (uint64_t i = 10; i < 10 + 64 * 4; ++i) {
    b.post(b.work(i, WorkOp::kWrite, 100));
    b.expect_completion(i, "SUCCESS");
  }
  reorder_once(b, 2, 3);
  check(t.count(b.of(DataOp::kWrite)) == 6, "after 256 rounds without loss a gap of 3 is no loss yet");
}

void late_acknowledgement_counts(Tester& t) {
  Bench b(t);
  b.post(b.work(9, WorkOp::kWrite, 100));
  b.expect_completion(9, "SUCCESS");
  b.connection.acknowledge = false;
  t.forget();
  b.post(b.work(1, WorkOp::kWrite, 3000));
  t.until([&] { return t.count(b.of(DataOp::kWrite)) >= 3; }, "the WRITEs");
  const wire::Ack whole = b.connection.current_ack();
  wire::Ack gap = whole;
  gap.cack -= 3;
  gap.blocks[0].vector[0] &= ~uint64_t{4};
  gap.blocks[0].rx_count -= 1;
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.connection.send_ack(gap);
  t.until([&] { return t.count(b.of(DataOp::kWrite)) >= 4; }, "the retransmission");
  wire::Ack late = gap;  // the first transmission came after all; CACK does not say it
  late.blocks[0] = whole.blocks[0];
  b.connection.send_ack(late);
  b.expect_completion(1, "SUCCESS");
}

void pto_probe(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 3000));
  t.until([&] { return t.count(b.of(DataOp::kWrite)) >= 4; }, "something after no acknowledgement",
          millis(30));
  const auto all = t.all(b.of(DataOp::kWrite));
  check(all[3]->data->cpsn == all[2]->data->cpsn, "the newest packet was not the one repeated");
  check(all[3]->has(kAr), "it does not ask for an ACK");
}

void pto_backs_off(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 100));
  t.run_for(millis(300));
  const auto all = t.all(b.of(DataOp::kWrite));
  check(all.size() >= 4, "it was repeated fewer than three times in 300 ms");
  check(all.size() <= 20, fmt::format("it was repeated {} times in 300 ms", all.size() - 1));
  const Nanos first = all[1]->at - all[0]->at, later = all[3]->at - all[2]->at;
  check(later > first, "intervals do not grow");
}

void same_path_again(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.init.max_paths = 4; }});
  t.run_for(millis(50));
  b.post(b.work(9, WorkOp::kWrite, 200'000));
  b.expect_completion(9, "SUCCESS");
  t.forget();
  int n = 0;
  b.connection.lose = [&](const Packet& p) {
    return p.is(DataOp::kWrite) && !p.has(wire::flag::kRetransmit) && ++n % 10 == 0;
  };
  b.post(b.work(1, WorkOp::kWrite, 400'000));
  b.expect_completion(1, "SUCCESS");
  size_t same = 0, all = 0;
  for (const Packet* p : t.all([](const Packet& each) { return !each.note.empty(); })) {
    const auto both = transmissions(b, p->data->cpsn);
    if (both.size() < 2) continue;
    ++all;
    same += both[0]->header->path == both[1]->header->path;
  }
  check(all > 10 && same * 10 >= all * 8, fmt::format("{} of {} by the same path", same, all));
}

void lost_before_new(Tester& t) {
  Bench b(t);
  b.post(b.work(9, WorkOp::kWrite, 100));
  b.expect_completion(9, "SUCCESS");
  t.forget();
  lose_writes(b, {2});
  b.post(b.work(1, WorkOp::kWrite, 300'000));
  b.expect_completion(1, "SUCCESS", seconds(3));
  const auto lost = t.all([](const Packet& p) { return !p.note.empty(); });
  const auto both = transmissions(b, lost.at(0)->data->cpsn);
  // What was sent after the first ACK that showed the gap may not be new before the lost packet is there.
  const auto later = t.all([&](const Packet& p) {
    return b.of(DataOp::kWrite)(p) && p.at > both[0]->at + micros(60) && p.at < both.at(1)->at &&
           !p.has(wire::flag::kRetransmit);
  });
  check(later.size() <= 1, fmt::format("{} new packets went before the lost one", later.size()));
}

// ---- §5.15 to §5.17

void void_when_given_up(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
  b.post(b.work(1, WorkOp::kWrite, 3000));
  t.until([&] { return t.count(b.of(DataOp::kWrite)) >= 3; }, "the WRITEs");
  std::set<uint32_t> open;
  for (const Packet* p : t.all(b.of(DataOp::kWrite))) open.insert(p->data->cpsn);
  const uint32_t msn = t.all(b.of(DataOp::kWrite)).at(0)->data->msn;
  t.target().modify_qp(b.qp.id, "err");
  t.until(
      [&] {
        for (const Packet* p : t.all(b.of(DataOp::kVoid))) {
          if (open.erase(p->data->cpsn) != 0)
            check(p->data->msn == msn && p->data->stream == (b.own_qpn() & 0xffff),
                  "MSN or stream of a VOID");
        }
        return open.empty();
      },
      "a VOID for each packet that was not accepted", seconds(2));
}

void nak_for_accepted_ignored(Tester& t) {
  Bench b(t);
  b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite) && p.data->offset != 0; };
  b.post(b.work(1, WorkOp::kWrite, 2000));
  const uint32_t accepted = expect_any(b, DataOp::kWrite, "WRITE").data->cpsn;
  t.run_for(millis(1));
  wire::Ack ack = b.connection.current_ack();
  ack.nnaks = 1;
  ack.naks[0] = {accepted, NakCode::kAccess, 0};
  b.connection.send_ack(ack);
  b.connection.lose = {};
  b.expect_completion(1, "SUCCESS");
}

void asks_for_credit(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.grant = 0; }});
  b.connection.answer_probes = false;
  b.post(b.work(1, WorkOp::kSend, 100));
  const Match question = [&](const Packet& p) {
    return b.connection.mine(p) && p.probe && p.probe->kind == 0 && p.probe->nstreams == 1 &&
           p.probe->streams[0] == (b.own_qpn() & 0xffff);
  };
  const Time first = t.expect(question, "a PROBE that names the stream").at;
  const Packet& second = t.expect(question, "the PROBE again");
  check(second.has(kAr), "it does not ask for an ACK");
  const Time third = t.expect(question, "the PROBE a third time").at;
  if (t.target().virtual_time()) check(third - second.at > second.at - first, "intervals do not grow");
}

void question_for_credit_answered(Tester& t) {
  Bench b(t, {.receives = 3});
  t.run_for(millis(5));
  t.forget();
  wire::Probe probe;
  probe.token = 77;
  probe.nstreams = 1;
  probe.streams[0] = static_cast<uint16_t>(b.qp.qpn);
  b.connection.send_probe(probe, 0, {.flags = kAr});
  const Packet& ack =
      t.expect([&](const Packet& p) { return p.credit(static_cast<uint16_t>(b.own_qpn())) != nullptr; },
               "an ACK with RQ_CREDIT of the stream");
  const wire::Credit& credit = *ack.credit(static_cast<uint16_t>(b.own_qpn()));
  check(credit.limit == 3, fmt::format("the limit is {}, not 3", credit.limit));
  check(credit.incarnation == 1, "its incarnation");
  t.expect([](const Packet& p) { return p.probe_ack && p.probe_ack->token == 77; }, "PROBE_ACK");
}

}  // namespace

void add_sending(std::vector<Assertion>& out) {
  const auto requester = std::vector{Feature::kRequester};
  const auto exact = std::vector{Feature::kRequester, Feature::kVirtualTime};
  const auto paths = std::vector{Feature::kRequester, Feature::kPaths};
  out.insert(
      out.end(),
      {
          {"5.1/same-packet-again", "§5.1-1", Level::kMust,
           "A retransmission MUST carry the same packet: same CPSN, opcode, stream, MSN, offset, length and "
           "extension.",
           requester, [](Tester& t) { same_packet_again(t, false); }},
          {"5.1/rtx-flag", "§5.1-2", Level::kShould,
           "A sender SHOULD set RTX on every transmission of a packet but the first.", requester,
           [](Tester& t) { same_packet_again(t, true); }},
          {"2.3/fresh-pseq", "§2.3-3", Level::kMust,
           "The first transmission on each path MUST have the PSEQ `first_pseq`, and each further one on "
           "that path the next number, also after the path has failed and returned or changed its entropy.",
           requester, fresh_pseq},
          {"5.2/window", "§5.2-2", Level::kMust,
           "A sender MUST NOT have more packets from its oldest unaccepted to its newest than the negotiated "
           "CPSN window.",
           requester, window_respected},
          {"5.2/limit", "§5.2-1", Level::kMust,
           "A sender MUST NOT give out a CPSN that is not below the CPSN limit.", requester, limit_respected},
          {"5.2/strange-limits", "§5.2-3", Level::kMust,
           "A received limit that is not above the highest one known, or is more than the endpoint's own "
           "configured window (which it would offer in INIT, whatever was negotiated) above the CACK in the "
           "same ACK, MUST be ignored.",
           requester, strange_limits_ignored},
          {"5.7/forged-cack", "§5.7-1", Level::kMust,
           "An ACK whose CACK is above the next CPSN, or with a block whose LARGEST is not below the next "
           "PSEQ of its path, MUST be dropped as forged (`drop_forged_ack`).",
           requester, forged_cack},
          {"5.7/forged-largest", "§5.7-1", Level::kMust,
           "An ACK whose CACK is above the next CPSN, or with a block whose LARGEST is not below the next "
           "PSEQ of its path, MUST be dropped as forged (`drop_forged_ack`).",
           requester, forged_largest},
          {"5.7/unknown-path", "§5.7-2", Level::kMust,
           "An ACK with a block for a path that the sender does not have MUST be dropped (`drop_path`).",
           requester, unknown_path_in_block},
          {"5.7/cack-accepts", "§5.7-4", Level::kMust,
           "A packet whose transmission is acknowledged, or that is below CACK, MUST be taken as accepted "
           "and not be transmitted again.",
           requester, cack_alone_accepts},
          {"5.7/vector-accepts", "§5.7-4", Level::kMust,
           "A packet whose transmission is acknowledged, or that is below CACK, MUST be taken as accepted "
           "and not be transmitted again.",
           requester, vector_alone_accepts},
          {"5.14/stale-ack", "§5.14-1", Level::kMust,
           "An ACK that comes late MUST NOT turn a packet from accepted to unaccepted, lower a limit or "
           "credit, or take back a status.",
           requester, stale_ack},
          {"5.9/gap-means-loss", "§5.9-1", Level::kShould,
           "After an ACK with a block for the path, every flying transmission s < H SHOULD be declared lost "
           "if it has the same epoch as H and H − s > R.",
           exact, gap_means_loss},
          {"5.9/threshold-adapts", "§5.9-3", Level::kShould,
           "When a transmission that *this rule* had declared lost is acknowledged after all, R SHOULD "
           "become the larger of R + 1 and the distance by which it came late (H − s, as far as H is above "
           "s), at most 64.",
           exact, threshold_adapts},
          {"5.9/threshold-decays", "§5.9-4", Level::kShould,
           "After 64 rounds (§6.3) in a row in which nothing was flying below H when an ACK came and nothing "
           "was lost, R SHOULD shrink by 1.",
           exact, threshold_decays},
          {"5.11/probe", "§5.11-2", Level::kShould,
           "At the first expiry (n was 0) the newest packet that is not accepted SHOULD be transmitted once "
           "more, with AR, on the usable path with the least in flight other than the one it was last sent "
           "on, if there is one.",
           requester, pto_probe},
          {"5.11/backs-off", "§5.11-1", Level::kShould,
           "With n the expiries since the last progress, it SHOULD expire after.", requester, pto_backs_off},
          {"5.12/same-path", "§5.12-2", Level::kShould,
           "A lost packet SHOULD go on the same path if that is ACTIVE, else on any usable one.", paths,
           same_path_again},
          {"5.12/lost-before-new", "§5.12-3", Level::kMust,
           "Lost packets MUST be sent before new ones on the path that takes them.", exact, lost_before_new},
          {"5.13/late-acknowledgement", "§5.13-1", Level::kMust,
           "A lost transmission that is acknowledged MUST count as acknowledged: its packet is accepted, and "
           "the copy in flight leaves the window.",
           exact, late_acknowledgement_counts},
          {"5.15/void-when-given-up", "§5.15-1", Level::kMust,
           "A sender MUST replace every packet that is not accepted by VOID when its message is given up: "
           "flush and error of the queue pair, destruction, an RNR NAK (§8.14), STREAM_STOP.",
           requester, void_when_given_up},
          {"5.16/nak-for-accepted", "§5.16-2", Level::kMust,
           "A sender MUST ignore a NAK for a packet that is accepted, that it does not have, or that is no "
           "request (any more).",
           requester, nak_for_accepted_ignored},
          {"3.7/nak-without-code", "§3.7-7", Level::kMust,
           "A receiver MUST drop an ACK as malformed if the code of a NAK is 0 or not in fields.md.",
           requester, nak_without_code},
          {"5.17/asks-for-credit", "§5.17-1", Level::kMust,
           "A sender that waits for a credit (§8.11) MUST send a PROBE of kind 0 with AR after one PTO(n) "
           "(§5.11), and again at intervals that double up to 100 ms for as long as it waits.",
           requester, asks_for_credit},
          {"5.17/question-answered",
           "§5.17-3",
           Level::kMust,
           "The answer MUST be PROBE_ACK, and an ACK with all path blocks, the CPSN limit and an RQ_CREDIT "
           "for each stream named that is an open half on this connection.",
           {},
           question_for_credit_answered},
      });
}

}  // namespace mroce::comply
