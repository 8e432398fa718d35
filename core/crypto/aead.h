// AES-128-GCM (NIST SP 800-38D) with a nonce of 12 and a tag of 16 bytes, by OpenSSL's libcrypto.
//
// One object holds the expanded key and is used for many packets: only the nonce is set for each. A packet
// is worked off in pieces, so that the pieces of a message may lie anywhere and the result goes where the
// caller wants it:
//
//   begin(nonce); associate(header); update(piece, out)…; seal(tag) or open(tag)
#pragma once

#include <memory>

#include "core/crypto/bytes.h"

struct evp_cipher_ctx_st;

namespace mroce::crypto {

inline constexpr size_t kAeadKeyBytes = 16;
inline constexpr size_t kNonceBytes = 12;
inline constexpr size_t kTagBytes = 16;
using Nonce = std::array<uint8_t, kNonceBytes>;

class Aead {
 public:
  enum class Way : uint8_t { kSeal, kOpen };
  Aead(Way way, std::span<const uint8_t, kAeadKeyBytes> key);

  void begin(const Nonce& nonce);
  // Once, before update(); at most 2^30 bytes, as everywhere here.
  void associate(std::span<const std::byte> bytes);
  void update(std::span<const std::byte> in, std::byte* out);
  void seal(std::byte* tag);
  // False: the packet is not what was sealed, and what update() wrote must not be used.
  bool open(const std::byte* tag);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace mroce::crypto
