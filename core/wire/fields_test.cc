// fields.def against the codec. Most of it is proved while compiling (field_table.h); here, that each field
// of the table moves exactly its own bits.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/wire/field_table.h"
#include "core/wire/test_support.h"

namespace mroce::wire {
namespace {

using namespace test;

Field field_named(std::string_view packet, std::string_view field) {
  for (const FieldRow& row : kFieldTable) {
    if (row.packet == packet && row.field == field) return row.at;
  }
  ADD_FAILURE() << packet << "." << field << " is not in the table";
  return {};
}

// `changed` differs from `base` in the bytes of this field, in all of them, and nowhere else.
void expect_only(const Bytes& base, const Bytes& changed, std::string_view packet, std::string_view field) {
  const Field at = field_named(packet, field);
  ASSERT_EQ(base.size(), changed.size());
  for (size_t i = 0; i < base.size(); ++i) {
    const bool inside = i >= at.offset && i < at.offset + at.bits / 8;
    EXPECT_EQ(base[i] != changed[i], inside) << packet << "." << field << ", byte " << i;
  }
}

TEST(Fields, each_field_of_data_lies_where_the_table_says) {
  const auto bytes_with = [](auto&& change) {
    Data data;
    data.op = DataOp::kCompareSwap;
    change(data);
    return encoded_data(Common{}, data, {});
  };
  const Bytes base = bytes_with([](Data&) {});
  const auto ones32 = 0xffffffffu;
  const auto ones64 = ~uint64_t{0};
  expect_only(base, bytes_with([&](Data& d) { d.cpsn = ones32; }), "data", "cpsn");
  expect_only(base, bytes_with([&](Data& d) { d.stream = 0xffff; }), "data", "stream");
  expect_only(base, bytes_with([&](Data& d) { d.backlog = 0xff; }), "data", "backlog");
  expect_only(base, bytes_with([&](Data& d) { d.msn = ones32; }), "data", "msn");
  expect_only(base, bytes_with([&](Data& d) { d.offset = ones32; }), "data", "offset");
  expect_only(base, bytes_with([&](Data& d) { d.length = ones32; }), "data", "length");
  expect_only(base, bytes_with([&](Data& d) { d.va = ones64; }), "ext_atomic", "va");
  expect_only(base, bytes_with([&](Data& d) { d.rkey = ones32; }), "ext_atomic", "rkey");
  expect_only(base, bytes_with([&](Data& d) { d.rdslot = ones32; }), "ext_atomic", "rdslot");
  expect_only(base, bytes_with([&](Data& d) { d.operand = ones64; }), "ext_atomic", "operand");
  expect_only(base, bytes_with([&](Data& d) { d.compare = ones64; }), "ext_atomic", "compare");
}

TEST(Fields, every_row_has_a_sentence_and_a_name_of_its_own) {
  std::set<std::string> names;
  for (const FieldRow& row : kFieldTable) {
    EXPECT_FALSE(row.sentence.empty());
    EXPECT_TRUE(names.insert(std::string(row.packet) + "." + std::string(row.field)).second) << row.field;
  }
  std::set<std::string> values;
  for (const ValueRow& row : kValueTable) {
    EXPECT_TRUE(values.insert(std::string(row.enumeration) + std::to_string(row.value)).second) << row.name;
    EXPECT_TRUE(values.insert(std::string(row.enumeration) + std::string(row.name)).second) << row.name;
  }
}

TEST(Fields, the_table_lists_every_opcode_that_the_decoder_knows) {
  std::set<unsigned> listed;
  for (const ValueRow& row : kValueTable) {
    if (row.enumeration == "DataOp") listed.insert(row.value);
  }
  for (unsigned op = 0; op < 256; ++op)
    EXPECT_EQ(listed.contains(op), is_known(static_cast<DataOp>(op))) << op;
}

TEST(Fields, the_table_lists_every_nak_code_that_the_decoder_knows) {
  std::set<unsigned> listed;
  for (const ValueRow& row : kValueTable) {
    if (row.enumeration == "NakCode") listed.insert(row.value);
  }
  for (unsigned code = 0; code < 256; ++code) {
    EXPECT_EQ(listed.contains(code), is_known(static_cast<NakCode>(code))) << code;
  }
}

}  // namespace
}  // namespace mroce::wire
