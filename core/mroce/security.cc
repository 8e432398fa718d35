// Mode 2: keys from the handshake, datagrams sealed and opened, key phases.
#include "core/mroce/security.h"

#include <algorithm>
#include <string_view>

#include "core/mroce/engine_impl.h"

namespace mroce {

using wire::Common;
using wire::Init;

namespace {
constexpr uint32_t kMaxAskBackoff = 6;  // doublings of the time between two PROBEs for one phase
constexpr uint8_t kOther = 0x80;        // class of what is not DATA, in the nonce

crypto::Bytes text(std::string_view characters) {
  return {reinterpret_cast<const uint8_t*>(characters.data()), characters.size()};
}

PhaseKeys::Material expand(const crypto::Key32& secret, std::string_view label, crypto::Bytes context) {
  PhaseKeys::Material out{};
  crypto::hkdf_expand(secret, {text(label), context}, out);
  return out;
}
}  // namespace

// ---- PhaseKeys, ReplayWindow, Security
// --------------------------------------------------------------------------

PhaseKeys::PhaseKeys(crypto::Aead::Way way, const Material& material)
    : way_(way), aead_(way, std::span(material).first<crypto::kAeadKeyBytes>()) {
  auto from = material.begin() + crypto::kAeadKeyBytes;
  std::copy_n(from, iv_.size(), iv_.begin());
  std::copy_n(from + crypto::kNonceBytes, next_secret_.size(), next_secret_.begin());
#ifdef MROCE_MUTANTS
  material_ = material;
#endif
}

PhaseKeys PhaseKeys::next() const {
  Material material = expand(next_secret_, "mroce 1 update", {});
  PhaseKeys keys(way_, material);
  crypto::wipe(material);
  return keys;
}

crypto::Aead& PhaseKeys::begin(bool data, uint8_t path, uint64_t pseq) {
  crypto::Nonce nonce = iv_;
  nonce[3] ^= static_cast<uint8_t>(path | (data ? 0 : kOther));
  for (size_t i = 0; i < 8; ++i) nonce[4 + i] ^= static_cast<uint8_t>(pseq >> (56 - 8 * i));
  aead_.begin(nonce);
  return aead_;
}

bool ReplayWindow::is_new(uint64_t pseq) const {
  if (!seen || pseq > largest) return true;
  return largest - pseq < kBits && (bits >> (largest - pseq) & 1) == 0;
}

void ReplayWindow::note(uint64_t pseq) {
  if (!seen || pseq > largest) {
    const uint64_t shift = seen ? pseq - largest : kBits;
    bits = (shift < kBits ? bits << shift : 0) | 1;
    largest = pseq;
    seen = true;
  } else {
    bits |= 1ULL << (largest - pseq);
  }
}

FirstKeys::~FirstKeys() {
  crypto::wipe(initiator);
  crypto::wipe(acceptor);
}

FirstKeys derive_keys(const std::optional<PresharedKey>& preshared, const crypto::Key32& shared,
                      wire::In init, wire::In init_ack) {
  crypto::Key32 secret = crypto::hkdf_extract(preshared.value_or(PresharedKey{}), shared);
  const crypto::Key32 transcript = crypto::sha256({crypto::as_u8(init), crypto::as_u8(init_ack)});
  FirstKeys keys;
  keys.initiator = expand(secret, "mroce 1 i2a", transcript);
  keys.acceptor = expand(secret, "mroce 1 a2i", transcript);
  crypto::wipe(secret);
  return keys;
}

std::array<uint8_t, 8> key_id_of(const std::optional<PresharedKey>& preshared) {
  std::array<uint8_t, 8> id{};
  if (!preshared) return id;
  const crypto::Key32 digest = crypto::sha256({text("mroce key id"), *preshared});
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

Security::Security(const FirstKeys& keys, bool initiator, uint64_t first_cpsn)
    : tx(crypto::Aead::Way::kSeal, initiator ? keys.initiator : keys.acceptor),
      tx_first_cpsn(first_cpsn),
      rx(crypto::Aead::Way::kOpen, initiator ? keys.acceptor : keys.initiator) {}

void Security::begin_phase(uint64_t next_cpsn) {
  tx_packets = 0;
  tx_first_cpsn = next_cpsn;
  tx_confirmed = false;
  asks = 0;
}

void Security::note_asked(uint64_t token) {
  asked_tokens[asks++ % kAsks] = token;
}

void Security::note_answer(uint64_t token) {
  const auto end = asked_tokens.begin() + std::min(asks, kAsks);
  if (std::find(asked_tokens.begin(), end, token) != end) tx_confirmed = true;
}

uint64_t Security::expand_other(uint8_t path, uint32_t pseq) const {
  return wire::expand32(pseq, path < others.size() ? others[path].largest : 0);
}

bool Security::is_replay(uint8_t path, uint64_t pseq) const {
  return path < others.size() && !others[path].is_new(pseq);
}

void Security::note_other(uint8_t path, uint64_t pseq) {
  if (path >= others.size()) others.resize(path + 1u);
  others[path].note(pseq);
}

size_t Security::memory_bytes() const {
  return sizeof *this + others.capacity() * sizeof(ReplayWindow);
}

// ---- randomness that others must not guess
// ----------------------------------------------------------------------

void Engine::Impl::draw(std::span<uint8_t> out) {
  if (config.entropy) return config.entropy(out);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(rng.next());
}

uint64_t Engine::Impl::draw64() {
  if (!config.entropy) return rng.next();
  std::array<uint8_t, 8> bytes{};
  config.entropy(bytes);
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

// ---- handshake
// --------------------------------------------------------------------------------------------------

uint8_t Engine::Impl::offered_modes() const {
  switch (config.security) {
    case SecurityPolicy::kOff:
      return mode_bit(kModeCrc);
    case SecurityPolicy::kPrefer:
      return mode_bit(kModeCrc) | mode_bit(kModeGcm);
    case SecurityPolicy::kRequire:
      return mode_bit(kModeGcm);
  }
  return 0;
}

// Of what an INIT offers and we allow, the higher mode. Nothing: dropped and counted.
std::optional<uint8_t> Engine::Impl::choose_mode(const Init& init) {
  const unsigned allowed = offered_modes() | (MROCE_MUTANT(kMode0Taken) ? mode_bit(kModeCrc) : 0u);
  const unsigned common_modes = init.security & allowed;
  if (common_modes == 0) {
    ++counters.drop_security;
    return std::nullopt;
  }
  if ((common_modes & mode_bit(kModeGcm)) == 0) return kModeCrc;
  if (!init.has_key_share) {
    ++counters.drop_malformed;
    return std::nullopt;
  }
  if (!same_key_id(init)) return std::nullopt;
  return kModeGcm;
}

bool Engine::Impl::same_key_id(const Init& init) {
  if (init.key_share.key_id == key_id || MROCE_MUTANT(kAnyKeyId)) return true;
  ++counters.drop_key_id;
  return false;
}

std::unique_ptr<Opening> Engine::Impl::new_opening() {
  auto opening = std::make_unique<Opening>();
  crypto::Key32 secret{};
  draw(secret);
  opening->keys.emplace(secret);
  crypto::wipe(secret);
  return opening;
}

namespace {
// Of a packet that we make ourselves, as its receiver works it out.
std::vector<std::byte> transcript_of(const Init& init) {
  std::vector<std::byte> bytes(wire::kMinInitBytes);
  bytes.resize(wire::encode_init(Common{}, init, 0, bytes));
  return wire::init_transcript(bytes);
}

void share_key(Opening& opening, const std::array<uint8_t, 8>& key_id, Init& init) {
  init.has_key_share = true;
  init.key_share = {opening.keys->public_key(), key_id};
}
}  // namespace

void Engine::Impl::secure(Connection& c, std::unique_ptr<Security> security) {
  c.security = std::move(security);
  c.trailer_bytes = wire::kTagBytes;
  c.key_phase = 0;
}

// The acceptor's INIT_ACK is complete but for its payload MTU, which repetitions may lower.
void Engine::Impl::agree_as_acceptor(Connection& c, std::unique_ptr<Opening> opening,
                                     const crypto::Key32& shared, wire::In datagram) {
  Init own;
  fill_init(c, own);
  fill_grant(c, own);
  own.security = kModeGcm;
  share_key(*opening, key_id, own);
  const std::vector<std::byte> init = wire::init_transcript(datagram);
  opening->init_hash = crypto::sha256({crypto::as_u8(init)});
  opening->own = own;
  const FirstKeys keys = derive_keys(config.preshared_key, shared, init, transcript_of(own));
  secure(c, std::make_unique<Security>(keys, false, c.first_cpsn));
  c.opening = std::move(opening);
}

// Keys from an INIT_ACK, if its tag shows that the acceptor has the same. `init` is what `body` says.
std::unique_ptr<Security> Engine::Impl::agree_as_initiator(const Connection& c, const Init& init,
                                                           wire::In body, wire::In tag) {
  const bool offered = c.opening != nullptr && c.opening->keys && c.opening->own;
  if (!offered || !init.has_key_share || tag.size() != wire::kTagBytes) {
    ++counters.drop_malformed;
    return nullptr;
  }
  if (!same_key_id(init)) return nullptr;
  auto shared = c.opening->keys->shared_with(init.key_share.public_key);
  if (!shared) {
    ++counters.drop_malformed;
    return nullptr;
  }
  std::vector<std::byte> own = transcript_of(*c.opening->own);
  if (MROCE_MUTANT(kCookieHashed)) {
    for (const uint8_t byte : c.opening->cookie.view()) own.push_back(std::byte{byte});
  }
  const FirstKeys keys = derive_keys(config.preshared_key, *shared, own, wire::init_transcript(body));
  crypto::wipe(*shared);
  auto security = std::make_unique<Security>(keys, true, c.first_cpsn);
  if (MROCE_MUTANT(kInitiatorKey)) security->tx = PhaseKeys(crypto::Aead::Way::kSeal, keys.acceptor);
  Common header;
  wire::decode_common(body, header);
  crypto::Aead& aead = security->rx.begin(false, header.path, header.pseq);
  aead.associate(body);
  const bool authentic = aead.open(tag.data()) || MROCE_MUTANT(kAnyInitAck);
  if (header.path >= wire::kMaxPaths || !authentic) {
    ++counters.drop_tag;
    return nullptr;
  }
  security->note_other(header.path, header.pseq);
  return security;
}

// Our INIT of a connection that offers mode 2, the same at each repetition.
void Engine::Impl::fill_offer(Connection& c, Init& init) {
  if (!c.opening->own) {
    fill_init(c, init);
    share_key(*c.opening, key_id, init);
    c.opening->own = init;
  }
  init = *c.opening->own;
}

// ---- datagrams
// --------------------------------------------------------------------------------------------------

// Ends a datagram that is not DATA: `bytes` at `start`, the tag behind them.
void Engine::Impl::seal_other(Connection& c, const Path& p, std::byte* start, size_t bytes) {
  crypto::Aead& aead = c.security->tx.begin(false, p.id, p.other_pseq - 1);
  aead.associate({start, bytes});
  aead.seal(start + bytes);
  ++c.security->tx_packets;
}

// The peer's next phase, for which `rx_after` has the keys.
void Engine::Impl::follow_update(Time now, Connection& c) {
  Security& s = *c.security;
  if (!MROCE_MUTANT(kOldKeyForEver) || !s.rx_before) s.rx_before.emplace(std::move(s.rx));
  s.rx_before_until = now + (MROCE_MUTANT(kPhaseForgottenSoon) ? millis(1) : 3 * pto(c));
  s.rx = std::move(*s.rx_after);
  s.rx_after.reset();
  s.rx_phase ^= wire::flag::kKeyPhase;
  if (MROCE_MUTANT(kReplayForgotten)) s.others.clear();
}

// Tries the keys that the flag may mean. The next phase begins for good when something of it opens.
template <class Opens>
bool Engine::Impl::open_in_phase(Time now, Connection& c, uint8_t phase, const Opens& opens) {
  Security& s = *c.security;
  if (MROCE_MUTANT(kOldKeyForEver) && s.rx_before && opens(*s.rx_before)) return true;
  if (phase == s.rx_phase) {
    if (opens(s.rx)) return true;
    if (!MROCE_MUTANT(kPhaseFlagIgnored)) return false;
  }
  if (s.rx_before && now > s.rx_before_until && !MROCE_MUTANT(kOldKeyForEver)) s.rx_before.reset();
  if (s.rx_before && opens(*s.rx_before)) return true;
  if (MROCE_MUTANT(kUpdateUnseen) || (MROCE_MUTANT(kUpdatesNotClose) && s.rx_before)) return false;
  if (!s.rx_after) s.rx_after.emplace(s.rx.next());
  const bool opened_by_next = opens(*s.rx_after);
  if (!opened_by_next && !MROCE_MUTANT(kForgedUpdate)) return false;
  if (!MROCE_MUTANT(kUpdateNotTaken)) follow_update(now, c);
  return opened_by_next;
}

// The datagram without its trailer and with its payload in clear, if it is the peer's and no replay. Of DATA,
// duplicates are for the CPSN window.
std::optional<wire::In> Engine::Impl::open_datagram(Time now, Connection& c, const Common& header,
                                                    wire::In datagram) {
  Security& s = *c.security;
  if (datagram.size() < wire::kCommonBytes + wire::kTagBytes) {
    ++counters.drop_truncated;
    return std::nullopt;
  }
  const wire::In body = datagram.first(datagram.size() - wire::kTagBytes);
  const bool is_data = header.type == wire::Type::kData;
  const size_t clear = is_data ? wire::data_header_bytes(body, header.flags) : body.size();
  const uint64_t pseq = is_data ? expand_data_pseq(c, header) : s.expand_other(header.path, header.pseq);
  const auto opens = [&](PhaseKeys& keys) {
    const bool of_path = is_data || !MROCE_MUTANT(kNonceWithoutPath);
    crypto::Aead& aead = keys.begin(is_data, of_path ? header.path : 0, pseq);
    aead.associate(body.first(clear));
    aead.update(body.subspan(clear), opened.data() + clear);
    return aead.open(datagram.data() + body.size()) || MROCE_MUTANT(kTagUnchecked);
  };
  if (opened.size() < body.size()) opened.resize(body.size());
  if (MROCE_MUTANT(kPhaseForgotten)) s.rx_before.reset();
  if (clear == 0 || !open_in_phase(now, c, header.flags & wire::flag::kKeyPhase, opens)) {
    ++counters.drop_tag;
    if (++s.failures >= config.tag_failure_limit) lose_connection(now, c, true);
    return std::nullopt;
  }
  if (is_data) {
    std::copy_n(body.begin(), clear, opened.begin());
    return wire::In(opened).first(body.size());
  }
  if (s.is_replay(header.path, pseq)) {
    if (MROCE_MUTANT(kReplayTaken)) return body;
    ++counters.drop_replay;
    return std::nullopt;
  }
  s.note_other(header.path, pseq);
  return body;
}

void Engine::Impl::update_keys(Connection& c) {
  Security& s = *c.security;
  if (MROCE_MUTANT(kNonceAgain) || MROCE_MUTANT(kNumbersAgain)) {
    for (Path& p : c.paths) p.other_pseq = 0;
  }
  if (MROCE_MUTANT(kNonceAgain)) return s.begin_phase(c.tx.end());
#ifdef MROCE_MUTANTS
  if (MROCE_MUTANT(kUpdateFlipsBack)) s.tx_mistaken.emplace(s.tx.again());
#endif
  const bool unchained = MROCE_MUTANT(kUpdateUnchained) && counters.key_updates > 0;
  if (!MROCE_MUTANT(kUpdateKeepsKey) && !unchained) s.tx = s.tx.next();
  s.begin_phase(c.tx.end());
  c.key_phase ^= wire::flag::kKeyPhase;
  ++counters.key_updates;
}

// Takes new keys for what we send when this phase has protected enough, but not before the peer has opened
// something of it: else it could fall behind by more than one phase. A packet that was cut in this phase and
// is accepted shows that, or the answer to a PROBE.
void Engine::Impl::maintain_keys(Time now, Connection& c) {
  Security& s = *c.security;
#ifdef MROCE_MUTANTS
  if (s.tx_mistaken && s.tx_packets >= 3) {
    s.tx = std::move(*s.tx_mistaken);
    s.tx_mistaken.reset();
    c.key_phase ^= wire::flag::kKeyPhase;
  }
#endif
  if (s.tx_packets < config.key_update_packets || !c.alive() || MROCE_MUTANT(kNeverUpdates)) return;
  const bool answered = s.tx_confirmed && !MROCE_MUTANT(kAnswerUnnoticed);
  if (answered || c.tx.begin() > s.tx_first_cpsn || MROCE_MUTANT(kUpdateUnconfirmed)) {
    update_keys(c);
  } else if (s.tx_packets + kMaxSegments > config.key_max_packets &&
             !MROCE_MUTANT(kKeyLimitIgnored)) {  // the next burst might be too much
    lose_connection(now, c, true);
  } else if (now >= s.ask_again && !MROCE_MUTANT(kUpdateUnasked)) {
    // Ever more seldom: without a sample the PTO may be far below a round trip, and then no answer would find
    // its token among the last ones.
    s.ask_again = now + pto(c) * (1u << std::min(s.asks, kMaxAskBackoff));
    c.limits_probe_wanted = true;
  }
}

}  // namespace mroce
