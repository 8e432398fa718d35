// §10.1 and §10.3: mode 2. The tester has the keys by its own reading of the specification (sealing.h); that
// anything opens at either end says already that keys, nonces and associated data are right.
#include <algorithm>
#include <set>
#include <tuple>

#include "comply/secured.h"

namespace mroce::comply {
namespace {

constexpr std::byte kFlip{0x01};

Match ack_for(const Connection& connection) {
  return [&connection](const Packet& p) { return p.is(Type::kInitAck) && connection.mine(p); };
}

// A target that calls the tester.
struct SecuredCaller : Bench {
  explicit SecuredCaller(Tester& t) : Bench(t, secured(false)) { post(work(1, WorkOp::kWrite, 100)); }
  const Packet& expect_init() {
    return tester.expect([](const Packet& p) { return p.is(Type::kInit) && p.init; }, "INIT");
  }
};

// ---- §10.1, §10.3.1: who talks to whom

void higher_mode(Tester& t) {
  Bench b(t, secured(false));
  b.connection.use_mode2(psk(), 0x05);
  check(b.connection.open().init->security == 2, "the mode is not 2");
  b.stream.open();
  expect_alive(b);
}

void mode_0_refused(Tester& t) {
  Bench b(t, secured(false));
  const wire::Init good = b.connection.init;
  b.connection.init.security = 1;
  b.connection.send_init();
  b.connection.init.has_key_share = false;
  b.connection.send_init();
  t.expect_none(anything(), "an answer to an INIT of mode 0");
  b.connection.init = good;
  b.connection.open();
}

void offers_mode_2_only(Tester& t) {
  SecuredCaller b(t);
  const Packet& init = b.expect_init();
  check(init.good_trailer, "INIT has no CRC");
  check(init.init->security == 4, fmt::format("it offers {:#x}", init.init->security));
}

void init_has_key_share(Tester& t) {
  SecuredCaller b(t);
  const Packet& init = b.expect_init();
  check(init.init->has_key_share, "INIT that offers mode 2 has no KEY_SHARE");
  b.connection.answer_init(init);
  b.expect_completion(1, "SUCCESS");
  Bench other(t, secured(false));
  check(other.connection.open().init->has_key_share, "INIT_ACK has no KEY_SHARE");
}

void fresh_key_shares(Tester& t) {
  Bench b(t, secured());
  Connection second(t);
  second.use_mode2(psk());
  second.open();
  check(second.peer().key_share.public_key != b.connection.peer().key_share.public_key,
        "two connections have the same public key");
}

void key_id(Tester& t) {
  Bench b(t, secured(false));
  check(b.connection.open().init->key_share.key_id == key_id_of(psk()), "the key id is another one");
  BenchOptions without = secured(false);
  without.start.psk.clear();
  without.shape = [](Connection& c) { c.use_mode2({}); };
  Bench open_to_all(t, without);
  check(open_to_all.connection.open().init->key_share.key_id == std::array<uint8_t, 8>{},
        "without a pre-shared key the key id is not zero");
  open_to_all.stream.open();
  expect_alive(open_to_all);
}

void expect_share_refused(Tester& t, const std::function<void(wire::Init&)>& change) {
  Bench b(t, secured(false));
  const wire::Init good = b.connection.init;
  change(b.connection.init);
  b.connection.send_init();
  t.expect_none(anything(), "an answer");
  b.connection.init = good;
  b.connection.open();
}

void no_key_share(Tester& t) {
  expect_share_refused(t, [](wire::Init& init) { init.has_key_share = false; });
}
void another_key_id(Tester& t) {
  for (const size_t byte : std::initializer_list<size_t>{0, 3, 7})
    expect_share_refused(t, [=](wire::Init& init) { init.key_share.key_id[byte] ^= 1; });
  expect_share_refused(t, [](wire::Init& init) { init.key_share.key_id = {}; });
}
void all_zero_result(Tester& t) {
  for (const uint8_t point : std::initializer_list<uint8_t>{0, 1}) {
    expect_share_refused(t, [=](wire::Init& init) { init.key_share.public_key = {point}; });
  }
}

void tag_of_init_ack(Tester& t) {
  Bench b(t, secured(false));
  const Packet& answer = b.connection.open();  // looks at the tag
  check(answer.bytes.size() == b.connection.init_bytes(), "its size is not that of the INIT");
  check(!answer.good_trailer, "INIT_ACK of mode 2 ends in a CRC");
}

void altered_init_ack(Tester& t) {
  SecuredCaller b(t);
  const Packet& init = b.expect_init();
  Bytes good;
  b.connection.answer_init(init, {.hold = &good});
  // All of the header, fields, ports and KEY_SHARE, the tag, and some of the padding.
  for (size_t at = 0; at < good.size(); at += at < 200 || at >= good.size() - 40 ? 1 : 41) {
    Bytes changed = good;
    changed[at] ^= kFlip;
    send_raw(t, std::move(changed));
  }
  t.expect_none([](const Packet& p) { return p.header && !p.is(Type::kInit); },
                "something but INIT after an altered INIT_ACK");
  send_raw(t, std::move(good));
  b.expect_completion(1, "SUCCESS");
}

void repetition_of_another_init(Tester& t) {
  Bench b(t, secured(false));
  b.connection.send_init();
  const uint32_t first = t.expect(ack_for(b.connection), "INIT_ACK").init->scid;
  b.connection.send_init();
  check(t.expect(ack_for(b.connection), "INIT_ACK again").init->scid == first,
        "the same INIT began another connection");
  b.connection.init.receive_buffer += 1;
  check(b.connection.open().init->scid != first,
        "an INIT with another transcript was taken for a repetition");
  b.stream.open();
}

void silent_once_heard(Tester& t) {
  Bench b(t, secured());
  t.run_for(millis(5));
  t.forget();
  b.connection.send_init();
  t.expect_none(type(Type::kInitAck), "INIT_ACK");
}

// ---- §10.3.2, §10.3.3: keys and datagrams

void keys(Tester& t) {
  Bench b(t, secured());
  b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(5000)));
  check(b.memory(0, 5000) == pattern(5000), "the WRITE was not placed");
  b.connection.send_probe({.token = 3}, 0, {.path = 3, .flags = kAr});  // each path counts for itself
  t.expect(type(Type::kProbeAck), "PROBE_ACK for a PROBE of path 3");
}

