// What a random run begins with: endpoints, queue pairs, faults.
#include <algorithm>

#include "soak/run.h"

namespace mroce::soak {

namespace {
constexpr uint64_t kReceiveMemory = 1 << 20;        // of a pool
constexpr uint64_t kReceiveMemoryOfSoak = 1 << 17;  // what is not packets costs time
constexpr uint32_t kWords = 16;

// Generous: a run without flaws must not fail for impatience.
constexpr uint8_t kTimeout = 16;

constexpr uint64_t kPortQueueBytes = 300000;
constexpr uint64_t kPortMarkBytes = 100000;

// Identity, slot and ports stay.
void take_engine_options(const EngineOptions& own, EngineConfig& config) {
  EngineConfig result = own.config;
  result.seed = config.seed;
  result.endpoint_id = config.endpoint_id;
  result.slot = config.slot;
  result.ports = std::move(config.ports);
  config = std::move(result);
}
}  // namespace

EndpointOptions Run::endpoint_options(uint32_t index) {
  EndpointOptions options;
  options.planes = o_.planes;
  options.slot = static_cast<uint8_t>(rng_.below(4));
  options.read_rate_bps = o_.read_rate_bps;
  options.read_buffer_bytes = o_.read_buffer_bytes;
  const uint64_t wrap_seed = o_.near_wrap ? seed_near_wrap(rng_, o_.varied ? 20000 : 2000) : 0;
  options.tweak = [this, wrap_seed, index, starts = 0](EngineConfig& config) mutable {
    if (o_.varied) take_engine_options(draw_engine_options(o_, index), config);
    if (o_.near_wrap && starts++ == 0) config.seed = wrap_seed;
    for (LocalPort& port : config.ports) port.rate_bps = o_.port_rate_bps;
    if (o_.read_rate_bps != 0) config.receive_buffer_bytes = static_cast<uint32_t>(o_.read_buffer_bytes);
    if (o_.encrypted) {
      config.security = SecurityPolicy::kRequire;
      config.preshared_key.emplace().fill(static_cast<uint8_t>(o_.seed));
      config.key_update_packets = 30 + o_.seed % 100;
    }
    if (o_.varied) return;
    config.max_paths = o_.paths;
    config.max_payload = o_.max_payload;
    config.cpsn_window = o_.cpsn_window;
    config.window_bytes = o_.window_bytes;
    config.initial_window = o_.initial_window;
    config.ack_every = o_.ack_every;
    config.held_bytes = o_.held_bytes;
    config.tail_hold = o_.tail_hold;
    config.ecn = o_.ecn;
  };
  if (o_.sharing != 0) {
    options.host = static_cast<uint8_t>(1 + index / o_.sharing);
    options.slot = static_cast<uint8_t>(index % o_.sharing);
  }
  if (o_.varied) {
    const EngineOptions own = draw_engine_options(o_, index);
    options.planes = own.planes;
    options.link_mtu = own.link_mtu;
    options.clock_ahead = own.clock_ahead;
  }
  return options;
}

void Run::add_host() {
  auto host = std::make_unique<Host>();
  host->endpoint = &world_.add_endpoint(endpoint_options(static_cast<uint32_t>(hosts_.size())));
  oracle_.watch(*host->endpoint);
  if (plant_ != nullptr) plant_->watch(*host->endpoint);
  set_up(*host);
  hosts_.push_back(std::move(host));
}

// Every pair of endpoints, and every path between them, has its own latency and rate.
void Run::vary_ways() {
  Network& network = world_.network();
  if (o_.port_rate_bps != 0) {
    for (const auto& host : hosts_) {
      for (uint32_t port = 0; port < host->endpoint->ports(); ++port)
        network.set_port_rate(host->endpoint->gid(port), o_.port_rate_bps, kPortQueueBytes, kPortMarkBytes);
    }
  }
  if (o_.spread <= 1) return;
  const auto worse = [this](Faults& faults) {
    const double factor = 1 + (o_.spread - 1) * rng_.uniform();
    faults.latency = Nanos{static_cast<int64_t>(static_cast<double>(faults.latency.count()) * factor)};
    faults.rate_bps = static_cast<uint64_t>(static_cast<double>(faults.rate_bps) / factor);
  };
  for (uint32_t a = 0; a < hosts_.size(); ++a) {
    for (uint32_t b = 0; b < hosts_.size(); ++b) {
      worse(network.faults(a, b));
      for (uint32_t path = 0; path < o_.paths; ++path) {
        if (rng_.chance(0.5)) worse(network.faults(a, b, static_cast<uint8_t>(path)));
      }
    }
  }
}

// What an application makes once when it begins.
void Run::set_up(Host& host) {
  host.arena = host.endpoint->make_mr(4 * o_.largest + (1 << 18), access::kLocalWrite);
  host.free = RangeAllocator(host.arena.addr, host.arena.length);
  host.words = host.endpoint->make_mr(8 * kWords);
  host.no_rights = host.endpoint->make_mr(64, access::kLocalWrite);
  oracle_.add_words(*host.endpoint, host.words);
  if (o_.shared_cqs) host.shared_cq = make_cq(host);
  if (o_.shared_receives) host.shared = make_pool(host, host.endpoint->make_srq(o_.max_recv_wr, o_.max_sge));
}

CqHandle Run::make_cq(Host& host) {
  const uint64_t user = ++last_cq_user_;
  cqs_.push_back(std::make_unique<Cq>(Cq{host.endpoint, host.endpoint->make_cq(100000, user), user, false}));
  return cqs_.back()->handle;
}

std::unique_ptr<ReceivePool> Run::make_pool(Host& host, SrqHandle srq) {
  auto pool = std::make_unique<ReceivePool>();
  pool->endpoint = host.endpoint;
  pool->srq = srq;
  pool->capacity = o_.max_recv_wr;
  const uint64_t memory = o_.varied ? kReceiveMemoryOfSoak : kReceiveMemory;
  pool->bytes_each =
      static_cast<uint32_t>(std::min<uint64_t>(o_.largest, memory / pool->capacity / (o_.links > 4 ? 4 : 1)));
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
  if (!side.qp.handle) {
    options.relaxed = o_.relaxed && rng_.chance(0.5);
    options.user = side.user = ++last_qp_user_;
    side.qp = host.endpoint->make_qp(options);
  }
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
    flow.holds_tails = o_.tail_hold && !o_.relaxed;
    if (flow.region.length == 0)
      flow.region = flow.responder->endpoint->make_mr(64 + rng_.below(o_.largest * 3 / 2));
    if (flow.host == 0) flow.host = flow.region.addr;
  }
  const bool flawed = o_.flaws && !meeting_ && rng_.chance(0.5);
  const bool which = rng_.chance(0.5);
  if (plant_ != nullptr) {
    for (const Flow& flow : link.flow) plant_->add_region(*flow.responder->endpoint, flow.region);
  }
  write_script(link.flow[0], flawed && which);
  write_script(link.flow[1], flawed && !which);
  oracle_.add_link(link);
  ConnectOptions options;
  options.timeout = kTimeout;
  options.rnr_retry = o_.rnr_retry;
  options.min_rnr_timer = o_.min_rnr_timer;
  link.impatient = o_.rnr_retry != 7;
  options.max_rd_atomic = o_.rd_atomic;
  options.max_dest_rd_atomic = static_cast<uint8_t>(rng_.between(1, o_.rd_atomic));
  options.sq_psn = static_cast<uint32_t>(rng_.below(1 << 24));
  options.rq_psn = static_cast<uint32_t>(rng_.below(1 << 24));
  options.local_port = static_cast<uint32_t>(rng_.below(std::min(a.endpoint->ports(), b.endpoint->ports())));
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
    if (link.side[1].gone || link.retired) return;  // an application whose first work request failed gave up
    connect_one(link.side[1].qp, link.side[0].qp, reverse);
    link.side[1].ready = true;
  });
}

