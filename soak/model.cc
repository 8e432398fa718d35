#include "soak/model.h"

#include <algorithm>
#include <bit>
#include <cstring>

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

namespace {
// Calls each(index, word, bytes): the next bytes, at most eight, are the lowest of the word.
template <class Each>
bool by_words(size_t size, uint64_t pattern, uint64_t offset, const Each& each) {
  for (size_t i = 0; i < size;) {
    const uint64_t at = offset + i;
    const size_t bytes = std::min<size_t>(8 - at % 8, size - i);
    if (!each(i, pattern_word(pattern, at / 8) >> (at % 8 * 8), bytes)) return false;
    i += bytes;
  }
  return true;
}
}  // namespace

void fill_pattern(std::span<std::byte> out, uint64_t pattern, uint64_t offset) {
  by_words(out.size(), pattern, offset, [&](size_t i, uint64_t word, size_t bytes) {
    if (bytes == 8) {  // a constant length, which compilers know to copy well
      std::memcpy(out.data() + i, &word, 8);
    } else {
      std::memcpy(out.data() + i, &word, bytes);
    }
    return true;
  });
}

size_t length_of_pattern(std::span<const std::byte> bytes, uint64_t pattern, uint64_t offset) {
  size_t length = bytes.size();
  by_words(bytes.size(), pattern, offset, [&](size_t i, uint64_t word, size_t count) {
    uint64_t found = 0;
    if (count == 8) {
      std::memcpy(&found, bytes.data() + i, 8);
      if (found == word) return true;
    } else {
      std::memcpy(&found, bytes.data() + i, count);
    }
    const auto same = std::min<size_t>(count, static_cast<size_t>(std::countr_zero(found ^ word)) / 8);
    if (same < count) length = i + same;
    return same == count;
  });
  return length;
}

bool is_pattern(std::span<const std::byte> bytes, uint64_t pattern, uint64_t offset) {
  return length_of_pattern(bytes, pattern, offset) == bytes.size();
}

}  // namespace mroce::soak
