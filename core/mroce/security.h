// Mode 2 of a connection (docs/spec, "Security"): what encrypts and authenticates its datagrams.
//
// Each direction has a chain of key phases. A phase is an AES-128-GCM key, an IV and the secret from which
// the next phase comes; the first ones come from HKDF over an X25519 secret, the pre-shared key and a hash of
// the handshake. The nonce of a datagram is the IV with (class, path, 64-bit PSEQ) exclusive-ored into it:
// numbers that are never used twice. Of DATA the payload is encrypted; everything else is authenticated only.
// The idea of the flag that shows the phase, with keys that are tried and switched on success, is that of RFC
// 9001, section 6; here each direction changes for itself.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/time.h"
#include "core/crypto/aead.h"
#include "core/crypto/hash.h"
#include "core/crypto/x25519.h"
#include "core/wire/codec.h"

namespace mroce {

using PresharedKey = crypto::Key32;

// Keys of one phase of one direction.
class PhaseKeys {
 public:
  static constexpr size_t kMaterialBytes =
      crypto::kAeadKeyBytes + crypto::kNonceBytes + sizeof(crypto::Key32);
  using Material = std::array<uint8_t, kMaterialBytes>;  // key, IV, secret of the next phase

  PhaseKeys(crypto::Aead::Way way, const Material& material);
  ~PhaseKeys() { crypto::wipe(next_secret_); }
  PhaseKeys(PhaseKeys&&) = default;
  PhaseKeys& operator=(PhaseKeys&&) = default;

  // Keys of the next phase.
  PhaseKeys next() const;
#ifdef MROCE_MUTANTS
  // The same once more, for an engine that goes back to it.
  PhaseKeys again() const {
    return PhaseKeys(way_, material_);
  }
#endif
  // Begins a datagram: its class (DATA or not), path and PSEQ make the nonce.
  crypto::Aead& begin(bool data, uint8_t path, uint64_t pseq);

 private:
  crypto::Aead::Way way_;
  crypto::Aead aead_;
  crypto::Nonce iv_{};
  crypto::Key32 next_secret_{};
#ifdef MROCE_MUTANTS
  Material material_{};
#endif
};

// Which PSEQs of one path have arrived: bit i of `bits` stands for largest - i. For what is not DATA, of
// which the CPSN window knows nothing.
struct ReplayWindow {
  static constexpr uint64_t kBits = 64;
  bool seen = false;
  uint64_t largest = 0;
  uint64_t bits = 0;

  bool is_new(uint64_t pseq) const;
  void note(uint64_t pseq);  // is_new(pseq)
};

// Secrets of both directions, from the key agreement.
struct FirstKeys {
  PhaseKeys::Material initiator{};  // for what the initiator sends
  PhaseKeys::Material acceptor{};
  ~FirstKeys();
};
FirstKeys derive_keys(const std::optional<PresharedKey>& preshared, const crypto::Key32& shared,
                      std::span<const std::byte> init, std::span<const std::byte> init_ack);
// What a KEY_SHARE says of the pre-shared key.
std::array<uint8_t, 8> key_id_of(const std::optional<PresharedKey>& preshared);

struct Security {
  Security(const FirstKeys& keys, bool initiator, uint64_t first_cpsn);

  // With the next `tx`: nothing of its phase has been acknowledged yet.
  void begin_phase(uint64_t next_cpsn);
  void note_asked(uint64_t token);   // a PROBE that the peer will answer
  void note_answer(uint64_t token);  // shows that it has opened something of this phase
  // PSEQ of a datagram that is not DATA, from its low 32 bits.
  uint64_t expand_other(uint8_t path, uint32_t pseq) const;
  bool is_replay(uint8_t path, uint64_t pseq) const;
  void note_other(uint8_t path, uint64_t pseq);
  size_t memory_bytes() const;

  // Sending
  PhaseKeys tx;
  uint64_t tx_packets = 0;    // of this phase
  uint64_t tx_first_cpsn;     // first packet that was cut in this phase
  bool tx_confirmed = false;  // the peer has opened something of this phase
  // Tokens of the last PROBEs of this phase: an answer may be under way for longer than we wait to ask again.
  static constexpr uint32_t kAsks = 8;
  std::array<uint64_t, kAsks> asked_tokens{};
  uint32_t asks = 0;
  Time ask_again{};  // not before
#ifdef MROCE_MUTANTS
  std::optional<PhaseKeys> tx_mistaken;  // to which a wrong engine goes back
#endif

  // Receiving
  PhaseKeys rx;
  uint8_t rx_phase = 0;                // flag EPH of `rx`: 0 or flag::kKeyPhase
  std::optional<PhaseKeys> rx_before;  // for what is late
  Time rx_before_until{};
  std::optional<PhaseKeys> rx_after;  // made when the flag first differs
  std::vector<ReplayWindow> others;   // by path, not DATA
  uint64_t failures = 0;              // datagrams that no key opened
};

// What a connection needs only until it is open and validated.
struct Opening {
  std::optional<crypto::KeyPair> keys;  // mode 2, offered or taken
  std::optional<wire::Init> own;        // our INIT or INIT_ACK: repetitions must be equal, for the transcript
  crypto::Key32 init_hash{};            // acceptor: of the INIT that began it
  wire::Cookie cookie;                  // initiator: from RETRY
  uint32_t retries = 0;
};

}  // namespace mroce
