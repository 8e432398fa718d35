#include "doctor/escape.h"

#include <cstdint>

#include "core/base/text.h"

namespace mroce::doctor {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// The code point that begins at `at`, and its length; length 0 if the bytes are no UTF-8 (overlong forms and
// surrogates are none).
uint32_t code_point(std::string_view text, size_t at, size_t& length) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || at + length > text.size()) return length = 0, 0u;
  if (length == 1) return first;
  uint32_t point = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return length = 0, 0u;
    point = (point << 6) | (byte(at + i) & 0x3fu);
  }
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  if (overlong || (point >= 0xd800 && point < 0xe000) || point > 0x10ffff) length = 0;
  return point;
}

bool harmful(uint32_t point) {
  const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool turns = (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
                     point == 0x200e || point == 0x200f || point == 0x061c;
  return control || turns || point == 0x2028 || point == 0x2029 || (point & 0xfffe) == 0xfffe;
}

}  // namespace

size_t invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    if (static_cast<uint8_t>(text[at]) >= 0x80) code_point(text, at, length);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string clean_text(std::string_view text, size_t bound) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    const uint32_t point = code_point(text, at, length);
    if (out.size() + (length == 0 ? kReplacement.size() : length) > bound) return out += "…";
    if (length == 1 && (point == '\t' || point == '\n' || point == '\r'))
      out += ' ';
    else if (length == 0 || harmful(point))
      out += kReplacement;
    else
      out += text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string html_text(std::string_view text, size_t bound) {
  return markup_text(clean_text(text, bound));
}

}  // namespace mroce::doctor
