// The TLVs of INIT and INIT_ACK, RETRY, and what both ends hash of a handshake.
#include <gtest/gtest.h>

#include "core/wire/field_table.h"
#include "core/wire/test_support.h"

namespace mroce::wire {
namespace {

using namespace test;

Init any_secured_init(Rng& rng, bool share, size_t cookie) {
  Init init = any_init(rng);
  init.has_key_share = share;
  if (share) {
    for (auto& byte : init.key_share.public_key) byte = any<uint8_t>(rng);
    for (auto& byte : init.key_share.key_id) byte = any<uint8_t>(rng);
  }
  init.cookie.length = static_cast<uint8_t>(cookie);
  for (size_t i = 0; i < cookie; ++i) init.cookie.bytes[i] = any<uint8_t>(rng);
  return init;
}

Bytes bytes_of(const Init& init, size_t pad_to = 0, Type type = Type::kInit) {
  Common header;
  header.type = type;
  return encoded([&](Out out) { return encode_init(header, init, pad_to, out); });
}

bool decodes(const Bytes& bytes) {
  Init init;
  return decode_init(Exact(bytes).view(), init);
}

Init small_init() {
  Init init;
  init.nports = 1;
  return init;
}
constexpr size_t kListAt = end_of::init + kInitPortBytes;  // of small_init()

// small_init() with flag EXT and this behind its port.
Bytes with_list(std::string_view hex) {
  Bytes bytes = bytes_of(small_init());
  bytes[1] = std::byte{flag::kExtension};
  const Bytes list = from_hex(hex);
  bytes.insert(bytes.end(), list.begin(), list.end());
  return bytes;
}

TEST(InitTlvs, come_back_with_and_without_padding) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const Init init = any_secured_init(rng, rng.chance(0.5), rng.below(kMaxCookieBytes + 1));
    const Bytes bytes = bytes_of(init, rng.chance(0.5) ? 1196 : 0);
    Init back;
    ASSERT_TRUE(decode_init(Exact(bytes).view(), back));
    ASSERT_EQ(back, init);
    const bool extended = init.has_key_share || init.cookie.length != 0;
    EXPECT_EQ((static_cast<uint8_t>(bytes[1]) & flag::kExtension) != 0, extended);
  }
}

TEST(InitTlvs, have_these_bytes) {
  Init init = small_init();
  init.has_key_share = true;
  for (uint8_t i = 0; i < 32; ++i) init.key_share.public_key[i] = static_cast<uint8_t>(0x80 + i);
  for (uint8_t i = 0; i < 8; ++i) init.key_share.key_id[i] = static_cast<uint8_t>(0x10 + i);
  init.cookie.length = 3;
  init.cookie.bytes = {0xc1, 0xc2, 0xc3};
  const Bytes bytes = bytes_of(init, 200);
  EXPECT_EQ(bytes[1], std::byte{flag::kExtension});
  EXPECT_EQ(Bytes(bytes.begin() + kListAt, bytes.end()),
            from_hex("07 28 808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f 1011121314151617"
                     "08 03 c1c2c3 00 00" +
                     std::string(2 * (200 - kListAt - 42 - 5 - 2), '0')));
}

TEST(InitTlvs, are_padding_without_the_flag) {
  Bytes bytes = with_list("07 01 00");
  bytes[1] = std::byte{0};
  EXPECT_TRUE(decodes(bytes));
}

TEST(InitTlvs, that_are_not_a_list_of_known_ones_at_most_once_are_refused) {
  const std::string share = "07 28" + std::string(80, '1');
  EXPECT_TRUE(decodes(with_list("00 00")));
  EXPECT_TRUE(decodes(with_list(share + "00 00")));
  EXPECT_TRUE(decodes(with_list(share + "08 01 aa 00 00 ff ff")));
  EXPECT_TRUE(decodes(with_list("77 03 010203 00 00"))) << "an unknown one is skipped";
  EXPECT_FALSE(decodes(with_list(""))) << "no END";
  EXPECT_FALSE(decodes(with_list(share))) << "no END";
  EXPECT_FALSE(decodes(with_list("00 01 00"))) << "END with a value";
  EXPECT_FALSE(decodes(with_list("77 09 0102"))) << "cut off";
  EXPECT_FALSE(decodes(with_list("07"))) << "cut off";
  EXPECT_FALSE(decodes(with_list(share + share + "00 00"))) << "twice";
  EXPECT_FALSE(decodes(with_list("08 01 aa 08 01 aa 00 00"))) << "twice";
  EXPECT_FALSE(decodes(with_list("07 27" + std::string(78, '1') + "00 00"))) << "too short";
  EXPECT_FALSE(decodes(with_list("07 29" + std::string(82, '1') + "00 00"))) << "too long";
  EXPECT_FALSE(decodes(with_list("08 00 00 00"))) << "an empty cookie";
  EXPECT_FALSE(decodes(with_list("08 41" + std::string(130, '1') + "00 00"))) << "too long";
}

