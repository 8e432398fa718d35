// What applications do to their queue pairs and to themselves while work is under way.
#include <fmt/format.h>

#include <algorithm>

#include "soak/run.h"
#include "soak/story.h"

namespace mroce::soak {

namespace {
constexpr Nanos kZombieTime = seconds(20);  // after a crash, until no peer takes the old endpoint for alive
}

Nanos Run::some_time(Nanos most) {
  return Nanos{static_cast<int64_t>(rng_.below(static_cast<uint64_t>(most.count()) + 1))};
}

// The application breaks a link in one of several ways. Some time later it throws both queue pairs away, and
// perhaps makes new ones, or takes them to RESET and connects them again.
void Run::disturb(Link& link) {
  Side& side = link.side[rng_.below(2)];
  if (!link.side[0].alive || !link.side[1].alive || !link.side[0].ready || !link.side[1].ready) return;
  --remakes_left_;
  poll(true);
  oracle_.disturbed(link);
  Status done;
  switch (rng_.below(5)) {
    case 0:
      counted(FaultKind::kQpError);
      done = side.qp.to_error();
      break;
    case 1:
      counted(FaultKind::kQpReset);
      oracle_.destroyed(side);
      done = side.qp.to_reset();
      break;
    case 2:  // the peers go on writing and reading
      counted(FaultKind::kRegionGone);
      link.deregistered = true;
      oracle_.region_gone(*side.in);
      done = side.endpoint->engine().dereg_mr(side.in->region.lkey);
      break;
    case 3:
      if (!side.own_receives) break;
      counted(FaultKind::kRegionGone);
      link.deregistered = true;
      oracle_.pool_gone(*side.own_receives);
      done = side.endpoint->engine().dereg_mr(side.own_receives->memory.lkey);
      break;
    default:
      break;
  }
  if (!done) oracle_.report("post", "RESET, ERR or a deregistration was refused");
  retire_later(link, rng_.chance(0.3) ? seconds(3) : millis(3));
}

void Run::retire_later(Link& link, Nanos most) {
  ++pending_;
  disturbed_any_ = true;
  link.retiring = true;
  world_.after(some_time(most), [this, &link] { retire(link); });
}

void Run::retire(Link& link) {
  --pending_;
  Host& a = host_of(link.side[0]);
  Host& b = host_of(link.side[1]);
  if (!a.endpoint->running() || !b.endpoint->running()) return retire_later(link, millis(100));
  // Completions of queue pairs that go may still stand in a CQ, among others. (Those of an SRQ would hide
  // which of its receives are free.)
  if (o_.shared_receives || rng_.chance(0.5)) poll(true);
  const bool reuse = !link.deregistered && !link.side[0].gone && !link.side[1].gone && rng_.chance(0.3);
  const bool again = !final_ && rng_.chance(0.7);
  for (Side& side : link.side) {
    if (side.alive) oracle_.destroyed(side);
    if (side.gone) continue;
    host_of(side).by_qpn.erase(side.qp.number);
    if (reuse && again) {
      const Status reset = side.qp.to_reset();
      if (!reset) oracle_.report("post", "RESET was refused");
    } else {
      side.qp.destroy();
    }
  }
  oracle_.remove_link(link);
  link.retired = true;
  if (story_ != nullptr)
    story_->line('q', fmt::format("queue pairs {:#x} of {} and {:#x} of {} are gone{}",
                                  link.side[0].qp.number, a.endpoint->name(), link.side[1].qp.number,
                                  b.endpoint->name(), again ? ", others follow" : ""));
  if (!again) return;
  counted(FaultKind::kQpRemade);
  links_.push_back(std::make_unique<Link>());
  Link& next = *links_.back();
  next.fragile = may_be_silent(a, b);
  for (size_t i : {0u, 1u}) {
    const bool keeps = !link.deregistered && !link.side[1 - i].gone;
    if (keeps) next.flow[i].region = link.flow[i].region;
    if (keeps) next.flow[i].host = link.flow[i].host;
    if (reuse) take_over(link.side[i], next.side[i]);
  }
  begin_link(next, a, b);
}

// A queue pair that went to RESET serves a new link. What was posted is gone, without completions.
void Run::take_over(Side& from, Side& to) {
  to.qp = from.qp;
  to.user = from.user;
  to.waits_for_drain = false;
  if (!from.own_receives) {
    to.receives = from.receives;
    return;
  }
  to.own_receives = std::move(from.own_receives);
  ReceivePool& pool = *to.own_receives;
  for (const Receive& receive : pool.outstanding) pool.free_slots.push_back(receive.slot);
  pool.outstanding.clear();
  oracle_.add_pool(pool);
}

// In a hard run a peer may have been silent for too long. The application sees the error and starts again.
void Run::give_up_broken(Link& link) {
  const bool broken = link.fragile && (link.flow[0].failed || link.flow[1].failed);
  if (!broken || link.retiring || final_) return;
  oracle_.disturbed(link);
  retire_later(link, millis(300));
}

// May queue pairs that begin now fail because one endpoint hears nothing of the other?
bool Run::may_be_silent(const Host& a, const Host& b) const {
  const auto young = [this](const Host& host) {
    return host.crashed != Time{} && world_.now() < host.crashed + kZombieTime;
  };
  return young(a) || young(b) || (o_.hard && (!calm_ || world_.now() < quiet_at_ + kZombieTime));
}

// A process dies, and some time later another takes its addresses. The peers find out by silence.
void Run::crash(Host& host) {
  if (calm_ || !host.endpoint->running()) return;
  poll(true);
  for (const auto& link : links_) {
    if (link->retired) continue;
    bool touched = false;
    for (Side& side : link->side) {
      if (side.endpoint != host.endpoint) continue;
      touched = side.gone = true;
      if (side.alive) oracle_.destroyed(side);
    }
    if (!touched) continue;
    oracle_.disturbed(*link);
    if (!link->retiring) retire_later(*link, seconds(8));
  }
  counted(FaultKind::kCrash);
  if (story_ != nullptr) story_->line('*', fmt::format("{} dies", host.endpoint->name()));
  host.by_qpn.clear();
  std::erase_if(cqs_, [&](const auto& cq) { return cq->endpoint == host.endpoint; });
  if (host.shared) {
    oracle_.pool_gone(*host.shared);
    graveyard_.push_back(std::move(host.shared));
  }
  host.endpoint->crash();
  host.crashed = world_.now();
  ++pending_;
  world_.after(some_time(seconds(2)), [this, &host] {
    --pending_;
    host.endpoint->restart();
    if (story_ != nullptr) story_->line('*', fmt::format("{} starts anew", host.endpoint->name()));
    set_up(host);
  });
}

}  // namespace mroce::soak
