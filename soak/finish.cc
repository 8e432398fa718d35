// The end of a random run: everything must have ended, idle links must serve, an idle world must be idle.
#include <fmt/format.h>

#include <algorithm>

#include "soak/run.h"

namespace mroce::soak {

namespace {
constexpr Nanos kFinalRound = seconds(2);
constexpr uint64_t kIdleDatagrams = 40;  // in three idle seconds, for each pair of endpoints
}  // namespace

// Links that nobody broke must serve at once now: no credit, window or number has got lost.
void Run::final_round() {
  look_everywhere();
  for (const auto& link : links_) oracle_.check_finished(*link);
  if (!oracle_.violations().empty()) return;
  world_.run_for(seconds(3));  // outages that were still to end, and paths that come back
  final_ = true;
  o_.slow_receives = false;
  const Time end = world_.now() + kFinalRound;
  while (!(all_posted() && all_finished()) && world_.now() < end) {
    act();
    world_.run_until(
        [this] {
          poll(false);
          return false;
        },
        micros(200));
  }
  look_everywhere();
  for (const auto& link : links_) {
    oracle_.check_finished(*link);
    if (link->must_succeed() && !finished(*link)) {
      oracle_.report("stall", "an idle link did not serve a few more work requests");
    }
  }
  if (!oracle_.violations().empty()) return;
  check_idle();
  if (o_.one_hour) world_.run_for(seconds(3700));
  for (const auto& link : links_) {
    if (!link->alive()) continue;
    for (Flow& flow : link->flow) oracle_.check_final_memory(flow);
  }
  check_counters();
  if (o_.goodbye) say_goodbye();
}

void Run::check_idle() {
  world_.run_for(o_.crashes != 0 ? seconds(25) : seconds(2));  // until nobody talks to the dead any more
  const uint64_t before = world_.network().counters().sent;
  world_.run_for(seconds(3));
  const uint64_t sent = world_.network().counters().sent - before;
  const uint64_t pairs = hosts_.size() * (hosts_.size() + 1) / 2;
  if (sent > kIdleDatagrams * pairs)
    oracle_.report("not_idle", fmt::format("{} datagrams in 3 idle seconds", sent));
  for (const auto& cq : cqs_) {
    if (!cq->endpoint->poll_all(cq->handle).empty()) {
      oracle_.report("completion_unknown", "a completion came without a notification, or much too late");
    }
  }
}

// Between engines that follow the protocol these stay zero, whatever the network does; in the end no tail is
// held any more.
void Run::check_counters() {
  const bool damaged_and_sealed = o_.encrypted && o_.faults.corrupt > 0;
  for (const auto& host : hosts_) {
    const EngineCounters& c = host->endpoint->look().counters();
    const std::pair<const char*, uint64_t> wrong[] = {
        // In mode 2 the connection is looked up, and INIT_ACK decoded, before anything is known to be whole.
        {"drop_malformed", damaged_and_sealed ? 0 : c.drop_malformed},
        {"drop_forged_ack", c.drop_forged_ack},
        {"drop_path", damaged_and_sealed ? 0 : c.drop_path},
        {"drop_key_id", damaged_and_sealed ? 0 : c.drop_key_id},
        {"drop_security", c.drop_security},
        {"drop_cpsn", c.drop_cpsn},
        {"drop_reset", c.drop_reset},
        {"drop_limit", c.drop_limit},
        {"drop_magic", c.drop_magic},
        {"connections_failed", o_.crashes != 0 ? 0 : c.connections_failed},
        {"naks_sent",
         o_.flaws || disturbed_any_ || o_.overcommit != 0 || o_.rnr_retry != 7 ? 0 : c.naks_sent},
        {"held_bytes", host->endpoint->look().held_bytes()}};
    for (const auto& [name, value] : wrong) {
      if (value != 0)
        oracle_.report("counter", fmt::format("{} is {} at {}", name, value, host->endpoint->name()));
    }
    if (host->endpoint->take_event(EventKind::kCqError)) oracle_.report("post", "a CQ overflowed");
  }
}

void Run::say_goodbye() {
  for (const auto& link : links_) {
    for (Side& side : link->side) {
      if (!side.alive) continue;
      oracle_.destroyed(side);
      side.qp.destroy();
    }
  }
  for (const auto& host : hosts_) host->endpoint->engine().shutdown(world_.now());
  const auto quiescent = [this] {
    return std::all_of(hosts_.begin(), hosts_.end(),
                       [](const auto& host) { return host->endpoint->look().quiescent(); });
  };
  if (!world_.run_until(quiescent, seconds(3))) oracle_.report("stall", "shutdown does not end");
}

}  // namespace mroce::soak
