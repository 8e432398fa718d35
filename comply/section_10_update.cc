// §10.3.4: key phases. Of the target as sender, whose limit of datagrams is lowered when it starts, and as
// receiver of a tester that updates its own keys. What nobody has changed by an update (nonces, numbers,
// replay) is here, too.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "comply/secured.h"

namespace mroce::comply {
namespace {

constexpr uint32_t kUpdateAfter = 20;  // datagrams of a phase, as the target is told
constexpr uint32_t kKeyMost = 120;     // datagrams of a key, likewise
constexpr uint32_t kSlack = 10;        // datagrams of a phase while the target learns that it may go on
constexpr Nanos kVirtualPatience = millis(200);  // far more than questions with their back-off take
constexpr uint32_t kWriteBytes = 900;            // one packet
constexpr uint8_t kOther = wire::flag::kKeyPhase;

BenchOptions updating(std::optional<uint32_t> most = {}) {
  BenchOptions out = secured();
  out.start.limits.key_update_packets = kUpdateAfter;
  out.start.limits.key_max_packets = most;
  return out;
}

// A target that updates its keys every few datagrams.
struct Updating : Bench {
  explicit Updating(Tester& t, std::optional<uint32_t> most = {}) : Bench(t, updating(most)) {}

  // What the target sealed, as it arrived; its INIT_ACK is of phase 0 as well, but has no flag to show it.
  std::vector<const Packet*> sealed() const {
    std::vector<const Packet*> out;
    for (const Packet& p : tester.log()) {
      if (!p.sent && p.sealed && connection.mine(p)) out.push_back(&p);
    }
    return out;
  }
  std::map<uint32_t, uint32_t> datagrams_by_phase() const {
    std::map<uint32_t, uint32_t> out;
    for (const Packet* p : sealed()) ++out[p->key_phase];
    return out;
  }
  uint32_t phase() const {
    uint32_t newest = 0;
    for (const Packet* p : sealed()) newest = std::max(newest, p->key_phase);
    return newest;
  }

  // The target sends DATA, and waits for its acknowledgement.
  void let_it_write() {
    post(work(++writes_, WorkOp::kWrite, kWriteBytes));
    expect_completion(writes_, "SUCCESS");
  }
  // The target sends an ACK, and PROBEs if it has questions.
  void make_it_acknowledge() {
    stream.send(stream.write(region, 64 << 10, pattern(10)));
    tester.run_for(micros(200));
  }
  // Some phases, with datagrams of both classes.
  void work_through_phases() {
    for (uint32_t i = 0; i < 3 * kUpdateAfter; ++i) {
      let_it_write();
      make_it_acknowledge();
    }
  }
  // Behind what must hold for a target without updates, too.
  void expect_updates() const {
    if (phase() == 0) throw Unsupported("the target does not update its keys");
  }
  // The tester neither acknowledges nor answers, so that the target learns nothing of its phase.
  void fall_silent() {
    connection.acknowledge = false;
    connection.answer_probes = false;
  }
  void make_it_due_unconfirmed() {
    fall_silent();
    tester.until(
        [&] {
          make_it_acknowledge();
          return datagrams_by_phase()[1] > kUpdateAfter + 2;
        },
        "a phase of more datagrams than the limit", kVirtualPatience);
  }

