// §3.12 to §3.14: the checks on arrival, in their order, and sizes.
#include <algorithm>

#include "comply/section.h"

namespace mroce::comply {
namespace {

void flip_last_byte(Bytes& bytes) {
  bytes.back() ^= std::byte{1};
}

void bad_trailer_dropped(Tester& t) {
  Bench b(t);
  const Message message = b.stream.write(b.region, 0, pattern(40));
  const Sent bad = b.stream.send_piece(
      message, 0, {.flags = kAr, .cpsn = b.connection.next_cpsn(), .damage = flip_last_byte});
  b.connection.expect_not_accepted(bad, "a datagram with a wrong trailer");
  check(b.memory(0, 40) == Bytes(40), "a damaged datagram was placed");
  const Sent changed = b.stream.send_piece(
      message, 0, {.flags = kAr, .cpsn = b.connection.next_cpsn(), .damage = [](Bytes& bytes) {
                     bytes[50] ^= std::byte{0x40};
                   }});
  b.connection.expect_not_accepted(changed, "a datagram with a changed payload");
  b.stream.msn = 0;
  expect_alive(b);
}

// A damaged datagram with a far higher PSEQ must leave no trace in what the receiver says of the path.
void no_state_from_failed_checks(Tester& t) {
  Bench b(t);
  const Sent first = b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10)));
  const uint32_t count = expect_block(b, 0, first.pseq).rx_count;
  const Message message = b.stream.write(b.region, 0, pattern(10));
  b.stream.send_piece(
      message, 0,
      {.flags = kAr, .cpsn = b.connection.next_cpsn(), .pseq = first.pseq + 500, .damage = flip_last_byte});
  t.forget();
  const Sent next = b.stream.send(message);
  const wire::PathBlock block = expect_block(b, 0, next.pseq);
  check(block.largest == next.pseq, "LARGEST followed a damaged datagram");
  check(block.rx_count == count + 1, "RX count has a damaged datagram in it");
}

void short_datagrams_dropped(Tester& t) {
  Bench b(t);
  expect_dropped(b, [&] {
    for (const size_t length : std::initializer_list<size_t>{0, 1, 15, 19})
      t.send(Bytes(length, std::byte{0x14}));
  });
}

void small_init_dropped(Tester& t) {
  Bench b(t, {.open_connection = false});
  const auto shorten = [](Bytes& bytes) { bytes.resize(1199 - wire::kTrailerBytes); };
  b.connection.send_init({.shape = shorten});
  t.expect_none([](const Packet&) { return true; }, "an answer to an INIT of 1199 bytes");
  b.connection.open();
}

void version_answered(Tester& t) {
  Bench b(t, {.open_connection = false});
  b.connection.send_init(
      {.origin = {.source = 2}, .shape = [](Bytes& bytes) { bytes[0] = std::byte{0x70}; }});
  const Packet& answer = t.expect(type(Type::kVersion), "VERSION");
  check(answer.good_trailer && answer.version.has_value(), "VERSION is not well formed");
  check(answer.header->dcid == 0, "DCID of VERSION is not that of the INIT");
  check(answer.header->pseq == 0, "PSEQ of VERSION is not 0");
  const auto& versions = answer.version->versions;
  check(std::find(versions.begin(), versions.begin() + answer.version->count, wire::kVersion) !=
            versions.begin() + answer.version->count,
        "VERSION does not list version 1");
  check(answer.to_source_port, "VERSION went to the listening port, not to the source of the INIT");
}

void version_not_for_everything(Tester& t) {
  Bench b(t);
  Connection other(t);
  expect_dropped(b, [&] {
    const auto foreign = [](Bytes& bytes) { bytes[0] = (bytes[0] & std::byte{0x0f}) | std::byte{0x70}; };
    b.connection.send_probe({.token = 3}, 0, {.flags = kAr, .shape = foreign});
    other.send_init({.shape = [&](Bytes& bytes) {
      foreign(bytes);
      bytes.resize(1100);
    }});
    other.send_init({.shape = foreign, .damage = flip_last_byte});
  });
}

void path_out_of_range(Tester& t) {
  Bench b(t);
  const Sent sent = b.stream.send_piece(
      b.stream.write(b.region, 0, pattern(10)), 0,
      {.path = 64, .flags = kAr, .cpsn = b.connection.next_cpsn(), .pseq = b.connection.next_pseq(0)});
  b.connection.expect_not_accepted(sent, "a packet of path 64");
  b.stream.msn = 0;
  expect_alive(b);
}

