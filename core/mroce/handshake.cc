// INIT and INIT_ACK: two endpoints become a connection, with its planes and paths.
//
// The initiator offers, the acceptor takes the smaller of each limit; data may follow one round trip after
// INIT. Both packets are padded to the full packet size, so that path 0 is known to carry it in both
// directions. When both ends open at once, the INIT of the lower endpoint id wins. There is one connection
// for a pair of endpoint ids: an INIT that comes by another address of a peer that is already connected is
// answered with the connection that exists. When both ends open at once by different addresses, either
// notices by the endpoint id of the INIT_ACK; then, too, the INIT of the lower id wins, and what was queued
// on the other connection moves over.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

using wire::Common;
using wire::Init;

namespace {
constexpr uint32_t kUdpIpv4 = 28;
constexpr uint32_t kUdpIpv6 = 48;
constexpr uint32_t kDataOverhead = 60;    // longest header of a packet with payload (56) and trailer
constexpr uint32_t kSealedOverhead = 72;  // the same in mode 2
constexpr uint32_t kInitsOneWay = 2;
constexpr size_t kMaxInitBytes = 9216;  // no packet of ours is larger, and the answer has the same size

Nanos init_interval(uint32_t tries) {
  return std::min(millis(250), millis(10) * (1 << std::min(tries, 5u)));
}

uint32_t data_overhead(const EngineConfig& config) {
  return config.security == SecurityPolicy::kOff ? kDataOverhead : kSealedOverhead;
}
}  // namespace

bool Engine::Impl::is_local(const Gid& address) const {
  return std::any_of(config.ports.begin(), config.ports.end(),
                     [&](const LocalPort& port) { return port.address == address; });
}

// Local ports that INIT lists and that may carry planes of a connection whose primary port is `primary`: that
// one first.
std::vector<uint32_t> Engine::Impl::plane_ports(uint32_t primary, const Gid& remote) const {
  std::vector<uint32_t> result{primary};
  const Gid& first = config.ports[primary].address;
  if (first.is_loopback() || is_local(remote)) return result;
  for (uint32_t i = 0; i < config.ports.size() && result.size() < wire::kMaxPlanes; ++i) {
    const Gid& address = config.ports[i].address;
    if (i == primary || address.is_loopback() || address.is_v4_mapped() != first.is_v4_mapped() ||
        address.is_link_local() != first.is_link_local()) {
      continue;
    }
    result.push_back(i);
  }
  return result;
}

uint32_t Engine::Impl::offered_payload(uint32_t port, const Gid& remote) const {
  uint32_t link = UINT32_MAX;
  for (const uint32_t i : plane_ports(port, remote)) {
    const bool ask = i == port && config.link_mtu_to;
    link = std::min(link, ask ? config.link_mtu_to(i, remote) : config.ports[i].link_mtu);
  }
  const uint32_t overhead = (remote.is_v4_mapped() ? kUdpIpv4 : kUdpIpv6) + data_overhead(config);
  const uint32_t payload = link > overhead + 512 ? (link - overhead) / 32 * 32 : 512;
  return std::min(payload, config.max_payload);
}

Connection* Engine::Impl::new_connection(Time now) {
  if (by_id.size() >= config.max_connections) return nullptr;
  auto c = std::make_unique<Connection>();
  do {
    c->local_id = static_cast<uint32_t>(draw64());
  } while (c->local_id == 0 || by_id.contains(c->local_id));
  c->started = c->last_heard = now;
  c->first_cpsn = static_cast<uint32_t>(draw64());
  c->first_pseq = static_cast<uint32_t>(draw64());
  if (MROCE_MUTANT(kFixedStarts)) c->first_cpsn = c->first_pseq = 1;
  draw(c->reset_token);
  c->tx.restart(c->first_cpsn);
  c->cpsn_limit = c->peer_cack = c->first_cpsn;
  const auto hole = std::find(connections.begin(), connections.end(), nullptr);
  c->index = static_cast<uint32_t>(hole - connections.begin());
  Connection* raw = c.get();
  if (hole == connections.end()) {
    connections.push_back(std::move(c));
  } else {
    *hole = std::move(c);
  }
  by_id[raw->local_id] = raw;
  return raw;
}

