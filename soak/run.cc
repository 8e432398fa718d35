#include "soak/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "soak/story.h"

namespace mroce::soak {

namespace {
constexpr Nanos kEndless = seconds(60);  // to finish after the faults have ended
}  // namespace

Run::Run(const RunOptions& options, Plant* plant, Story* story)
    : o_(options), rng_(options.seed * 2), world_(options.seed), plant_(plant), story_(story) {
  if (story_ != nullptr) {
    story_->begin(world_);
    oracle_.on_violation = [this](std::string_view kind, const std::string& text) {
      story_->line('?', fmt::format("{}: {}", kind, text));
    };
  }
  oracle_.on_ended = [this](Flow& flow, Op& op) {
    Host& host = host_of(*flow.requester);
    if (op.local_bytes != 0) {
      // The application uses the buffer for something else now.
      const auto bytes = host.endpoint->memory().bytes(op.local, op.local_bytes);
      if (!op.reads()) std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
      host.free.give_back(op.local, op.local_bytes);
    }
    if (plant_ != nullptr && op.end == Op::End::kSuccess) plant_->after_success(flow, op);
  };
  oracle_.on_receive_ended = [](ReceivePool& pool, const Receive& receive) {
    pool.free_slots.push_back(receive.slot);
  };
  bytes_left_ = o_.bytes;
  remakes_left_ = o_.destroys ? 2 * o_.links : 0;
}

bool Run::wants_to_post(const Side& side) const {
  const Flow& flow = *side.out;
  if (!side.alive || !side.ready || flow.next_post >= (final_ ? flow.ops.size() : flow.main_ops))
    return false;
  const bool broken = flow.failed || side.link->disturbed || side.link->flawed();
  if (!broken) return true;
  if (final_) return false;
  // What was posted last must be signaled, so that its end is seen. Some go on posting into the error.
  const bool open_end = flow.next_post > 0 && !flow.ops[flow.next_post - 1].signaled();
  return open_end || (!flow.failed && flow.next_post < flow.main_ops * 3 / 4);
}

// Nothing will be told of what is outstanding.
bool Run::awaits_nothing(const Flow& flow) const {
  if (flow.next_end == flow.next_post) return false;
  return std::none_of(flow.ops.begin() + static_cast<ptrdiff_t>(flow.next_end),
                      flow.ops.begin() + static_cast<ptrdiff_t>(flow.next_post),
                      [](const Op& op) { return op.signaled(); });
}

void Run::post_some(Side& side) {
  Flow& flow = *side.out;
  for (uint64_t count = rng_.between(1, 12); count > 0 && wants_to_post(side); --count) {
    Op& op = flow.ops[flow.next_post];
    if (op.local_bytes == 0 && !prepare(flow, op)) {
      if (!awaits_nothing(flow) || op.flaw != Flaw::kNone || op.is_atomic()) return;
      // It would wait for ever for what it holds itself, or others do who wait like it.
      op.length = 0;
      op.flags |= send_flag::kSignaled;
    }
    SendWr wr;
    wr.wr_id = op.id;
    wr.opcode = op.opcode;
    wr.flags = op.flags;
    wr.sges = op.sges;
    wr.remote_addr = op.remote;
    wr.rkey = op.rkey;
    wr.imm_or_invalidate = op.imm;
    wr.compare_or_add = op.opcode == Opcode::kCompareSwap ? op.compare : op.operand;
    wr.swap = op.operand;
    // Before the call: the engine may flush it at once.
    oracle_.before_post(flow, op);
    const Status status = side.qp.post(wr);
    if (!status) {
      if (status.error() != Errc::kQueueFull || flow.next_post - flow.next_end < o_.max_send_wr) {
        oracle_.report("post", fmt::format("refused with error {}: {}", static_cast<int>(status.error()),
                                           describe(flow, op)));
      }
      take_back(flow, op);
      return;
    }
    oracle_.posted(flow, op);
    if (op.flaw != Flaw::kNone) counted(FaultKind::kFlaw);
    if (story_ != nullptr) story_->line('+', describe(flow, op));
    if (op.is_inline() && op.local_bytes != 0) {  // the bytes were copied
      const auto bytes = side.endpoint->memory().bytes(op.local, op.local_bytes);
      std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
    }
    ++flow.next_post;
  }
}

void Run::post_receives(ReceivePool& pool, Side* side, uint32_t most) {
  while (most-- > 0 && !pool.free_slots.empty()) {
    if (side != nullptr && (!side->alive || side->qp.state() == QpState::kErr)) return;
    Receive receive;
    receive.id = next_id_++;
    receive.slot = pool.free_slots.front();
    receive.addr = pool.memory.addr + uint64_t{receive.slot} * pool.bytes_each;
    receive.sges = split(receive.addr, pool.bytes_each, pool.memory.lkey, o_.max_sge);
    const auto bytes = pool.endpoint->memory().bytes(receive.addr, pool.bytes_each);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xCA});
    const Status status = pool.srq ? pool.endpoint->post_srq_recv(pool.srq, receive.id, receive.sges)
                                   : side->qp.post_recv(receive.id, receive.sges);
    if (!status) {
      oracle_.report("post",
                     fmt::format("a receive was refused with error {}", static_cast<int>(status.error())));
      return;
    }
    pool.free_slots.erase(pool.free_slots.begin());
    pool.outstanding.push_back(std::move(receive));
  }
}

