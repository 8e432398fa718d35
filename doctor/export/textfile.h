// A file that readers see whole or not at all: written beside its place, then renamed.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace mroce::doctor {

// What is no regular file (/dev/stdout, a pipe) is written as it is. The error is a sentence.
tl::expected<void, std::string> replace_file(const std::string& name, std::string_view text);

}  // namespace mroce::doctor