Result<Connection*> Engine::Impl::connect(Time now, uint32_t port, const UdpAddress& remote) {
  if (const auto it = by_address.find(remote); it != by_address.end()) return it->second;
  if (shutting_down) return fail(Errc::kNoDevice);
  Connection* c = new_connection(now);
  if (c == nullptr) return fail(Errc::kNoMemory);
  c->initiator = true;
  c->port = port;
  c->remote = remote;
  c->nonce = draw64();
  if (config.security != SecurityPolicy::kOff) c->opening = new_opening();
  c->init_at = now;
  make_paths(now, *c, 1);
  by_address[remote] = c;
  want_tx(*c);
  reschedule(*c);
  return c;
}

void Engine::Impl::fill_init(const Connection& c, Init& init) const {
  init.security = c.initiator ? offered_modes() : c.mode();
  if (MROCE_MUTANT(kMode0Offered) && c.initiator) init.security |= mode_bit(kModeCrc);
  init.scid = c.local_id;
  init.endpoint_id = config.endpoint_id;
  init.reset_token = c.reset_token;
  init.nonce = c.nonce;
  init.listen_port = static_cast<uint16_t>(config.base_port + config.slot);
  init.max_paths = static_cast<uint8_t>(config.max_paths);
  init.max_streams = 65535;
  init.cpsn_window = config.cpsn_window;
  init.first_cpsn = static_cast<uint32_t>(c.first_cpsn);
  init.first_pseq = static_cast<uint32_t>(c.first_pseq);
  init.receive_buffer = config.receive_buffer_bytes;
  for (const uint32_t i : plane_ports(c.port, c.remote.ip)) {
    const LocalPort& port = config.ports[i];
    init.ports[init.nports++] = {port.address, port.prefix_bits,
                                 static_cast<uint32_t>(port.rate_bps / 1000000)};
  }
}

// What an INIT_ACK says otherwise than an INIT.
void Engine::Impl::fill_grant(const Connection& c, Init& init) {
  init.max_paths = static_cast<uint8_t>(c.paths.size());
  init.cpsn_window = static_cast<uint32_t>(c.peer_window);
}

// INIT or INIT_ACK but for its payload MTU. In mode 2 it was settled when it was first needed.
void Engine::Impl::fill_first(Connection& c, Init& init) {
  if (c.initiator) {
    if (c.opening != nullptr && c.opening->keys) {
      fill_offer(c, init);
    } else {
      fill_init(c, init);
    }
    if (c.opening != nullptr) init.cookie = c.opening->cookie;
  } else if (c.security != nullptr) {
    init = *c.opening->own;
  } else {
    fill_init(c, init);
    fill_grant(c, init);
  }
}

// Builds INIT or INIT_ACK into scratch; transmit.cc sends it. What stays without an answer tries other ways
// through the fabric, in both directions: one that swallows everything must not keep us from connecting.
void Engine::Impl::send_init(Time now, Connection& c) {
  Init init;
  fill_first(c, init);
  size_t size = 0;
  Path& p = c.paths.front();
  if (c.initiator) {
    // A path that swallows large packets must not keep us from connecting: offer less after some silence.
    uint32_t payload = offered_payload(c.port, c.remote.ip);
    if (c.init_tries >= 4) payload = std::min(payload, 1344u);
    if (c.init_tries >= 8) payload = std::min(payload, 1024u);
    c.init_payload = payload;
    if (c.init_tries >= kInitsOneWay) p.entropy = new_entropy();
    init.payload_mtu = static_cast<uint16_t>(payload);
    size = std::max<size_t>(payload + data_overhead(config), wire::kMinInitBytes) - wire::kTrailerBytes;
    ++c.init_tries;
    c.init_at = MROCE_MUTANT(kInitOnce) ? kNever : now + init_interval(c.init_tries);
  } else {
    init.payload_mtu = static_cast<uint16_t>(c.payload_mtu);
    if (!c.validated && c.init_tries++ >= kInitsOneWay) p.entropy = new_entropy();
    size = c.init_ack_bytes - c.trailer_bytes;
    c.init_ack_due = false;
  }
  const Common header = common(now, c, p, c.initiator ? wire::Type::kInit : wire::Type::kInitAck);
  add_scratch(wire::encode_init(header, init, size, {scratch_space(size), size}));
}

