// The end of a random run: everything must have ended, idle links must serve, an idle world must be idle.
#include <fmt/format.h>

#include <algorithm>

#include "soak/run.h"
#include "soak/story.h"

namespace mroce::soak {

namespace {
constexpr Nanos kFinalRound = seconds(2);
constexpr Nanos kFinalRoundOfSoak = seconds(20);  // rates may be low, and latencies long
constexpr uint64_t kBoundsEvery = 64;
constexpr uint64_t kMostMemory = 8 << 20;  // of a connection
constexpr Nanos kUntilShed = seconds(25);  // two keepalives: the second one finds both sides idle
constexpr uint64_t kMostIdleMemory = 64 << 10;
constexpr uint64_t kIdleDatagrams = 40;  // in three idle seconds, for each pair of endpoints
}  // namespace

// Links that nobody broke must serve at once now: no credit, window or number has got lost.
void Run::final_round() {
  look_everywhere();
  for (const auto& link : links_) oracle_.check_finished(*link);
  if (!oracle_.violations().empty()) return;
  // Outages that were still to end, and paths that come back.
  world_.run_for(std::max(seconds(3), quiet_at_ + seconds(3) - world_.now()));
  final_ = true;
  o_.slow_receives = false;
  serve_all(o_.varied ? kFinalRoundOfSoak : kFinalRound);
  look_everywhere();
  for (const auto& link : links_) {
    oracle_.check_finished(*link);
    if (link->must_succeed() && !finished(*link)) {
      oracle_.report("stall",
                     fmt::format("an idle link between {:#x} of {} and {:#x} of {} did not serve a few "
                                 "more work requests",
                                 link->side[0].qp.number, link->side[0].endpoint->name(),
                                 link->side[1].qp.number, link->side[1].endpoint->name()));
    }
  }
  if (o_.meetings && oracle_.violations().empty()) meet();
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

void Run::serve_all(Nanos limit) {
  const Time end = world_.now() + limit;
  while (!(all_posted() && all_finished()) && world_.now() < end) {
    act();
    world_.run_until(
        [this] {
          poll(false);
          return false;
        },
        micros(200));
  }
}

// Whatever has happened before: new queue pairs between any two endpoints work.
void Run::meet() {
  const auto young = [this](const auto& host) { return may_be_silent(*host, *host); };
  while (std::any_of(hosts_.begin(), hosts_.end(), young)) world_.run_for(seconds(1));
  if (story_ != nullptr) story_->line('q', "every endpoint gets queue pairs to every other");
  meeting_ = true;
  const size_t before = links_.size();
  for (size_t a = 0; a < hosts_.size(); ++a) {
    for (size_t b = a + 1; b < hosts_.size(); ++b) add_link(*hosts_[a], *hosts_[b]);
  }
  // An application that gives its CQs just the room that it needs makes more when it needs more.
  if (o_.resizes) {
    for (const auto& cq : cqs_) resize(*cq);
  }
  serve_all(kFinalRoundOfSoak);
  look_everywhere();
  for (size_t i = before; i < links_.size(); ++i) {
    oracle_.check_finished(*links_[i]);
    if (links_[i]->must_succeed() && !finished(*links_[i]))
      oracle_.report("stall", "two endpoints could not begin anew when all faults had ended");
  }
}

// Now and then during a run: what an engine holds is bounded, whatever happens.
void Run::check_bounds() {
  if (!o_.varied || ++bounds_asked_ % kBoundsEvery != 0) return;
  for (const auto& host : hosts_) {
    if (!host->endpoint->running()) continue;
    const Engine& engine = host->endpoint->look();
    if (engine.held_bytes() > engine.config().held_bytes)
      oracle_.report("bound", fmt::format("{} holds {} bytes of tails, more than {}", host->endpoint->name(),
                                          engine.held_bytes(), engine.config().held_bytes));
    for (const ConnectionStats& connection : engine.connection_stats()) {
      result_.most_memory = std::max(result_.most_memory, connection.memory_bytes);
      if (connection.memory_bytes > kMostMemory)
        oracle_.report("bound", fmt::format("a connection of {} holds {} bytes", host->endpoint->name(),
                                            connection.memory_bytes));
      check_balance(host->endpoint->name(), connection);
    }
  }
}

// What became of each transmission: no packet is counted twice, or not at all.
void Run::check_balance(const std::string& name, const ConnectionStats& connection) {
  if (connection.state == "CLOSED") return;  // history: what was in flight at its end had no fate
  for (const PathStats& path : connection.paths) {
    const PathCounters& c = path.counters;
    if (c.sent != c.acked + c.lost + path.in_flight || c.spurious > c.lost)
      oracle_.report(
          "balance",
          fmt::format("path {} of {}: {} sent, but {} acknowledged, {} lost, {} in flight; {} spurious",
                      path.id, name, c.sent, c.acked, c.lost, path.in_flight, c.spurious));
  }
}

// An idle connection has given back what it grew.
void Run::check_leaks() {
  world_.run_for(kUntilShed);
  for (const auto& host : hosts_) {
    for (const ConnectionStats& connection : host->endpoint->look().connection_stats()) {
      if (connection.state == "CLOSED") continue;  // history: it is gone
      result_.most_idle_memory = std::max(result_.most_idle_memory, connection.memory_bytes);
      if (connection.memory_bytes > kMostIdleMemory)
        oracle_.report("leak",
                       fmt::format("an idle connection of {} ({}) holds {} bytes", host->endpoint->name(),
                                   connection.state, connection.memory_bytes));
    }
  }
}

void Run::check_idle() {
  // Until nobody talks to the dead any more.
  world_.run_for(o_.crashes != 0 || o_.hard ? seconds(25) : seconds(2));
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
  if (o_.varied) check_leaks();
  const bool damaged = o_.faults.corrupt > 0 || o_.faults.truncate > 0 || o_.storms != 0;
  const bool damaged_and_sealed = o_.encrypted && damaged;
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
        {"connections_failed", o_.crashes != 0 || o_.hard ? 0 : c.connections_failed},
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
  for (const auto& host : hosts_) host->endpoint->engine().shutdown(host->endpoint->now());
  const auto quiescent = [this] {
    return std::all_of(hosts_.begin(), hosts_.end(),
                       [](const auto& host) { return host->endpoint->look().quiescent(); });
  };
  if (!world_.run_until(quiescent, o_.varied ? seconds(10) : seconds(3)))
    oracle_.report("stall", "shutdown does not end");
}

}  // namespace mroce::soak
