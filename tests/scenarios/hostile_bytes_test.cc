// Datagrams that are cut, changed, addressed wrongly or made up, in the middle of a transfer.
#include "tests/scenarios/hostile.h"

namespace mroce::test {
namespace {

TEST(Truncation, at_every_byte_is_dropped_and_counted) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> cut;
  for (const Specimen& specimen : siege.zoo()) {
    const size_t most = std::min<size_t>(specimen.bytes.size(), 300);
    for (size_t length = 1; length < most; ++length) {
      cut.emplace_back(specimen.bytes.begin(), specimen.bytes.begin() + static_cast<std::ptrdiff_t>(length));
    }
  }
  siege.inject_all(cut);
  siege.expect_unharmed();
  const EngineCounters& counters = siege.counters_of_b();
  EXPECT_EQ(counters.drop_truncated + counters.drop_crc, cut.size());
  EXPECT_GT(counters.drop_truncated, 300u);
  EXPECT_GT(counters.drop_crc, 1000u);
}

TEST(Truncation, with_the_trailer_made_right_changes_nothing) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> cut;
  for (const Specimen& specimen : siege.zoo()) {
    const size_t most = std::min<size_t>(specimen.bytes.size() - wire::kTrailerBytes, 300);
    for (size_t length = 0; length < most; ++length) {
      cut.push_back(with_trailer(
          {specimen.bytes.begin(), specimen.bytes.begin() + static_cast<std::ptrdiff_t>(length)}));
    }
  }
  siege.inject_all(cut);
  siege.expect_unharmed();
  EXPECT_EQ(siege.counters_of_b().drop_crc, 0u);
  EXPECT_GT(siege.counters_of_b().drop_truncated, 300u);
  EXPECT_GT(siege.counters_of_b().drop_malformed, 300u);
}

// Low bits of PSEQ and CPSN are left alone: they would lead into the windows.
bool leads_into_a_window(const Bytes& datagram, size_t bit) {
  wire::Common header;
  if (!wire::decode_common(datagram, header) || header.type != wire::Type::kData) return false;
  const size_t byte = bit / 8;
  return (byte >= 9 && byte <= 11) || byte == 18 || byte == 19;
}

TEST(FlippedBits, under_a_good_trailer_change_nothing) {
  for (const Specimen& specimen : Siege().zoo()) {
    SCOPED_TRACE(specimen.name);
    Siege siege;
    siege.begin();
    std::vector<Bytes> flipped;
    const size_t bits = std::min<size_t>(specimen.bytes.size() - wire::kTrailerBytes, 150) * 8;
    for (size_t bit = 0; bit < bits; ++bit) {
      if (leads_into_a_window(specimen.bytes, bit)) continue;
      Bytes copy = specimen.bytes;
      copy[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      Network::resign(copy);
      flipped.push_back(std::move(copy));
    }
    siege.inject_all(flipped);
    siege.expect_unharmed();
  }
}

TEST(FlippedBits, without_a_good_trailer_are_all_found) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> flipped;
  for (const Specimen& specimen : siege.zoo()) {
    for (size_t bit = 8; bit < std::min<size_t>(specimen.bytes.size(), 100) * 8; bit += 3) {
      Bytes copy = specimen.bytes;
      copy[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      flipped.push_back(std::move(copy));
    }
  }
  siege.inject_all(flipped);
  siege.expect_unharmed();
  EXPECT_EQ(siege.counters_of_b().drop_crc, flipped.size());
}

// A case: how to spoil a header, and the name under which the result is counted.
struct Refusal {
  const char* name;
  std::function<void(Siege&, Bytes&)> spoil;
  uint64_t EngineCounters::*counter;
};

class RefusedHeader : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedHeader, is_counted_by_its_name_and_changes_nothing) {
  Siege siege;
  siege.begin();
  std::vector<Bytes> spoiled;
  for (const Specimen& specimen : siege.zoo()) {
    if (specimen.name.rfind("DATA", 0) != 0) continue;
    spoiled.push_back(specimen.bytes);
    GetParam().spoil(siege, spoiled.back());
    Network::resign(spoiled.back());
  }
  siege.inject_all(spoiled);
  siege.expect_unharmed();
  EXPECT_EQ(siege.counters_of_b().*GetParam().counter, spoiled.size());
}

INSTANTIATE_TEST_SUITE_P(
    by, RefusedHeader,
    testing::Values(
        Refusal{"wrong_version", [](Siege&, Bytes& b) { b[0] = (b[0] & std::byte{0x0f}) | std::byte{0x20}; },
                &EngineCounters::drop_version},
        Refusal{"version_zero", [](Siege&, Bytes& b) { b[0] &= std::byte{0x0f}; },
                &EngineCounters::drop_version},
        Refusal{"unknown_type", [](Siege&, Bytes& b) { b[0] |= std::byte{0x0f}; },
                &EngineCounters::drop_type},
        Refusal{"unknown_connection", [](Siege&, Bytes& b) { b[5] ^= std::byte{0x40}; },
                &EngineCounters::drop_connection},
        Refusal{"connection_zero", [](Siege&, Bytes& b) { std::fill_n(b.begin() + 4, 4, std::byte{0}); },
                &EngineCounters::drop_connection},
        Refusal{"path_sixty_four", [](Siege&, Bytes& b) { b[2] = std::byte{64}; },
                &EngineCounters::drop_path},
        Refusal{"path_255", [](Siege&, Bytes& b) { b[2] = std::byte{255}; }, &EngineCounters::drop_path},
        Refusal{"pseq_far_above", [](Siege& s, Bytes& b) { wire::store_be(&b[8], s.pseq + 200000); },
                &EngineCounters::drop_pseq},
        Refusal{"pseq_far_below", [](Siege& s, Bytes& b) { wire::store_be(&b[8], s.pseq - 200000); },
                &EngineCounters::drop_pseq},
        Refusal{"pseq_at_the_other_side",
                [](Siege& s, Bytes& b) { wire::store_be(&b[8], s.pseq + 0x7fffffffU); },
                &EngineCounters::drop_pseq},
        Refusal{"cpsn_above_the_limit",
                [](Siege& s, Bytes& b) { wire::store_be(&b[16], s.cpsn + 16385 + 1000); },
                &EngineCounters::drop_cpsn},
        Refusal{"cpsn_far_below", [](Siege& s, Bytes& b) { wire::store_be(&b[16], s.cpsn - (1u << 21)); },
                &EngineCounters::drop_cpsn},
        Refusal{"unknown_op", [](Siege&, Bytes& b) { b[22] = std::byte{15}; },
                &EngineCounters::drop_malformed},
        Refusal{"message_length_zero_with_payload_or_none",
                [](Siege&, Bytes& b) {  // an offset behind the end of the message, for every op
                  wire::store_be(&b[28], 0xffffffffU);
                  b[22] = std::byte{0};
                },
                &EngineCounters::drop_malformed}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace mroce::test