TEST(InitTlvs, of_an_earlier_decoding_are_forgotten) {
  Rng rng(2);
  Init init;
  ASSERT_TRUE(decode_init(bytes_of(any_secured_init(rng, true, 9)), init));
  ASSERT_TRUE(decode_init(bytes_of(small_init()), init));
  EXPECT_FALSE(init.has_key_share);
  EXPECT_EQ(init.cookie, Cookie{});
}

TEST(Transcript, is_the_same_for_every_repetition_of_an_init) {
  Rng rng(3);
  for (int i = 0; i < 200; ++i) {
    Init init = any_secured_init(rng, true, 0);
    const auto first = init_transcript(bytes_of(init, 1196));
    init.payload_mtu = any<uint16_t>(rng);
    init.cookie.length = 20;
    EXPECT_EQ(init_transcript(bytes_of(init, 1400)), first);
  }
}

TEST(Transcript, shows_every_other_change) {
  Rng rng(4);
  const Init init = any_secured_init(rng, true, 5);
  const Bytes bytes = bytes_of(init, 1196);
  const auto whole = init_transcript(bytes);
  const size_t end = kCommonBytes + whole.size();  // without the cookie, which is behind the key share
  for (size_t at = kCommonBytes; at + 2 < end; ++at) {
    const bool is_mtu = at >= at::init::payload_mtu.offset && at < at::init::payload_mtu.offset + 2;
    Bytes changed = bytes;
    changed[at] ^= std::byte{1};
    Init back;
    if (!decode_init(changed, back) || back.magic != kMagic) continue;
    EXPECT_EQ(init_transcript(changed) == whole, is_mtu) << "byte " << at;
  }
}

TEST(Retry, comes_back_and_has_these_bytes) {
  Retry retry;
  retry.nonce = 0x6162636465666768;
  retry.cookie.length = 4;
  retry.cookie.bytes = {1, 2, 3, 4};
  Common header;
  header.type = Type::kRetry;
  header.dcid = 0x21222324;
  const Bytes bytes = encoded([&](Out out) { return encode_retry(header, retry, out); });
  EXPECT_EQ(bytes, from_hex("12000000 21222324 00000000 00000000 6162636465666768 04 000000 01020304"));
  Retry back;
  ASSERT_TRUE(decode_retry(Exact(bytes).view(), back));
  EXPECT_EQ(back, retry);
}

TEST(Retry, with_a_wrong_length_is_refused) {
  Retry retry;
  retry.cookie.length = 8;
  Common header;
  header.type = Type::kRetry;
  const Bytes good = encoded([&](Out out) { return encode_retry(header, retry, out); });
  Retry back;
  ASSERT_TRUE(decode_retry(good, back));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode_retry(Exact(In(good).first(size)).view(), back)) << size;
  }
  for (const uint8_t length : std::array<uint8_t, 5>{0, 7, 9, 65, 255}) {
    Bytes bad = good;
    bad[24] = static_cast<std::byte>(length);
    EXPECT_FALSE(decode_retry(bad, back)) << int{length};
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_retry(longer, back));
}

TEST(DataHeader, ends_where_the_payload_begins) {
  Rng rng(5);
  for (const DataOp op : kAllOps) {
    const size_t payload = any_payload_bytes(rng, op);
    const Common header = any_common(rng, Type::kData);
    const Bytes bytes = encoded_data(header, any_data(rng, op, payload), any_bytes(rng, payload));
    EXPECT_EQ(data_header_bytes(bytes, header.flags), bytes.size() - payload);
    EXPECT_EQ(data_header_bytes(In(bytes).first(header_bytes(op) - 1), header.flags), 0u);
  }
  Bytes tlvs = encoded_data(Common{}, any_data(rng, DataOp::kWrite, 0), {});
  EXPECT_EQ(data_header_bytes(tlvs, flag::kExtension), 0u) << "no END";
  const Bytes list = from_hex("77 01 00 00 00");
  tlvs.insert(tlvs.end(), list.begin(), list.end());
  EXPECT_EQ(data_header_bytes(tlvs, flag::kExtension), tlvs.size());
}

}  // namespace
}  // namespace mroce::wire
