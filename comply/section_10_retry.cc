// §10.4: RETRY, on the side that is called by too many, and on the side that gets one.
#include <algorithm>
#include <set>

#include "comply/section.h"

namespace mroce::comply {
namespace {

constexpr uint32_t kBound = 64;  // connections that are not validated, before RETRY

Match ack_or_retry(const Connection& connection) {
  return [&connection](const Packet& p) {
    return (p.is(Type::kInitAck) || p.is(Type::kRetry)) && connection.mine(p);
  };
}

// INITs of as many endpoints as the target bears that never say more.
void send_crowd(Tester& t, uint32_t count = kBound + 1) {
  for (uint32_t i = 0; i < count; ++i) {
    Connection one(t);
    one.send_init();
    if (i % 16 == 15) t.run_for(millis(1));
  }
  t.run_for(millis(20));
  t.forget();
}

// A target that is called by a crowd, and another endpoint that calls it.
struct Crowded : Bench {
  explicit Crowded(Tester& t, const StartOptions& start = {})
      : Bench(t, {.start = start, .open_connection = false}) {
    send_crowd(t);
  }
  const Packet& ask(const SendOptions& options = {}) {
    connection.send_init(options);
    return tester.expect(ack_or_retry(connection), "an answer to INIT");
  }
  const Packet& expect_retry() {
    const Packet& answer = ask();
    check(answer.is(Type::kRetry) && answer.retry, "it is not RETRY: " + describe(answer));
    return answer;
  }
  void take_cookie() { connection.init.cookie = expect_retry().retry->cookie; }
  // A RETRY in between may be a late one, for an INIT before.
  void expect_still_good() {
    tester.forget();
    connection.send_init();
    const Packet& answer =
        tester.expect([this](const Packet& p) { return p.is(Type::kInitAck) && connection.mine(p); },
                      "INIT_ACK for a cookie with its own INIT");
    connection.take_init_ack(answer);
    stream.open();
    expect_alive(*this);
  }
};

void retry_above_the_bound(Tester& t) {
  Crowded b(t);
  b.expect_retry();
  b.expect_retry();
}

void below_the_bound(Tester& t) {
  Bench b(t, {.open_connection = false});
  send_crowd(t, 20);
  b.connection.open();
}

// 300 more INITs leave nothing behind: connections are left for who brings a cookie.
void flood_keeps_nothing(Tester& t) {
  Crowded b(t, {.limits = {.max_connections = kBound + 10}});
  send_crowd(t, 300);
  b.take_cookie();
  b.expect_still_good();
}

void cookie_opens(Tester& t) {
  Crowded b(t);
  b.take_cookie();
  b.expect_still_good();
}

void retry_fields(Tester& t) {
  Crowded b(t);
  const Packet& p = b.expect_retry();
  check(p.header->dcid == b.connection.init.scid, "DCID is not the SCID of the INIT");
  check(p.retry->nonce == b.connection.init.nonce, "the nonce is another one");
  check(p.retry->cookie.length >= 1 && p.retry->cookie.length <= 64, "the cookie has no length of 1 to 64");
  check(!p.to_source_port && !p.to_stranger, "it did not come to the peer's address");
  check(p.good_trailer, "its trailer is wrong");
}

void retry_not_longer(Tester& t) {
  Crowded b(t);
  const size_t bytes = b.expect_retry().bytes.size();
  check(bytes <= b.connection.init_bytes(), fmt::format("{} bytes", bytes));
  // One answer to each: the whole is not longer, either.
  t.forget();
  for (int i = 0; i < 10; ++i) b.connection.send_init();
  t.run_for(millis(50));
  size_t all = 0;
  for (const Packet* each : t.all([&](const Packet& packet) { return b.connection.mine(packet); }))
    all += each->bytes.size();
  check(all <= 10 * b.connection.init_bytes(), fmt::format("{} bytes for ten INITs", all));
}

// No INIT_ACK for what was changed, wherever the answer goes. Those of the crowd may still come.
void expect_not_good(Crowded& b, const std::string& what, const std::function<void(wire::Init&)>& change,
                     const Origin& origin = {}) {
  const wire::Init good = b.connection.init;
  change(b.connection.init);
  b.connection.send_init({.origin = origin});
  b.tester.expect_none([&](const Packet& p) { return p.is(Type::kInitAck) && b.connection.mine(p); },
                       "INIT_ACK for a cookie of another " + what, millis(5));
  b.connection.init = good;
}

void cookie_of_another_init(Tester& t) {
  Crowded b(t);
  b.take_cookie();
  expect_not_good(b, "nonce", [](wire::Init& init) { init.nonce ^= 1; });
  expect_not_good(b, "SCID", [](wire::Init& init) { init.scid ^= 2; });
  expect_not_good(b, "listen UDP port", [](wire::Init& init) { init.listen_port ^= 1; });
  b.expect_still_good();
}

void cookie_of_another_address(Tester& t) {
  Crowded b(t);
  b.take_cookie();
  expect_not_good(b, "source address", [](wire::Init&) {}, {.stranger = true});
  b.expect_still_good();
}

void altered_cookie(Tester& t) {
  Crowded b(t);
  b.take_cookie();
  for (size_t at = 0; at < b.connection.init.cookie.length; ++at)
    expect_not_good(b, "content", [=](wire::Init& init) { init.cookie.bytes[at] ^= 1; });
  expect_not_good(b, "length", [](wire::Init& init) { --init.cookie.length; });
  expect_not_good(b, "length", [](wire::Init& init) {
    init.cookie.length = static_cast<uint8_t>(std::min<size_t>(init.cookie.length + 1u, 64));
    init.cookie.bytes[init.cookie.length - 1u] ^= 1;
  });
  b.expect_still_good();
}

void cookie_for_some_seconds(Tester& t) {
  Crowded b(t);
  b.take_cookie();
  t.run_for(seconds(60));
  send_crowd(t);
  check(b.ask().is(Type::kRetry), "a cookie is still good after a minute");
  b.take_cookie();
  b.expect_still_good();
}

void unasked_cookie(Tester& t) {
  Bench b(t, {.open_connection = false});
  b.connection.init.cookie.length = 40;
  b.connection.init.cookie.bytes.fill(0x77);
  b.connection.open();
  b.stream.open();
  expect_alive(b);
}

// ---- the side that calls

struct Calling : Bench {
  explicit Calling(Tester& t) : Bench(t, {.open_connection = false}) { post(work(1, WorkOp::kWrite, 100)); }
  const Packet& expect_init(Nanos within = Tester::kPatience) {
    return tester.expect([](const Packet& p) { return p.is(Type::kInit) && p.init; }, "INIT", within);
  }
  void retry(const Packet& init, uint8_t content, uint64_t nonce_xor = 0) {
    wire::Retry out{init.init->nonce ^ nonce_xor, {}};
    out.cookie.length = 33;
    std::fill_n(out.cookie.bytes.begin(), 33, content);
    connection.send_retry(init.init->scid, out);
  }
};

Match with_cookie(uint8_t content) {
  return [content](const Packet& p) {
    return p.is(Type::kInit) && p.init && p.init->cookie.length == 33 && p.init->cookie.bytes[0] == content &&
           p.init->cookie.bytes[32] == content;
  };
}

void obeys_retry(Tester& t) {
  Calling b(t);
  const Packet& first = b.expect_init();
  b.retry(first, 9);
  const Packet* again = &t.expect(with_cookie(9), "INIT with the cookie, at once", millis(2));
  for (int i = 0; i < 3; ++i) {
    check(again->good_trailer && again->init->nonce == first.init->nonce &&
              again->init->scid == first.init->scid && again->init->first_cpsn == first.init->first_cpsn,
          "it is not the same INIT");
    again = &b.expect_init();
    check(with_cookie(9)(*again), "a further repetition lacks the cookie");
  }
  b.connection.answer_init(*again);
  b.expect_completion(1, "SUCCESS");
}

void retry_of_another_nonce(Tester& t) {
  Calling b(t);
  const Packet& first = b.expect_init();
  b.retry(first, 9, 1);
  t.forget();
  for (int i = 0; i < 3; ++i)
    check(b.expect_init().init->cookie.length == 0, "it obeys a RETRY with another nonce");
  b.connection.answer_init(first);
  b.expect_completion(1, "SUCCESS");
}

void a_few_retries(Tester& t) {
  Calling b(t);
  const Packet& first = b.expect_init();
  for (uint8_t i = 1; i <= 20; ++i) {
    b.retry(first, i);
    t.run_for(millis(1));
  }
  t.run_for(millis(300));
  std::set<uint8_t> obeyed;
  for (const Packet* p : t.all(type(Type::kInit))) {
    if (p->init && p->init->cookie.length != 0) obeyed.insert(p->init->cookie.bytes[0]);
  }
  check(!obeyed.empty(), "it obeys none");
  check(obeyed.size() <= 4, fmt::format("it obeys {} of 20", obeyed.size()));
}

void late_retry(Tester& t) {
  Calling b(t);
  const Packet& first = b.expect_init();
  b.connection.answer_init(first);
  b.expect_completion(1, "SUCCESS");
  t.forget();
  b.retry(first, 9);
  t.expect_none(type(Type::kInit), "INIT for a RETRY that came after INIT_ACK");
  b.post(b.work(2, WorkOp::kWrite, 100));
  b.expect_completion(2, "SUCCESS");
}

}  // namespace

void add_retry(std::vector<Assertion>& out) {
  constexpr std::string_view kRetryRule =
      "While more than 64 connections are not validated, an acceptor SHOULD answer an INIT that would begin "
      "a "
      "new one with RETRY, and keep nothing of it, unless it carries a good COOKIE.";
  constexpr std::string_view kCookieRule =
      "A cookie MUST be good only for an INIT with the same source address, listen UDP port, SCID and nonce, "
      "and for some seconds.";
  constexpr std::string_view kObeyRule =
      "An initiator in INIT_SENT that gets a RETRY with its nonce MUST repeat INIT at once, with the cookie "
      "in "
      "a TLV COOKIE, which it keeps for further repetitions.";
  const std::vector<Feature> retry = {Feature::kRetry};
  const std::vector<Feature> timed = {Feature::kRetry, Feature::kVirtualTime};
  const std::vector<Feature> calling = {Feature::kRetry, Feature::kInitiator, Feature::kRequester};
  const auto add = [&](std::string_view id, std::string_view rule, Level level, std::string_view sentence,
                       const std::vector<Feature>& needs, std::function<void(Tester&)> test) {
    out.push_back({id, rule, level, sentence, needs, std::move(test)});
  };
  add("10.4/retry-above-the-bound", "§10.4-7", Level::kShould, kRetryRule, retry, retry_above_the_bound);
  add("10.4/no-retry-below-the-bound", "§10.4-7", Level::kShould, kRetryRule, retry, below_the_bound);
  add("10.4/cookie-opens", "§10.4-7", Level::kShould, kRetryRule, retry, cookie_opens);
  add("10.4/flood-keeps-nothing", "§10.4-7", Level::kShould, kRetryRule, timed, flood_keeps_nothing);
  add("10.4/retry-fields", "§10.4-8", Level::kMust,
      "RETRY MUST go to the peer's address (§4.4), with the SCID of the INIT as DCID, its nonce, and a "
      "cookie "
      "of 1 to 64 bytes.",
      retry, retry_fields);
  add("10.4/retry-not-longer", "§10.4-2", Level::kMust, "An answer to INIT MUST NOT be longer than the INIT.",
      retry, retry_not_longer);
  add("10.4/cookie-of-another-init", "§10.4-9", Level::kMust, kCookieRule, retry, cookie_of_another_init);
  add("10.4/cookie-of-another-address", "§10.4-9", Level::kMust, kCookieRule, retry,
      cookie_of_another_address);
  add("10.4/altered-cookie", "§10.4-9", Level::kMust, kCookieRule, retry, altered_cookie);
  add("10.4/cookie-for-some-seconds", "§10.4-9", Level::kMust, kCookieRule, timed, cookie_for_some_seconds);
  add("10.4/unasked-cookie", "§10.4-13", Level::kMust, "A COOKIE that was not asked for MUST NOT matter.",
      retry, unasked_cookie);
  add("10.4/obeys-retry", "§10.4-10", Level::kMust, kObeyRule, calling, obeys_retry);
  add("10.4/late-retry", "§10.4-10", Level::kMust, "An initiator in INIT_SENT that gets a RETRY", calling,
      late_retry);
  add("10.4/retry-of-another-nonce", "§10.4-11", Level::kMust,
      "A RETRY with another nonce MUST be dropped (`drop_connection`).", calling, retry_of_another_nonce);
  add("10.4/a-few-retries", "§10.4-12", Level::kShould,
      "An initiator SHOULD obey at most 4 RETRYs of a connection.", calling, a_few_retries);
}

}  // namespace mroce::comply
