#include "doctor/decode.h"

#include <algorithm>

#include "doctor/escape.h"

namespace mroce::doctor {
namespace {

enum class Order : uint8_t { kNone, kLittle, kBig };

// Text of letters has a zero in every second byte; which one says the order.
Order order_of(std::string_view text) {
  if (text.starts_with("\xff\xfe")) return Order::kLittle;
  if (text.starts_with("\xfe\xff")) return Order::kBig;
  constexpr size_t kLooked = 64;
  const size_t pairs = std::min(text.size(), kLooked) / 2;
  size_t first = 0, second = 0;
  for (size_t i = 0; i < pairs; ++i) {
    first += text[2 * i] == '\0' ? 1 : 0;
    second += text[2 * i + 1] == '\0' ? 1 : 0;
  }
  if (pairs < 4 || (first > 0 && second > 0)) return Order::kNone;
  if (second == pairs) return Order::kLittle;
  return first == pairs ? Order::kBig : Order::kNone;
}

void append_utf8(std::string& out, uint32_t point) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xc0 | point >> 6);
    return put(0x80 | (point & 0x3f));
  }
  if (point < 0x10000) {
    put(0xe0 | point >> 12);
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
  }
  put(0x80 | (point >> 6 & 0x3f));
  put(0x80 | (point & 0x3f));
}

// Surrogates without their other half become the replacement character.
std::string from_utf16(std::string_view text, Order order) {
  constexpr uint32_t kReplacement = 0xfffd, kMark = 0xfeff;
  const auto unit = [&](size_t at) {
    const auto a = static_cast<uint8_t>(text[at]), b = static_cast<uint8_t>(text[at + 1]);
    return static_cast<uint32_t>(order == Order::kLittle ? a | b << 8 : a << 8 | b);
  };
  std::string out;
  out.reserve(text.size() / 2);
  for (size_t at = 0; at + 1 < text.size(); at += 2) {
    uint32_t point = unit(at);
    if (at == 0 && point == kMark) continue;
    if (point >= 0xd800 && point < 0xe000) {
      const uint32_t low = point < 0xdc00 && at + 3 < text.size() ? unit(at + 2) : 0;
      const bool pair = low >= 0xdc00 && low < 0xe000;
      point = pair ? 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00) : kReplacement;
      at += pair ? 2 : 0;
    }
    append_utf8(out, point);
  }
  return out;
}

uint32_t line_at(std::string_view text, size_t at) {
  return static_cast<uint32_t>(
             std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')) +
         1;
}

}  // namespace

std::vector<TextRemark> decode_text(std::string& text) {
  std::vector<TextRemark> out;
  if (const Order order = order_of(text); order != Order::kNone) {
    const bool half = text.size() % 2 != 0;
    text = from_utf16(text, order);
    if (half) out.push_back({line_at(text, text.size()), "UTF-16 that ends in half a character"});
  }
  if (const size_t at = text.find('\0'); at != std::string::npos)
    out.push_back({line_at(text, at), "bytes that are no text (NUL) were left out"});
  if (const size_t at = invalid_utf8(text); at != std::string_view::npos)
    out.push_back({line_at(text, at),
                   "not UTF-8, Latin-1 perhaps: names with such letters are shown with a replacement"});
  return out;
}

}  // namespace mroce::doctor
