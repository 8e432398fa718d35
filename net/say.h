// say(): a message on standard error that never fails. Standard error may be closed, a full disk or a pipe
// without a reader; fmt::print throws then, and what had to be said would end the program that says it.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

namespace mroce {

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);  // whole: lines of several processes do not mix
}

}  // namespace mroce