void unknown_dcid(Tester& t) {
  Bench b(t);
  expect_dropped(b, [&] {
    const uint32_t wrong = b.connection.peer().scid ^ 0x5a5a5a5aU;
    b.connection.send_probe({.token = 1}, 0, {.flags = kAr, .dcid = wrong});
    b.connection.send_data(
        {.stream = static_cast<uint16_t>(b.qp.qpn)}, {},
        {.flags = kAr, .cpsn = b.connection.next_cpsn(), .pseq = b.connection.next_pseq(0), .dcid = wrong});
    b.connection.send_close(b.connection.base(), {.dcid = wrong});
    b.connection.send_reset(b.connection.init.reset_token, {.dcid = wrong});
  });
}

void wild_pseq(Tester& t) {
  Bench b(t);
  const Message message = b.stream.write(b.region, 0, pattern(10));
  const uint32_t next = b.connection.next_pseq(0);
  for (const uint32_t pseq : {next + 70'000, next - 70'000, next + 0x7fffffffU}) {
    const Sent sent =
        b.stream.send_piece(message, 0, {.flags = kAr, .cpsn = b.connection.next_cpsn(), .pseq = pseq});
    b.connection.expect_not_accepted(sent, fmt::format("PSEQ {} behind {}", pseq, next - 1));
  }
  check(b.memory(0, 10) == Bytes(10), "it was placed");
  b.connection.expect_accepted(b.stream.send(message));
}