void Engine::Impl::on_init(Time now, const RxMeta& meta, wire::In datagram) {
  Init init;
  if (datagram.size() > kMaxInitBytes || !wire::decode_init(datagram, init)) {
    ++counters.drop_malformed;
    return;
  }
  if (init.magic != wire::kMagic) {
    ++counters.drop_magic;
    return;
  }
  if (init.version_min > wire::kVersion || init.version_max < wire::kVersion) {
    ++counters.drop_version;
    return;
  }
  if (init.scid == 0 || init.nports == 0 || init.payload_mtu < 512 || init.max_paths == 0 ||
      init.cpsn_window < 64 || init.listen_port == 0 || meta.port >= config.ports.size()) {
    ++counters.drop_malformed;
    return;
  }
  const auto mode = choose_mode(init);
  if (mode) accept(now, meta, init, *mode, datagram);
}

// `tag`: what follows `body` if its trailer is one of mode 2, which is checked here; else the CRC was right.
void Engine::Impl::on_init_ack(Time now, Connection& c, wire::In body, wire::In tag) {
  Init init;
  if (!wire::decode_init(body, init) || init.magic != wire::kMagic) {
    ++counters.drop_malformed;
    return;
  }
  if (!c.initiator || c.state != Connection::State::kInitSent) return;  // a repetition
  if (init.nonce != c.nonce) {
    ++counters.drop_connection;
    return;
  }
  if ((init.flags & static_cast<uint8_t>(wire::InitAckFlag::kExists)) != 0) {
    const auto it = by_id.find(init.known_cid);
    if (it != by_id.end() && it->second->state == Connection::State::kInitSent)
      return;  // its own INIT_ACK is late
    if (it == by_id.end() || it->second->peer_id != init.scid) {
      // The peer still holds a connection that has ended here. It ends by the token that came with this
      // answer; our next INIT finds the way free.
      ++counters.drop_connection;
      reset_stale(c, init);
      return;
    }
    merge_into(c, *it->second);
    return;
  }
  if (init.payload_mtu > c.init_payload)
    return;  // answers an offer that was withdrawn; a smaller one is under way
  if (init.scid == 0 || init.nports == 0 || (init.security != kModeCrc && tag.empty()) ||
      init.max_paths == 0 || init.payload_mtu < 512 || init.cpsn_window < 64 ||
      init.cpsn_window > config.cpsn_window || init.version_min > wire::kVersion ||
      init.version_max < wire::kVersion) {
    ++counters.drop_malformed;
    return;
  }
  std::unique_ptr<Security> security;
  if (!tag.empty()) {
    security = agree_as_initiator(c, init, body, tag);
    if (security == nullptr) return;
  } else if (config.security == SecurityPolicy::kRequire) {
    ++counters.drop_security;
    return;
  }
  accept_peer(now, c, init);
  Connection* const other = crossing(c);
  if (other != nullptr && c.peer_endpoint < config.endpoint_id) {
    // An INIT proves nothing: the other one must have brought more than that, see heard_from(). If it never
    // does, it ends by silence, and the answer to our next INIT finds none.
    c.yields = true;
    if (other->validated) merge_into(c, *other);
    return;
  }
  c.payload_mtu = MROCE_MUTANT(kOwnPayload) ? c.init_payload : init.payload_mtu;
  if (security != nullptr) secure(c, std::move(security));
  const bool repeated = c.init_tries != 1 || (c.opening != nullptr && c.opening->retries != 0);
  if (!repeated) c.rtt.sample(now - c.started);
  make_paths(now, c, std::min<uint32_t>(init.max_paths, config.max_paths));
  became_open(now, c);
  if (other != nullptr && config.endpoint_id < c.peer_endpoint && !other->validated) merge_into(*other, c);
}

