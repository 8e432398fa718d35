// Headers on the wire: known bytes, every field, refusals, hostile bytes; and the invariant CRC.
#include "core/rocev2/codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/rdma/rnr_timer.h"
#include "core/rocev2/icrc.h"
#include "core/rocev2/psn.h"

namespace mroce::rocev2 {
namespace {

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}
std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<uint8_t>(b) >> 4];
    hex += kDigits[static_cast<uint8_t>(b) & 15];
  }
  return hex;
}
std::string encoded(const Headers& h) {
  std::byte out[kMaxHeader];
  return to_hex({out, encode(h, out)});
}

constexpr Op kAll[] = {
    Op::kSendFirst,   Op::kSendMiddle,   Op::kSendLast,    Op::kSendLastImm, Op::kSendOnly,
    Op::kSendOnlyImm, Op::kWriteFirst,   Op::kWriteMiddle, Op::kWriteLast,   Op::kWriteLastImm,
    Op::kWriteOnly,   Op::kWriteOnlyImm, Op::kReadRequest, Op::kReadFirst,   Op::kReadMiddle,
    Op::kReadLast,    Op::kReadOnly,     Op::kAck,         Op::kAtomicAck,   Op::kCompareSwap,
    Op::kFetchAdd,    Op::kSendLastInv,  Op::kSendOnlyInv, Op::kCnp,         Op::kIrnNack};

// Written down from the figures of IBTA chapter 9, field by field.
TEST(RoceCodec, bytes_are_those_of_the_specification) {
  Headers h;
  h.bth = {Op::kSendOnly, true, true, 3, 0xffff, false, false, 0x000123, true, 0x001000};
  EXPECT_EQ(encoded(h), "04f0ffff0000012380001000");
  h.bth = {Op::kWriteFirst, false, false, 0, 0x8001, true, false, 0xabcdef, false, 0xfffffe};
  h.reth = {0x1122334455667788, 0x99aabbcc, 0x00010000};
  EXPECT_EQ(encoded(h), "0600800180abcdef00fffffe112233445566778899aabbcc00010000");
  h.bth = {Op::kAck, false, true, 0, 0xffff, false, false, 0x000456, false, 0x00007f};
  h.aeth = {nak::kRemoteAccess, 0x000102};
  EXPECT_EQ(encoded(h), "1140ffff000004560000007f62000102");
  h.bth.op = Op::kCompareSwap;
  h.atomic = {0x0102030405060708, 0x0a0b0c0d, 0x1111111122222222, 0x3333333344444444};
  EXPECT_EQ(encoded(h), "1340ffff000004560000007f01020304050607080a0b0c0d11111111222222223333333344444444");
  h.bth.op = Op::kAtomicAck;
  h.atomic_original = 0xdeadbeef00000001;
  EXPECT_EQ(encoded(h), "1240ffff000004560000007f62000102deadbeef00000001");
  h.bth = {Op::kCnp, false, true, 0, 0xffff, false, true, 0x000abc, false, 0};
  EXPECT_EQ(encoded(h), "8140ffff40000abc00000000" + std::string(32, '0'));
  h.bth = {Op::kSendLastInv, false, true, 0, 0xffff, false, false, 1, false, 2};
  h.imm = 0x01020304;
  EXPECT_EQ(encoded(h), "1640ffff000000010000000201020304");
}

TEST(RoceCodec, the_immediate_keeps_the_order_of_its_bytes_in_memory) {
  Headers h;
  h.bth.op = Op::kSendOnlyImm;
  const unsigned char bytes[] = {1, 2, 3, 4};
  std::memcpy(&h.imm, bytes, 4);
  EXPECT_EQ(encoded(h).substr(24), "01020304");
}

