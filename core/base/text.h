// Text that somebody else wrote, on its way to people: for a terminal, and for a page or a file of markup.
//
// A terminal obeys control characters and bytes that only look like text, so what a message quotes is reduced
// to printable ASCII and cut. Markup is another matter: it is for readers that know their characters, so only
// the five that have a meaning there are replaced; who writes it decides what else it may hold
// (doctor/escape.h keeps all of Unicode that does no harm, comply/report.cc only lines of ASCII and our own
// signs).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mroce {

// What is no printable ASCII becomes '?'; of more than `limit` bytes the rest becomes "...".
inline std::string printable(std::string_view text, size_t limit = 300) {
  std::string out;
  for (const char c : text.substr(0, limit)) out += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > limit) out += "...";
  return out;
}

// As element content and as an attribute's value in double or single quotes, in HTML and in XML.
inline std::string markup_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace mroce
