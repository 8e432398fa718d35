// RFC 7748, sections 5.2 and 6.1.
#include "core/crypto/x25519.h"

#include <gtest/gtest.h>

#include "core/crypto/test_support.h"

namespace mroce::crypto::test {
namespace {

TEST(X25519, gives_the_results_of_rfc_7748_section_5_2) {
  const KeyPair first(key32("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"));
  EXPECT_EQ(first.shared_with(key32("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")),
            key32("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"));
  const KeyPair second(key32("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d"));
  EXPECT_EQ(second.shared_with(key32("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493")),
            key32("95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"));
}

TEST(X25519, gives_two_sides_the_secret_of_rfc_7748_section_6_1) {
  const KeyPair alice(key32("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"));
  const KeyPair bob(key32("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
  EXPECT_EQ(alice.public_key(), key32("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
  EXPECT_EQ(bob.public_key(), key32("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
  const Key32 shared = key32("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
  EXPECT_EQ(alice.shared_with(bob.public_key()), shared);
  EXPECT_EQ(bob.shared_with(alice.public_key()), shared);
}

TEST(X25519, iterated_a_thousand_times_gives_the_value_of_rfc_7748) {
  Key32 k{};
  k[0] = 9;
  Key32 u = k;
  for (int i = 0; i < 1000; ++i) {
    const auto next = KeyPair(k).shared_with(u);
    ASSERT_TRUE(next);
    u = k;
    k = *next;
    if (i == 0) {
      EXPECT_EQ(k, key32("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"));
    }
  }
  EXPECT_EQ(k, key32("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"));
}

TEST(X25519, refuses_public_keys_that_make_the_secret_zero) {
  const KeyPair ours(key32("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"));
  Key32 zero{};
  EXPECT_FALSE(ours.shared_with(zero));
  Key32 one{};
  one[0] = 1;
  EXPECT_FALSE(ours.shared_with(one));
  EXPECT_FALSE(ours.shared_with(key32("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")));
  EXPECT_FALSE(ours.shared_with(key32("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")));
}

}  // namespace
}  // namespace mroce::crypto::test