TEST(RoceCodec, what_was_written_is_read_for_every_opcode) {
  Rng rng(1);
  for (const Op op : kAll) {
    for (int round = 0; round < 200; ++round) {
      Headers h;
      h.bth = {op,
               rng.chance(.5),
               rng.chance(.5),
               0,
               static_cast<uint16_t>(rng.next()),
               rng.chance(.5),
               rng.chance(.5),
               static_cast<uint32_t>(rng.next()) & kPsnMask,
               rng.chance(.5),
               static_cast<uint32_t>(rng.next()) & kPsnMask};
      h.reth = {rng.next(), static_cast<uint32_t>(rng.next()), static_cast<uint32_t>(rng.next())};
      h.aeth = {static_cast<uint8_t>(rng.next()), static_cast<uint32_t>(rng.next()) & kPsnMask};
      h.atomic = {rng.next(), static_cast<uint32_t>(rng.next()), rng.next(), rng.next()};
      h.atomic_original = rng.next();
      h.imm = static_cast<uint32_t>(rng.next());
      h.sack = {static_cast<uint32_t>(rng.next()) & kPsnMask, {rng.next(), rng.next()}};
      const OpInfo& i = info(op);
      const uint32_t behind = i.payload ? 64 : 0;
      if (i.payload) h.bth.pad = static_cast<uint8_t>(rng.below(4));
      std::byte out[kMaxHeader];
      const size_t length = encode(h, out);
      ASSERT_EQ(length, i.header_bytes);
      const auto got = decode({out, length}, behind);
      ASSERT_TRUE(got.has_value()) << sentence_of(got.error());
      std::byte again[kMaxHeader];
      encode(*got, again);
      EXPECT_EQ(to_hex({again, length}), to_hex({out, length}));
      if (i.reth) {
        EXPECT_EQ(got->reth.va, h.reth.va);
        EXPECT_EQ(got->reth.length, h.reth.length);
      }
      if (i.imm || i.ieth) {
        EXPECT_EQ(got->imm, h.imm);
      }
      if (i.sack) {
        EXPECT_EQ(got->sack.bits[1], h.sack.bits[1]);
      }
      if (i.atomic) {
        EXPECT_EQ(got->atomic.compare, h.atomic.compare);
      }
      EXPECT_EQ(got->bth.psn, h.bth.psn);
      EXPECT_EQ(got->bth.dqpn, h.bth.dqpn);
    }
  }
}

TEST(RoceCodec, what_is_too_short_is_refused_at_every_length) {
  for (const Op op : kAll) {
    Headers h;
    h.bth.op = op;
    std::byte out[kMaxHeader];
    const size_t length = encode(h, out);
    for (size_t n = 0; n < length; ++n) {
      const auto got = decode({out, n}, 0);
      ASSERT_FALSE(got.has_value());
      EXPECT_EQ(got.error(), DecodeError::kTruncated);
    }
  }
}

TEST(RoceCodec, contradictions_are_refused_by_name) {
  const auto error = [](std::string_view hex, uint64_t behind) {
    const auto got = decode(from_hex(hex), behind);
    return got ? std::string("none") : std::string(sentence_of(got.error()));
  };
  const std::string only = "0440ffff0000012380001000";
  EXPECT_EQ(error(only, 4), "none");
  EXPECT_EQ(error(only, 0), "none");
  EXPECT_EQ(error(only, 6), sentence_of(DecodeError::kPad));
  EXPECT_EQ(error("0470ffff0000012380001000", 0), sentence_of(DecodeError::kPad));
  EXPECT_EQ(error("0441ffff0000012380001000", 4), sentence_of(DecodeError::kVersion));
  EXPECT_EQ(error("1840ffff0000012380001000", 0), sentence_of(DecodeError::kOpcode));
  EXPECT_EQ(error("0040ffff0000012380001000", 0), sentence_of(DecodeError::kPayload));
  EXPECT_EQ(error("1140ffff000004560000007f00000001", 4), sentence_of(DecodeError::kPayload));
}

TEST(RoceCodec, random_bytes_are_read_or_refused_and_never_more) {
  Rng rng(2);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::vector<std::byte> bytes(rng.below(80));
    for (auto& b : bytes) b = static_cast<std::byte>(rng.next());
    if (!bytes.empty() && rng.chance(.9)) bytes[0] = static_cast<std::byte>(kAll[rng.below(std::size(kAll))]);
    if (bytes.size() > 1 && rng.chance(.9)) bytes[1] &= std::byte{0xf0};
    const auto got = decode_whole(bytes);
    if (!got) continue;
    ++accepted;
    ASSERT_GE(bytes.size(), size_t{info(got->bth.op).header_bytes} + got->bth.pad);
  }
  EXPECT_GT(accepted, 10'000);
}

TEST(RoceCodec, credit_codes_never_promise_more_than_there_is) {
  EXPECT_EQ(credit_code(0), 0);
  EXPECT_EQ(credit_code(5), 4);
  EXPECT_EQ(credit_code(32768), 30);
  EXPECT_EQ(credit_code(UINT32_MAX), 30);
  for (uint32_t n = 0; n < 40000; ++n) {
    const uint8_t code = credit_code(n);
    ASSERT_LE(kCreditTable[code], n);
    if (code < 30) {
      ASSERT_GT(kCreditTable[code + 1], n);
    }
  }
}

