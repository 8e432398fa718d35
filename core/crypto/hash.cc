#include "core/crypto/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "core/base/assert.h"

namespace mroce::crypto {
namespace {

constexpr size_t kBlock = 64;  // of SHA-256

// One digest under way. HMAC is built from it as RFC 2104 writes it: libcrypto's own interface for it wants a
// lookup by name for each use.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new()) {
    MROCE_ASSERT(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(Bytes bytes) { MROCE_ASSERT(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1); }
  Key32 finish() {
    Key32 out{};
    unsigned length = 0;
    MROCE_ASSERT(EVP_DigestFinal_ex(context_.get(), out.data(), &length) == 1 && length == out.size());
    return out;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

void wipe(std::span<uint8_t> bytes) {
  OPENSSL_cleanse(bytes.data(), bytes.size());
}

Key32 sha256(std::initializer_list<Bytes> parts) {
  Digest digest;
  for (const Bytes part : parts) digest.add(part);
  return digest.finish();
}

Key32 hmac_sha256(Bytes key, std::initializer_list<Bytes> parts) {
  std::array<uint8_t, kBlock> pad{};
  if (key.size() > kBlock) {
    const Key32 digest = sha256({key});
    std::copy(digest.begin(), digest.end(), pad.begin());
  } else {
    std::copy(key.begin(), key.end(), pad.begin());
  }
  for (uint8_t& byte : pad) byte ^= 0x36;
  Digest inner;
  inner.add(pad);
  for (const Bytes part : parts) inner.add(part);
  const Key32 middle = inner.finish();
  for (uint8_t& byte : pad) byte ^= 0x36 ^ 0x5c;
  Digest outer;
  outer.add(pad);
  outer.add(middle);
  wipe(pad);
  return outer.finish();
}

Key32 hkdf_extract(Bytes salt, Bytes secret) {
  return hmac_sha256(salt, {secret});
}

void hkdf_expand(Bytes pseudo_random_key, std::initializer_list<Bytes> info, std::span<uint8_t> out) {
  MROCE_ASSERT(out.size() <= 255 * sizeof(Key32) && info.size() <= 3);
  const auto part = [&](size_t i) { return i < info.size() ? info.begin()[i] : Bytes{}; };
  Key32 block{};
  Bytes before;
  for (uint8_t count = 1; !out.empty(); ++count) {
    block = hmac_sha256(pseudo_random_key, {before, part(0), part(1), part(2), {&count, 1}});
    before = block;
    const size_t take = std::min(out.size(), block.size());
    std::copy_n(block.begin(), take, out.begin());
    out = out.subspan(take);
  }
  wipe(block);
}

bool same_in_constant_time(Bytes a, Bytes b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace mroce::crypto
