#include "doctor/parse/table.h"

#include <algorithm>

namespace mroce::doctor {

DashColumns dash_columns(std::string_view line) {
  constexpr size_t kMaxColumns = 64;
  DashColumns out;
  for (size_t at = 0; at < line.size();) {
    if (line[at] != '-' && line[at] != ' ') return {};
    if (line[at] == ' ') {
      ++at;
      continue;
    }
    const size_t end = std::min(line.find_first_not_of('-', at), line.size());
    out.begins.push_back(at);
    out.ends.push_back(end);
    if (out.size() > kMaxColumns) return {};
    at = end;
  }
  return out.size() < 2 ? DashColumns() : out;
}

std::vector<std::string_view> cells_of(std::string_view line, const DashColumns& columns) {
  std::vector<std::string_view> out;
  for (size_t i = 0; i < columns.size(); ++i) {
    size_t begin = std::min(columns.begins[i], line.size());
    size_t end = i + 1 == columns.size() ? line.size() : std::min(columns.ends[i], line.size());
    // A number that is longer than its column grows to the left or to the right.
    while (begin > 0 && begin < line.size() && line[begin] != ' ' && line[begin - 1] != ' ') --begin;
    while (end > begin && end < line.size() && line[end - 1] != ' ' && line[end] != ' ') ++end;
    out.push_back(trim(line.substr(begin, end - begin)));
  }
  return out;
}

}  // namespace mroce::doctor
