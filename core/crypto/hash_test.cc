// FIPS 180-2 appendix B, RFC 4231, RFC 5869 appendix A.
#include "core/crypto/hash.h"

#include <gtest/gtest.h>

#include "core/crypto/test_support.h"

namespace mroce::crypto::test {
namespace {

std::vector<uint8_t> expanded(Bytes key, Bytes info, size_t length) {
  std::vector<uint8_t> out(length);
  hkdf_expand(key, {info}, out);
  return out;
}

TEST(Sha256, gives_the_digests_of_fips_180) {
  EXPECT_EQ(sha256({text("abc")}), key32("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  EXPECT_EQ(sha256({}), key32("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
}

TEST(Sha256, of_parts_is_that_of_the_whole) {
  EXPECT_EQ(sha256({text("a"), text(""), text("bc")}), sha256({text("abc")}));
}

TEST(Hmac, gives_the_tags_of_rfc_4231) {
  EXPECT_EQ(hmac_sha256(std::vector<uint8_t>(20, 0x0b), {text("Hi There")}),
            key32("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"));
  EXPECT_EQ(hmac_sha256(text("Jefe"), {text("what do ya want "), text("for nothing?")}),
            key32("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
  EXPECT_EQ(hmac_sha256(std::vector<uint8_t>(20, 0xaa), {std::vector<uint8_t>(50, 0xdd)}),
            key32("773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"));
  EXPECT_EQ(hmac_sha256(std::vector<uint8_t>(131, 0xaa),
                        {text("Test Using Larger Than Block-Size Key - Hash Key First")}),
            key32("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"));
}

TEST(Hkdf, gives_the_results_of_rfc_5869_case_1) {
  const Key32 prk = hkdf_extract(hex("000102030405060708090a0b0c"), std::vector<uint8_t>(22, 0x0b));
  EXPECT_EQ(prk, key32("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5"));
  EXPECT_EQ(expanded(prk, hex("f0f1f2f3f4f5f6f7f8f9"), 42),
            hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"));
}

TEST(Hkdf, gives_the_results_of_rfc_5869_case_3) {
  const Key32 prk = hkdf_extract({}, std::vector<uint8_t>(22, 0x0b));
  EXPECT_EQ(prk, key32("19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04"));
  EXPECT_EQ(expanded(prk, {}, 42),
            hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"));
}

TEST(ConstantTime, comparison_tells_equal_from_different) {
  EXPECT_TRUE(same_in_constant_time(text("abc"), text("abc")));
  EXPECT_FALSE(same_in_constant_time(text("abc"), text("abd")));
  EXPECT_FALSE(same_in_constant_time(text("abc"), text("ab")));
}

}  // namespace
}  // namespace mroce::crypto::test
