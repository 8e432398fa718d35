// §9.1, §9.2, §9.6, §9.9, §9.11 and §9.12 at the requester.
#include "comply/section.h"

namespace mroce::comply {
namespace {

// The answer of the tester to a READ or atomic of the target.
Sent respond(Bench& b, const Packet& request, const Bytes& bytes, NakCode status = NakCode::kNone) {
  wire::Data data;
  data.op = request.is(DataOp::kReadReq) ? DataOp::kReadResp : DataOp::kAtomicResp;
  data.stream = static_cast<uint16_t>(b.qp.qpn);
  data.rdslot = request.data->rdslot;
  data.status = status;
  if (data.op == DataOp::kReadResp) {
    data.length = request.data->length;
    return b.connection.send_data(data, bytes, {.flags = kAr});
  }
  data.operand = 4711;
  return b.connection.send_data(data, {}, {.flags = kAr});
}

void messages_are_cut(Tester& t) {
  Bench b(t);
  b.write_memory(0, pattern(3000));
  b.post(b.work(1, WorkOp::kWrite, 3000));
  b.expect_completion(1, "SUCCESS");
  const auto pieces = t.all(b.of(DataOp::kWrite));
  check(pieces.size() == 3, "another number of packets");
  Bytes whole(3000);
  for (const Packet* p : pieces) {
    check(p->data->offset % b.connection.mtu() == 0, "an offset that is no multiple of the payload MTU");
    check(p->data->offset / b.connection.mtu() == 2 || p->payload.size() == b.connection.mtu(),
          "a short one");
    check(p->data->va == 0x5000 && p->data->rkey == 0x77 && p->data->length == 3000, "VA, key or length");
    check(p->data->msn == pieces[0]->data->msn, "MSN");
    std::copy(p->payload.begin(), p->payload.end(), whole.begin() + p->data->offset);
  }
  check(whole == pattern(3000), "other bytes than in memory");
}

void same_fields_in_all_packets(Tester& t) {
  Bench b(t);
  Work work = b.work(1, WorkOp::kWriteImm, 3000);
  work.imm = 0xa1b2c3d4;
  work.solicited = true;
  b.post(work);
  b.expect_completion(1, "SUCCESS");
  for (const Packet* p : t.all(b.of(DataOp::kWriteImm))) {
    check(p->data->imm == 0xa1b2c3d4 && p->data->rqsn == 0, "immediate or RQSN differ");
    check(p->has(wire::flag::kSolicited), "SE is not set on all packets");
  }
}

void empty_message(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kSend, 0));
  const Packet& p = t.expect(b.of(DataOp::kSend), "SEND");
  check(p.data->length == 0 && p.payload.empty(), "it is not empty");
  b.expect_completion(1, "SUCCESS");
}

void numbers_of_messages(Tester& t) {
  Bench b(t);
  for (uint64_t i = 0; i < 4; ++i) b.post(b.work(i, i % 2 == 0 ? WorkOp::kSend : WorkOp::kWrite, 10));
  for (uint64_t i = 0; i < 4; ++i) b.expect_completion(i, "SUCCESS");
  const uint32_t first = b.connection.half(b.own_qpn()).first_msn;
  const auto all = t.all([&](const Packet& p) { return b.of(DataOp::kSend)(p) || b.of(DataOp::kWrite)(p); });
  check(all.size() == 4, "another number of packets");
  for (uint32_t i = 0; i < 4; ++i) {
    check(all[i]->data->msn == first + i, "MSNs do not count messages in posting order");
    if (i % 2 == 0) check(all[i]->data->rqsn == i / 2, "RQSNs do not count those that consume a receive");
  }
}

void completion_needs_acceptance(Tester& t) {
  Bench b(t);
  b.connection.lose = [&](const Packet& p) { return p.is(DataOp::kWrite) && p.data->offset != 0; };
  b.post(b.work(1, WorkOp::kWrite, 3000));
  b.post(b.work(2, WorkOp::kWrite, 10));
  b.expect_no_completion(millis(30));
  b.connection.lose = {};
  b.expect_completion(1, "SUCCESS");
  b.expect_completion(2, "SUCCESS");
}

void read_of_target(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kRead, 1000, 200));
  const Packet& request = t.expect(b.of(DataOp::kReadReq), "READ_REQ");
  check(request.data->va == 0x5000 && request.data->length == 1000, "its address or length");
  b.expect_no_completion();
  respond(b, request, pattern(1000));
  b.expect_completion(1, "SUCCESS");
  check(b.memory(200, 1000) == pattern(1000), "the response is not in memory");
}

