// What is encoded is decoded, for random packets of every type.
#include <gtest/gtest.h>

#include "core/wire/test_support.h"

namespace mroce::wire {
namespace {

using namespace test;

constexpr int kRounds = 300;
constexpr uint64_t kSeed = 20260824;

template <class Packet, class Encode, class Decode>
void expect_round_trip(const Packet& packet, Encode&& encode, Decode&& decode) {
  const Bytes bytes = encoded(encode);
  ASSERT_GT(bytes.size(), kCommonBytes);
  const Exact exact{bytes};
  Packet back;
  ASSERT_TRUE(decode(exact.view(), back));
  EXPECT_EQ(packet, back);
  EXPECT_TRUE(encoded(encode, bytes.size()) == bytes) << "does not fit where it should";
  EXPECT_EQ(encoded(encode, bytes.size() - 1).size(), 0u) << "writes into a buffer that is too small";
}

TEST(RoundTrip, the_common_header_comes_back_with_any_version_and_type) {
  Rng rng(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    Common header = any_common(rng, static_cast<Type>(rng.below(16)));
    header.version = static_cast<uint8_t>(rng.below(16));
    Bytes bytes(kCommonBytes, std::byte{0xff});
    encode_common(header, bytes.data());
    Common back;
    ASSERT_TRUE(decode_common(Exact(bytes).view(), back));
    EXPECT_EQ(header, back);
  }
}

TEST(RoundTrip, the_reserved_flag_is_sent_as_zero_and_ignored) {
  Common header;
  header.flags = 0x01;
  Bytes bytes(kCommonBytes);
  encode_common(header, bytes.data());
  EXPECT_EQ(bytes[1], std::byte{0});
  bytes[1] = std::byte{0x81};
  Common back;
  ASSERT_TRUE(decode_common(bytes, back));
  EXPECT_EQ(back.flags, flag::kAckRequest);
}

TEST(RoundTrip, what_send_and_fetch_add_do_not_use_is_ignored) {
  for (const DataOp op : {DataOp::kSend, DataOp::kFetchAdd}) {
    Data data;
    data.op = op;
    data.length = 8;
    Bytes bytes = encoded_data(Common{}, data, {});
    const size_t unused = op == DataOp::kSend ? 4 : 8;  // the last bytes of the extension
    std::fill(bytes.end() - static_cast<std::ptrdiff_t>(unused), bytes.end(), std::byte{0xff});
    Data back;
    In payload;
    ASSERT_TRUE(decode_data(Exact(bytes).view(), Common{}, back, payload));
    EXPECT_EQ(back, data);
  }
}

TEST(RoundTrip, every_opcode_of_data_comes_back_with_its_payload) {
  Rng rng(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    for (const DataOp op : kAllOps) {
      const Bytes payload = any_bytes(rng, any_payload_bytes(rng, op));
      const Common header = any_common(rng, Type::kData);
      const Data data = any_data(rng, op, payload.size());
      const Bytes bytes = encoded_data(header, data, payload);
      ASSERT_EQ(bytes.size(), header_bytes(op) + payload.size());
      const Exact exact{bytes};
      Common header_back;
      Data back = any_data(rng, DataOp::kCompareSwap, 0);  // what a buffer held before must not shine through
      In payload_back;
      ASSERT_TRUE(decode_common(exact.view(), header_back));
      ASSERT_TRUE(decode_data(exact.view(), header_back, back, payload_back));
      EXPECT_EQ(header, header_back);
      EXPECT_EQ(data, back) << "op " << static_cast<int>(op);
      EXPECT_TRUE(std::equal(payload.begin(), payload.end(), payload_back.begin(), payload_back.end()));
    }
  }
}

TEST(RoundTrip, what_an_opcode_does_not_use_is_sent_as_zero) {
  Data data;
  data.imm = 0xffffffff;
  data.compare = ~uint64_t{0};
  data.op = DataOp::kSend;
  const Bytes send = encoded_data(Common{}, data, {});
  EXPECT_EQ(Bytes(send.begin() + 40, send.end()), Bytes(4)) << "SEND has no immediate";
  data.op = DataOp::kFetchAdd;
  const Bytes fetch_add = encoded_data(Common{}, data, {});
  EXPECT_EQ(Bytes(fetch_add.begin() + 60, fetch_add.end()), Bytes(8)) << "FETCH_ADD compares nothing";
}

TEST(RoundTrip, stream_control_comes_back) {
  Rng rng(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const StreamControl control = any_stream_control(rng);
    Bytes bytes(kStreamControlBytes, std::byte{0xff});
    encode_stream_control(control, bytes.data());
    StreamControl back;
    ASSERT_TRUE(decode_stream_control(Exact(bytes).view(), back));
    EXPECT_EQ(control, back);
  }
}

TEST(RoundTrip, ack_comes_back_with_all_its_parts) {
  Rng rng(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const Common header = any_common(rng, Type::kAck);
    const Ack ack = any_ack(rng);
    expect_round_trip(
        ack, [&](Out out) { return encode_ack(header, ack, out); }, decode_ack);
  }
}

TEST(RoundTrip, an_ack_decoder_can_be_used_again) {
  Rng rng(kSeed);
  Ack back = any_ack(rng, 4, 16, 64, 16, true);
  const Ack small = any_ack(rng, 1, 0, 0, 0, false);
  const Bytes bytes = encoded([&](Out out) { return encode_ack(any_common(rng, Type::kAck), small, out); });
  ASSERT_TRUE(decode_ack(bytes, back));
  EXPECT_EQ(back.nblocks, 1);
  EXPECT_EQ(back.nnaks, 0);
  EXPECT_EQ(back.ncredits, 0);
  EXPECT_EQ(back.nreclaims, 0);
  EXPECT_FALSE(back.has_port_status);
}

TEST(RoundTrip, probe_comes_back_whatever_it_is_padded_to) {
  Rng rng(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const Common header = any_common(rng, Type::kProbe);
    const Probe probe = any_probe(rng);
    const size_t pad_to = rng.below(1500);
    const auto encode = [&](Out out) { return encode_probe(header, probe, pad_to, out); };
    EXPECT_GE(encoded(encode).size(), pad_to);
    expect_round_trip(probe, encode, decode_probe);
  }
}

TEST(RoundTrip, the_small_datagrams_come_back) {
  Rng rng(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const ProbeAck probe_ack{any<uint64_t>(rng)};
    const Close close{any<uint32_t>(rng), any<uint32_t>(rng)};
    Reset reset;
    for (auto& byte : reset.token) byte = any<uint8_t>(rng);
    const VersionList list = any_version_list(rng);
    const Common header = any_common(rng, static_cast<Type>(rng.below(16)));
    expect_round_trip(
        probe_ack, [&](Out out) { return encode_probe_ack(header, probe_ack, out); }, decode_probe_ack);
    expect_round_trip(
        close, [&](Out out) { return encode_close(header, close, out); }, decode_close);
    expect_round_trip(
        reset, [&](Out out) { return encode_reset(header, reset, out); }, decode_reset);
    expect_round_trip(
        list, [&](Out out) { return encode_version(header, list, out); }, decode_version);
  }
}

TEST(RoundTrip, init_comes_back_and_its_padding_is_zero) {
  Rng rng(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const Common header = any_common(rng, Type::kInit);
    const Init init = any_init(rng);
    const size_t pad_to = rng.chance(0.5) ? kMinInitBytes - kTrailerBytes : 0;
    const auto encode = [&](Out out) { return encode_init(header, init, pad_to, out); };
    const Bytes bytes = encoded(encode);
    const size_t filled = kCommonBytes + kInitFixedBytes + init.nports * kInitPortBytes;
    EXPECT_EQ(bytes.size(), std::max(filled, pad_to));
    EXPECT_TRUE(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(filled), bytes.end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    expect_round_trip(init, encode, decode_init);
  }
}

TEST(RoundTrip, an_init_with_a_foreign_magic_is_handed_to_the_caller_without_ports) {
  Rng rng(kSeed);
  Init init = any_init(rng);
  init.magic = 0x51554943;
  const Bytes bytes =
      encoded([&](Out out) { return encode_init(any_common(rng, Type::kInit), init, 0, out); });
  Init back;
  ASSERT_TRUE(decode_init(Exact(In(bytes).first(kCommonBytes + kInitFixedBytes)).view(), back));
  EXPECT_EQ(back.magic, init.magic);
  EXPECT_EQ(back.scid, init.scid);
  EXPECT_EQ(back.nports, 0);
}

}  // namespace
}  // namespace mroce::wire
