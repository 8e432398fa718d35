// Faults of the soak: drawn when the run begins, each with a time within the span and a length.
#include <fmt/format.h>

#include <algorithm>

#include "soak/run.h"
#include "soak/story.h"

namespace mroce::soak {

namespace {
constexpr uint64_t kCloggedBps[] = {200000, 1000000, 4000000};
constexpr uint64_t kSlowReadBps[] = {5000000, 50000000, 400000000};

std::string until_text(Time from, Time until) {
  return fmt::format("{:.3f} ms", static_cast<double>((until - from).count()) / 1e6);
}
}  // namespace

std::pair<Time, Time> Run::some_while() {
  const Time from = world_.now() + some_time(o_.span);
  return {from, from + some_time(o_.longest_outage)};
}

// Between two endpoints that are drawn; in one direction or in both, on one path or on all.
void Run::spell(FaultKind kind, bool both_ways, bool one_path) {
  Spell spell;
  spell.kind = kind;
  std::tie(spell.from, spell.until) = some_while();
  const size_t a = rng_.below(hosts_.size());
  const size_t b = (a + 1 + rng_.below(hosts_.size() - 1)) % hosts_.size();
  spell.sender = static_cast<uint32_t>(a);
  spell.receiver = static_cast<uint32_t>(b);
  if (one_path) spell.path = static_cast<uint8_t>(rng_.below(o_.paths));
  spell.rate_bps = kCloggedBps[rng_.below(std::size(kCloggedBps))];
  spell.share = rng_.uniform();
  spell.delay = micros(static_cast<int64_t>(rng_.between(1, 3000)));
  world_.network().add_spell(spell);
  if (both_ways) {
    std::swap(spell.sender, spell.receiver);
    world_.network().add_spell(spell);
  }
  // Told or not, the event is there: whatever happens makes applications look.
  world_.at(spell.from, [this, spell, both_ways, a, b] {
    if (calm_ || story_ == nullptr) return;
    story_->line('~',
                 fmt::format("{} from {} {} {}{} for {}", name_of(spell.kind), hosts_[a]->endpoint->name(),
                             both_ways ? "and back with" : "to", hosts_[b]->endpoint->name(),
                             spell.path ? fmt::format(" on path {}", *spell.path) : "",
                             until_text(spell.from, spell.until)));
  });
}

void Run::storm() {
  constexpr FaultKind kKinds[] = {FaultKind::kLoss, FaultKind::kReorder, FaultKind::kDuplicate,
                                  FaultKind::kCorrupt, FaultKind::kTruncate};
  spell(kKinds[rng_.below(std::size(kKinds))], rng_.chance(0.5), rng_.chance(0.5));
}

// Both ends of the cable; only then does nothing get through in either direction.
void Run::lose_link(bool tell) {
  Endpoint* endpoint = hosts_[rng_.below(hosts_.size())]->endpoint;
  const auto port = static_cast<uint32_t>(rng_.below(endpoint->ports()));
  const auto [from, until] = some_while();
  world_.at(from, [this, endpoint, port, tell, length = until_text(from, until)] {
    counted(tell ? FaultKind::kLinkDown : FaultKind::kLinkSilent);
    if (story_ != nullptr)
      story_->line('~', fmt::format("port {} of {} loses its link for {}", port, endpoint->name(), length));
    endpoint->set_link(port, false, tell);
  });
  world_.at(until, [endpoint, port, tell] { endpoint->set_link(port, true, tell); });
}

void Run::jump_clock() {
  Endpoint* endpoint = hosts_[rng_.below(hosts_.size())]->endpoint;
  const auto [from, until] = some_while();
  world_.at(from, [this, endpoint, jump = until - from, length = until_text(from, until)] {
    if (!endpoint->running()) return;
    counted(FaultKind::kClockJump);
    if (story_ != nullptr)
      story_->line('~', fmt::format("the clock of {} jumps {}", endpoint->name(), length));
    endpoint->jump_clock(jump);
  });
}

void Run::read_slowly() {
  Endpoint* endpoint = hosts_[rng_.below(hosts_.size())]->endpoint;
  const auto [from, until] = some_while();
  const uint64_t rate = kSlowReadBps[rng_.below(std::size(kSlowReadBps))];
  world_.at(from, [this, endpoint, rate, length = until_text(from, until)] {
    if (story_ != nullptr)
      story_->line('~', fmt::format("{} reads {} bit/s only for {}", endpoint->name(), rate, length));
    endpoint->set_read_rate(rate);
  });
  world_.at(until, [this, endpoint] { endpoint->set_read_rate(o_.read_rate_bps); });
}

void Run::schedule_incidents() {
  for (uint32_t i = 0; i < o_.clogs; ++i) spell(FaultKind::kClog, rng_.chance(0.5), rng_.chance(0.5));
  for (uint32_t i = 0; i < o_.cuts; ++i) spell(FaultKind::kCut, rng_.chance(0.5), false);
  for (uint32_t i = 0; i < o_.dead_paths; ++i) spell(FaultKind::kPathDown, rng_.chance(0.5), true);
  for (uint32_t i = 0; i < o_.storms; ++i) storm();
  for (uint32_t i = 0; i < o_.silent_links; ++i) lose_link(false);
  for (uint32_t i = 0; i < o_.clock_jumps; ++i) jump_clock();
  for (uint32_t i = 0; i < o_.slow_reads; ++i) read_slowly();
}

}  // namespace mroce::soak
