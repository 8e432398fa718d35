#include "tests/property/run.h"

#include <fmt/format.h>

#include <algorithm>

namespace mroce::test {

namespace {
constexpr uint64_t kBytesOfARun = 2 << 20;
constexpr uint64_t kReceiveMemory = 1 << 20;  // of a pool
constexpr uint32_t kWords = 16;
constexpr Nanos kEndless = seconds(60);  // to finish after the faults have ended
constexpr Nanos kFinalRound = seconds(2);
constexpr uint64_t kIdleDatagrams = 40;  // in three idle seconds, for each pair of endpoints

// Generous: a run without flaws must not fail for impatience.
constexpr uint8_t kTimeout = 16;
}  // namespace

Run::Run(const RunOptions& options, Plant* plant)
    : o_(options), rng_(options.seed * 2), world_(options.seed), oracle_(options.tail_hold), plant_(plant) {
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
  bytes_left_ = kBytesOfARun;
  remakes_left_ = o_.destroys ? 2 * o_.links : 0;
}

// ---- setup
// ------------------------------------------------------------------------------------------------------

void Run::add_host() {
  EndpointOptions options;
  options.planes = o_.planes;
  options.slot = static_cast<uint8_t>(rng_.below(4));
  options.read_rate_bps = o_.read_rate_bps;
  options.read_buffer_bytes = o_.read_buffer_bytes;
  const uint64_t wrap_seed = o_.near_wrap ? seed_near_wrap(rng_, 2000) : 0;
  options.tweak = [this, wrap_seed](EngineConfig& config) {
    if (o_.near_wrap) config.seed = wrap_seed;
    config.max_paths = o_.paths;
    config.max_payload = o_.max_payload;
    config.cpsn_window = o_.cpsn_window;
    config.window_bytes = o_.window_bytes;
    config.initial_window = o_.initial_window;
    config.ack_every = o_.ack_every;
    config.held_bytes = o_.held_bytes;
    config.tail_hold = o_.tail_hold;
    config.ecn = o_.ecn;
    if (o_.read_rate_bps != 0) config.receive_buffer_bytes = static_cast<uint32_t>(o_.read_buffer_bytes);
  };
  auto host = std::make_unique<Host>();
  host->endpoint = &world_.add_endpoint(options);
  oracle_.watch(*host->endpoint);
  if (plant_ != nullptr) plant_->watch(*host->endpoint);
  host->arena = host->endpoint->make_mr(4 * o_.largest + (1 << 18), access::kLocalWrite);
  host->free = RangeAllocator(host->arena.addr, host->arena.length);
  host->words = host->endpoint->make_mr(8 * kWords);
  host->no_rights = host->endpoint->make_mr(64, access::kLocalWrite);
  oracle_.add_words(*host->endpoint, host->words);
  if (o_.shared_cqs) host->shared_cq = make_cq(*host);
  if (o_.shared_receives)
    host->shared = make_pool(*host, host->endpoint->make_srq(o_.max_recv_wr, o_.max_sge));
  hosts_.push_back(std::move(host));
}

CqHandle Run::make_cq(Host& host) {
  const uint64_t user = cqs_.size() + 1;
  cqs_.push_back(std::make_unique<Cq>(Cq{host.endpoint, host.endpoint->make_cq(100000, user), user, false}));
  return cqs_.back()->handle;
}

std::unique_ptr<ReceivePool> Run::make_pool(Host& host, SrqHandle srq) {
  auto pool = std::make_unique<ReceivePool>();
  pool->endpoint = host.endpoint;
  pool->srq = srq;
  pool->capacity = o_.max_recv_wr;
  pool->bytes_each = static_cast<uint32_t>(
      std::min<uint64_t>(o_.largest, kReceiveMemory / pool->capacity / (o_.links > 4 ? 4 : 1)));
  pool->memory = host.endpoint->make_mr(size_t{pool->bytes_each} * pool->capacity, access::kLocalWrite);
  for (uint32_t slot = 0; slot < pool->capacity; ++slot) pool->free_slots.push_back(slot);
  oracle_.add_pool(*pool);
  return pool;
}

void Run::make_side(Side& side, Link& link, Host& host) {
  side.link = &link;
  side.endpoint = host.endpoint;
  QpOptions options;
  options.cap = {o_.max_send_wr, o_.max_recv_wr, o_.max_sge, o_.max_sge, o_.max_inline};
  options.send_cq = o_.shared_cqs ? host.shared_cq : make_cq(host);
  options.recv_cq = o_.shared_cqs || rng_.chance(0.3) ? options.send_cq : make_cq(host);
  if (host.shared != nullptr && rng_.chance(0.8)) options.srq = host.shared->srq;
  if (!side.qp.handle) side.qp = host.endpoint->make_qp(options);
  host.by_qpn[side.qp.number] = &side;
  if (!side.own_receives && side.receives == nullptr) {
    if (options.srq) {
      side.receives = host.shared.get();
    } else {
      side.own_receives = make_pool(host, SrqHandle{});
    }
  }
  if (side.own_receives) side.receives = side.own_receives.get();
}

void Run::begin_link(Link& link, Host& a, Host& b) {
  make_side(link.side[0], link, a);
  make_side(link.side[1], link, b);
  for (size_t i : {0u, 1u}) {
    Flow& flow = link.flow[i];
    link.side[i].out = &flow;
    link.side[1 - i].in = &flow;
    flow.requester = &link.side[i];
    flow.responder = &link.side[1 - i];
    if (flow.region.length == 0)
      flow.region = flow.responder->endpoint->make_mr(64 + rng_.below(o_.largest * 3 / 2));
  }
  const bool flawed = o_.flaws && rng_.chance(0.5);
  const bool which = rng_.chance(0.5);
  if (plant_ != nullptr) {
    for (const Flow& flow : link.flow) plant_->add_region(*flow.responder->endpoint, flow.region);
  }
  write_script(link.flow[0], flawed && which);
  write_script(link.flow[1], flawed && !which);
  oracle_.add_link(link);
  ConnectOptions options;
  options.timeout = kTimeout;
  options.max_rd_atomic = o_.rd_atomic;
  options.max_dest_rd_atomic = static_cast<uint8_t>(rng_.between(1, o_.rd_atomic));
  options.sq_psn = static_cast<uint32_t>(rng_.below(1 << 24));
  options.rq_psn = static_cast<uint32_t>(rng_.below(1 << 24));
  options.local_port = static_cast<uint32_t>(rng_.below(o_.planes));
  options.remote_port = options.local_port;
  if (rng_.chance(0.5)) {
    connect(link.side[0].qp, link.side[1].qp, options);
    return;
  }
  // One side is ready long before the other.
  ConnectOptions reverse = options;
  std::swap(reverse.sq_psn, reverse.rq_psn);
  connect_one(link.side[0].qp, link.side[1].qp, options);
  link.side[1].ready = false;
  ++pending_;
  world_.after(micros(static_cast<int64_t>(rng_.below(100000))), [this, &link, reverse] {
    --pending_;
    connect_one(link.side[1].qp, link.side[0].qp, reverse);
    link.side[1].ready = true;
  });
}

Link& Run::add_link(Host& a, Host& b) {
  links_.push_back(std::make_unique<Link>());
  begin_link(*links_.back(), a, b);
  return *links_.back();
}

void Run::schedule_faults() {
  Network& network = world_.network();
  network.set_coalesce(o_.coalesce);
  network.faults() = o_.faults;
  const Time begin = world_.now();
  const auto some_time = [&](Nanos most) {
    return Nanos{static_cast<int64_t>(rng_.below(static_cast<uint64_t>(most.count()) + 1))};
  };
  for (uint32_t i = 0; i < o_.path_outages; ++i) {
    const Time from = begin + some_time(millis(30));
    network.drop_path_between(static_cast<uint8_t>(rng_.below(o_.paths)), from,
                              from + some_time(o_.longest_outage));
  }
  for (uint32_t i = 0; i < o_.blackouts; ++i) {
    const Time from = begin + some_time(millis(30));
    network.drop_between(from, from + some_time(o_.longest_outage));
  }
  for (uint32_t i = 0; i < o_.freezes; ++i) {
    Endpoint* endpoint = hosts_[rng_.below(hosts_.size())]->endpoint;
    const Nanos duration = some_time(o_.longest_outage);
    world_.after(some_time(millis(30)), [endpoint, duration] { endpoint->freeze(duration); });
  }
  for (uint32_t i = 0; i < o_.cut_links; ++i) {
    Endpoint* endpoint = hosts_[rng_.below(hosts_.size())]->endpoint;
    const auto port = static_cast<uint32_t>(rng_.below(o_.planes));
    const Time from = begin + some_time(millis(30));
    world_.at(from, [endpoint, port] { endpoint->set_link(port, false); });
    world_.at(from + some_time(o_.longest_outage), [endpoint, port] { endpoint->set_link(port, true); });
  }
}

// ---- acting
// -----------------------------------------------------------------------------------------------------

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

void Run::post_some(Side& side) {
  Flow& flow = *side.out;
  for (uint64_t count = rng_.between(1, 12); count > 0 && wants_to_post(side); --count) {
    Op& op = flow.ops[flow.next_post];
    if (op.local_bytes == 0 && !prepare(flow, op)) return;
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
      return;
    }
    oracle_.posted(flow, op);
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
    }
    if (remakes_left_ > 0 && !final_ && link.alive() && !link.disturbed && rng_.chance(0.01)) disturb(link);
  }
}

