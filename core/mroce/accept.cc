// What becomes of an INIT that is well formed: an answer again, that of a connection that exists, RETRY, or a
// new connection with us as acceptor (docs/spec, "Receiving INIT").
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

using wire::Common;
using wire::Init;

// Is this INIT the one that began `c`, once more? In mode 2, two INITs with the same ids and other contents
// may come before the peer has shown itself; one of them is forged, and each gets an answer of its own.
Engine::Impl::Repetition Engine::Impl::repeats(const Connection& c, const Init& init, uint8_t mode,
                                               wire::In datagram) const {
  if (c.initiator || c.peer_endpoint != init.endpoint_id || c.peer_id != init.scid) return Repetition::kNo;
  if (c.mode() == kModeCrc && mode == kModeCrc) return Repetition::kAnswer;
  if (c.validated) return Repetition::kIgnore;  // it has had our answer
  if (c.mode() != mode) return Repetition::kNo;
  const std::vector<std::byte> transcript = wire::init_transcript(datagram);
  const bool same = crypto::sha256({crypto::as_u8(transcript)}) == c.opening->init_hash;
  return same || MROCE_MUTANT(kAnyRepetition) ? Repetition::kAnswer : Repetition::kNo;
}

// Is `peer` one of the addresses at which the peer of `c` receives? Nobody else may hear of `c`: endpoint ids
// are known to all whom an endpoint ever called.
bool Engine::Impl::is_address_of(const Connection& c, const UdpAddress& peer) const {
  if (MROCE_MUTANT(kExistsForAll)) return true;
  return peer.port == c.remote.port && (peer.ip == c.remote.ip || c.lists(peer.ip));
}

// An endpoint that is connected already hears of that connection. Makes no state.
void Engine::Impl::answer_existing(const RxMeta& meta, const UdpAddress& peer, const Connection& existing,
                                   const Init& init, size_t bytes) {
  Init answer;
  fill_init(existing, answer);
  answer.security = existing.mode();
  answer.flags = static_cast<uint8_t>(wire::InitAckFlag::kExists);
  answer.nonce = init.nonce;
  if (!MROCE_MUTANT(kExistsTellsStarts)) answer.first_cpsn = answer.first_pseq = 0;  // mean nothing here
  answer.payload_mtu = static_cast<uint16_t>(existing.payload_mtu);
  answer.max_paths = 1;
  answer.known_cid = existing.peer_id;
  Common header;
  header.type = wire::Type::kInitAck;
  header.dcid = init.scid;
  std::vector<std::byte> out(bytes + wire::kTrailerBytes);
  const size_t size = wire::encode_init(header, answer, bytes, out);
  queue_reply(meta.port, peer, std::move(out), size);
}

// The connection with which we call `peer` at this moment. `ours_wins`: the peer answers our INIT.
Connection* Engine::Impl::called(const UdpAddress& peer, const Init& init, bool& ours_wins) {
  ours_wins = false;
  const auto it = by_address.find(peer);
  if (it == by_address.end() || init.endpoint_id == config.endpoint_id) return nullptr;
  // In another state: an endpoint that is gone had this address.
  if (it->second->state != Connection::State::kInitSent) return nullptr;
  ours_wins = (config.endpoint_id < init.endpoint_id) != MROCE_MUTANT(kBothWin);
  return it->second;
}

