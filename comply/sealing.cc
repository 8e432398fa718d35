#include "comply/sealing.h"

#include <algorithm>
#include <utility>

#include "core/crypto/hash.h"
#include "core/wire/field_table.h"

namespace mroce::comply {

using wire::Type;

namespace {

crypto::Bytes text(std::string_view characters) {
  return {reinterpret_cast<const uint8_t*>(characters.data()), characters.size()};
}
crypto::Bytes octets(std::span<const std::byte> bytes) {
  return crypto::as_u8(bytes);
}

crypto::Key32 random_key(Rng& rng) {
  crypto::Key32 key{};
  for (uint8_t& byte : key) byte = static_cast<uint8_t>(rng.next());
  return key;
}

wire::Common header_of(std::span<const std::byte> datagram) {
  wire::Common header;
  wire::decode_common(datagram, header);
  return header;
}

// Where encryption begins: behind the header of DATA, or behind all of anything else. 0: nobody can tell.
size_t clear_bytes(std::span<const std::byte> body, const wire::Common& header) {
  return header.type == Type::kData ? wire::data_header_bytes(body, header.flags) : body.size();
}

}  // namespace

// ---- one phase

PhaseSecret PhaseSecret::next() const {
  PhaseSecret out;
  crypto::hkdf_expand(std::span(bytes).subspan(28, 32), {text("mroce 1 update")}, out.bytes);
  return out;
}

crypto::Nonce PhaseSecret::nonce(const wire::Common& header, uint64_t pseq) const {
  crypto::Nonce out{};
  const uint8_t kind = header.type == Type::kData ? 0 : 1;
  out[3] = static_cast<uint8_t>(kind << 7 | header.path);
  for (size_t i = 0; i < 8; ++i) out[11 - i] = static_cast<uint8_t>(pseq >> (8 * i));
  for (size_t i = 0; i < out.size(); ++i) out[i] ^= bytes[16 + i];
  return out;
}

void PhaseSecret::seal(Bytes& datagram, uint64_t pseq) const {
  const wire::Common header = header_of(datagram);
  const size_t size = datagram.size();
  // A header that is no header has nothing behind it to encrypt: all of it is associated.
  const size_t told = clear_bytes(datagram, header);
  const size_t clear = told == 0 ? size : told;
  datagram.resize(size + wire::kTagBytes);
  const std::span<std::byte> all(datagram);
  crypto::Aead aead(crypto::Aead::Way::kSeal, std::span(bytes).first<crypto::kAeadKeyBytes>());
  aead.begin(nonce(header, pseq));
  aead.associate(all.first(clear));
  const Bytes payload(all.begin() + static_cast<ptrdiff_t>(clear),
                      all.begin() + static_cast<ptrdiff_t>(size));
  aead.update(payload, all.data() + clear);
  aead.seal(all.data() + size);
}

std::optional<Bytes> PhaseSecret::open(std::span<const std::byte> datagram, uint64_t pseq) const {
  if (datagram.size() < wire::kCommonBytes + wire::kTagBytes) return std::nullopt;
  const auto body = datagram.first(datagram.size() - wire::kTagBytes);
  const wire::Common header = header_of(body);
  const size_t clear = clear_bytes(body, header);
  if (clear == 0) return std::nullopt;
  Bytes out(body.begin(), body.end());
  crypto::Aead aead(crypto::Aead::Way::kOpen, std::span(bytes).first<crypto::kAeadKeyBytes>());
  aead.begin(nonce(header, pseq));
  aead.associate(body.first(clear));
  aead.update(body.subspan(clear), out.data() + clear);
  if (!aead.open(datagram.data() + body.size())) return std::nullopt;
  return out;
}

// ---- handshake

Bytes transcript_of(std::span<const std::byte> datagram) {
  constexpr size_t kMtuAt = wire::at::init::payload_mtu.offset;
  Bytes out;
  size_t at = wire::kCommonBytes + wire::kInitFixedBytes;
  if (datagram.size() < at) return out;
  at += wire::get<wire::at::init::nports>(datagram.data()) * wire::kInitPortBytes;
  if (datagram.size() < at) return out;
  const auto add = [&](size_t from, size_t to) {
    out.insert(out.end(), datagram.begin() + static_cast<ptrdiff_t>(from),
               datagram.begin() + static_cast<ptrdiff_t>(to));
  };
  add(wire::kCommonBytes, at);
  out[kMtuAt - wire::kCommonBytes] = out[kMtuAt - wire::kCommonBytes + 1] = std::byte{0};
  while (at + 2 <= datagram.size()) {
    const auto kind = static_cast<wire::Tlv>(datagram[at]);
    const size_t end = at + 2 + std::to_integer<size_t>(datagram[at + 1]);
    if (end > datagram.size()) break;
    if (kind != wire::Tlv::kCookie) add(at, end);
    if (kind == wire::Tlv::kEnd) break;
    at = end;
  }
  return out;
}

std::array<uint8_t, 8> key_id_of(const Bytes& psk) {
  std::array<uint8_t, 8> id{};
  if (psk.empty()) return id;
  const crypto::Key32 digest = crypto::sha256({text("mroce key id"), octets(psk)});
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

Sealing::Sealing(Rng& rng, Bytes psk) : psk_(std::move(psk)), keys_(random_key(rng)) {}

wire::KeyShare Sealing::key_share() const {
  return {keys_.public_key(), key_id_of(psk_)};
}

bool Sealing::agree(bool initiator, const wire::KeyShare& peer, std::span<const std::byte> init,
                    std::span<const std::byte> init_ack) {
  const auto shared = keys_.shared_with(peer.public_key);
  if (!shared) return false;
  const Bytes salt = psk_.empty() ? Bytes(32) : psk_;
  const crypto::Key32 prk = crypto::hkdf_extract(octets(salt), *shared);
  const Bytes first = transcript_of(init), second = transcript_of(init_ack);
  const crypto::Key32 transcript = crypto::sha256({octets(first), octets(second)});
  PhaseSecret i2a, a2i;
  crypto::hkdf_expand(prk, {text("mroce 1 i2a"), transcript}, i2a.bytes);
  crypto::hkdf_expand(prk, {text("mroce 1 a2i"), transcript}, a2i.bytes);
  tx = initiator ? i2a : a2i;
  rx_ = initiator ? a2i : i2a;
  return true;
}

// ---- datagrams

std::optional<Bytes> Sealing::open(std::span<const std::byte> datagram) {
  if (datagram.size() < wire::kCommonBytes + wire::kTagBytes) return std::nullopt;
  const wire::Common header = header_of(datagram);
  const bool data = header.type == Type::kData;
  const auto known = highest_.find({data, header.path});
  const uint64_t expected = known != highest_.end() ? known->second : data ? peer_first_pseq_ : 0;
  const uint64_t pseq = wire::expand32(header.pseq, expected);
  std::optional<Bytes> out;
  if ((header.flags & wire::flag::kKeyPhase) == rx_phase_) {
    out = rx_.open(datagram, pseq);
    opened_phase_ = rx_updates_;
  } else {
    if (rx_before_) out = rx_before_->open(datagram, pseq);
    if (out) {
      opened_phase_ = rx_updates_ - 1;
    } else {
      const PhaseSecret after = rx_.next();
      out = after.open(datagram, pseq);
      if (out) {
        rx_before_ = std::exchange(rx_, after);
        rx_phase_ ^= wire::flag::kKeyPhase;
        opened_phase_ = ++rx_updates_;
      }
    }
  }
  if (out) highest_[{data, header.path}] = std::max(expected, pseq);
  return out;
}

void Sealing::update() {
  tx = tx.next();
  phase ^= wire::flag::kKeyPhase;
}

}  // namespace mroce::comply
