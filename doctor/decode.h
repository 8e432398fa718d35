// What kind of text is it? Windows tools write UTF-16, old logs Latin-1, crashed machines leave NUL bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mroce::doctor {

struct TextRemark {
  uint32_t line = 0;
  std::string reason;
};

// UTF-16 (with a byte order mark, or told by its zero bytes) becomes UTF-8 in place; other text stays as it
// is, and what is odd about it is named with its first line.
std::vector<TextRemark> decode_text(std::string& text);

}  // namespace mroce::doctor