void Run::act() {
  resume_drained();
  for (const auto& host : hosts_) {
    if (host->shared && (!o_.slow_receives || calm_ || rng_.chance(0.1))) {
      post_receives(*host->shared, nullptr, o_.slow_receives ? 3 : 1000);
    }
  }
  for (size_t i = 0; i < links_.size(); ++i) {
    Link& link = *links_[i];
    for (Side& side : link.side) {
      if (!side.alive || !side.ready) continue;
      if (side.own_receives && (!o_.slow_receives || calm_ || rng_.chance(0.1))) {
        post_receives(*side.own_receives, &side, o_.slow_receives ? 3 : 1000);
      }
      if (rng_.chance(0.4)) post_some(side);
      vary(side);
    }
    if (o_.hard) give_up_broken(link);
    if (remakes_left_ > 0 && !final_ && link.alive() && !link.disturbed && rng_.chance(0.01)) disturb(link);
  }
}

void Run::take(Cq& cq) {
  std::vector<Wc> completions = cq.endpoint->poll_all(cq.handle);
  if (plant_ != nullptr) plant_->change_completions(completions);
  Host& host = *hosts_[cq.endpoint->index()];
  for (const Wc& wc : completions) {
    ++result_.completions;
    for (const uint64_t value : {wc.wr_id, static_cast<uint64_t>(wc.status), uint64_t{wc.byte_len},
                                 uint64_t{wc.qp_num}, static_cast<uint64_t>(ns_of(world_.now()))}) {
      completion_hash_ = (completion_hash_ ^ value) * 0x100000001b3ULL;
    }
    if (story_ != nullptr) story_->completion(*cq.endpoint, wc);
    const auto it = host.by_qpn.find(wc.qp_num);
    if (it == host.by_qpn.end()) {
      oracle_.report("completion_unknown", fmt::format("of queue pair {:#x}, which is gone", wc.qp_num));
    } else if ((static_cast<int>(wc.opcode) & 128) != 0) {
      oracle_.on_receive_completion(*it->second, wc);
    } else {
      oracle_.on_send_completion(*it->second, wc);
    }
  }
}

void Run::poll(bool everything) {
  if (!o_.by_events || everything) {
    for (const auto& cq : cqs_) {
      if (!everything && o_.lazy && !rng_.chance(0.05)) continue;
      if (cq->seen == cq->endpoint->activity()) continue;
      take(*cq);
      cq->seen = cq->endpoint->activity();
    }
    if (!o_.by_events) return;
  }
  for (const auto& cq : cqs_) poll_by_event(*cq);
}

// Takes what nobody is told of.
void Run::look_everywhere() {
  looks_ = true;
  poll(o_.lazy);
  looks_ = false;
}

void Run::poll_by_event(Cq& cq) {
  if (cq.armed && !cq.solicited && cq.asked == cq.endpoint->activity()) return;
  cq.asked = cq.endpoint->activity();
  bool told = cq.armed && cq.endpoint->take_event(EventKind::kCompletion, cq.user);
  if (told && plant_ != nullptr && plant_->now(Bug::kLostNotification)) told = false;
  // Who is told of solicited completions only looks for the others now and then.
  const bool looks = cq.armed && cq.solicited && (looks_ || rng_.chance(0.02));
  if (cq.armed && !told && !looks) return;
  oracle_.take_notable();
  take(cq);
  const bool notable = oracle_.take_notable();
  if (cq.armed && cq.solicited && !told && notable)
    oracle_.report("notification", "a solicited or failed completion came without one");
  if (cq.armed && cq.solicited && told && !notable && !disturbed_any_)
    oracle_.report("notification", "one came for completions that nobody solicited");
  if (cq.armed && !told) cq.endpoint->engine().arm_cq(cq.handle, false);  // the wider one holds
  cq.solicited = o_.solicited && !(cq.armed && !told) && rng_.chance(0.7);
  const Status armed = cq.endpoint->engine().arm_cq(cq.handle, cq.solicited);
  cq.armed = true;
  if (!armed) oracle_.report("post", "a CQ cannot be armed");
  take(cq);  // what came between the two
}

