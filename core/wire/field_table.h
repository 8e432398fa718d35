// fields.def as C++: at::<packet>::<field> names a field's place, get<> and put<> move it between bytes and
// integers of exactly its width, and kFieldTable lists all rows for the tests and for mroce_print_fields. The
// static_asserts prove that the fields of each packet cover it without gap or overlap and that code points
// equal the enumerations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/wire/bytes.h"
#include "core/wire/packet.h"

namespace mroce::wire {

struct Field {
  size_t offset = 0;
  size_t bits = 0;
};

namespace at {
#define MROCE_FIELD(packet, field, offset, bits, sentence)   \
  namespace packet {                                         \
  inline constexpr ::mroce::wire::Field field{offset, bits}; \
  }
#include "core/wire/fields.def"
}  // namespace at

namespace end_of {  // one past the last byte of a packet's fields
#define MROCE_PACKET(packet, first, end, sentence) inline constexpr size_t packet = end;
#include "core/wire/fields.def"
}  // namespace end_of

namespace detail {
template <size_t kBits>
struct UintOf;
template <>
struct UintOf<8> {
  using type = uint8_t;
};
template <>
struct UintOf<16> {
  using type = uint16_t;
};
template <>
struct UintOf<32> {
  using type = uint32_t;
};
template <>
struct UintOf<64> {
  using type = uint64_t;
};
}  // namespace detail
template <Field kField>
using UintOf = typename detail::UintOf<kField.bits>::type;

template <Field kField>
inline UintOf<kField> get(const std::byte* base) {
  return load_be<UintOf<kField>>(base + kField.offset);
}
template <Field kField>
inline void put(std::byte* base, UintOf<kField> value) {
  store_be<UintOf<kField>>(base + kField.offset, value);
}
template <Field kField>
inline void get_bytes(const std::byte* base, std::array<uint8_t, kField.bits / 8>& out) {
  std::memcpy(out.data(), base + kField.offset, out.size());
}
template <Field kField>
inline void put_bytes(std::byte* base, const std::array<uint8_t, kField.bits / 8>& bytes) {
  std::memcpy(base + kField.offset, bytes.data(), bytes.size());
}
template <Field kField>
inline void put_zero(std::byte* base) {
  std::memset(base + kField.offset, 0, kField.bits / 8);
}

// ---- the table as data ----
struct PacketRow {
  std::string_view packet;
  size_t first;
  size_t end;
  std::string_view sentence;
};
struct FieldRow {
  std::string_view packet;
  std::string_view field;
  Field at;
  std::string_view sentence;
};
struct ValueRow {
  std::string_view enumeration;
  std::string_view name;
  unsigned value;
  unsigned in_code;  // the enumerator's value: must be the same
  std::string_view sentence;
};

inline constexpr auto kPacketTable = std::to_array<PacketRow>({
#define MROCE_PACKET(packet, first, end, sentence) {#packet, first, end, sentence},
#include "core/wire/fields.def"
});
inline constexpr auto kFieldTable = std::to_array<FieldRow>({
#define MROCE_FIELD(packet, field, offset, bits, sentence) {#packet, #field, {offset, bits}, sentence},
#include "core/wire/fields.def"
});
inline constexpr auto kValueTable = std::to_array<ValueRow>({
#define MROCE_VALUE(enumeration, constant, name, value, sentence) \
  {#enumeration, #name, value, static_cast<unsigned>(enumeration::constant), sentence},
#include "core/wire/fields.def"
});
inline constexpr auto kFlagTable = std::to_array<ValueRow>({
#define MROCE_FLAG(constant, name, mask, sentence) {"flag", #name, mask, flag::constant, sentence},
#include "core/wire/fields.def"
});

// Bit position of the first bit of row `index`: the second of two fields in one byte starts where the first
// ends.
constexpr size_t first_bit(size_t index) {
  const FieldRow& row = kFieldTable[index];
  const bool shares_byte = index > 0 && kFieldTable[index - 1].packet == row.packet &&
                           kFieldTable[index - 1].at.offset == row.at.offset;
  return row.at.offset * 8 + (shares_byte ? kFieldTable[index - 1].at.bits : 0);
}

constexpr bool fields_tile(const PacketRow& packet) {
  size_t position = packet.first * 8;
  for (size_t i = 0; i < kFieldTable.size(); ++i) {
    if (kFieldTable[i].packet != packet.packet) continue;
    if (first_bit(i) != position) return false;
    position += kFieldTable[i].at.bits;
  }
  return position == packet.end * 8;
}

constexpr bool all_packets_tile() {
  for (const PacketRow& packet : kPacketTable) {
    if (!fields_tile(packet)) return false;
  }
  return true;
}

template <class Table>
constexpr bool values_agree(const Table& table) {
  for (const ValueRow& row : table) {
    if (row.value != row.in_code) return false;
  }
  return true;
}

static_assert(all_packets_tile(), "fields.def: a packet has a gap, an overlap or the wrong end");
static_assert(values_agree(kValueTable) && values_agree(kFlagTable), "fields.def and packet.h disagree");
static_assert(end_of::common == kCommonBytes && end_of::data == kDataBytes && end_of::ack == kAckBytes);
static_assert(end_of::ext_write == header_bytes(DataOp::kWrite));
static_assert(end_of::ext_write_imm == header_bytes(DataOp::kWriteImm));
static_assert(end_of::ext_send == header_bytes(DataOp::kSend) &&
              end_of::ext_send == header_bytes(DataOp::kSendImm) &&
              end_of::ext_send == header_bytes(DataOp::kSendInv));
static_assert(end_of::ext_read_req == header_bytes(DataOp::kReadReq));
static_assert(end_of::ext_read_resp == header_bytes(DataOp::kReadResp));
static_assert(end_of::ext_atomic == header_bytes(DataOp::kFetchAdd) &&
              end_of::ext_atomic == header_bytes(DataOp::kCompareSwap) &&
              end_of::ext_atomic == kMaxHeaderBytes);
static_assert(end_of::ext_atomic_resp == header_bytes(DataOp::kAtomicResp));
static_assert(end_of::stream_control == kStreamControlBytes && end_of::path_block == kPathBlockBytes);
static_assert(end_of::init == kCommonBytes + kInitFixedBytes && end_of::init_port == kInitPortBytes);

}  // namespace mroce::wire
