#include "soak/model.h"

#include <algorithm>

namespace mroce::soak {

std::string_view name_of(Flaw flaw) {
  switch (flaw) {
    case Flaw::kNone:
      return "none";
    case Flaw::kUnknownKey:
      return "unknown key";
    case Flaw::kOutOfBounds:
      return "out of bounds";
    case Flaw::kNoRight:
      return "no right";
    case Flaw::kMisaligned:
      return "misaligned";
    case Flaw::kShortReceive:
      return "short receive";
    case Flaw::kLocalKey:
      return "local key";
  }
  return "?";
}

std::string_view name_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWrite:
      return "WRITE";
    case Opcode::kWriteImm:
      return "WRITE_IMM";
    case Opcode::kSend:
      return "SEND";
    case Opcode::kSendImm:
      return "SEND_IMM";
    case Opcode::kRead:
      return "READ";
    case Opcode::kCompareSwap:
      return "CAS";
    case Opcode::kFetchAdd:
      return "FETCH_ADD";
    case Opcode::kSendInv:
      return "SEND_INV";
  }
  return "?";
}

bool Flow::has_flaw_posted() const {
  return first_flaw() != ops.size();
}

size_t Flow::first_flaw() const {
  for (size_t i = 0; i < next_post; ++i) {
    if (ops[i].flaw != Flaw::kNone) return i;
  }
  return ops.size();
}

void fill_pattern(std::span<std::byte> out, uint64_t pattern, uint64_t offset) {
  for (size_t i = 0; i < out.size();) {
    const uint64_t at = offset + i;
    uint64_t word = pattern_word(pattern, at / 8) >> (at % 8 * 8);
    for (uint64_t k = at % 8; k < 8 && i < out.size(); ++k, ++i, word >>= 8)
      out[i] = static_cast<std::byte>(word);
  }
}

bool is_pattern(std::span<const std::byte> bytes, uint64_t pattern, uint64_t offset) {
  for (size_t i = 0; i < bytes.size();) {
    const uint64_t at = offset + i;
    uint64_t word = pattern_word(pattern, at / 8) >> (at % 8 * 8);
    for (uint64_t k = at % 8; k < 8 && i < bytes.size(); ++k, ++i, word >>= 8) {
      if (bytes[i] != static_cast<std::byte>(word)) return false;
    }
  }
  return true;
}

}  // namespace mroce::soak