// The connection that the peer of `c` has opened to us while we called it by another of its addresses. That
// address must be among those that the peer itself has listed: an INIT may bear anybody's endpoint id.
Connection* Engine::Impl::crossing(const Connection& c) const {
  for (const auto& each : connections) {
    Connection* other = each.get();
    if (other == nullptr || other == &c || other->state != Connection::State::kOpen || other->initiator)
      continue;
    const bool same = other->peer_endpoint == c.peer_endpoint && c.peer_endpoint != config.endpoint_id;
    if (same && other->remote.port == c.remote.port && c.lists(other->remote.ip)) return other;
  }
  return nullptr;
}

void Engine::Impl::accept_peer(Time, Connection& c, const Init& init) {
  c.peer_id = init.scid;
  c.peer_endpoint = init.endpoint_id;
  c.peer_reset_token = init.reset_token;
  c.peer_window = std::clamp<uint64_t>(init.cpsn_window, 64, config.cpsn_window);
  c.peer_receive_buffer = init.receive_buffer;
  c.peer_ports.assign(init.ports.begin(), init.ports.begin() + init.nports);
  c.received.open(init.first_cpsn, c.peer_window);
  c.first_pseq_peer = init.first_pseq;
  c.cpsn_limit = c.first_cpsn + c.peer_window;
}

// Pairs local with remote addresses: the primary pair is plane 0; every further local port takes the first
// remote address of its own subnet that is free. Path i runs on plane i mod planes. Existing paths keep their
// numbers.
void Engine::Impl::make_paths(Time, Connection& c, uint32_t count) {
  struct Plane {
    uint32_t port;
    Gid remote;
  };
  std::vector<Plane> planes{{c.port, c.remote.ip}};
  std::vector<bool> taken(c.peer_ports.size(), false);
  for (size_t i = 0; i < c.peer_ports.size(); ++i) taken[i] = c.peer_ports[i].address == c.remote.ip;
  for (const uint32_t port : plane_ports(c.port, c.remote.ip)) {
    if (port == c.port) continue;
    for (size_t i = 0; i < c.peer_ports.size(); ++i) {
      if (taken[i] ||
          !same_prefix(config.ports[port].address, c.peer_ports[i].address, config.ports[port].prefix_bits)) {
        continue;
      }
      taken[i] = true;
      planes.push_back({port, c.peer_ports[i].address});
      break;
    }
  }
  if (planes.size() > config.max_planes) planes.resize(config.max_planes);
  c.planes = static_cast<uint32_t>(planes.size());
  if (count > 1) count = std::min<uint32_t>(32, std::max<uint32_t>(count, c.planes));
  c.paths_touched = true;
  while (c.paths.size() > count) c.paths.pop_back();
  while (c.paths.size() < count) {
    const size_t i = c.paths.size();
    const Plane& plane = planes[i % planes.size()];
    Path p;
    p.id = static_cast<uint8_t>(i);
    p.plane = static_cast<uint8_t>(i % planes.size());
    p.port = plane.port;
    p.to = {plane.remote, c.remote.port};
    p.entropy = new_entropy();
    p.sent.restart(c.first_pseq);
    p.scan = c.first_pseq;
    p.cc.cwnd = config.initial_window;
    p.cc.round_end = c.first_pseq;
    p.link_up = config.ports[plane.port].up;
    c.paths.push_back(std::move(p));
  }
  c.paths.front().to = c.remote;
  c.paths.front().port = c.port;
}

