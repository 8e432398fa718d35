#include "net/settings.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "net/impairment_clause.h"
#include "net/setting_rules.h"

namespace mroce::net {
namespace {

constexpr std::string_view kPrefix = "MROCE_";
constexpr std::string_view kFileVariable = "MROCE_CONFIG";
constexpr size_t kMaxLines = 10000;
constexpr size_t kMaxLineLength = 64 * 1024;

constexpr auto kSettings = std::to_array<Setting>({
#define MROCE_SETTING(name, default_text, sentence) Setting{#name, default_text, sentence},
    MROCE_SETTINGS(MROCE_SETTING)
#undef MROCE_SETTING
});

std::optional<size_t> index_of(std::string_view name) {
  for (size_t i = 0; i < kSettings.size(); ++i) {
    if (kSettings[i].name == name) return i;
  }
  return std::nullopt;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

// The value the way its author wrote it: "MROCE_PATHS=99", "mroce.conf:3: paths = 99", "--paths=99".
std::string as_written(std::string_view name, std::string_view value, std::string_view origin) {
  constexpr std::string_view kEnvironment = "environment ";
  constexpr std::string_view kFile = "file ";
  constexpr std::string_view kFlag = "flag ";
  if (origin.starts_with(kEnvironment))
    return fmt::format("{}={}", origin.substr(kEnvironment.size()), value);
  if (origin.starts_with(kFile)) return fmt::format("{}: {} = {}", origin.substr(kFile.size()), name, value);
  if (origin.starts_with(kFlag)) return fmt::format("{}={}", origin.substr(kFlag.size()), value);
  return fmt::format("{} = {}", name, value);
}

// "loss=1%" for somebody who takes an impairment for a setting. A plain number is meant as a percentage.
std::optional<std::string> as_impairment(std::string_view name, std::string_view value) {
  for (const ImpairmentItem& item : impairment_items()) {
    if (item.name != name) continue;
    const bool percent = item.form == "P" && !value.empty() && !value.ends_with('%');
    return fmt::format("{}={}{}", name, value, percent ? "%" : "");
  }
  return std::nullopt;
}

std::string unknown_sentence(std::string_view variable, std::string_view name, std::string_view value) {
  std::string hint = "`mroce run --help` lists them";
  if (const auto near = nearest_setting(name)) {
    hint = fmt::format("did you mean {}{}?", kPrefix, upper(*near));
  } else if (const auto impairment = as_impairment(name, value)) {
    hint = fmt::format("write {}IMPAIR={}", kPrefix, *impairment);
  }
  return printable(fmt::format("{} is not a setting and is ignored; {}", variable, hint), kLongestMessage);
}

std::string unknown_hint(std::string_view name, std::string_view value) {
  if (const auto near = nearest_setting(name)) return fmt::format("did you mean {}?", *near);
  if (const auto impairment = as_impairment(name, value)) return "write impair=" + *impairment;
  return "`mroce run --help` lists them";
}

}  // namespace

std::span<const Setting> all_settings() {
  return kSettings;
}

Settings::Settings() {
  for (const Setting& setting : kSettings) {
    values_.push_back({std::string(setting.default_text), "default"});
  }
}

tl::expected<Settings, std::string> Settings::from_environment() {
  return from_environment(environ);
}

tl::expected<Settings, std::string> Settings::from_environment(const char* const* variables) {
  Settings settings;
  for (const char* const* entry = variables; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with(kFileVariable) || text.substr(kFileVariable.size(), 1) != "=") continue;
    const std::string path(text.substr(kFileVariable.size() + 1));
    if (path.empty()) continue;
    if (auto read = settings.read_file(path); !read) return tl::unexpected(read.error());
  }
  for (const char* const* entry = variables; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view variable = text.substr(0, equals);
    if (variable == kFileVariable) continue;
    const std::string name = lower(variable.substr(kPrefix.size()));
    if (!index_of(name) || variable != std::string(kPrefix) + upper(name)) {
      settings.unknown_.push_back(unknown_sentence(variable, name, text.substr(equals + 1)));
      continue;
    }
    auto set = settings.set(name, text.substr(equals + 1), fmt::format("environment {}", variable));
    if (!set) return tl::unexpected(set.error());
  }
  return settings;
}

tl::expected<void, std::string> Settings::read_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return tl::unexpected(fmt::format("{}={}: {}; name an existing file or unset it", kFileVariable, path,
                                      std::strerror(errno)));
  }
  std::ifstream file(path);
  if (!S_ISREG(status.st_mode) || !file) {
    return tl::unexpected(fmt::format("{}={}: not a readable file; name a text file of 'key = value' lines",
                                      kFileVariable, path));
  }
  std::string text;
  for (size_t number = 1; std::getline(file, text); ++number) {
    if (number > kMaxLines || text.size() > kMaxLineLength) {
      return tl::unexpected(
          fmt::format("{}:{}: too long for a settings file; is this the right file?", path, number));
    }
    const std::string_view line = trimmed(std::string_view(text).substr(0, text.find('#')));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return tl::unexpected(fmt::format("{}:{}: '{}' has no '='; write 'key = value'", path, number, line));
    }
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    if (auto result = set(name, value, fmt::format("file {}:{}", path, number)); !result) return result;
  }
  return {};
}

tl::expected<void, std::string> Settings::set(std::string_view name, std::string_view value,
                                              std::string_view origin) {
  const auto index = index_of(name);
  if (!index) {
    return tl::unexpected(
        printable(fmt::format("{}: there is no setting '{}'; {}", as_written(name, value, origin), name,
                              unknown_hint(name, value)),
                  kLongestMessage));
  }
  if (const auto refused = refusal(name, value)) {
    return tl::unexpected(
        printable(fmt::format("{}: {}", as_written(name, value, origin), *refused), kLongestMessage));
  }
  values_[*index] = {std::string(value), std::string(origin)};
  return {};
}

tl::expected<void, std::string> Settings::validate() const {
  for (size_t i = 0; i < kSettings.size(); ++i) {
    if (const auto refused = refusal(kSettings[i].name, values_[i].value)) {
      return tl::unexpected(fmt::format(
          "{}: {}", as_written(kSettings[i].name, values_[i].value, values_[i].origin), *refused));
    }
  }
  return {};
}

const EffectiveValue& Settings::effective(std::string_view name) const {
  const auto index = index_of(name);
  MROCE_ASSERT(index.has_value());  // names are written in our own code
  return values_[*index];
}

uint64_t Settings::number(std::string_view name) const {
  const auto number = parse_number(text(name));
  MROCE_ASSERT(number.has_value());  // set() has refused anything else
  return *number;
}

bool Settings::flag(std::string_view name) const {
  const auto value = parse_flag(text(name));
  MROCE_ASSERT(value.has_value());
  return *value;
}

}  // namespace mroce::net
