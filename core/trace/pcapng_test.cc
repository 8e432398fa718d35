#include "core/trace/pcapng.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace mroce::trace {
namespace {

template <class T>
T read_at(const Bytes& bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Block {
  uint32_t type = 0;
  size_t at = 0;  // of its body
};

// Both lengths of each block agree and are multiples of four, and the blocks fill the bytes.
std::vector<Block> blocks_of(const Bytes& bytes) {
  std::vector<Block> blocks;
  size_t at = 0;
  while (at + 12 <= bytes.size()) {
    const auto length = read_at<uint32_t>(bytes, at + 4);
    EXPECT_EQ(length % 4, 0u);
    if (length < 12 || at + length > bytes.size()) break;
    EXPECT_EQ(read_at<uint32_t>(bytes, at + length - 4), length);
    blocks.push_back({read_at<uint32_t>(bytes, at), at + 8});
    at += length;
  }
  EXPECT_EQ(at, bytes.size());
  return blocks;
}

TEST(Pcapng, blocks_follow_each_other_whatever_the_length_of_packets_names_and_comments) {
  for (size_t length = 0; length < 9; ++length) {
    Bytes out;
    append_section(out);
    append_interface(out, {.name = std::string_view("leaf 2 ->").substr(0, length), .speed_bps = 1});
    const Bytes packet(length, std::byte{7});
    append_packet(out, {.comment = std::string_view("lost here").substr(0, length)}, packet);
    append_packet(out, {.interface = 3, .unix_ns = 0x123456789, .original_bytes = 4096}, packet);
    const auto blocks = blocks_of(out);
    ASSERT_EQ(blocks.size(), 4u);
    EXPECT_EQ(blocks[0].type, 0x0a0d0d0au);
    EXPECT_EQ(blocks[1].type, 1u);
    const size_t last = blocks[3].at;
    EXPECT_EQ(read_at<uint32_t>(out, last), 3u);
    EXPECT_EQ(read_at<uint32_t>(out, last + 4), 1u);
    EXPECT_EQ(read_at<uint32_t>(out, last + 8), 0x23456789u);
    EXPECT_EQ(read_at<uint32_t>(out, last + 12), length);
    EXPECT_EQ(read_at<uint32_t>(out, last + 16), 4096u);
  }
}

TEST(IpHeaders, the_checksum_of_a_header_is_that_of_the_textbook) {
  // The example of many texts: 45 00 00 73 00 00 40 00 40 11 ???? c0 a8 00 01 c0 a8 00 c7 has b861.
  const std::array source{std::byte{192}, std::byte{168}, std::byte{0}, std::byte{1}};
  const std::array destination{std::byte{192}, std::byte{168}, std::byte{0}, std::byte{0xc7}};
  Bytes out;
  append_ip(out, {.source = source, .destination = destination, .length = 0x73 - 20});
  ASSERT_EQ(out.size(), 20u);
  EXPECT_EQ(out[10], std::byte{0xb8});
  EXPECT_EQ(out[11], std::byte{0x61});
}

TEST(IpHeaders, bytes_that_a_segment_lacks_count_as_zeros) {
  const std::array address{std::byte{10}, std::byte{0}, std::byte{0}, std::byte{1}};
  const IpHeader ip{.source = address, .destination = address, .protocol = kProtocolTcp, .length = 100};
  Bytes segment(20, std::byte{3});
  const uint16_t short_one = transport_checksum(ip, segment);
  segment.resize(100);
  EXPECT_EQ(transport_checksum(ip, segment), short_one);
}

}  // namespace
}  // namespace mroce::trace