void Engine::Impl::became_open(Time now, Connection& c) {
  c.state = shutting_down ? Connection::State::kDraining : Connection::State::kOpen;
  c.init_at = kNever;
  c.yields = false;
  c.opened = c.last_heard = now;
  ++counters.connections_opened;
  c.paths.front().state = PathState::kActive;
  // INIT_ACK repeated our nonce, so the peer is where it says. An INIT proves nothing: until more comes from
  // there, it gets one INIT_ACK of its own size and no probes, and it has the silence limit to show itself.
  if (c.initiator) {
    heard_from(now, c);
  } else {
    note_outstanding(now, c);
  }
  want_tx(c);
  reschedule(c);
}

// A packet with our connection id and a good trailer came. The first one lets the other paths begin, and new
// streams to this address use this connection from now on.
void Engine::Impl::heard_from(Time now, Connection& c) {
  c.last_heard = now;
  c.oldest_unanswered = kNever;
  if (c.validated) return;
  c.validated = true;
  if (c.security != nullptr) c.init_ack_due = false;  // the peer has had it, or had no keys
  c.opening.reset();
  if (!c.initiator && c.peer_endpoint != config.endpoint_id) by_address[c.remote] = &c;
  for (const auto& each : connections) {
    const bool waits = each != nullptr && each->state == Connection::State::kInitSent && each->yields;
    if (waits && crossing(*each) == &c) merge_into(*each, c);
  }
  for (Path& p : c.paths) {
    if (p.state == PathState::kNew && p.link_up && p.peer_up) p.probe_at = now;
  }
  c.paths_touched = true;
}

// The peer already has a connection with us, found by another of its addresses: its streams move there.
// Nothing was ever received on the one that goes, so nothing of what it sent counts.
void Engine::Impl::merge_into(Connection& loser, Connection& winner) {
  for (auto& [address, connection] : by_address) {
    if (connection == &loser) connection = &winner;
  }
  by_address[loser.remote] = &winner;
  for (const auto& [key, qp] : qps) {
    if (qp->tx.conn == &loser) {
      qp->tx.conn = &winner;
      qp->tx.ready = false;
    }
  }
  while (!loser.control.empty()) {
    if (!loser.control.front().accepted) winner.control.push(loser.control.front());
    loser.control.pop();
  }
  want_tx(winner);
  reschedule(winner);
  loser.state = Connection::State::kClosed;
  loser.opened = Time{};  // no connection that was
  by_id.erase(loser.local_id);
  closed.push_back(loser.index);
}

// Queues one datagram that belongs to no connection of ours. Bounded: floods get no more than this.
void Engine::Impl::queue_reply(uint32_t port, const UdpAddress& to, std::vector<std::byte> bytes,
                               size_t size) {
  if (size == 0 || replies.size() >= 16) return;
  wire::write_trailer(wire::crc_finish(wire::crc_update(wire::kCrcStart, {bytes.data(), size})),
                      &bytes[size]);
  bytes.resize(size + wire::kTrailerBytes);
  replies.push({port, to, std::move(bytes)});
}

void Engine::Impl::reset_stale(const Connection& c, const Init& init) {
  Common header;
  header.type = wire::Type::kReset;
  header.dcid = init.scid;
  std::vector<std::byte> bytes(64);
  const size_t size = wire::encode_reset(header, wire::Reset{init.reset_token}, bytes);
  queue_reply(c.port, c.remote, std::move(bytes), size);
}

void Engine::Impl::send_version(const RxMeta& meta, const Common& header) {
  wire::VersionList list;
  list.count = 1;
  list.versions[0] = wire::kVersion;
  Common answer;
  answer.type = wire::Type::kVersion;
  answer.dcid = header.dcid;
  std::vector<std::byte> bytes(64);
  const size_t size = wire::encode_version(answer, list, bytes);
  queue_reply(meta.port, meta.from, std::move(bytes), size);
}

}  // namespace mroce