void wild_first_pseq(Tester& t) {
  Bench b(t);
  const Message message = b.stream.write(b.region, 0, pattern(10));
  const uint32_t first = b.connection.init.first_pseq;
  for (const uint32_t pseq : {first - 1, first + 65'537}) {
    const Sent sent = b.stream.send_piece(
        message, 0, {.path = 1, .flags = kAr, .cpsn = b.connection.next_cpsn(), .pseq = pseq});
    b.connection.expect_not_accepted(sent, fmt::format("PSEQ {} on a new path", pseq));
  }
  b.connection.expect_accepted(b.stream.send_piece(message, 0, {.path = 1, .flags = kAr}));
}

void cpsn_at_limit(Tester& t) {
  Bench b(t);
  b.stream.send_and_wait(b.stream.write(b.region, 100, pattern(10)));
  t.run_for(millis(5));
  const Message message = b.stream.write(b.region, 0, pattern(10));
  const uint32_t limit = b.connection.cack() + b.connection.window();
  for (const uint32_t cpsn : {limit, limit + 5000, limit + 0x70000000U}) {
    const Sent sent = b.stream.send_piece(message, 0, {.flags = kAr, .cpsn = cpsn});
    b.connection.expect_not_accepted(sent, fmt::format("CPSN {} with limit {}", cpsn, limit));
  }
  check(b.memory(0, 10) == Bytes(10), "it was placed");
  const Sent last = b.stream.send_piece(message, 0, {.flags = kAr, .cpsn = limit - 1});
  b.connection.expect_accepted(last, "the acknowledgement of the last CPSN below the limit");
}

void cpsn_far_below(Tester& t) {
  Bench b(t);
  const Message message = b.stream.write(b.region, 0, pattern(10));
  const uint32_t far = b.connection.cack() - 2 * b.connection.window() - (1U << 20) - 10;
  const Sent sent = b.stream.send_piece(message, 0, {.flags = kAr, .cpsn = far});
  t.run_for(millis(20));
  for (const Packet* p : t.all([&](const Packet& p) { return p.block(0) != nullptr; }))
    check(!says_received(*p->block(0), sent.pseq), "a CPSN from long ago was acknowledged");
  check(b.memory(0, 10) == Bytes(10), "it was placed");
}

void source_does_not_decide(Tester& t) {
  Bench b(t);
  const Sent sent = b.stream.send_piece(b.stream.write(b.region, 0, pattern(40)), 0,
                                        {.flags = kAr, .origin = {.source = 3, .stranger = true}});
  b.connection.expect_accepted(sent, "the acknowledgement of a packet from another source address");
  check(b.memory(0, 40) == pattern(40), "a packet from another source address was not placed");
  check(t.count([](const Packet& p) { return p.to_stranger; }) == 0, "something was sent to that address");
  b.connection.send_probe({.token = 4}, 0, {.flags = kAr, .origin = {.stranger = true}});
  t.expect(type(Type::kProbeAck), "PROBE_ACK at the peer's address");
  check(t.count([](const Packet& p) { return p.to_stranger; }) == 0, "something was sent to that address");
}

void full_packet_size(Tester& t) {
  Bench b(t);
  Work work = b.work(1, WorkOp::kWriteImm, 10'000);
  b.post(work);
  b.expect_completion(1, "SUCCESS");
  const auto pieces = t.all(b.of(DataOp::kWriteImm));
  check(pieces.size() == (10'000 + b.connection.mtu() - 1) / b.connection.mtu(), "another number of packets");
  for (const Packet* p : pieces)
    check(p->bytes.size() <= b.connection.mtu() + 60, "a datagram is larger than payload MTU + 60");
}

}  // namespace

void add_checks(std::vector<Assertion>& out) {
  out.insert(out.end(),
             {
                 {"3.13/bad-trailer-dropped",
                  "§3.13-7",
                  Level::kMust,
                  "Check: one whose trailer is wrong MUST be dropped.",
                  {},
                  bad_trailer_dropped},
                 {"3.13/no-state-from-failed-checks",
                  "§3.13-1",
                  Level::kMust,
                  "A receiver MUST make these checks in this order, and change no state of a connection "
                  "before a datagram has passed all that concern it.",
                  {},
                  no_state_from_failed_checks},
                 {"3.13/short-datagrams",
                  "§3.13-4",
                  Level::kMust,
                  "Check: a datagram of less than 20 bytes MUST be dropped.",
                  {},
                  short_datagrams_dropped},
                 {"3.13/version-answered",
                  "§3.13-6",
                  Level::kShould,
                  "Check: an INIT of another version, of at least 1200 bytes and with a good trailer, SHOULD "
                  "be answered with VERSION (§4.12).",
                  {},
                  version_answered},
                 {"4.12/version-only-for-init",
                  "§4.12-3",
                  Level::kMust,
                  "VERSION MUST NOT be sent for anything but such an INIT.",
                  {},
                  version_not_for_everything},
                 {"3.13/small-init",
                  "§3.13-8",
                  Level::kMust,
                  "Check: an INIT of less than 1200 bytes, trailer included, MUST be dropped.",
                  {},
                  small_init_dropped},
                 {"3.13/path-number",
                  "§3.13-9",
                  Level::kMust,
                  "Check: one with a path number above 63 MUST be dropped.",
                  {},
                  path_out_of_range},
                 {"3.13/unknown-dcid",
                  "§3.13-10",
                  Level::kMust,
                  "Check: one whose DCID names no connection MUST be dropped.",
                  {},
                  unknown_dcid},
                 {"3.13/wild-pseq",
                  "§3.13-13",
                  Level::kMust,
                  "Check: DATA whose PSEQ is more than 65,536 from the highest seen on the path, or before "
                  "the first of a path is below `first_pseq` or more than 65,536 above it, MUST be dropped.",
                  {},
                  wild_pseq},
                 {"3.13/wild-first-pseq",
                  "§3.13-13",
                  Level::kMust,
                  "Check: DATA whose PSEQ is more than 65,536 from the highest seen on the path, or before "
                  "the first of a path is below `first_pseq` or more than 65,536 above it, MUST be dropped.",
                  {},
                  wild_first_pseq},
                 {"3.13/cpsn-at-limit",
                  "§3.13-14",
                  Level::kMust,
                  "Check: DATA whose CPSN is not below the limit, or is more than 2 windows + 2^20 below the "
                  "lowest that is missing, MUST be dropped.",
                  {},
                  cpsn_at_limit},
                 {"3.13/cpsn-far-below",
                  "§3.13-14",
                  Level::kMust,
                  "Check: DATA whose CPSN is not below the limit, or is more than 2 windows + 2^20 below the "
                  "lowest that is missing, MUST be dropped.",
                  {},
                  cpsn_far_below},
                 {"3.13/source-does-not-decide",
                  "§3.13-16",
                  Level::kMust,
                  "The source address and source UDP port of a datagram MUST NOT decide to which connection "
                  "it belongs or where its receiver sends.",
                  {},
                  source_does_not_decide},
                 {"3.14/full-packet-size",
                  "§3.14-1",
                  Level::kMust,
                  "A sender MUST NOT send a DATA or PROBE datagram larger than the full packet size.",
                  {Feature::kRequester},
                  full_packet_size},
             });
}

}  // namespace mroce::comply
