// Finding addresses in text, in all the ways in which tools print them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mroce::doctor {

enum class AddressKind : uint8_t { kNone, kUuid, kIpv4, kIpv6, kMac, kGuid };

// How it was written, so that another can be written in its place.
enum class AddressForm : uint8_t {
  kPlain,    // 10.0.0.1, fe80::1, a UUID
  kQuads,    // fe80:0000:…, 0c42:a103:0065:1234: groups of four hexadecimal digits
  kPairs,    // 0c:42:a1:…: groups of two
  kDecimal,  // 254:128:00:…: of perftest
  kHex,      // 0x0c42a10300651234
};

struct FoundAddress {
  AddressKind kind = AddressKind::kNone;
  AddressForm form = AddressForm::kPlain;
  char separator = ':';
  size_t length = 0;           // of the text
  std::vector<uint8_t> bytes;  // empty for a UUID
};

// Of the longest address that begins at `at`; the character before it is no part of a word.
FoundAddress find_address(std::string_view line, size_t at);
std::string address_text(const FoundAddress& address);

}  // namespace mroce::doctor
