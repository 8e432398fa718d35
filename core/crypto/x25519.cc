#include "core/crypto/x25519.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "core/base/assert.h"

namespace mroce::crypto {
namespace {
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
using Pkey = std::unique_ptr<EVP_PKEY, FreeKey>;

Pkey private_key(const Key32& secret) {
  Pkey key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, secret.data(), secret.size()));
  MROCE_ASSERT(key != nullptr);
  return key;
}
}  // namespace

KeyPair::KeyPair(const Key32& secret) : secret_(secret) {
  size_t length = public_.size();
  MROCE_ASSERT(EVP_PKEY_get_raw_public_key(private_key(secret_).get(), public_.data(), &length) == 1);
}

std::optional<Key32> KeyPair::shared_with(const Key32& peer) const {
  const Pkey ours = private_key(secret_);
  const Pkey theirs(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, peer.data(), peer.size()));
  const std::unique_ptr<EVP_PKEY_CTX, FreeContext> context(EVP_PKEY_CTX_new(ours.get(), nullptr));
  MROCE_ASSERT(theirs != nullptr && context != nullptr && EVP_PKEY_derive_init(context.get()) == 1);
  Key32 shared{};
  size_t length = shared.size();
  // libcrypto itself refuses the all-zero result in some versions; we look, whatever it does.
  if (EVP_PKEY_derive_set_peer(context.get(), theirs.get()) != 1 ||
      EVP_PKEY_derive(context.get(), shared.data(), &length) != 1 || length != shared.size()) {
    return std::nullopt;
  }
  uint8_t any = 0;
  for (const uint8_t byte : shared) any = static_cast<uint8_t>(any | byte);
  if (any == 0) return std::nullopt;
  return shared;
}

}  // namespace mroce::crypto
