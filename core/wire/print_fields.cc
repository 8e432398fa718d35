// mroce_print_fields: the tables of docs/spec as Markdown on standard output, from fields.def.
#include <fmt/format.h>

#include <cstdio>

#include "core/wire/field_table.h"

namespace mroce::wire {
namespace {

std::string place_of(size_t index) {
  const Field at = kFieldTable[index].at;
  if (at.bits < 8) {
    const size_t high = 7 - first_bit(index) % 8;
    return fmt::format("{} (bits {}-{})", at.offset, high, high + 1 - at.bits);
  }
  const size_t last = at.offset + at.bits / 8 - 1;
  return last == at.offset ? fmt::format("{}", at.offset) : fmt::format("{}-{}", at.offset, last);
}

void print_packet(const PacketRow& packet) {
  fmt::print("### {}\n\n{} bytes.\n\n| Bytes | Field | Bits | Meaning |\n|---|---|---|---|\n",
             packet.sentence, packet.end - packet.first);
  for (size_t i = 0; i < kFieldTable.size(); ++i) {
    const FieldRow& row = kFieldTable[i];
    if (row.packet != packet.packet) continue;
    fmt::print("| {} | {} | {} | {} |\n", place_of(i), row.field, row.at.bits, row.sentence);
  }
  fmt::print("\n");
}

void print_values(std::string_view enumeration, std::string_view title) {
  fmt::print("### {}\n\n| Value | Name | Meaning |\n|---|---|---|\n", title);
  for (const ValueRow& row : kValueTable) {
    if (row.enumeration == enumeration) fmt::print("| {} | {} | {} |\n", row.value, row.name, row.sentence);
  }
  fmt::print("\n");
}

void print_flags() {
  fmt::print("### Flags of the common header\n\n| Mask | Name | Meaning |\n|---|---|---|\n");
  for (const ValueRow& row : kFlagTable)
    fmt::print("| 0x{:02x} | {} | {} |\n", row.value, row.name, row.sentence);
  fmt::print("\n");
}

}  // namespace
}  // namespace mroce::wire

int main() {
  using namespace mroce::wire;
  for (const PacketRow& packet : kPacketTable) print_packet(packet);
  print_flags();
  print_values("Type", "Packet types");
  print_values("DataOp", "Opcodes of DATA");
  print_values("Tlv", "TLVs");
  print_values("NakCode", "NAK codes");
  print_values("StopReason", "Reasons of STREAM_REFUSE and STREAM_STOP");
  return std::fflush(stdout) == 0 ? 0 : 1;
}
