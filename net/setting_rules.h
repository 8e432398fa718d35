// What each setting accepts. A rule knows a setting's kind and range, and says in one sentence why a value is
// refused and what to try instead.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mroce::net {

// "4096", "4K", "1M", "2G" (binary suffixes), "0x1f"; nothing for anything else or above 2^64 - 1.
std::optional<uint64_t> parse_number(std::string_view text);
// "1", "true", "yes", "on" and their opposites.
std::optional<bool> parse_flag(std::string_view text);

// Nothing if `value` is fine for the setting `name`, else the cause and a hint: "paths must be 1 to 32; try
// 4".
std::optional<std::string> refusal(std::string_view name, std::string_view value);

// The one of `names` nearest to `word`, if it is near enough to be meant: a letter in three may differ, three
// at most.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> names);
// The same among the names of settings.
std::optional<std::string_view> nearest_setting(std::string_view name);

// Of a message that quotes what somebody wrote.
inline constexpr size_t kLongestMessage = 1000;

// Without spaces, tabs and line ends on both sides.
std::string_view trimmed(std::string_view text);

}  // namespace mroce::net
