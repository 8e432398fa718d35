#include "doctor/collect/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace mroce::doctor {
namespace {

int hex_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_hex(char c) {
  return hex_of(c) >= 0;
}

bool is_word(char c) {
  return is_hex(c) || (c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z') || c == '_';
}

bool ends_at(std::string_view line, size_t at) {
  return at >= line.size() || !is_word(line[at]);
}

// Groups of hexadecimal digits with one separator between: "0c:42:a1", "0c42:a103".
struct Groups {
  std::vector<std::string_view> list;
  size_t length = 0;
  bool all_of(size_t digits) const {
    return std::all_of(list.begin(), list.end(), [digits](std::string_view g) { return g.size() == digits; });
  }
};

Groups groups_at(std::string_view line, size_t at, char separator) {
  Groups out;
  size_t end = at;
  while (end < line.size()) {
    const size_t begin = end;
    while (end < line.size() && is_hex(line[end])) ++end;
    if (end == begin) break;
    out.list.push_back(line.substr(begin, end - begin));
    out.length = end - at;
    if (end >= line.size() || line[end] != separator || out.list.size() > 32) break;
    ++end;
  }
  if (!ends_at(line, at + out.length)) out.list.clear();
  return out;
}

std::vector<uint8_t> bytes_of_hex(std::string_view digits) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    out.push_back(static_cast<uint8_t>(hex_of(digits[i]) * 16 + hex_of(digits[i + 1])));
  return out;
}

std::vector<uint8_t> bytes_of_groups(const Groups& groups) {
  std::vector<uint8_t> out;
  for (const auto group : groups.list)
    for (const uint8_t byte : bytes_of_hex(group)) out.push_back(byte);
  return out;
}

std::optional<uint8_t> decimal_byte(std::string_view digits) {
  if (digits.empty() || digits.size() > 3) return std::nullopt;
  int value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value > 255 ? std::nullopt : std::optional<uint8_t>(static_cast<uint8_t>(value));
}

FoundAddress uuid_at(std::string_view line, size_t at) {
  static constexpr std::array<size_t, 5> kSizes = {8, 4, 4, 4, 12};
  const Groups groups = groups_at(line, at, '-');
  if (groups.list.size() != kSizes.size()) return {};
  for (size_t i = 0; i < kSizes.size(); ++i)
    if (groups.list[i].size() != kSizes[i]) return {};
  return {AddressKind::kUuid, AddressForm::kPlain, '-', groups.length, {}};
}

FoundAddress grouped_at(std::string_view line, size_t at, char separator) {
  const Groups groups = groups_at(line, at, separator);
  const size_t count = groups.list.size();
  if (separator == ':' && count == 16 && !groups.all_of(2)) {
    FoundAddress out{AddressKind::kIpv6, AddressForm::kDecimal, ':', groups.length, {}};
    for (const auto group : groups.list) {
      const auto byte = decimal_byte(group);
      if (!byte) return {};
      out.bytes.push_back(*byte);
    }
    return out;
  }
  if (separator == ':' && groups.all_of(4) && (count == 8 || count == 4))
    return {count == 8 ? AddressKind::kIpv6 : AddressKind::kGuid, AddressForm::kQuads, ':', groups.length,
            bytes_of_groups(groups)};
  if (!groups.all_of(2)) return {};
  const AddressKind kind = count == 6    ? AddressKind::kMac
                           : count == 8  ? AddressKind::kGuid
                           : count == 16 ? AddressKind::kIpv6
                                         : AddressKind::kNone;
  if (kind == AddressKind::kNone) return {};
  return {kind, AddressForm::kPairs, separator, groups.length, bytes_of_groups(groups)};
}

FoundAddress hex_at(std::string_view line, size_t at) {
  constexpr size_t kDigits = 16;
  if (line.substr(at, 2) != "0x" || at + 2 + kDigits > line.size()) return {};
  const std::string_view digits = line.substr(at + 2, kDigits);
  if (!std::all_of(digits.begin(), digits.end(), is_hex) || !ends_at(line, at + 2 + kDigits)) return {};
  return {AddressKind::kGuid, AddressForm::kHex, ':', 2 + kDigits, bytes_of_hex(digits)};
}

FoundAddress ipv6_at(std::string_view line, size_t at) {
  size_t end = at;
  while (end < line.size() && end - at < INET6_ADDRSTRLEN &&
         (is_hex(line[end]) || line[end] == ':' || line[end] == '.'))
    ++end;
  while (end > at &&
         (line[end - 1] == '.' || (line[end - 1] == ':' && (end - at < 2 || line[end - 2] != ':'))))
    --end;
  const std::string text(line.substr(at, end - at));
  if (std::count(text.begin(), text.end(), ':') < 2 || !ends_at(line, end)) return {};
  FoundAddress out{AddressKind::kIpv6, AddressForm::kPlain, ':', text.size(), std::vector<uint8_t>(16)};
  return ::inet_pton(AF_INET6, text.c_str(), out.bytes.data()) == 1 ? out : FoundAddress{};
}

FoundAddress ipv4_at(std::string_view line, size_t at) {
  FoundAddress out{AddressKind::kIpv4, AddressForm::kPlain, '.', 0, {}};
  size_t end = at;
  for (int part = 0; part < 4; ++part) {
    const size_t begin = end;
    while (end < line.size() && line[end] >= '0' && line[end] <= '9') ++end;
    const auto byte = decimal_byte(line.substr(begin, end - begin));
    if (!byte) return {};
    out.bytes.push_back(*byte);
    if (part == 3) break;
    if (end >= line.size() || line[end] != '.') return {};
    ++end;
  }
  const bool goes_on =
      !ends_at(line, end) || (end + 1 < line.size() && line[end] == '.' && is_word(line[end + 1]));
  if (goes_on) return {};
  out.length = end - at;
  return out;
}

}  // namespace

FoundAddress find_address(std::string_view line, size_t at) {
  FoundAddress best;
  for (const FoundAddress& found : {uuid_at(line, at), grouped_at(line, at, ':'), grouped_at(line, at, '-'),
                                    hex_at(line, at), ipv6_at(line, at), ipv4_at(line, at)})
    if (found.kind != AddressKind::kNone && found.length > best.length) best = found;
  return best;
}

std::string address_text(const FoundAddress& address) {
  const auto& bytes = address.bytes;
  std::string out;
  switch (address.form) {
    case AddressForm::kPlain: {
      std::array<char, INET6_ADDRSTRLEN> text{};
      const int family = address.kind == AddressKind::kIpv4 ? AF_INET : AF_INET6;
      ::inet_ntop(family, bytes.data(), text.data(), text.size());
      return text.data();
    }
    case AddressForm::kQuads:
      for (size_t i = 0; i + 1 < bytes.size(); i += 2)
        out += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
      return out;
    case AddressForm::kPairs:
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (i > 0) out += address.separator;
        out += fmt::format("{:02x}", bytes[i]);
      }
      return out;
    case AddressForm::kDecimal:
      for (size_t i = 0; i < bytes.size(); ++i) out += fmt::format("{}{:02}", i == 0 ? "" : ":", bytes[i]);
      return out;
    case AddressForm::kHex:
      out = "0x";
      for (const uint8_t byte : bytes) out += fmt::format("{:02x}", byte);
      return out;
  }
  return out;
}

}  // namespace mroce::doctor