void keys_of_an_initiator(Tester& t) {
  SecuredCaller b(t);
  b.connection.answer_init(b.expect_init());
  b.expect_completion(1, "SUCCESS");
  check(b.connection.unopened() == 0, "a datagram does not open");
}

void cookie_not_in_transcript(Tester& t) {
  SecuredCaller b(t);
  const Packet& init = b.expect_init();
  wire::Retry retry{init.init->nonce, {}};
  retry.cookie.length = 30;
  b.connection.send_retry(init.init->scid, retry);
  const Packet& again =
      t.expect([](const Packet& p) { return p.is(Type::kInit) && p.init && p.init->cookie.length != 0; },
               "INIT with the cookie");
  check(again.init->key_share == init.init->key_share, "KEY_SHARE is another one");
  b.connection.answer_init(again);
  b.expect_completion(1, "SUCCESS");
}

void payload_encrypted(Tester& t) {
  Bench b(t, secured());
  const Bytes secret = pattern(900, 5);
  b.write_memory(0, secret);
  b.post(b.work(1, WorkOp::kWrite, 900));
  const Packet& packet = t.expect(b.of(DataOp::kWrite), "the WRITE");
  check(packet.payload == secret, "what was decrypted is something else");
  const auto found =
      std::search(packet.bytes.begin(), packet.bytes.end(), secret.begin(), secret.begin() + 8);
  check(found == packet.bytes.end(), "the payload can be read in the datagram");
  b.expect_completion(1, "SUCCESS");
}

void others_in_clear(Tester& t) {
  Bench b(t, secured());
  b.connection.send_probe({.token = 0x1122334455667788}, 0, {.flags = kAr});
  const Packet& answer = t.expect(type(Type::kProbeAck), "PROBE_ACK");
  wire::ProbeAck read;
  const std::span<const std::byte> all(answer.bytes);
  check(wire::decode_probe_ack(all.first(all.size() - wire::kTagBytes), read) &&
            read.token == 0x1122334455667788,
        "PROBE_ACK cannot be read without its key");
}