Link& Run::add_link(Host& a, Host& b) {
  links_.push_back(std::make_unique<Link>());
  links_.back()->fragile = may_be_silent(a, b);
  begin_link(*links_.back(), a, b);
  return *links_.back();
}

void Run::schedule_faults() {
  Network& network = world_.network();
  network.set_coalesce(o_.coalesce);
  network.faults() = o_.faults;
  const Time begin = world_.now();
  for (uint32_t i = 0; i < o_.path_outages; ++i) {
    const Time from = begin + some_time(o_.span);
    network.drop_path_between(static_cast<uint8_t>(rng_.below(o_.paths)), from,
                              from + some_time(o_.longest_outage));
  }
  for (uint32_t i = 0; i < o_.blackouts; ++i) {
    const Time from = begin + some_time(o_.span);
    network.drop_between(from, from + some_time(o_.longest_outage));
  }
  for (uint32_t i = 0; i < o_.freezes; ++i) {
    Endpoint* endpoint = hosts_[rng_.below(hosts_.size())]->endpoint;
    const Nanos duration = some_time(o_.longest_outage);
    world_.after(some_time(o_.span), [this, endpoint, duration] {
      if (endpoint->running() && counted(FaultKind::kPause)) endpoint->freeze(duration);
    });
  }
  for (uint32_t i = 0; i < o_.cut_links; ++i) {
    Endpoint* endpoint = hosts_[rng_.below(hosts_.size())]->endpoint;
    const auto port = static_cast<uint32_t>(rng_.below(endpoint->ports()));
    const Time from = begin + some_time(o_.span);
    world_.at(from, [this, endpoint, port] {
      counted(FaultKind::kLinkDown);
      endpoint->set_link(port, false);
    });
    world_.at(from + some_time(o_.longest_outage), [endpoint, port] { endpoint->set_link(port, true); });
  }
  for (uint32_t i = 0; i < o_.crashes; ++i) {
    const size_t victim = rng_.below(hosts_.size());
    world_.after(some_time(std::max<Nanos>(o_.span, millis(50))), [this, victim] { crash(*hosts_[victim]); });
  }
}

}  // namespace mroce::soak
