// JSON as tools write it: also with unquoted keys and words, with trailing and missing commas, and cut off in
// the middle. Every value knows its line. Depth and number of values are bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mroce::doctor {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kWord, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  uint32_t line = 0;
  std::string text;                // of string, word, number and bool, as written
  std::vector<JsonValue> items;    // of array and object
  std::vector<std::string> names;  // of object

  const JsonValue* find(std::string_view name) const;  // member of an object, or null
  std::string string_at(std::string_view name) const;  // empty if none
  std::optional<double> number_at(std::string_view name) const;
  std::optional<double> number() const;
  bool is_object() const { return kind == Kind::kObject; }
  bool is_array() const { return kind == Kind::kArray; }
};

struct JsonReading {
  JsonValue value;
  size_t end = 0;  // offset behind the value
  uint32_t end_line = 1;
  std::string problem;  // empty, or what was wrong first; the value holds what came before
  uint32_t problem_line = 0;
};

// Reads one value at `text`, which begins at `line` of its file.
JsonReading read_json(std::string_view text, uint32_t line = 1);

}  // namespace mroce::doctor