void all_have_tags(Tester& t) {
  BenchOptions options = secured();
  options.receives = 1;
  Bench b(t, options);
  b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(5000)));
  b.stream.send_and_wait(b.stream.message(pattern(50)));
  b.post(b.work(1, WorkOp::kWrite, 10'000));
  b.connection.send_probe({.token = 1}, 0, {.flags = kAr});
  t.expect(type(Type::kProbeAck), "PROBE_ACK");
  t.until([&] { return t.count(b.of(DataOp::kWrite)) >= 10; }, "ten packets of the WRITE");
  t.target().stop();
  t.expect(type(Type::kClose), "CLOSE");
  check(b.connection.unopened() == 0, fmt::format("{} datagrams do not open", b.connection.unopened()));
  for (const Packet& p : t.log())
    check(p.sent || !b.connection.mine(p) || p.is(Type::kInitAck) || p.sealed, "no tag: " + describe(p));
}

void crc_of_exists(Tester& t) {
  Bench b(t, secured());
  Connection again(t);
  again.init.endpoint_id = b.connection.init.endpoint_id;
  again.use_mode2(psk());
  again.send_init();
  const Packet& answer = t.expect(ack_for(again), "INIT_ACK");
  check((answer.init->flags & 1) != 0, "it does not say EXISTS");
  check(answer.good_trailer, "its trailer is not the CRC");
}

void nonce_once(Tester& t) {
  BenchOptions options = secured();
  options.shape = [](Connection& c) {
    c.init.max_paths = 4;
    c.use_mode2(psk());
  };
  Bench b(t, options);
  uint32_t seen = 0;
  b.connection.lose = [&](const Packet& p) {
    return p.data && ++seen % 5 == 0;
  };  // so that much is sent again
  for (uint64_t i = 1; i <= 5; ++i) b.post(b.work(i, WorkOp::kWrite, 20'000));
  b.stream.send(b.stream.write(b.region, 100'000, pattern(5000)));
  for (uint64_t i = 1; i <= 5; ++i) b.expect_completion(i, "SUCCESS", seconds(5));
  check(b.connection.unopened() == 0, "a datagram does not open");
  std::set<std::tuple<bool, uint8_t, uint32_t>> used;
  size_t sealed = 0;
  for (const Packet& p : t.log()) {
    const bool first = p.is(Type::kInitAck) && b.connection.mine(p);
    if (p.sent || (!p.sealed && !first)) continue;
    ++sealed;
    check(used.insert({p.is(Type::kData), p.header->path, p.header->pseq}).second,
          "its nonce was used before: " + describe(p));
  }
  check(sealed > 100, "too few datagrams to say");
}

// ---- §10.3.4: phases

void update_followed(Tester& t) {
  Bench b(t, secured());
  for (uint32_t i = 0; i < 5; ++i) {
    b.connection.sealing().update();
    b.stream.send_and_wait(b.stream.write(b.region, i * 100, pattern(100, i)));
    check(b.memory(i * 100, 100) == pattern(100, i), "the WRITE of a new phase was not placed");
    b.connection.send_probe({.token = i}, 0, {.flags = kAr});
    t.expect(type(Type::kProbeAck), "PROBE_ACK in a new phase");
  }
}

void late_of_phase_before(Tester& t) {
  Bench b(t, secured());
  Bytes late;
  const Sent held = b.stream.send_piece(b.stream.write(b.region, 0, pattern(100)), 0, {.hold = &late});
  b.connection.sealing().update();
  const Sent sent = b.stream.send_piece(b.stream.write(b.region, 200, pattern(100, 2)), 0, {.flags = kAr});
  b.connection.expect_accepted(sent, "the first packet of the new phase");
  send_raw(t, std::move(late));
  b.connection.expect_accepted(held, "a late packet of the phase before");
  check(b.memory(0, 100) == pattern(100) && b.memory(200, 100) == pattern(100, 2), "not both were placed");
}

// Two phases ahead the flag is that of the current phase again.
void two_phases_ahead(Tester& t) {
  Bench b(t, secured());
  b.connection.sealing().update();
  b.connection.sealing().update();
  t.run_for(millis(5));
  t.forget();
  b.connection.send_probe({.token = 1}, 0, {.flags = kAr});
  const Sent sent = b.stream.send_piece(b.stream.write(b.region, 0, pattern(100)), 0, {.flags = kAr});
  b.connection.expect_not_accepted(sent, "a packet of the phase after the next one");
  t.expect_none(anything(), "an answer");
  check(b.memory(0, 100) == Bytes(100), "it was placed");
}

// ---- §10.3.5: what nobody with the keys has sent

void expect_nothing_changed(Bench& b, const std::function<void()>& send) {
  b.tester.run_for(millis(5));
  b.tester.forget();
  send();
  b.tester.expect_none(anything(), "an answer");
  check(b.memory(0, 1000) == Bytes(1000), "memory has changed");
  expect_alive(b);
}

void wrong_tag(Tester& t) {
  Bench b(t, secured());
  Bytes good;
  const Sent sent =
      b.stream.send_piece(b.stream.write(b.region, 0, pattern(300)), 0, {.flags = kAr, .hold = &good});
  t.run_for(millis(5));
  t.forget();
  for (size_t at = 0; at < good.size(); ++at) {
    Bytes changed = good;
    changed[at] ^= kFlip;
    send_raw(t, std::move(changed));
  }
  Bytes shorter = good;
  shorter.pop_back();
  send_raw(t, std::move(shorter));
  t.expect_none(anything(), "an answer");
  check(b.memory(0, 300) == Bytes(300), "memory has changed");
  send_raw(t, std::move(good));
  b.connection.expect_accepted(sent, "the datagram as it was");
  check(b.memory(0, 300) == pattern(300), "it was not placed");
  expect_alive(b);
}

// Everything right but the trailer.
void send_all_kinds(Bench& b, const SendOptions& options) {
  Connection& c = b.connection;
  SendOptions with = options;
  with.flags |= kAr;
  wire::Data data = b.stream.write(b.region, 0, {}).data;
  --b.stream.msn;
  data.length = 200;
  with.cpsn = c.next_cpsn();
  with.pseq = c.next_pseq(0);
  c.send_data(data, pattern(200), with);
  SendOptions other = options;
  other.flags |= kAr;
  c.send_probe({.token = 7}, 0, other);
  wire::Ack ack = c.current_ack();
  ack.cack += 1;
  ack.cpsn_limit += 1000;
  c.send_ack(ack, options);
  c.send_close(c.base(), options);
}

void off_path(Tester& t) {
  Bench b(t, secured());
  expect_nothing_changed(b, [&] {
    for (const bool stranger : {false, true}) {
      for (const uint8_t phase : std::initializer_list<uint8_t>{0, wire::flag::kKeyPhase}) {
        send_all_kinds(b, {.flags = phase, .origin = {.stranger = stranger}, .trailer = Trailer::kWrongKey});
      }
    }
  });
  b.post(b.work(1, WorkOp::kWrite, 3000));
  t.until([&] { return t.count(b.of(DataOp::kWrite)) >= 3; }, "a WRITE of the target afterwards");
}

void mode_0_datagram(Tester& t) {
  Bench b(t, secured());
  expect_nothing_changed(b, [&] { send_all_kinds(b, {.trailer = Trailer::kCrc}); });
}

void replayed_control(Tester& t) {
  Bench b(t, secured());
  Bytes probe, old;
  b.connection.send_probe({.token = 2}, 0, {.flags = kAr, .hold = &old});
  b.connection.send_probe({.token = 1}, 0, {.flags = kAr, .hold = &probe});
  send_raw(t, probe);
  t.expect(type(Type::kProbeAck), "PROBE_ACK");
  t.forget();
  send_raw(t, probe);
  t.expect_none(type(Type::kProbeAck), "PROBE_ACK for a replay");
  for (uint64_t i = 0; i < 70; ++i) b.connection.send_probe({.token = 100 + i});
  t.expect([](const Packet& p) { return p.probe_ack && p.probe_ack->token == 169; }, "the last PROBE_ACK");
  t.forget();
  send_raw(t, old);
  send_raw(t, probe);
  t.expect_none(type(Type::kProbeAck), "PROBE_ACK for what is 64 or more below");
  expect_alive(b);
}

void replayed_data(Tester& t) {
  Bench b(t, secured());
  Bytes datagram;
  const Sent sent =
      b.stream.send_piece(b.stream.write(b.region, 0, pattern(100)), 0, {.flags = kAr, .hold = &datagram});
  send_raw(t, datagram);
  b.connection.expect_accepted(sent);
  check(b.memory(0, 100) == pattern(100), "the WRITE was not placed");
  b.write_memory(0, Bytes(100));
  t.forget();
  send_raw(t, datagram);
  check(says_received(expect_block(b, 0, sent.pseq), sent.pseq), "the duplicate was not acknowledged");
  check(b.memory(0, 100) == Bytes(100), "the replay was placed");
}

void nearest_pseq(Tester& t) {
  BenchOptions options = secured();
  options.shape = [](Connection& c) {
    c.init.first_pseq = 0xfffffff0;  // 16 numbers before the 32 bits begin anew
    c.use_mode2(psk());
  };
  Bench b(t, options);
  for (uint32_t i = 0; i < 40; ++i) b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(10, i)));
  b.connection.skip_pseq(0, 5000);
  expect_alive(b);
}

}  // namespace

void add_mode2(std::vector<Assertion>& out) {
  const auto needs = [](std::vector<Feature> more) {
    more.insert(more.begin(), Feature::kMode2);
    return more;
  };
  const auto must = [&](std::string_view id, std::string_view rule, std::string_view sentence,
                        std::vector<Feature> more, std::function<void(Tester&)> test) {
    out.push_back({id, rule, Level::kMust, sentence, needs(std::move(more)), std::move(test)});
  };
  must("10.1/higher-mode", "§10.1-3",
       "Of the modes that an INIT offers and the acceptor allows, the acceptor MUST choose the one with the "
       "higher number.",
       {}, higher_mode);
  must("10.1/mode-0-refused", "§10.1-4",
       "An endpoint that requires mode 2 MUST NOT offer, choose or accept mode 0.", {}, mode_0_refused);
  must("10.1/offers-mode-2-only", "§10.1-4",
       "An endpoint that requires mode 2 MUST NOT offer, choose or accept mode 0.", {Feature::kInitiator},
       offers_mode_2_only);
  must("10.3.1/key-share", "§10.3.1-1",
       "INIT that offers mode 2, and INIT_ACK that chooses it, MUST carry KEY_SHARE.", {Feature::kInitiator},
       init_has_key_share);
  must("10.3.1/fresh-key-shares", "§10.3.1-2", "drawn for this connection and end alone.", {},
       fresh_key_shares);
  must("10.3.1/key-id", "§10.3.1-4",
       "The key id MUST be the first 8 bytes of SHA-256 of the 12 ASCII bytes `mroce key id` and the "
       "pre-shared key, or zero if there is none.",
       {}, key_id);
  must("10.3.1/no-key-share", "§10.3.1-5",
       "A receiver MUST drop an INIT or INIT_ACK of mode 2 without KEY_SHARE (`drop_malformed`).", {},
       no_key_share);
  must("10.3.1/another-key-id", "§10.3.1-6",
       "A receiver MUST drop one whose key id is not its own (`drop_key_id`).", {}, another_key_id);
  must("10.3.1/all-zero-result", "§10.3.1-7",
       "A receiver MUST drop one whose public key makes the X25519 result all zero (`drop_malformed`).", {},
       all_zero_result);
  must("10.3.1/tag-of-init-ack", "§10.3.1-8",
       "The trailer of an INIT_ACK that chooses mode 2 MUST be the tag under the acceptor's key (§10.3.3).",
       {}, tag_of_init_ack);
  must("10.3.1/altered-init-ack", "§10.3.1-9",
       "An initiator MUST drop an INIT_ACK of mode 2 whose tag is wrong (`drop_tag`) and stay in INIT_SENT.",
       {Feature::kInitiator, Feature::kRequester}, altered_init_ack);
  must("10.3.1/repetition", "§10.3.1-10",
       "In mode 2 an acceptor MUST take an INIT for a repetition (§4.4, case 1) only if its transcript "
       "(§10.3.2) is that of the INIT that began the connection and it offers the same mode.",
       {}, repetition_of_another_init);
  must("10.3.1/silent-once-heard", "§10.3.1-11",
       "Once anything but INIT has been received on a connection of mode 2, a repeated INIT MUST NOT be "
       "answered.",
       {}, silent_once_heard);
  must("10.3.2/keys", "§10.3.2-1", "Both ends MUST derive the keys of a connection of mode 2 like this.", {},
       keys);
  must("10.3.2/keys-of-an-initiator", "§10.3.2-1",
       "Both ends MUST derive the keys of a connection of mode 2 like this.",
       {Feature::kInitiator, Feature::kRequester}, keys_of_an_initiator);
  must("10.3.2/cookie-not-in-transcript", "§10.3.2-1",
       "Both ends MUST derive the keys of a connection of mode 2 like this.",
       {Feature::kInitiator, Feature::kRequester, Feature::kRetry}, cookie_not_in_transcript);
  must(
      "10.3.3/crc-of-exists", "§10.3.3-1",
      "INIT, RETRY, VERSION, RESET, and an INIT_ACK with flag EXISTS or mode 0 MUST have the CRC of §3.12 as "
      "their trailer in every mode.",
      {}, crc_of_exists);
  must("10.3.3/all-have-tags", "§10.3.3-2",
       "Every other datagram of a connection of mode 2 MUST have as its trailer the 16-byte AES-128-GCM tag "
       "under the sender's current key and this nonce.",
       {Feature::kRequester}, all_have_tags);
  must(
      "10.3.3/payload-encrypted", "§10.3.3-3",
      "Of DATA the payload MUST be encrypted and all bytes before it, TLVs included, be the associated data.",
      {Feature::kRequester}, payload_encrypted);
  must("10.3.3/others-in-clear", "§10.3.3-4",
       "Of every other datagram all bytes before the trailer MUST be the associated data, and nothing is "
       "encrypted.",
       {}, others_in_clear);
  must("10.3.3/nonce-once", "§10.3.3-5", "A nonce MUST NOT be used twice with one key.",
       {Feature::kRequester, Feature::kPaths}, nonce_once);
  must("10.3.4/update-followed", "§10.3.4-8",
       "When the keys of the next phase open a datagram, the receiver MUST take them for current.", {},
       update_followed);
  must("10.3.4/late-of-phase-before", "§10.3.4-7",
       "A receiver MUST try a datagram with the other EPH with the keys of the phase before, for as long as "
       "it "
       "keeps them, and then with those of the next phase.",
       {}, late_of_phase_before);
  must("10.3.4/two-phases-ahead", "§10.3.4-6",
       "A receiver MUST open a datagram whose EPH is that of its current phase with the current keys only.",
       {}, two_phases_ahead);
  must("10.3.5/nearest-pseq", "§10.3.5-1",
       "The full PSEQ for the nonce MUST be the one nearest to the highest that was authenticated of that "
       "path "
       "and class; before the first, to first PSEQ for DATA and to 0 for others.",
       {}, nearest_pseq);
  must("10.3.5/wrong-tag", "§10.3.5-2", kDropTagRule, {}, wrong_tag);
  must("10.3.5/off-path", "§10.3.5-2", kDropTagRule, {Feature::kRequester}, off_path);
  must("10.3.5/mode-0-datagram", "§10.3.5-2", kDropTagRule, {}, mode_0_datagram);
  must("10.3.5/replayed-control", "§10.3.5-3",
       "A datagram of another type than DATA whose PSEQ was authenticated before on its path, or lies 64 or "
       "more below the highest that was, MUST be dropped (`drop_replay`).",
       {}, replayed_control);
  must("5.3/replayed-datagram-of-mode-2", "§5.3-1",
       "A packet whose CPSN is below the base or whose bit is set is a **duplicate**; it MUST NOT be placed "
       "or "
       "have any other effect on a stream.",
       {}, replayed_data);
}

}  // namespace mroce::comply