void Engine::Impl::accept(Time now, const RxMeta& meta, const Init& init, uint8_t mode, wire::In datagram) {
  const UdpAddress peer{meta.from.ip, init.listen_port};
  const bool self = init.endpoint_id == config.endpoint_id;
  Connection* existing = nullptr;
  uint32_t unvalidated = 0;
  for (const auto& each : connections) {
    Connection* c = each.get();
    if (c == nullptr || c->state == Connection::State::kClosed || c->state == Connection::State::kTimeWait)
      continue;
    if (!c->initiator && !c->validated) ++unvalidated;
    const Repetition repetition = repeats(*c, init, mode, datagram);
    if (repetition == Repetition::kIgnore) return;
    if (repetition == Repetition::kAnswer) {
      // A repetition from elsewhere does not come from where the answer goes.
      const auto bytes = static_cast<uint32_t>(datagram.size() + wire::kTrailerBytes);
      if (meta.from.ip == c->remote.ip || MROCE_MUTANT(kAnybodyPays)) {
        c->inits_bytes += bytes;
      } else if (c->stranger_room() < bytes) {
        return;
      }
      // Our INIT_ACK was lost. The initiator may have lowered its offer since; nothing is cut to size before
      // it is open.
      if (!c->validated) c->payload_mtu = std::min<uint32_t>(c->payload_mtu, init.payload_mtu);
      c->init_ack_due = true;
      c->init_ack_bytes = bytes;
      want_tx(*c);
      return;
    }
    if (!self && c->state == Connection::State::kOpen && c->peer_endpoint == init.endpoint_id &&
        (mode == kModeCrc || c->initiator || c->peer_id != init.scid) && is_address_of(*c, peer) &&
        !MROCE_MUTANT(kSecondConnection)) {
      existing = c;
    }
  }
  if (shutting_down) return;
  if (existing != nullptr) return answer_existing(meta, peer, *existing, init, datagram.size());
  bool ours_wins = false;
  Connection* c = called(peer, init, ours_wins);
  if (ours_wins) return;
  if (c == nullptr && by_id.size() >= config.max_connections) {
    ++counters.drop_limit;
    return;
  }
  const uint32_t bound = MROCE_MUTANT(kRetriesEarly) ? 10 : config.retry_above;
  const bool crowded = unvalidated > bound && !MROCE_MUTANT(kNeverRetry);
  if (c == nullptr && crowded && !has_good_cookie(now, meta.from.ip, init)) {
    return send_retry(now, meta, peer, init);
  }
  begin_as_acceptor(now, meta, init, mode, datagram, c);
}

// `c`: the connection with which we called the same peer, and which gives way; none: a new one.
void Engine::Impl::begin_as_acceptor(Time now, const RxMeta& meta, const Init& init, uint8_t mode,
                                     wire::In datagram, Connection* c) {
  std::unique_ptr<Opening> opening;
  std::optional<crypto::Key32> shared;
  if (mode == kModeGcm) {
    opening = new_opening();
    shared = opening->keys->shared_with(init.key_share.public_key);
    if (!shared) {
      ++counters.drop_malformed;
      return;
    }
  }
  const UdpAddress peer{meta.from.ip, init.listen_port};
  if (c == nullptr) {
    c = new_connection(now);
    // A connection that works is not given up for an INIT, which anybody may send: heard_from() decides.
    if (init.endpoint_id != config.endpoint_id) by_address.try_emplace(peer, c);
  }
  c->initiator = false;
  c->opening.reset();
  c->init_at = kNever;
  c->port = meta.port;
  c->remote = peer;
  c->nonce = init.nonce;
  c->init_ack_due = true;
  c->init_ack_bytes = static_cast<uint32_t>(datagram.size() + wire::kTrailerBytes);
  c->inits_bytes = c->init_ack_bytes;
  c->unvalidated_bytes = 0;
  c->payload_mtu = std::min<uint32_t>(init.payload_mtu, offered_payload(meta.port, meta.from.ip));
  accept_peer(now, *c, init);
  const uint32_t most = MROCE_MUTANT(kAllPaths) ? config.max_paths : init.max_paths;
  make_paths(now, *c, std::min<uint32_t>(most, config.max_paths));
  if (shared) {
    agree_as_acceptor(*c, std::move(opening), *shared, datagram);
    crypto::wipe(*shared);
  }
  became_open(now, *c);
  if (MROCE_MUTANT(kChallengesStrangers)) heard_from(now, *c);
}

}  // namespace mroce
