// Sealing: mode 2 as the tester does it, from §10.3 of the specification and the primitives of core/crypto
// alone. The engine has a text of its own for the same (core/mroce/security.cc), and neither uses the other:
// if one of them has a key, a nonce or a transcript wrong, they do not understand each other.
#pragma once

#include <map>
#include <optional>

#include "comply/target.h"
#include "core/base/rng.h"
#include "core/crypto/aead.h"
#include "core/crypto/x25519.h"
#include "core/wire/codec.h"

namespace mroce::comply {

// Bytes of one key phase of one direction: key 16, IV 12, secret of the next phase 32.
struct PhaseSecret {
  std::array<uint8_t, 60> bytes{};

  PhaseSecret next() const;
  crypto::Nonce nonce(const wire::Common& header, uint64_t pseq) const;
  // Encrypts the payload of DATA and appends the tag.
  void seal(Bytes& datagram, uint64_t pseq) const;
  // The reverse; nothing if the tag is another one. `datagram` has its tag.
  std::optional<Bytes> open(std::span<const std::byte> datagram, uint64_t pseq) const;
};

// What both ends hash of an INIT or INIT_ACK: from the magic to END, the payload MTU as zero, without COOKIE.
Bytes transcript_of(std::span<const std::byte> datagram);
std::array<uint8_t, 8> key_id_of(const Bytes& psk);

// The tester's end of one connection of mode 2.
class Sealing {
 public:
  Sealing(Rng& rng, Bytes psk);

  wire::KeyShare key_share() const;
  // Keys of both directions from what was sent and received. False: the public key is of small order.
  bool agree(bool initiator, const wire::KeyShare& peer, std::span<const std::byte> init,
             std::span<const std::byte> init_ack);

  void set_peer_first_pseq(uint32_t pseq) { peer_first_pseq_ = pseq; }
  // The datagram of the target as it was before it was sealed; nothing if no key opens it.
  std::optional<Bytes> open(std::span<const std::byte> datagram);

  // Of the datagram that was opened last: how many updates of the target were before it.
  uint32_t opened_phase() const { return opened_phase_; }

  // The next phase of what the tester sends, see PhaseSecret and SendOptions::flags.
  void update();
  PhaseSecret tx;
  uint8_t phase = 0;  // EPH of what the tester sends

 private:
  Bytes psk_;
  crypto::KeyPair keys_;
  PhaseSecret rx_;
  std::optional<PhaseSecret> rx_before_;
  uint8_t rx_phase_ = 0;
  uint32_t rx_updates_ = 0;
  uint32_t opened_phase_ = 0;
  uint32_t peer_first_pseq_ = 0;
  std::map<std::pair<bool, uint8_t>, uint64_t> highest_;  // by class and path
};

}  // namespace mroce::comply