// The application breaks a link in one of several ways. Some time later it throws both queue pairs away, and
// perhaps makes new ones, or takes them to RESET and connects them again.
void Run::disturb(Link& link) {
  Side& side = link.side[rng_.below(2)];
  if (!link.side[0].alive || !link.side[1].alive || !link.side[0].ready || !link.side[1].ready) return;
  --remakes_left_;
  ++pending_;
  disturbed_any_ = true;
  poll(true);
  link.disturbed = true;
  switch (rng_.below(3)) {
    case 0:
      (void)side.qp.to_error();
      break;
    case 1:
      oracle_.destroyed(side);
      (void)side.qp.to_reset();
      break;
    default:
      break;
  }
  world_.after(micros(static_cast<int64_t>(rng_.below(rng_.chance(0.3) ? 3000000 : 3000))),
               [this, &link] { retire(link); });
}

void Run::retire(Link& link) {
  --pending_;
  poll(true);
  const bool reuse = rng_.chance(0.3);
  const bool again = !final_ && rng_.chance(0.7);
  Host& a = host_of(link.side[0]);
  Host& b = host_of(link.side[1]);
  for (Side& side : link.side) {
    if (side.alive) oracle_.destroyed(side);
    host_of(side).by_qpn.erase(side.qp.number);
    if (reuse && again) {
      const Status reset = side.qp.to_reset();
      if (!reset) oracle_.report("post", "RESET was refused");
    } else {
      side.qp.destroy();
    }
  }
  oracle_.remove_link(link);
  if (!again) return;
  links_.push_back(std::make_unique<Link>());
  Link& next = *links_.back();
  for (size_t i : {0u, 1u}) {
    next.flow[i].region = link.flow[i].region;
    if (!reuse) continue;
    next.side[i].qp = link.side[i].qp;
    if (link.side[i].own_receives) {
      // What was posted is gone with the RESET, without completions.
      next.side[i].own_receives = std::move(link.side[i].own_receives);
      ReceivePool& pool = *next.side[i].own_receives;
      for (const Receive& receive : pool.outstanding) pool.free_slots.push_back(receive.slot);
      pool.outstanding.clear();
      oracle_.add_pool(pool);
    } else {
      next.side[i].receives = link.side[i].receives;
    }
  }
  begin_link(next, a, b);
}