TEST(RoceCodec, syndromes_have_their_kinds_and_rnr_its_times) {
  EXPECT_EQ(kind_of(ack_syndrome(31)), SyndromeKind::kAck);
  EXPECT_EQ(kind_of(rnr_syndrome(14)), SyndromeKind::kRnr);
  EXPECT_EQ(kind_of(nak::kSequence), SyndromeKind::kNak);
  EXPECT_EQ(kind_of(0x40), SyndromeKind::kReserved);
  EXPECT_EQ(rnr_timer(rnr_syndrome(14)), micros(1280));
  EXPECT_EQ(rnr_timer(rnr_syndrome(0)), micros(655360));
}

TEST(RoceCodec, a_psn_is_read_as_the_nearest_number) {
  EXPECT_EQ(expand_psn(5, kPsnBase + 3), kPsnBase + 5);
  EXPECT_EQ(expand_psn(0xffffff, kPsnBase + 3), kPsnBase - 1);
  EXPECT_EQ(expand_psn(2, kPsnBase + 0xfffff0), kPsnBase + 0x1000002);
}

// ---- iCRC
//
// The expected values come from a separate implementation on zlib's crc32, of the form that completed
// ibv_rc_pingpong with Linux's soft RoCE, which checks every packet's iCRC.

struct Vector {
  const char* what;
  const char* datagram;  // from the IP header on
  const char* icrc;
};
constexpr Vector kVectors[] = {
    {"SEND only over IPv4, 16 bytes",
     "4502003c123440004011abcd0a6200010a62000212b712b7002800000440ffff0000012380001000000102030405060708090a0"
     "b0c0d0e0f",
     "7303313d"},
    {"CNP over IPv4",
     "45c0003c000040003f115555c0a8010ac0a80114c00012b7002877778140ffff40000abc0000000000000000000000000000000"
     "000000000",
     "9441fa52"},
    {"WRITE only over IPv6, 5 bytes and 3 of padding",
     "6a21234500301140fd000000000000000000000000000001fd000000000000000000000000000002c35012b7003011110a70fff"
     "f00345678"
     "80ffffff00007f0012345678112233440000000568656c6c6f000000",
     "0386c08d"},
};

TEST(RoceIcrc, vectors) {
  for (const Vector& v : kVectors) {
    auto datagram = from_hex(v.datagram);
    const auto crc = icrc(datagram);
    ASSERT_TRUE(crc.has_value()) << v.what;
    datagram.resize(datagram.size() + 4);
    write_icrc(*crc, datagram.data() + datagram.size() - 4);
    EXPECT_EQ(to_hex(std::span(datagram).last(4)), v.icrc) << v.what;
    EXPECT_TRUE(check_icrc(datagram)) << v.what;
  }
}

TEST(RoceIcrc, the_pseudo_header_leaves_the_state_that_annex_a17_names) {
  const std::vector<std::byte> ones(8, std::byte{0xff});
  EXPECT_EQ(~icrc_update(0, ones), 0xDEBB20E3u);
}

// Exactly the fields that routers change may change.
TEST(RoceIcrc, covers_every_bit_but_the_variant_fields) {
  const std::vector<std::pair<size_t, uint8_t>> v4_free = {{1, 0xff},  {8, 0xff},  {10, 0xff}, {11, 0xff},
                                                           {26, 0xff}, {27, 0xff}, {32, 0xff}};
  const std::vector<std::pair<size_t, uint8_t>> v6_free = {{0, 0x0f}, {1, 0xff},  {2, 0xff},  {3, 0xff},
                                                           {7, 0xff}, {46, 0xff}, {47, 0xff}, {52, 0xff}};
  for (const Vector& v : kVectors) {
    const auto original = from_hex(v.datagram);
    const auto& free = v.datagram[0] == '4' ? v4_free : v6_free;
    const uint32_t crc = *icrc(original);
    for (size_t bit = 0; bit < original.size() * 8; ++bit) {
      auto changed = original;
      changed[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      uint8_t mask = 0;
      for (const auto& [byte, bits] : free) mask = byte == bit / 8 ? bits : mask;
      const auto got = icrc(changed);
      const bool variant = ((mask >> (bit % 8)) & 1) != 0;
      if (variant) {
        EXPECT_EQ(got, crc) << v.what << " bit " << bit;
      } else {
        EXPECT_NE(got, crc) << v.what << " bit " << bit;  // or not even an IP header any more
      }
    }
  }
}

TEST(RoceIcrc, pieces_give_the_same_as_the_whole_and_short_input_is_refused) {
  const auto datagram = from_hex(kVectors[0].datagram);
  const std::span<const std::byte> all(datagram);
  EXPECT_EQ(icrc_update(*icrc_begin(all.first(40)), all.subspan(40)), *icrc(all));
  for (size_t n = 0; n < 40; ++n) EXPECT_FALSE(icrc(all.first(n)).has_value());
  EXPECT_FALSE(check_icrc(all.first(3)));
}

}  // namespace
}  // namespace mroce::rocev2
