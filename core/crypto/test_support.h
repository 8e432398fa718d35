#pragma once

#include <string_view>
#include <vector>

#include "core/crypto/bytes.h"

namespace mroce::crypto::test {

inline std::vector<uint8_t> hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(kDigits.find(text[i]) * 16 + kDigits.find(text[i + 1])));
  }
  return bytes;
}

inline Key32 key32(std::string_view text) {
  const auto bytes = hex(text);
  Key32 key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = bytes.at(i);
  return key;
}

inline std::vector<uint8_t> text(std::string_view characters) {
  return {characters.begin(), characters.end()};
}

inline std::span<const std::byte> as_bytes(const std::vector<uint8_t>& bytes) {
  return std::as_bytes(std::span(bytes));
}

}  // namespace mroce::crypto::test