 private:
  uint64_t writes_ = 0;
};

// ---- the target as sender

void updates_in_time(Tester& t) {
  Updating b(t);
  for (uint32_t i = 0; i < 5 * kUpdateAfter; ++i) b.let_it_write();
  std::map<uint32_t, uint32_t> phases = b.datagrams_by_phase();
  check(phases.size() >= 4,
        fmt::format("{} phases in {} datagrams and more", phases.size(), 5 * kUpdateAfter));
  for (const auto& [phase, datagrams] : phases)
    check(datagrams <= kUpdateAfter + kSlack, fmt::format("phase {} has {} datagrams", phase, datagrams));
}

// Of who sends no DATA that could be acknowledged.
void updates_of_acks(Tester& t) {
  Updating b(t);
  t.until(
      [&] {
        b.make_it_acknowledge();
        return b.phase() >= 3;
      },
      "three updates of who only acknowledges", kVirtualPatience);
}

void keys_of_the_next_phase(Tester& t) {
  Updating b(t);
  b.write_memory(0, pattern(kWriteBytes, 3));
  b.work_through_phases();
  check(b.connection.unopened() == 0, fmt::format("{} datagrams do not open", b.connection.unopened()));
  for (const Packet* p : b.sealed())
    check(!p->is(DataOp::kWrite) || p->payload == pattern(kWriteBytes, 3),
          "what was decrypted is something else");
  b.expect_updates();
  check(b.phase() >= 3, "too few updates to say");
}

using Number = std::tuple<uint32_t, bool, uint8_t, uint32_t>;  // phase, class, path, PSEQ

void expect_fresh_numbers(Updating& b, bool of_all_phases) {
  std::set<Number> used;
  b.work_through_phases();
  for (const Packet* p : b.sealed()) {
    const uint32_t phase = of_all_phases ? 0 : p->key_phase;
    check(used.insert({phase, p->is(Type::kData), p->header->path, p->header->pseq}).second,
          "its number was used before: " + describe(*p));
  }
  b.expect_updates();
}

void nonce_once_across_updates(Tester& t) {
  Updating b(t);
  expect_fresh_numbers(b, false);
}

void numbers_go_on(Tester& t) {
  Updating b(t);
  expect_fresh_numbers(b, true);
}

// By the numbers of each path and class, whatever the order of arrival.
void current_key_only(Tester& t) {
  Updating b(t);
  b.work_through_phases();
  std::map<std::pair<bool, uint8_t>, std::map<uint32_t, uint32_t>> phases;  // by number, less the first one
  for (const Packet* p : b.sealed()) {
    const uint32_t first = p->is(Type::kData) ? b.connection.peer().first_pseq : 0;
    phases[{p->is(Type::kData), p->header->path}][p->header->pseq - first] = p->key_phase;
  }
  for (const auto& [where, by_number] : phases) {
    uint32_t newest = 0;
    for (const auto& [number, phase] : by_number) {
      check(phase >= newest,
            fmt::format("number {} is of phase {}, and one before it of {}", number, phase, newest));
      newest = phase;
    }
  }
  b.expect_updates();
}

// STREAM_ACCEPT was acknowledged, so one update is free; the next one needs news of its own phase.
void confirmed_first(Tester& t) {
  Updating b(t);
  b.fall_silent();
  for (uint64_t i = 1; i <= 2 * kUpdateAfter; ++i) {
    b.post(b.work(1000 + i, WorkOp::kWrite, kWriteBytes));
    b.make_it_acknowledge();
  }
  t.until(
      [&] {
        b.make_it_acknowledge();
        return b.sealed().size() > 3 * kUpdateAfter + kSlack;
      },
      "datagrams enough for three updates");
  const uint32_t last = b.phase();
  check(last <= 1, fmt::format("{} updates, and nothing of a second phase was acknowledged", last));
  b.connection.acknowledge = b.connection.answer_probes = true;
  b.connection.send_ack();
  for (uint64_t i = 1; i <= 2 * kUpdateAfter; ++i) b.expect_completion(1000 + i, "SUCCESS");
}

void asks(Tester& t) {
  Updating b(t);
  b.make_it_due_unconfirmed();
  t.expect([](const Packet& p) { return p.probe && p.probe->kind == 0 && p.key_phase == 1; },
           "a PROBE of kind 0 when an update is due");
}

void answer_confirms(Tester& t) {
  Updating b(t);
  b.make_it_due_unconfirmed();
  b.connection.answer_probes = true;
  t.until(
      [&] {
        b.make_it_acknowledge();
        return b.phase() >= 2;
      },
      "an update after a PROBE of the phase was answered", kVirtualPatience);
}

void key_has_a_limit(Tester& t) {
  Updating b(t, kKeyMost);
  b.fall_silent();
  for (uint32_t i = 0; i < 2 * kKeyMost + kUpdateAfter; ++i) b.make_it_acknowledge();
  for (const auto& [phase, datagrams] : b.datagrams_by_phase())
    check(datagrams <= kKeyMost, fmt::format("{} datagrams of phase {}", datagrams, phase));
  b.expect_state("err");
}

// ---- the target as receiver

// The tester's PROBE under this flag, whatever its keys; and it is not answered.
void expect_unopened(Bench& b, const SendOptions& options, const std::string& what) {
  b.tester.run_for(millis(5));
  b.tester.forget();
  SendOptions with = options;
  with.flags |= kAr;
  b.connection.send_probe({.token = 99}, 0, with);
  b.tester.expect_none(anything(), "an answer to " + what);
}
void expect_answered(Bench& b, uint64_t token) {
  b.connection.send_probe({.token = token}, 0, {.flags = kAr});
  b.tester.expect([=](const Packet& p) { return p.probe_ack && p.probe_ack->token == token; }, "PROBE_ACK");
}

void flag_decides(Tester& t) {
  Bench b(t, secured());
  Sealing& own = b.connection.sealing();
  const PhaseSecret first = own.tx;
  own.tx = first.next();
  expect_unopened(b, {}, "the next keys under the flag of the current phase");
  own.tx = first;
  expect_answered(b, 1);
  own.update();
  expect_answered(b, 2);
  const PhaseSecret second = own.tx;
  own.tx = first;
  expect_unopened(b, {}, "the keys of the phase before under the flag of the current one");
  own.tx = second;
  expect_alive(b);
}

// After two updates the flag is the first one again.
void not_of_two_phases_ago(Tester& t) {
  Bench b(t, secured());
  Bytes old;
  b.connection.send_probe({.token = 7}, 0, {.flags = kAr, .hold = &old});
  for (uint64_t i = 1; i <= 2; ++i) {
    b.connection.sealing().update();
    expect_answered(b, i);
  }
  t.run_for(millis(5));
  t.forget();
  send_raw(t, old);
  t.expect_none(anything(), "an answer to a datagram of two phases ago");
  expect_alive(b);
}

// Three PTO are three milliseconds at least.
void kept_for_three_pto(Tester& t) {
  Bench b(t, secured());
  Bytes late;
  b.connection.send_probe({.token = 7}, 0, {.flags = kAr, .hold = &late});
  b.connection.sealing().update();
  expect_answered(b, 1);
  t.run_for(millis(2) + micros(500));
  send_raw(t, late);
  t.expect([](const Packet& p) { return p.probe_ack && p.probe_ack->token == 7; },
           "PROBE_ACK for a PROBE of the phase before that is late");
}

// Three of the longest PTOs are 300 ms.
void kept_no_longer(Tester& t) {
  Bench b(t, secured());
  Bytes late;
  b.connection.send_probe({.token = 7}, 0, {.flags = kAr, .hold = &late});
  b.connection.sealing().update();
  expect_answered(b, 1);
  t.run_for(seconds(1));
  t.forget();
  send_raw(t, late);
  t.expect_none(type(Type::kProbeAck), "PROBE_ACK for a PROBE of the phase before a second later");
  expect_alive(b);
}

// Before an update, and after it, when the other flag is that of the phase before.
void forged_update(Tester& t) {
  Bench b(t, secured());
  for (uint64_t i = 1; i <= 2; ++i) {
    const SendOptions forged{.trailer = Trailer::kWrongKey};
    Sealing& own = b.connection.sealing();
    own.phase ^= kOther;
    expect_unopened(b, forged, "a forgery of another phase");
    own.phase ^= kOther;
    expect_answered(b, i);
    expect_alive(b);
    own.update();
    expect_answered(b, 10 + i);
  }
}

void replayed_across_updates(Tester& t) {
  Bench b(t, secured());
  Bytes probe;
  b.connection.send_probe({.token = 7}, 0, {.flags = kAr, .hold = &probe});
  send_raw(t, probe);
  t.expect(type(Type::kProbeAck), "PROBE_ACK");
  b.connection.sealing().update();
  expect_answered(b, 1);
  t.forget();
  send_raw(t, probe);
  t.expect_none(type(Type::kProbeAck), "PROBE_ACK for a replay of the phase before");
  expect_alive(b);
}

void add_sender(std::vector<Assertion>& out) {
  const std::vector<Feature> works = {Feature::kMode2, Feature::kRequester};
  constexpr std::string_view kUpdates = "A sender SHOULD update its keys after 2^23 datagrams of a phase.";
  const auto add = [&](std::string_view id, std::string_view rule, Level level, std::string_view sentence,
                       const std::vector<Feature>& needs, std::function<void(Tester&)> test) {
    out.push_back({id, rule, level, sentence, needs, std::move(test)});
  };
  add("2.3/numbers-go-on-after-updates", "§2.3-4", Level::kMust,
      "Control datagrams MUST be numbered on each path from 0, in a counter of their own.", works,
      numbers_go_on);
  add("10.3.3/current-key-only", "§10.3.3-2", Level::kMust, "under the sender's current key", works,
      current_key_only);
  add("10.3.3/nonce-once-across-updates", "§10.3.3-5", Level::kMust,
      "A nonce MUST NOT be used twice with one key.", works, nonce_once_across_updates);
  add("10.3.4/keys-of-the-next-phase", "§10.3.4-1", Level::kMust,
      "The keys of the next phase MUST be key, IV and next secret from HKDF-Expand(next secret, \"mroce 1 "
      "update\", 60).",
      works, keys_of_the_next_phase);
  add("10.3.4/updates-in-time", "§10.3.4-2", Level::kShould, kUpdates, works, updates_in_time);
  add("10.3.4/updates-of-acks", "§10.3.4-2", Level::kShould, kUpdates, {Feature::kMode2}, updates_of_acks);
  add("10.3.4/answer-confirms", "§10.3.4-2", Level::kShould, kUpdates, {Feature::kMode2}, answer_confirms);
  add("10.3.4/confirmed-first", "§10.3.4-3", Level::kMust,
      "A sender MUST NOT update before it knows that the receiver has opened something of the current phase",
      works, confirmed_first);
  add("10.3.4/asks", "§10.3.4-4", Level::kShould,
      "A sender that is due for an update and does not know that SHOULD send a PROBE of kind 0.",
      {Feature::kMode2}, asks);
  add("10.3.4/key-has-a-limit", "§10.3.4-5", Level::kMust,
      "A sender MUST NOT protect more than 2^24 datagrams with one key; a connection that would have to is "
      "lost "
      "(§4.13).",
      {Feature::kMode2}, key_has_a_limit);
}

}  // namespace

void add_key_updates(std::vector<Assertion>& out) {
  add_sender(out);
  constexpr std::string_view kCurrentOnly =
      "A receiver MUST open a datagram whose EPH is that of its current phase with the current keys only.";
  constexpr std::string_view kKeeps =
      "A receiver SHOULD keep the keys of the phase before for three PTO after that.";
  const auto add = [&](std::string_view id, std::string_view rule, Level level, std::string_view sentence,
                       std::vector<Feature> more, std::function<void(Tester&)> test) {
    more.insert(more.begin(), Feature::kMode2);
    out.push_back({id, rule, level, sentence, std::move(more), std::move(test)});
  };
  add("10.3.4/flag-decides", "§10.3.4-6", Level::kMust, kCurrentOnly, {}, flag_decides);
  add("10.3.4/not-of-two-phases-ago", "§10.3.4-6", Level::kMust, kCurrentOnly, {}, not_of_two_phases_ago);
  add("10.3.4/kept-for-three-pto", "§10.3.4-9", Level::kShould, kKeeps, {Feature::kVirtualTime},
      kept_for_three_pto);
  add("10.3.4/kept-no-longer", "§10.3.4-9", Level::kShould, kKeeps, {}, kept_no_longer);
  add("10.3.5/forged-update", "§10.3.5-2", Level::kMust, kDropTagRule, {}, forged_update);
  add("10.3.5/replayed-across-updates", "§10.3.5-3", Level::kMust,
      "A datagram of another type than DATA whose PSEQ was authenticated before on its path", {},
      replayed_across_updates);
}

}  // namespace mroce::comply