void malformed_response(Tester& t) {
  for (const bool other_length : {true, false}) {
    Bench b(t);
    b.post(b.work(1, WorkOp::kRead, 1000));
    const Packet request = t.expect(b.of(DataOp::kReadReq), "READ_REQ");
    wire::Data data;
    data.op = DataOp::kReadResp;
    data.stream = static_cast<uint16_t>(b.qp.qpn);
    data.rdslot = request.data->rdslot;
    data.length = other_length ? 999 : 1000;
    data.offset = other_length ? 0 : 8;
    const Sent sent = b.connection.send_data(data, pattern(other_length ? 999 : 992), {.flags = kAr});
    b.connection.expect_accepted(sent);
    b.expect_completion(1, "REM_OP_ERR");
    check(b.memory(0, 1000) == Bytes(1000), "it was placed");
  }
}

void response_with_status(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kRead, 1000));
  b.post(b.work(2, WorkOp::kWrite, 10));
  respond(b, t.expect(b.of(DataOp::kReadReq), "READ_REQ"), {}, NakCode::kAccess);
  b.expect_completion(1, "REM_ACCESS_ERR");
  b.expect_completion(2, "WR_FLUSH_ERR");
  b.expect_state("err");
}

void atomics_of_target(Tester& t) {
  Bench b(t);
  Work work = b.work(1, WorkOp::kCompareSwap, 8, 400);
  work.compare = 0x1111222233334444;
  work.swap = 0x5555666677778888;
  b.post(work);
  const Packet& request = t.expect(b.of(DataOp::kCompareSwap), "COMPARE_SWAP");
  check(request.data->compare == work.compare && request.data->operand == work.swap, "its operands");
  check(request.data->length == 8, "its length is not 8");
  respond(b, request, {});
  b.expect_completion(1, "SUCCESS");
  check(b.word(400) == 4711, "the value before is not in memory");
}

void limit_of_reads(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.rd_atomic = 2; }});
  for (uint64_t i = 0; i < 5; ++i) b.post(b.work(i, WorkOp::kRead, 100));
  const Packet first = t.expect(b.of(DataOp::kReadReq), "READ_REQ");
  t.expect(b.of(DataOp::kReadReq), "the second READ_REQ");
  t.expect_none(b.of(DataOp::kReadReq), "a third READ_REQ");
  respond(b, first, pattern(100));
  t.expect(b.of(DataOp::kReadReq), "the third READ_REQ");
}

void peer_serves_no_reads(Tester& t) {
  Bench b(t, {.shape = [](Connection& c) { c.rd_atomic = 0; }});
  b.post(b.work(1, WorkOp::kRead, 100));
  b.expect_completion(1, "REM_INV_REQ_ERR");
}

void fence(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kRead, 100));
  Work work = b.work(2, WorkOp::kWrite, 10);
  work.fence = true;
  b.post(work);
  const Packet request = t.expect(b.of(DataOp::kReadReq), "READ_REQ");
  t.expect_none(b.of(DataOp::kWrite), "the WRITE with a fence");
  respond(b, request, pattern(100));
  t.expect(b.of(DataOp::kWrite), "the WRITE");
  b.expect_completion(1, "SUCCESS");
  b.expect_completion(2, "SUCCESS");
}

void completions_in_order(Tester& t) {
  Bench b(t);
  b.post(b.work(1, WorkOp::kRead, 100));
  b.post(b.work(2, WorkOp::kWrite, 10));
  const Packet request = t.expect(b.of(DataOp::kReadReq), "READ_REQ");
  t.expect(b.of(DataOp::kWrite), "WRITE");
  b.expect_no_completion();
  respond(b, request, pattern(100));
  b.expect_completion(1, "SUCCESS");
  b.expect_completion(2, "SUCCESS");
}

void statuses_of_naks(Tester& t) {
  const std::pair<NakCode, const char*> kAll[] = {{NakCode::kAccess, "REM_ACCESS_ERR"},
                                                  {NakCode::kInvalid, "REM_INV_REQ_ERR"},
                                                  {NakCode::kLength, "REM_INV_REQ_ERR"},
                                                  {NakCode::kRemoteOp, "REM_OP_ERR"}};
  for (const auto& [code, status] : kAll) {
    Bench b(t);
    b.connection.lose = [](const Packet& p) { return p.is(DataOp::kWrite); };
    b.post(b.work(1, WorkOp::kWrite, 10));
    b.post(b.work(2, WorkOp::kWrite, 10));
    t.until([&] { return t.count(b.of(DataOp::kWrite)) != 0; }, "WRITE");
    wire::Ack ack = b.connection.current_ack();
    ack.nnaks = 1;
    ack.naks[0] = {t.all(b.of(DataOp::kWrite))[0]->data->cpsn, code, 0};
    b.connection.send_ack(ack);
    t.expect(b.of(DataOp::kVoid), "VOID in the place of what was refused");
    b.expect_completion(1, status);
    b.expect_completion(2, "WR_FLUSH_ERR");
    b.expect_state("err");
  }
}