bool Run::finished(const Link& link) const {
  const bool must_succeed = link.must_succeed();
  for (const Flow& flow : link.flow) {
    if (!flow.requester->alive) continue;
    if (must_succeed && flow.next_post < (final_ ? flow.ops.size() : flow.main_ops)) return false;
    for (size_t i = flow.next_end; i < flow.next_post; ++i) {
      if (flow.ops[i].signaled() || flow.failed) return false;
    }
    if (!must_succeed) continue;
    for (size_t i = flow.next_receive; i < flow.next_post; ++i) {
      if (flow.ops[i].consumes_receive()) return false;
    }
  }
  return true;
}

bool Run::all_finished() const {
  return pending_ == 0 &&
         std::all_of(links_.begin(), links_.end(), [this](const auto& link) { return finished(*link); });
}

bool Run::all_posted() const {
  return std::none_of(links_.begin(), links_.end(), [this](const auto& link) {
    return wants_to_post(link->side[0]) || wants_to_post(link->side[1]);
  });
}

bool Run::counted(FaultKind kind) {
  world_.network().tally().count(kind);
  if (story_ != nullptr && kind != FaultKind::kFalseCredit) story_->line('~', name_of(kind));
  return true;
}

RunResult Run::go() {
  for (uint32_t i = 0; i < o_.endpoints; ++i) add_host();
  schedule_faults();
  vary_ways();
  schedule_incidents();
  if (o_.overcommit != 0) overcommit_credits();
  for (uint32_t i = 0; i < o_.links; ++i) {
    const size_t a = rng_.below(hosts_.size());
    const size_t b = o_.to_itself && i == 0 ? a : (a + 1 + rng_.below(hosts_.size() - 1)) % hosts_.size();
    add_link(*hosts_[a], *hosts_[b]);
  }
  const Time begin = world_.now();
  Time calm_at = kNever;
  Time give_up = kNever;
  Time moved_at = begin;  // the last completion
  quiet_at_ = begin + o_.span + o_.longest_outage;
  uint64_t pace = o_.pace_us;  // us between doings
  if (pace == 0) pace = rng_.chance(0.7) ? 100 : 5000;
  while (!(all_posted() && all_finished()) && world_.now() < give_up) {
    act();
    // A long time-out, or a stall. While something moves the applications keep up: receives of which there is
    // room for a few only would become the bottleneck.
    const bool patient = calm_ && world_.now() > std::max(calm_at, moved_at) + seconds(2);
    const uint64_t completions = result_.completions;
    const Nanos rest = patient ? millis(50) : micros(static_cast<int64_t>(rng_.between(1, pace)));
    world_.run_until(
        [this] {
          poll(false);
          return false;
        },
        rest);
    if (result_.completions != completions) moved_at = world_.now();
    if (calm_at == kNever && (all_posted() || world_.now() - begin > o_.longest_work)) {
      calm_at = world_.now() + micros(static_cast<int64_t>(rng_.below(300000)));
    }
    if (!calm_ && world_.now() >= calm_at) {
      calm_ = true;
      world_.network().stop_faults();
      remakes_left_ = 0;
      give_up = std::max(world_.now(), quiet_at_) + kEndless;
      if (story_ != nullptr) story_->line('~', "the faults end");
    }
    check_bounds();
    if (!oracle_.violations().empty()) break;
  }
  if (!calm_) world_.network().stop_faults();
  calm_ = true;
  if (oracle_.violations().empty()) final_round();
  result_.violations = oracle_.violations();
  result_.hash = world_.network().packet_hash() ^ completion_hash_;
  result_.datagrams = world_.network().counters().sent;
  result_.virtual_time = world_.now() - begin;
  result_.faults = world_.network().tally();
  result_.final_draw = rng_.next() ^ world_.network().final_draw() ^ world_.rng().next();
  return result_;
}

}  // namespace mroce::soak
