#include "core/crypto/aead.h"

#include <openssl/evp.h>

#include "core/base/assert.h"

namespace mroce::crypto {
namespace {
const unsigned char* u8(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* u8(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
}  // namespace

void Aead::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);  // wipes the key
}

Aead::Aead(Way way, std::span<const uint8_t, kAeadKeyBytes> key) : context_(EVP_CIPHER_CTX_new()) {
  MROCE_ASSERT(context_ != nullptr);
  const int seal = way == Way::kSeal ? 1 : 0;
  const int done = EVP_CipherInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, key.data(), nullptr, seal);
  MROCE_ASSERT(done == 1);
}

void Aead::begin(const Nonce& nonce) {
  const int done = EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), -1);
  MROCE_ASSERT(done == 1);
}

void Aead::associate(std::span<const std::byte> bytes) {
  int length = 0;
  const int done =
      EVP_CipherUpdate(context_.get(), nullptr, &length, u8(bytes.data()), static_cast<int>(bytes.size()));
  MROCE_ASSERT(done == 1);
}

void Aead::update(std::span<const std::byte> in, std::byte* out) {
  if (in.empty()) return;
  int length = 0;
  const int done =
      EVP_CipherUpdate(context_.get(), u8(out), &length, u8(in.data()), static_cast<int>(in.size()));
  MROCE_ASSERT(done == 1 && static_cast<size_t>(length) == in.size());
}

void Aead::seal(std::byte* tag) {
  std::array<unsigned char, kTagBytes> rest{};
  int length = 0;
  int done = EVP_CipherFinal_ex(context_.get(), rest.data(), &length);
  MROCE_ASSERT(done == 1 && length == 0);
  done = EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag);
  MROCE_ASSERT(done == 1);
}

bool Aead::open(const std::byte* tag) {
  // libcrypto reads the tag only, but its parameter is not const.
  const int set =
      EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, const_cast<std::byte*>(tag));
  MROCE_ASSERT(set == 1);
  std::array<unsigned char, kTagBytes> rest{};
  int length = 0;
  return EVP_CipherFinal_ex(context_.get(), rest.data(), &length) == 1;
}

}  // namespace mroce::crypto