void local_region_gone(Tester& t) {
  Bench b(t);
  const Region other = t.target().create_mr(4096, 15);
  b.connection.accept_streams = false;
  Work work = b.work(1, WorkOp::kWrite, 100);
  work.mr = other.id;
  b.post(work);
  const Packet& open = t.expect(b.of(DataOp::kStreamOpen), "STREAM_OPEN");
  t.target().destroy_mr(other.id);
  b.connection.send_control(DataOp::kStreamAccept, b.qp.qpn,
                            {.src_qpn = b.own_qpn(),
                             .dst_qpn = b.qp.qpn,
                             .incarnation = open.control->incarnation,
                             .rd_atomic = 16},
                            0, {.flags = kAr});
  b.expect_completion(1, "LOC_PROT_ERR");
  check(t.count(b.of(DataOp::kWrite)) == 0, "a WRITE was sent");
}

}  // namespace

void add_requester(std::vector<Assertion>& out) {
  const auto requester = std::vector{Feature::kRequester};
  const auto reads = std::vector{Feature::kRequester, Feature::kRead};
  out.insert(
      out.end(),
      {
          {"9.1/cut-at-payload-mtu", "§9.1-2", Level::kMust,
           "A message MUST be cut at multiples of the payload MTU: every packet but the last carries exactly "
           "that much, and `offset` is a multiple of it.",
           requester, messages_are_cut},
          {"9.1/same-fields-in-all-packets", "§9.1-4", Level::kMust,
           "All packets of a message MUST carry the same opcode, length, VA, rkey, RQSN, immediate, RDSLOT "
           "and flag SE.",
           requester, same_fields_in_all_packets},
          {"9.1/empty-message", "§9.1-3", Level::kMust,
           "An empty message MUST be one packet without payload.", requester, empty_message},
          {"2.3/message-numbers", "§2.3-6", Level::kMust,
           "RQSNs MUST be given in MSN order, without gaps, to exactly the messages that consume a receive, "
           "from 0 in each incarnation.",
           requester, numbers_of_messages},
          {"9.9/done-when-accepted", "§9.9-1", Level::kMust,
           "A work request MUST NOT complete with success before it is done, except by §8.6-6.", requester,
           completion_needs_acceptance},
          {"9.6/read-of-the-requester", "§9.6-8", Level::kMust,
           "The payload goes to the READ's scatter list on arrival; if a local region does not allow that, "
           "the work request MUST fail with LOC_PROT_ERR.",
           reads, read_of_target},
          {"9.6/malformed-response", "§9.6-7", Level::kMust,
           "If length, offset or size of payload are not those of §9.1 for this READ, the response MUST be "
           "counted as malformed, placed nowhere, and let the work request fail with REM_OP_ERR.",
           reads, malformed_response},
          {"9.6/response-with-status", "§9.6-6", Level::kMust,
           "By a response with a status other than 0 the work request MUST fail (§9.12).", reads,
           response_with_status},
          {"9.8/atomics-of-the-requester",
           "§9.8-5",
           Level::kMust,
           "ATOMIC_RESP MUST carry the value before.",
           {Feature::kRequester, Feature::kAtomics},
           atomics_of_target},
          {"8.4/limit-of-reads", "§8.4-1", Level::kMust,
           "ACCEPT for the current incarnation of a half in OPENING MUST make it OPEN, with a limit of "
           "outstanding READs and atomics that is the smaller of `rd_atomic` and the queue pair's own "
           "max_rd_atomic.",
           reads, limit_of_reads},
          {"9.2/peer-serves-no-reads", "§9.2-7", Level::kMust,
           "If the limit of §8.4-1 is 0, a READ or atomic MUST fail: with LOC_QP_OP_ERR if the queue pair's "
           "own max_rd_atomic is 0, else with REM_INV_REQ_ERR.",
           reads, peer_serves_no_reads},
          {"9.2/own-keys-checked", "§9.2-9", Level::kMust,
           "The sender MUST check its own keys when it sends (the region of an SGE may be gone): if a byte "
           "cannot be read the work request fails with LOC_PROT_ERR and the packet goes out as VOID.",
           requester, local_region_gone},
          {"9.11/fence", "§9.11-1", Level::kMust,
           "A work request with a fence MUST NOT start before all READs and atomics before it are done.",
           reads, fence},
          {"9.9/completions-in-order", "§9.9-2", Level::kMust,
           "Completions of a queue pair MUST be delivered in posting order.", reads, completions_in_order},
          {"9.12/statuses", "§9.12-10", Level::kMust,
           "What happened MUST lead to the status and events of this table.", requester, statuses_of_naks},
      });
}

}  // namespace mroce::comply
