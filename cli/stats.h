// Statistics that the library leaves behind: one JSON file per process, schema "mroce-stats-1".
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/outcome.h"

namespace mroce::cli {

// A private folder that the programs write their files to; removed with all that is in it.
class StatsFolder {
 public:
  static Outcome<StatsFolder> make();
  ~StatsFolder();
  StatsFolder(StatsFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  StatsFolder(const StatsFolder&) = delete;
  StatsFolder& operator=(const StatsFolder&) = delete;
  // The value of the setting stats_file.
  std::string file_pattern() const { return (path_ / "%p.json").string(); }
  // All files, as an array in the order of process ids. Files that are no JSON object are left out.
  nlohmann::json collect() const;

 private:
  explicit StatsFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// The table of `mroce run --stats`. `all` is untrusted: what is missing or of the wrong type shows as 0 or
// "?".
std::string stats_text(const nlohmann::json& all);

// Members of an untrusted object.
uint64_t number_at(const nlohmann::json& object, std::string_view key);
double real_at(const nlohmann::json& object, std::string_view key);
std::string text_at(const nlohmann::json& object, std::string_view key);
const nlohmann::json& member_at(const nlohmann::json& object, std::string_view key);  // null if there is none

}  // namespace mroce::cli
