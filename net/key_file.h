// The pre-shared key of mode 2, from a file that only its owner can read: 32 bytes as they are, or as 64
// hexadecimal digits with white space around them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace mroce::net {

using PresharedKeyBytes = std::array<uint8_t, 32>;

// The error is a sentence with cause and hint.
tl::expected<PresharedKeyBytes, std::string> read_key_file(const std::string& path);

}  // namespace mroce::net
