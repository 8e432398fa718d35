// mroce_print_fields: the tables and diagrams of docs/spec as Markdown on standard output, from fields.def.
//
// A diagram has a row for each four bytes; a bit is two characters wide. Fields of more than 32 bits begin a
// row and take one, whatever their size.
//
// With --lua it prints the table as it is for the Wireshark dissector (tools/wireshark/mroce_logic.lua).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

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

constexpr size_t kRowBits = 32;

// The line between two rows, which has a corner wherever a border of either of them has one.
std::string between(std::string above, const std::string& below) {
  above.resize(std::max(above.size(), below.size()), '-');
  for (size_t i = 0; i < below.size(); ++i) {
    if (below[i] == '+') above[i] = '+';
  }
  return above;
}

void print_diagram(const PacketRow& packet) {
  fmt::print(
      "```\n   3                   2                   1                   0\n"
      " 1 0 9 8 7 6 5 4 3 2 1 0 9 8 7 6 5 4 3 2 1 0 9 8 7 6 5 4 3 2 1 0\n");
  std::string above;
  std::string border;
  std::string row;
  size_t used = 0;
  for (size_t i = 0; i < kFieldTable.size(); ++i) {
    const FieldRow& field = kFieldTable[i];
    if (field.packet != packet.packet) continue;
    if (used == 0) {
      border = "+";
      row = "|";
    }
    const size_t bits = std::min<size_t>(field.at.bits, kRowBits);
    const std::string size = field.at.bits > kRowBits ? fmt::format(" ({} bytes)", field.at.bits / 8) : "";
    row += fmt::format("{:^{}}|", std::string(field.field) + size, 2 * bits - 1);
    border += std::string(2 * bits - 1, '-') + "+";
    used += bits;
    const bool last = i + 1 == kFieldTable.size() || kFieldTable[i + 1].packet != packet.packet;
    if (used < kRowBits && !last) continue;
    const size_t first_byte = (field.at.offset * 8 + first_bit(i) % 8 + bits - used) / 8;
    fmt::print("{}\n{} {}\n", between(above, border), row, first_byte);
    above = border;
    used = 0;
  }
  fmt::print("{}\n```\n\n", above);
}

void print_packet(const PacketRow& packet) {
  fmt::print("### {}\n\n{} bytes.\n\n", packet.sentence, packet.end - packet.first);
  print_diagram(packet);
  fmt::print("| Bytes | Field | Bits | Meaning |\n|---|---|---|---|\n");
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

void print_lua_packets() {
  fmt::print("local packets = {{\n");
  for (const PacketRow& packet : kPacketTable) {
    fmt::print("  {} = {{ -- {}\n", packet.packet, packet.sentence);
    for (size_t i = 0; i < kFieldTable.size(); ++i) {
      const FieldRow& row = kFieldTable[i];
      if (row.packet != packet.packet) continue;
      const size_t low = row.at.bits < 8 ? 8 - first_bit(i) % 8 - row.at.bits : 0;
      fmt::print("    {{ field = \"{}\", offset = {}, bits = {}, low = {}, sentence = \"{}\" }},\n",
                 row.field, row.at.offset, row.at.bits, low, row.sentence);
    }
    fmt::print("  }},\n");
  }
  fmt::print("}}\n\n");
}

void print_lua_values() {
  fmt::print("local values = {{");
  std::string_view open;
  for (const ValueRow& row : kValueTable) {
    if (row.enumeration != open) fmt::print("{}\n  {} = {{", open.empty() ? "" : " },", row.enumeration);
    open = row.enumeration;
    fmt::print(" [{}] = \"{}\",", row.value, row.name);
  }
  fmt::print(" }},\n}}\n\nlocal flags = {{\n");
  for (const ValueRow& row : kFlagTable) {
    fmt::print("  {{ name = \"{}\", mask = 0x{:02x}, sentence = \"{}\" }},\n", row.name, row.value,
               row.sentence);
  }
  fmt::print("}}\n");
}

void print_lua() {
  print_lua_packets();
  print_lua_values();
}

void print_markdown() {
  for (const PacketRow& packet : kPacketTable) print_packet(packet);
  print_flags();
  print_values("Type", "Packet types");
  print_values("InitAckFlag", "Flags of INIT_ACK");
  print_values("ProbeKind", "Kinds of PROBE");
  print_values("DataOp", "Opcodes of DATA");
  print_values("Tlv", "TLVs");
  print_values("NakCode", "NAK codes");
  print_values("StopReason", "Reasons of STREAM_REFUSE and STREAM_STOP");
}

}  // namespace
}  // namespace mroce::wire

int main(int argc, char** argv) {
  using namespace mroce::wire;
  if (argc == 2 && std::string_view(argv[1]) == "--lua") {
    print_lua();
  } else {
    print_markdown();
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