// ---- completions
// ------------------------------------------------------------------------------------------------

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
    for (const auto& cq : cqs_) take(*cq);
    if (!o_.by_events) return;
  }
  for (const auto& cq : cqs_) {
    if (cq->armed && !cq->endpoint->take_event(EventKind::kCompletion, cq->user)) continue;
    if (cq->armed && plant_ != nullptr && plant_->now(Bug::kLostNotification)) continue;
    take(*cq);
    const Status armed = cq->endpoint->engine().arm_cq(cq->handle, false);
    cq->armed = true;
    if (!armed) oracle_.report("post", "a CQ cannot be armed");
    take(*cq);  // what came between the two
  }
}

bool Run::finished(const Link& link) const {
  const bool must_succeed = !link.disturbed && !link.flawed();
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

RunResult Run::go() {
  for (uint32_t i = 0; i < o_.endpoints; ++i) add_host();
  schedule_faults();
  for (uint32_t i = 0; i < o_.links; ++i) {
    const size_t a = rng_.below(hosts_.size());
    const size_t b = o_.to_itself && i == 0 ? a : (a + 1 + rng_.below(hosts_.size() - 1)) % hosts_.size();
    add_link(*hosts_[a], *hosts_[b]);
  }
  const Time begin = world_.now();
  Time calm_at = kNever;
  Time give_up = kNever;
  const uint64_t pace = rng_.chance(0.7) ? 100 : 5000;  // us between doings
  while (!(all_posted() && all_finished()) && world_.now() < give_up) {
    act();
    const bool patient = calm_ && world_.now() > calm_at + seconds(2);  // a long time-out, or a stall
    const Nanos rest = patient ? millis(50) : micros(static_cast<int64_t>(rng_.between(1, pace)));
    world_.run_until(
        [this] {
          poll(false);
          return false;
        },
        rest);
    if (calm_at == kNever && (all_posted() || world_.now() - begin > seconds(3))) {
      calm_at = world_.now() + micros(static_cast<int64_t>(rng_.below(300000)));
    }
    if (!calm_ && world_.now() >= calm_at) {
      calm_ = true;
      world_.network().stop_faults();
      remakes_left_ = 0;
      give_up = world_.now() + kEndless;
    }
    if (!oracle_.violations().empty()) break;
  }
  if (!calm_) world_.network().stop_faults();
  calm_ = true;
  if (oracle_.violations().empty()) final_round();
  result_.violations = oracle_.violations();
  result_.hash = world_.network().packet_hash() ^ completion_hash_;
  result_.datagrams = world_.network().counters().sent;
  result_.virtual_time = world_.now() - begin;
  return result_;
}

// ---- the end
// ----------------------------------------------------------------------------------------------------

// Links that nobody broke must serve at once now: no credit, window or number has got lost.
void Run::final_round() {
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
  poll(false);
  for (const auto& link : links_) {
    oracle_.check_finished(*link);
    if (!link->disturbed && !link->flawed() && !finished(*link)) {
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
  world_.run_for(seconds(2));
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

// Between engines that follow the protocol these stay zero, whatever the network does.
void Run::check_counters() {
  for (const auto& host : hosts_) {
    const EngineCounters& c = host->endpoint->look().counters();
    const std::pair<const char*, uint64_t> wrong[] = {
        {"drop_malformed", c.drop_malformed},
        {"drop_forged_ack", c.drop_forged_ack},
        {"drop_path", c.drop_path},
        {"drop_cpsn", c.drop_cpsn},
        {"drop_reset", c.drop_reset},
        {"drop_limit", c.drop_limit},
        {"drop_magic", c.drop_magic},
        {"connections_failed", c.connections_failed},
        {"naks_sent", o_.flaws || disturbed_any_ ? 0 : c.naks_sent}};
    for (const auto& [name, value] : wrong) {
      if (value != 0)
        oracle_.report("counter", fmt::format("{} is {} at {}", name, value, host->endpoint->name()));
    }
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

}  // namespace mroce::test
