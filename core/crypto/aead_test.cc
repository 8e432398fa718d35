// The test cases of the GCM proposal (McGrew and Viega), which NIST's validation set repeats: 1, 2 and 4.
#include "core/crypto/aead.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/crypto/test_support.h"

namespace mroce::crypto::test {
namespace {

struct Case {
  std::vector<uint8_t> key, nonce, associated, plain, sealed, tag;
};

const Case kOne{hex("00000000000000000000000000000000"), hex("000000000000000000000000"), {}, {}, {},
                hex("58e2fccefa7e3061367f1d57a4e7455a")};
const Case kTwo{hex("00000000000000000000000000000000"),
                hex("000000000000000000000000"),
                {},
                hex("00000000000000000000000000000000"),
                hex("0388dace60b6a392f328c2b971b2fe78"),
                hex("ab6e47d42cec13bdf53a67b21257bddf")};
const Case kFour{hex("feffe9928665731c6d6a8f9467308308"),
                 hex("cafebabefacedbaddecaf888"),
                 hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
                 hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"),
                 hex("42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
                     "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"),
                 hex("5bc94fbc3221a5db94fae95ae7121a47")};

std::span<const uint8_t, kAeadKeyBytes> key_of(const Case& c) {
  return std::span<const uint8_t, kAeadKeyBytes>(c.key);
}
Nonce nonce_of(const Case& c) {
  Nonce nonce{};
  std::copy(c.nonce.begin(), c.nonce.end(), nonce.begin());
  return nonce;
}

struct Sealed {
  std::vector<uint8_t> bytes, tag;
};
Sealed seal(Aead& aead, const Case& c, size_t cut) {
  Sealed result{std::vector<uint8_t>(c.plain.size()), std::vector<uint8_t>(kTagBytes)};
  auto* out = reinterpret_cast<std::byte*>(result.bytes.data());
  aead.begin(nonce_of(c));
  aead.associate(as_bytes(c.associated));
  aead.update(as_bytes(c.plain).first(cut), out);
  aead.update(as_bytes(c.plain).subspan(cut), out + cut);
  aead.seal(reinterpret_cast<std::byte*>(result.tag.data()));
  return result;
}
bool open(Aead& aead, const Case& c, const Sealed& sealed, std::vector<uint8_t>& plain) {
  plain.assign(sealed.bytes.size(), 0);
  aead.begin(nonce_of(c));
  aead.associate(as_bytes(c.associated));
  aead.update(as_bytes(sealed.bytes), reinterpret_cast<std::byte*>(plain.data()));
  return aead.open(as_bytes(sealed.tag).data());
}

TEST(Aead, gives_the_published_results) {
  for (const Case& c : {kOne, kTwo, kFour}) {
    Aead sealer(Aead::Way::kSeal, key_of(c));
    const Sealed sealed = seal(sealer, c, 0);
    EXPECT_EQ(sealed.bytes, c.sealed);
    EXPECT_EQ(sealed.tag, c.tag);
    Aead opener(Aead::Way::kOpen, key_of(c));
    std::vector<uint8_t> plain;
    EXPECT_TRUE(open(opener, c, sealed, plain));
    EXPECT_EQ(plain, c.plain);
  }
}

TEST(Aead, gives_the_same_however_the_packet_is_cut_and_whatever_was_worked_off_before) {
  Aead sealer(Aead::Way::kSeal, key_of(kFour));
  for (size_t cut = 0; cut <= kFour.plain.size(); ++cut) {
    const Sealed sealed = seal(sealer, kFour, cut);
    ASSERT_EQ(sealed.bytes, kFour.sealed) << cut;
    ASSERT_EQ(sealed.tag, kFour.tag) << cut;
  }
}

TEST(Aead, refuses_every_change_and_goes_on_with_the_next_packet) {
  Aead opener(Aead::Way::kOpen, key_of(kFour));
  std::vector<uint8_t> plain;
  const Sealed good{kFour.sealed, kFour.tag};
  for (size_t bit = 0; bit < 8 * kTagBytes; ++bit) {
    Sealed bad = good;
    bad.tag[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    ASSERT_FALSE(open(opener, kFour, bad, plain)) << "tag, bit " << bit;
  }
  for (size_t at = 0; at < kFour.sealed.size(); ++at) {
    Sealed bad = good;
    bad.bytes[at] ^= 1;
    ASSERT_FALSE(open(opener, kFour, bad, plain)) << "payload, byte " << at;
  }
  for (size_t at = 0; at < kFour.associated.size(); ++at) {
    Case other = kFour;
    other.associated[at] ^= 1;
    ASSERT_FALSE(open(opener, other, good, plain)) << "header, byte " << at;
  }
  Case other = kFour;
  other.nonce[11] ^= 1;
  EXPECT_FALSE(open(opener, other, good, plain));
  EXPECT_TRUE(open(opener, kFour, good, plain));
  EXPECT_EQ(plain, kFour.plain);
}

}  // namespace
}  // namespace mroce::crypto::test
