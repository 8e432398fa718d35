// Seeds as people give them: a number, or the hash of a commit, so that every commit has runs of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace mroce::soak {

// Decimal, 0x…, or at least seven hexadecimal digits of a hash with a letter among them (or all forty).
// Decimal digits alone are a number, since the commands that repeat a run name its seed so; parse_commit() is
// for an abbreviation that happens to have no letter.
tl::expected<uint64_t, std::string> parse_seed(std::string_view text);

// Seven to forty hexadecimal digits. Only the first seven count, so that a hash means the same however it is
// abbreviated.
tl::expected<uint64_t, std::string> parse_commit(std::string_view text);

}  // namespace mroce::soak
