// What is not exactly right is refused, and nothing reads past the end of what came: every input lies in a
// heap block of exactly its size.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "core/wire/test_support.h"

namespace mroce::wire {
namespace {

using namespace test;

constexpr uint64_t kSeed = 4791;

bool decodes_as_data(In datagram) {
  Common header;
  Data data;
  In payload;
  return decode_common(datagram, header) && decode_data(datagram, header, data, payload);
}

template <class Packet>
std::function<bool(In)> decoder(bool (*decode)(In, Packet&)) {
  return [decode](In in) {
    Packet packet;
    return decode(in, packet);
  };
}

// Every prefix is refused, except those whose lengths are in `whole`.
void expect_prefixes_refused(const Bytes& bytes, const std::function<bool(In)>& decode,
                             const std::set<size_t>& whole) {
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const Exact exact{In(bytes).first(length)};
    EXPECT_EQ(decode(exact.view()), whole.contains(length)) << length << " of " << bytes.size() << " bytes";
  }
}

std::set<size_t> from_to(size_t first, size_t last) {
  std::set<size_t> lengths;
  for (size_t i = first; i <= last; ++i) lengths.insert(i);
  return lengths;
}

TEST(Refusal, a_common_header_of_less_than_16_bytes) {
  const Bytes bytes(kCommonBytes);
  expect_prefixes_refused(bytes, decoder(&decode_common), {kCommonBytes});
}

TEST(Refusal, data_that_is_cut_anywhere_in_its_headers) {
  Rng rng(kSeed);
  for (const DataOp op : kAllOps) {
    const Bytes payload = any_bytes(rng, is_stream_control(op) ? kStreamControlBytes
                                         : carries_message(op) ? 20
                                                               : 0);
    const Bytes bytes =
        encoded_data(any_common(rng, Type::kData), any_data(rng, op, payload.size()), payload);
    // A shorter payload is another packet, not a broken one: the trailer finds that out.
    const size_t shortest = carries_message(op) ? header_bytes(op) : bytes.size();
    expect_prefixes_refused(bytes, decodes_as_data, from_to(shortest, bytes.size()));
  }
}

TEST(Refusal, data_with_an_unknown_opcode_or_status) {
  Rng rng(kSeed);
  const Bytes good = encoded_data(any_common(rng, Type::kData), any_data(rng, DataOp::kVoid, 0), {});
  ASSERT_TRUE(decodes_as_data(good));
  const std::set<DataOp> known(kAllOps.begin(), kAllOps.end());
  for (int op = 0; op < 256; ++op) {
    if (known.contains(static_cast<DataOp>(op))) continue;
    Bytes bytes = good;
    bytes[22] = static_cast<std::byte>(op);
    bytes.resize(kMaxHeaderBytes + 100);
    EXPECT_FALSE(decodes_as_data(bytes)) << op;
  }
  for (const DataOp op : {DataOp::kReadResp, DataOp::kAtomicResp}) {
    Bytes bytes = encoded_data(any_common(rng, Type::kData), any_data(rng, op, 0), {});
    ASSERT_TRUE(decodes_as_data(bytes));
    bytes[40] = std::byte{11};
    EXPECT_FALSE(decodes_as_data(bytes));
  }
}

TEST(Refusal, a_payload_that_reaches_past_the_end_of_its_message) {
  Rng rng(kSeed);
  const Bytes payload = any_bytes(rng, 100);
  for (const DataOp op : kAllOps) {
    if (!carries_message(op)) continue;
    Data data = any_data(rng, op, payload.size());
    data.offset = 1000;
    data.length = 1100;
    EXPECT_TRUE(decodes_as_data(encoded_data(any_common(rng, Type::kData), data, payload)));
    data.length = 1099;
    EXPECT_FALSE(decodes_as_data(encoded_data(any_common(rng, Type::kData), data, payload)));
    data.offset = 0xffffffff - 50;  // offset + payload wraps in 32 bits
    data.length = 0xffffffff;
    EXPECT_FALSE(decodes_as_data(encoded_data(any_common(rng, Type::kData), data, payload)));
  }
}

TEST(Refusal, a_payload_where_none_belongs) {
  Rng rng(kSeed);
  for (const DataOp op : kAllOps) {
    if (carries_message(op)) continue;
    const Bytes payload = any_bytes(rng, is_stream_control(op) ? kStreamControlBytes + 1 : 1);
    EXPECT_FALSE(decodes_as_data(encoded_data(any_common(rng, Type::kData), any_data(rng, op, 0), payload)))
        << static_cast<int>(op);
  }
}

TEST(Refusal, data_whose_tlv_list_does_not_end) {
  Rng rng(kSeed);
  const Common header = any_common(rng, Type::kData, true);
  const auto with = [&](std::string_view tlvs_and_payload) {
    Data data = any_data(rng, DataOp::kWrite, 4);
    data.offset = 0;
    data.length = 4;
    return Exact(encoded_data(header, data, from_hex(tlvs_and_payload)));
  };
  Data data;
  In payload;
  ASSERT_TRUE(decode_data(with("00 00  aabbccdd").view(), header, data, payload));
  EXPECT_EQ(payload.size(), 4u);
  const Exact unknown = with("c8 03 010203  02 00  00 00  aabbccdd");
  ASSERT_TRUE(decode_data(unknown.view(), header, data, payload)) << "unknown TLVs are skipped";
  EXPECT_EQ(Bytes(payload.begin(), payload.end()), from_hex("aabbccdd"));
  ASSERT_TRUE(decode_data(with("07 01 ff  00 00").view(), header, data, payload)) << "no payload at all";
  EXPECT_EQ(payload.size(), 0u);

  EXPECT_FALSE(decode_data(with("").view(), header, data, payload));
  EXPECT_FALSE(decode_data(with("00").view(), header, data, payload));
  EXPECT_FALSE(decode_data(with("c8 03 0102").view(), header, data, payload));
  EXPECT_FALSE(decode_data(with("c8 03 010203").view(), header, data, payload));
  EXPECT_FALSE(decode_data(with("00 01 ff  aabbcc").view(), header, data, payload)) << "END has no value";
  EXPECT_FALSE(decode_data(with("00 00 aabbccddee").view(), header, data, payload))
      << "payload past the message";
}

TEST(Refusal, stream_control_that_is_cut_or_out_of_range) {
  Rng rng(kSeed);
  Bytes good(kStreamControlBytes + 1);
  encode_stream_control(any_stream_control(rng), good.data());
  expect_prefixes_refused(good, decoder(&decode_stream_control), {kStreamControlBytes});
  good.resize(kStreamControlBytes);
  for (const auto& [offset, value] :
       {std::pair<size_t, int>{0, 1}, {4, 1}, {8, 1}, {21, 32}, {22, 6}, {23, 11}}) {
    Bytes bytes = good;
    bytes[offset] = static_cast<std::byte>(value);
    EXPECT_FALSE(decoder(&decode_stream_control)(bytes)) << "offset " << offset;
  }
}

TEST(Refusal, an_ack_that_is_cut_anywhere_but_between_tlvs) {
  Rng rng(kSeed);
  const Ack ack = any_ack(rng, 3, 2, 3, 2, true);
  const Bytes bytes = encoded([&](Out out) { return encode_ack(any_common(rng, Type::kAck), ack, out); });
  const size_t blocks_end = kAckBytes + 3 * kPathBlockBytes;
  std::set<size_t> whole = {blocks_end};  // the list may end after any TLV; the trailer finds such a cut
  size_t at = blocks_end;
  for (const size_t value : {12u, 12u, 8u, 8u, 8u, 2u, 2u, 8u}) whole.insert(at += 2 + value);
  ASSERT_EQ(at, bytes.size());
  expect_prefixes_refused(bytes, decoder(&decode_ack), whole);
}

// An ACK without blocks, and these TLVs.
bool ack_decodes_with(std::string_view tlvs, int repeat = 1) {
  Bytes bytes = encoded([](Out out) { return encode_ack(Common{}, Ack{}, out); });
  const Bytes more = from_hex(tlvs);
  for (int i = 0; i < repeat; ++i) bytes.insert(bytes.end(), more.begin(), more.end());
  return decoder(&decode_ack)(Exact(bytes).view());
}

TEST(Refusal, an_ack_with_more_entries_than_fit) {
  EXPECT_TRUE(ack_decodes_with("01 0c 00000001 03 000000 00000005", 16));
  EXPECT_FALSE(ack_decodes_with("01 0c 00000001 03 000000 00000005", 17));
  EXPECT_TRUE(ack_decodes_with("02 08 0001 0000 00000005", 64));
  EXPECT_FALSE(ack_decodes_with("02 08 0001 0000 00000005", 65));
  EXPECT_TRUE(ack_decodes_with("06 02 0001", 16));
  EXPECT_FALSE(ack_decodes_with("06 02 0001", 17));
  EXPECT_TRUE(ack_decodes_with("03 08 00000001 00000001", 1));
  EXPECT_FALSE(ack_decodes_with("03 08 00000001 00000001", 2));
}

TEST(Refusal, an_ack_with_a_known_tlv_of_the_wrong_length_or_meaning) {
  EXPECT_FALSE(ack_decodes_with("01 0b 00000001 03 000000 000000"));
  EXPECT_FALSE(ack_decodes_with("01 0d 00000001 03 000000 00000005 00"));
  EXPECT_FALSE(ack_decodes_with("02 07 0001 0000 000000"));
  EXPECT_FALSE(ack_decodes_with("03 04 00000001"));
  EXPECT_FALSE(ack_decodes_with("06 00"));
  EXPECT_FALSE(ack_decodes_with("01 0c 00000001 00 000000 00000005")) << "NAK without a reason";
  EXPECT_FALSE(ack_decodes_with("01 0c 00000001 0b 000000 00000005")) << "NAK with an unknown reason";
  EXPECT_TRUE(ack_decodes_with("04 00  05 03 010203  ff 01 00  00 00")) << "unknown ones are skipped";
}

TEST(Refusal, an_ack_with_too_many_blocks_or_values_out_of_range) {
  Rng rng(kSeed);
  const Ack ack = any_ack(rng, 4, 0, 0, 0, false);
  Bytes bytes = encoded([&](Out out) { return encode_ack(any_common(rng, Type::kAck), ack, out); });
  ASSERT_TRUE(decoder(&decode_ack)(bytes));
  Bytes five = bytes;
  five[20] = std::byte{5};
  five.resize(five.size() + kPathBlockBytes);
  EXPECT_FALSE(decoder(&decode_ack)(five));
  Bytes penalty = bytes;
  penalty[21] = std::byte{128};
  EXPECT_FALSE(decoder(&decode_ack)(penalty));
  Bytes path = bytes;
  path[kAckBytes + 3 * kPathBlockBytes] = std::byte{64};
  EXPECT_FALSE(decoder(&decode_ack)(path));
}

TEST(Refusal, a_probe_that_is_cut_or_lists_too_many_streams) {
  Rng rng(kSeed);
  Probe probe = any_probe(rng);
  probe.nstreams = 5;
  const Bytes bytes =
      encoded([&](Out out) { return encode_probe(any_common(rng, Type::kProbe), probe, 0, out); });
  ASSERT_EQ(bytes.size(), 28u + 10u);
  expect_prefixes_refused(bytes, decoder(&decode_probe), {bytes.size()});
  Bytes many = bytes;
  many[24] = std::byte{65};
  many.resize(1000);
  EXPECT_FALSE(decoder(&decode_probe)(many));
}

TEST(Refusal, the_small_datagrams_when_cut_or_too_long) {
  Rng rng(kSeed);
  const Common header = any_common(rng, Type::kClose);
  VersionList list;
  list.count = 3;
  const auto one_more = [](Bytes bytes) {
    bytes.push_back(std::byte{0});
    return bytes;
  };
  const Bytes probe_ack = encoded([&](Out out) { return encode_probe_ack(header, ProbeAck{7}, out); });
  expect_prefixes_refused(one_more(probe_ack), decoder(&decode_probe_ack), {24});
  const Bytes close = encoded([&](Out out) { return encode_close(header, Close{1, 2}, out); });
  expect_prefixes_refused(one_more(close), decoder(&decode_close), {24});
  const Bytes reset = encoded([&](Out out) { return encode_reset(header, Reset{}, out); });
  expect_prefixes_refused(one_more(reset), decoder(&decode_reset), {32});
  const Bytes version = encoded([&](Out out) { return encode_version(header, list, out); });
  expect_prefixes_refused(one_more(version), decoder(&decode_version), {23});
  Bytes none = version;
  none[16] = std::byte{0};
  EXPECT_FALSE(decoder(&decode_version)(none));
  Bytes many = version;
  many[16] = std::byte{17};
  many.resize(20 + 17);
  EXPECT_FALSE(decoder(&decode_version)(many));
}

TEST(Refusal, tlvs_behind_a_small_datagram_without_the_flag_or_malformed) {
  const auto close_with = [](uint8_t flags, std::string_view tail) {
    Common header;
    header.flags = flags;
    Bytes bytes = encoded([&](Out out) { return encode_close(header, Close{}, out); });
    const Bytes more = from_hex(tail);
    bytes.insert(bytes.end(), more.begin(), more.end());
    return decoder(&decode_close)(Exact(bytes).view());
  };
  EXPECT_TRUE(close_with(flag::kExtension, "c8 02 0102"));
  EXPECT_TRUE(close_with(flag::kExtension, ""));
  EXPECT_FALSE(close_with(0, "c8 02 0102"));
  EXPECT_FALSE(close_with(flag::kExtension, "c8 02 01"));
  EXPECT_FALSE(close_with(flag::kExtension, "c8"));
}

TEST(Refusal, an_init_that_is_cut_or_out_of_range) {
  Rng rng(kSeed);
  Init init = any_init(rng);
  init.nports = 3;
  const Bytes bytes =
      encoded([&](Out out) { return encode_init(any_common(rng, Type::kInit), init, 0, out); });
  ASSERT_EQ(bytes.size(), 96u + 72u);
  expect_prefixes_refused(bytes, decoder(&decode_init), {bytes.size()});
  Bytes padded = bytes;
  padded.resize(1196);
  ASSERT_TRUE(decoder(&decode_init)(padded));
  for (const int count : {0, 9, 255}) {
    Bytes ports = padded;
    ports[73] = static_cast<std::byte>(count);
    EXPECT_FALSE(decoder(&decode_init)(ports)) << count;
  }
  Bytes prefix = padded;
  prefix[96 + 2 * 24 + 19] = std::byte{129};
  EXPECT_FALSE(decoder(&decode_init)(prefix));
}

TEST(Refusal, reserved_bytes_are_ignored) {
  Rng rng(kSeed);
  const auto differs = [](Bytes bytes, std::initializer_list<size_t> reserved, auto&& decode) {
    const auto before = decode(bytes);
    for (const size_t offset : reserved) bytes[offset] = std::byte{0xff};
    return !(before == decode(bytes));
  };
  const auto as_data = [](const Bytes& bytes) {
    Common header;
    Data data;
    In payload;
    EXPECT_TRUE(decode_common(bytes, header) && decode_data(bytes, header, data, payload));
    return data;
  };
  const auto as_ack = [](const Bytes& bytes) {
    Ack ack;
    EXPECT_TRUE(decode_ack(bytes, ack));
    return ack;
  };
  for (const DataOp op : {DataOp::kReadResp, DataOp::kAtomicResp}) {
    EXPECT_FALSE(
        differs(encoded_data(any_common(rng, Type::kData), any_data(rng, op, 0), {}), {41, 42, 43}, as_data));
  }
  const Ack ack = any_ack(rng, 1, 1, 1, 0, false);
  const Bytes bytes = encoded([&](Out out) { return encode_ack(Common{}, ack, out); });
  EXPECT_FALSE(differs(bytes, {28 + 54, 28 + 55, 84 + 2 + 5, 84 + 2 + 6, 84 + 2 + 7}, as_ack));
}

// Bytes that are random altogether rarely get past the first check, so half of the inputs are real packets
// with a few bytes changed and the length cut or grown.
TEST(Refusal, garbage_never_reads_past_its_end) {
  Rng rng(kSeed);
  const auto real_packet = [&rng]() -> Bytes {
    const Common header = any_common(rng, static_cast<Type>(rng.below(16)), rng.chance(0.3));
    switch (rng.below(5)) {
      case 0:
        return encoded([&](Out out) { return encode_ack(header, any_ack(rng), out); });
      case 1:
        return encoded([&](Out out) { return encode_probe(header, any_probe(rng), 0, out); });
      case 2:
        return encoded([&](Out out) { return encode_init(header, any_init(rng), 0, out); });
      case 3: {
        Bytes control(kStreamControlBytes);
        encode_stream_control(any_stream_control(rng), control.data());
        return control;
      }
      default:
        return encoded_data(header, any_data(rng, kAllOps[rng.below(kAllOps.size())], 32),
                            any_bytes(rng, 32));
    }
  };
  const std::vector<std::function<bool(In)>> decoders = {
      decoder(&decode_common), decodes_as_data,        decoder(&decode_stream_control),
      decoder(&decode_ack),    decoder(&decode_probe), decoder(&decode_probe_ack),
      decoder(&decode_close),  decoder(&decode_reset), decoder(&decode_version),
      decoder(&decode_init),   decoder(&decode_retry), check_trailer};
  std::vector<int> accepted(decoders.size());
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = rng.chance(0.5) ? any_bytes(rng, rng.below(200)) : real_packet();
    for (uint64_t i = rng.below(4); i > 0 && !bytes.empty(); --i) {
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.next());
    }
    if (rng.chance(0.5)) bytes.resize(rng.below(bytes.size() + 20));
    const Exact exact{bytes};
    for (size_t i = 0; i < decoders.size(); ++i) accepted[i] += decoders[i](exact.view());
  }
  // Both outcomes occur, else this test would look at one branch only. (A random trailer fits once in 2^32.)
  for (size_t i = 0; i + 1 < decoders.size(); ++i) {
    EXPECT_GT(accepted[i], 0) << "decoder " << i;
    EXPECT_LT(accepted[i], 20000) << "decoder " << i;
  }
}

}  // namespace
}  // namespace mroce::wire
