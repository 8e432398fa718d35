// Seeds as people give them: a number, or the hash of a commit, so that every commit has runs of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace mroce::soak {

// Decimal, 0x…, or at least seven hexadecimal digits of a hash with a letter among them (or all forty). Only
// the first seven digits of a hash count, so that it means the same however it is abbreviated.
tl::expected<uint64_t, std::string> parse_seed(std::string_view text);

}  // namespace mroce::soak
