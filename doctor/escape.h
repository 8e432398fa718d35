// Text from files and machines, made safe for a page and for a line of metrics.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mroce::doctor {

// Valid UTF-8 without control characters: what is broken, and what would turn the direction of writing (so
// that a line reads other than it is), becomes U+FFFD; tabs and line ends become blanks. Cut at `bound` bytes
// with "…".
std::string clean_text(std::string_view text, size_t bound = 4096);
// The same for element content and for attribute values in double or single quotes.
std::string html_text(std::string_view text, size_t bound = 4096);
// Where the first byte is that is no UTF-8; npos if all is.
size_t invalid_utf8(std::string_view text);

}  // namespace mroce::doctor
