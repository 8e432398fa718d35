// Log: one line at a time on standard error, for the person who runs the program. Levels are those of the
// setting `log`. A fact is said once, by whoever knows its cause first.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "net/say.h"

namespace mroce::net {

enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug };

// Anything but the four names counts as warn; settings refuse such names earlier.
inline LogLevel log_level_of(std::string_view name) {
  if (name == "error") return LogLevel::kError;
  if (name == "info") return LogLevel::kInfo;
  if (name == "debug") return LogLevel::kDebug;
  return LogLevel::kWarn;
}

class Log {
 public:
  explicit Log(LogLevel level) : level_(level) {}

  bool wants(LogLevel level) const { return level <= level_; }
  template <class... Args>
  void operator()(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (!wants(level)) return;
    say("mroce: {}\n", fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  LogLevel level_;
};

}  // namespace mroce::net
