// Keys, nonces and the replay window of mode 2. Expected bytes of keys come from a few lines of Python's hmac
// and hashlib that follow docs/spec, §10.3.2, not from this code.
#include "core/mroce/security.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/crypto/test_support.h"
#include "core/mroce/test_support.h"

namespace mroce::test {
namespace {

using crypto::Aead;
using crypto::test::as_bytes;
using crypto::test::hex;
using crypto::test::text;

PresharedKey preshared() {
  PresharedKey key{};
  key.fill(0x5a);
  return key;
}
crypto::Key32 shared() {
  crypto::Key32 secret{};
  for (uint8_t i = 0; i < 32; ++i) secret[i] = i;
  return secret;
}
std::vector<uint8_t> bytes_of(const PhaseKeys::Material& material) {
  return {material.begin(), material.end()};
}
PhaseKeys::Material material(std::string_view digits) {
  const auto bytes = hex(digits);
  PhaseKeys::Material result{};
  std::copy(bytes.begin(), bytes.end(), result.begin());
  return result;
}
FirstKeys keys_for(const std::optional<PresharedKey>& key, std::string_view init, std::string_view init_ack) {
  return derive_keys(key, shared(), as_bytes(text(init)), as_bytes(text(init_ack)));
}
std::string tag_of(PhaseKeys& keys, bool data, uint8_t path, uint64_t pseq) {
  std::array<std::byte, crypto::kTagBytes> tag{};
  keys.begin(data, path, pseq).seal(tag.data());
  return {reinterpret_cast<const char*>(tag.data()), tag.size()};
}

constexpr std::string_view kInitiator =
    "eda6a6262c04dac38accbf29192f58efd357ee76ef2f198c702c83ebbeae66e3701a5d9b72f3035918949ea6b02be22a218a707d"
    "c20ed18061"
    "a42411";

TEST(Keys, are_those_that_the_specification_says) {
  const FirstKeys keys = keys_for(preshared(), "init", "init_ack");
  EXPECT_EQ(bytes_of(keys.initiator), hex(kInitiator));
  EXPECT_EQ(bytes_of(keys.acceptor),
            hex("9dc84a98b8d6d562650b433a6d2cd0e0b61273839c2557273cca44b2802ecb825bd6099a1c85"
                "2f84df380859ec2b0cb4d352c6edc40e9401c58fc165"));
  const FirstKeys without = keys_for(std::nullopt, "init", "init_ack");
  EXPECT_EQ(bytes_of(without.initiator), hex("ecfc5bfb717df4408b6633a31911e2b615e5f8329a277dfd15a50138140c1db"
                                             "375cd5df450426782c396deeb73ffb283ef37e0b967"
                                             "0bc100e691503c"));
}

TEST(Keys, of_the_next_phase_are_those_that_the_specification_says) {
  PhaseKeys next = PhaseKeys(Aead::Way::kSeal, material(kInitiator)).next();
  PhaseKeys expected(
      Aead::Way::kSeal,
      material("b7a9fdb319b546b5aaec17cfe81d089ff99cb33dd21c68427190ce354ada8061667d4608545b2932a45b13fc"
               "7cfa9f3742d4bce2f4fa314925543b18"));
  EXPECT_EQ(tag_of(next, true, 3, 77), tag_of(expected, true, 3, 77));
  PhaseKeys after = next.next(), expected_after = expected.next();
  EXPECT_EQ(tag_of(after, true, 3, 77), tag_of(expected_after, true, 3, 77));
}

TEST(Keys, depend_on_both_packets_of_the_handshake) {
  std::set<std::vector<uint8_t>> all;
  for (const char* init : {"a", "b"}) {
    for (const char* init_ack : {"c", "d"}) {
      const FirstKeys keys = keys_for(preshared(), init, init_ack);
      all.insert(bytes_of(keys.initiator));
      all.insert(bytes_of(keys.acceptor));
    }
  }
  EXPECT_EQ(all.size(), 8u);
}

TEST(KeyId, names_the_key_and_is_zero_without_one) {
  const auto id = key_id_of(preshared());
  EXPECT_EQ(std::vector<uint8_t>(id.begin(), id.end()), hex("23cb9c6f4b69c372"));
  EXPECT_EQ(key_id_of(std::nullopt), (std::array<uint8_t, 8>{}));
}

TEST(Nonce, differs_for_every_class_path_and_number) {
  PhaseKeys keys(Aead::Way::kSeal, material(kInitiator));
  std::set<std::string> tags;
  size_t count = 0;
  for (const bool data : {false, true}) {
    for (const uint8_t path : std::array<uint8_t, 4>{0, 1, 31, 63}) {
      for (const uint64_t pseq :
           std::array<uint64_t, 7>{0, 1, 255, 256, 0xffffffff, 0x100000000, ~uint64_t{0}}) {
        tags.insert(tag_of(keys, data, path, pseq));
        ++count;
      }
    }
  }
  EXPECT_EQ(tags.size(), count);
}

TEST(ReplayWindow, takes_each_number_once_and_nothing_that_is_too_old) {
  ReplayWindow window;
  EXPECT_TRUE(window.is_new(1000));
  window.note(1000);
  EXPECT_FALSE(window.is_new(1000));
  EXPECT_TRUE(window.is_new(937));
  EXPECT_FALSE(window.is_new(936)) << "64 below";
  window.note(937);
  EXPECT_FALSE(window.is_new(937));
  window.note(1003);
  EXPECT_FALSE(window.is_new(1000));
  EXPECT_FALSE(window.is_new(939));
  EXPECT_TRUE(window.is_new(940));
  EXPECT_TRUE(window.is_new(1002));
  window.note(5000000000);
  EXPECT_FALSE(window.is_new(1003));
  EXPECT_TRUE(window.is_new(4999999999));
}

TEST(ReplayWindow, agrees_with_a_set) {
  Rng rng(1);
  ReplayWindow window;
  std::set<uint64_t> seen;
  uint64_t newest = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t pseq = newest + 70 - rng.below(std::min<uint64_t>(newest + 1, 150));
    const bool fresh = !seen.contains(pseq) && (seen.empty() || pseq + 64 > newest);
    ASSERT_EQ(window.is_new(pseq), fresh) << pseq;
    if (!fresh || rng.chance(0.5)) continue;
    window.note(pseq);
    seen.insert(pseq);
    newest = *seen.rbegin();
  }
}

TEST(Phase, is_confirmed_by_the_answer_to_one_of_its_last_questions) {
  Security security(keys_for(preshared(), "init", "init_ack"), true, 1);
  security.note_answer(0);
  EXPECT_FALSE(security.tx_confirmed) << "nothing was asked";
  for (uint64_t token = 100; token < 100 + Security::kAsks + 1; ++token) security.note_asked(token);
  security.note_answer(100);
  EXPECT_FALSE(security.tx_confirmed) << "too long ago";
  security.note_answer(101);
  EXPECT_TRUE(security.tx_confirmed);
  security.begin_phase(9);
  security.note_answer(102);
  EXPECT_FALSE(security.tx_confirmed) << "of the phase before";
  security.note_asked(7);
  security.note_answer(7);
  EXPECT_TRUE(security.tx_confirmed);
}

TEST(Secrets, come_from_the_source_that_the_driver_gives) {
  size_t drawn = 0;
  Rig rig([&](EngineConfig& config) {
    config.entropy = [&](std::span<uint8_t> out) {
      drawn += out.size();
      std::fill(out.begin(), out.end(), static_cast<uint8_t>(drawn));
    };
  });
  const Connection& c = rig.open(1);
  EXPECT_EQ(c.reset_token[0], c.reset_token[15]);
  EXPECT_GE(drawn, 8u + 8u + 8u + 16u + 8u) << "id, first numbers, token, nonce";
}

TEST(VirtualPayload, cannot_be_encrypted) {
  EXPECT_DEATH(Rig([](EngineConfig& config) {
                 config.virtual_payload = true;
                 config.security = SecurityPolicy::kPrefer;
               }),
               "virtual_payload");
}

}  // namespace
}  // namespace mroce::test
