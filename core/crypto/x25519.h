// X25519 (RFC 7748), by OpenSSL's libcrypto.
#pragma once

#include <optional>

#include "core/crypto/bytes.h"

namespace mroce::crypto {

// A private key and its public half; wiped when it goes.
class KeyPair {
 public:
  // Any 32 random bytes are a private key.
  explicit KeyPair(const Key32& secret);
  ~KeyPair() { wipe(secret_); }
  KeyPair(const KeyPair&) = delete;
  KeyPair& operator=(const KeyPair&) = delete;

  const Key32& public_key() const { return public_; }
  // What both sides have in common; nothing if it is all zero, which only a public key of small order brings
  // about (RFC 7748, section 6.1). The caller wipes it.
  std::optional<Key32> shared_with(const Key32& peer) const;

 private:
  Key32 secret_;
  Key32 public_{};
};

}  // namespace mroce::crypto
