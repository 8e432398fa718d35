// CRC-32C and trailer, rates, backlogs, 32-bit numbers that wrap.
#include <gtest/gtest.h>

#include <cmath>

#include "core/wire/test_support.h"

namespace mroce::wire {
namespace {

using namespace test;

In bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// CRC-32C from its definition, one bit at a time: reflected polynomial 0x82f63b78.
uint32_t crc_by_definition(In bytes) {
  uint32_t state = 0xffffffffu;
  for (const std::byte byte : bytes) {
    state ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~state;
}

TEST(Crc, has_the_check_value_of_the_standard) {
  EXPECT_EQ(crc_finish(crc_update(kCrcStart, bytes_of("123456789"))), 0xE3069283u);
  EXPECT_EQ(crc_finish(crc_update(kCrcStart, {})), 0u);
}

TEST(Crc, agrees_with_its_definition_at_every_length_and_alignment) {
  Rng rng(3720);
  const Bytes bytes = any_bytes(rng, 1600);
  for (size_t length = 0; length < 1500; length += 1 + length / 40) {
    const In part = In(bytes).subspan(length % 17, length);
    EXPECT_EQ(crc_finish(crc_update(kCrcStart, Exact(part).view())), crc_by_definition(part)) << length;
  }
}

TEST(Crc, chains_over_parts) {
  Rng rng(3720);
  const Bytes bytes = any_bytes(rng, 300);
  const uint32_t whole = crc_update(kCrcStart, bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(crc_update(crc_update(kCrcStart, In(bytes).first(cut)), In(bytes).subspan(cut)), whole) << cut;
  }
}

Bytes with_trailer(Bytes bytes) {
  const uint32_t crc = crc_finish(crc_update(kCrcStart, bytes));
  bytes.resize(bytes.size() + kTrailerBytes);
  write_trailer(crc, bytes.data() + bytes.size() - kTrailerBytes);
  return bytes;
}

TEST(Trailer, is_big_endian) {
  EXPECT_EQ(with_trailer(Bytes(bytes_of("123456789").begin(), bytes_of("123456789").end())),
            from_hex("313233343536373839 e3069283"));
}

TEST(Trailer, finds_every_corruption_of_one_bit_and_every_cut) {
  Rng rng(1);
  const Data data = any_data(rng, DataOp::kSend, 8);
  const Bytes good = with_trailer(encoded_data(any_common(rng, Type::kData), data, any_bytes(rng, 8)));
  ASSERT_TRUE(check_trailer(good));
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(check_trailer(bad)) << "bit " << bit;
  }
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(check_trailer(Exact(In(good).first(length)).view())) << length;
  }
}

TEST(Rate, loses_at_most_a_thousandth_and_never_rounds_up) {
  Rng rng(16);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t rate = 1 + rng.below(uint64_t{1} << rng.between(1, 42));
    const uint64_t back = decode_rate(encode_rate(rate));
    ASSERT_LE(back, rate);
    ASSERT_LE(static_cast<double>(rate - back), static_cast<double>(rate) * 0.001) << rate;
  }
}

TEST(Rate, every_code_decodes_to_a_rate_that_encodes_to_the_same_rate) {
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    const uint64_t rate = decode_rate(static_cast<uint16_t>(code));
    ASSERT_EQ(decode_rate(encode_rate(rate)), rate) << code;
  }
}

TEST(Rate, codes_sort_like_rates) {
  Rng rng(17);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t a = rng.next() >> rng.below(64);
    const uint64_t b = rng.next() >> rng.below(64);
    ASSERT_LE(encode_rate(std::min(a, b)), encode_rate(std::max(a, b)));
  }
}

TEST(Rate, has_codes_for_none_and_unlimited) {
  EXPECT_EQ(encode_rate(0), 0);
  EXPECT_EQ(decode_rate(0), 0u);
  EXPECT_EQ(encode_rate(kUnlimitedRate), 0xffff);
  EXPECT_EQ(decode_rate(0xffff), kUnlimitedRate);
  EXPECT_EQ(encode_rate(kUnlimitedRate - 1), 0xfffe) << "a rate above the range is not unlimited";
  EXPECT_EQ(encode_rate(uint64_t{2047} << 31), 0xfffe);
  EXPECT_EQ(decode_rate(0xfffe), uint64_t{2046} << 31);
  EXPECT_EQ(decode_rate(encode_rate(1)), 1u);
  EXPECT_EQ(decode_rate(encode_rate(2047)), 2047u);
  EXPECT_EQ(decode_rate(encode_rate(50'000'000'000)) / 1'000'000, 49'996u) << "400 Gbit/s: 1490 x 2^25";
}

TEST(Backlog, is_exact_up_to_15_and_within_an_eighth_above) {
  for (uint64_t n = 0; n < 16; ++n) EXPECT_EQ(decode_backlog(encode_backlog(n)), n);
  for (uint64_t n = 16; n < 100000; ++n) {
    const uint64_t back = decode_backlog(encode_backlog(n));
    ASSERT_LE(back, n);
    ASSERT_LE(n - back, n / 8);
  }
}

TEST(Backlog, grows_with_the_number_and_stops_at_255) {
  for (int code = 0; code < 255; ++code) {
    ASSERT_LT(decode_backlog(static_cast<uint8_t>(code)), decode_backlog(static_cast<uint8_t>(code + 1)));
    ASSERT_EQ(encode_backlog(decode_backlog(static_cast<uint8_t>(code))), code);
    ASSERT_EQ(encode_backlog(decode_backlog(static_cast<uint8_t>(code + 1)) - 1), code);
  }
  EXPECT_EQ(encode_backlog(decode_backlog(255)), 255);
  EXPECT_EQ(encode_backlog(~uint64_t{0}), 255);
  EXPECT_EQ(encode_backlog(uint64_t{1} << 40), 255);
}

TEST(Expand32, finds_the_number_that_is_nearest_to_the_expected_one) {
  EXPECT_EQ(expand32(5, 5), 5u);
  EXPECT_EQ(expand32(0xfffffffe, 0x100000001), 0xfffffffeu) << "back over a wrap";
  EXPECT_EQ(expand32(1, 0xfffffffe), 0x100000001u) << "forward over a wrap";
  EXPECT_EQ(expand32(0xffffffff, 0), 0xffffffffu) << "there is nothing below 0";
  EXPECT_EQ(expand32(0xffffffff, 0x7'00000000), 0x6'ffffffffu);
  EXPECT_EQ(expand32(0, 0x7'ffffffff), 0x8'00000000u);
}

TEST(Expand32, holds_for_distances_below_two_to_the_31_around_every_wrap) {
  Rng rng(32);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t base = rng.between(1, 1u << 20) << 32;
    const uint64_t truth = base + rng.below(1u << 16) - (1u << 15);
    const uint64_t expected = truth + rng.below(0xffffffffu) - 0x7fffffffu;
    ASSERT_EQ(expand32(static_cast<uint32_t>(truth), expected), truth) << expected;
  }
}

}  // namespace
}  // namespace mroce::wire
