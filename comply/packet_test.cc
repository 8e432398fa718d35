#include "comply/packet.h"

#include <gtest/gtest.h>

#include "comply/stream.h"

namespace mroce::comply {
namespace {

TEST(ComplyPacket, BytesThatAreNoDatagramHaveNoHeader) {
  const Packet packet = decode(Bytes(10));
  EXPECT_FALSE(packet.header);
  EXPECT_FALSE(packet.is(wire::Type::kInit));
  EXPECT_EQ(describe(packet), "10 bytes that are no datagram of mroce");
}

TEST(ComplyPacket, RandomBytesAreDescribedWithoutHarm) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Bytes bytes = pattern(seed % 300, seed);
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(0x10 | (seed % 16));
    if (seed % 2 == 0) fix_trailer(bytes);
    EXPECT_FALSE(describe(decode(std::move(bytes))).empty());
  }
}

TEST(ComplyPacket, ATrailerThatIsWrongIsSaid) {
  Bytes bytes(40, std::byte{0x16});
  fix_trailer(bytes);
  EXPECT_TRUE(decode(bytes).good_trailer);
  bytes[30] ^= std::byte{1};
  const Packet packet = decode(bytes);
  EXPECT_FALSE(packet.good_trailer);
  EXPECT_NE(describe(packet).find("bad trailer"), std::string::npos);
}

TEST(ComplyPacket, TheVectorSpeaksOfLargestAndTheTwoHundredFiftyFiveBelow) {
  wire::PathBlock block;
  block.largest = 10;  // wraps below
  block.vector = {0b101, 0, 0, 1ULL << 63};
  EXPECT_TRUE(says_received(block, 10));
  EXPECT_FALSE(says_received(block, 9));
  EXPECT_TRUE(says_received(block, 8));
  EXPECT_TRUE(says_received(block, 10U - 255U));
  EXPECT_FALSE(says_received(block, 10U - 256U));
  EXPECT_FALSE(says_received(block, 11));
}

}  // namespace
}  // namespace mroce::comply
