#include "doctor/collect/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "doctor/lenient_json.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxLabels = 100'000, kMaxLabel = 80;

// How many characters of the line are a launcher's.
size_t label_length(std::string_view line) {
  if (line.starts_with('[')) {  // "[1,3]<stdout>:", "[1,3]<stderr>: "
    const size_t mark = line.find("]<std");
    if (mark == std::string_view::npos || mark > 24) return 0;
    const size_t end = line.find('>', mark);
    if (end == std::string_view::npos || end > mark + 12) return 0;
    const bool colon = end + 1 < line.size() && line[end + 1] == ':';
    return end + (colon ? 2 : 1);
  }
  size_t at = 0;
  while (at < line.size() && at < kMaxLabel &&
         ((line[at] >= 'a' && line[at] <= 'z') || (line[at] >= 'A' && line[at] <= 'Z') ||
          (line[at] >= '0' && line[at] <= '9') || line[at] == '_' || line[at] == '-' || line[at] == '.'))
    ++at;
  if (at == 0 || at >= line.size() || line[at] != ':') return 0;
  if (at + 1 < line.size() && line[at + 1] == ' ') return at + 2;
  return at + 1 == line.size() ? at + 1 : 0;
}

struct Part {
  std::string text;
  std::vector<uint32_t> lines;  // in the file, of each line
};

std::vector<Part> parts_of(std::string_view text) {
  std::map<std::string, Part, std::less<>> labelled;
  Part plain;
  uint32_t number = 0;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t label = label_length(line);
    Part* part = &plain;
    if (label > 0) {
      const std::string_view name = trim(line.substr(0, label));
      auto found = labelled.find(name);
      if (found == labelled.end() && labelled.size() < kMaxLabels)
        found = labelled.emplace(std::string(name), Part()).first;
      if (found != labelled.end()) part = &found->second;
      line.remove_prefix(label);
    }
    part->text += line;
    part->text += '\n';
    part->lines.push_back(number);
  }
  std::vector<Part> out;
  out.push_back(std::move(plain));
  for (auto& [name, part] : labelled) out.push_back(std::move(part));
  // By where they begin, so that the order is the file's.
  std::stable_sort(out.begin(), out.end(), [](const Part& a, const Part& b) {
    return (a.lines.empty() ? UINT32_MAX : a.lines.front()) <
           (b.lines.empty() ? UINT32_MAX : b.lines.front());
  });
  return out;
}

}  // namespace

size_t find_bundles(std::string_view text, const std::string& file, const std::function<void(Bundle&&)>& take,
                    const std::function<void(MergeProblem&&)>& problem) {
  size_t found = 0;
  for (const Part& part : parts_of(text)) {
    const auto line_in_file = [&](uint32_t line) {
      return line == 0 || line > part.lines.size() ? 0 : part.lines[line - 1];
    };
    std::string_view rest = part.text;
    uint32_t line = 1;
    while (!rest.empty()) {
      if (rest.front() != '{' && rest.front() != '[') {  // to the next line
        const size_t end = rest.find('\n');
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        ++line;
        continue;
      }
      // A bundle that was cut off must not swallow the next one, which begins with a brace alone on its line.
      const std::string_view value = rest.substr(0, rest.find("\n{\n"));
      JsonReading reading = read_json(value, line);
      const bool known = read_bundles(
          std::move(reading.value),
          [&](Bundle&& bundle, uint32_t) {
            ++found;
            take(std::move(bundle));
          },
          [&](uint32_t at, std::string reason) {
            problem({file, line_in_file(at), std::move(reason)});
          });
      if (known && !reading.problem.empty())
        problem({file, line_in_file(reading.problem_line), "not quite JSON: " + reading.problem});
      if (known && reading.end > 0) {
        rest.remove_prefix(std::min(reading.end, rest.size()));
        line = reading.end_line;
      }
      const size_t end = rest.find('\n');
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      ++line;
    }
  }
  if (found == 0) problem({file, 1, "there is no bundle in it"});
  return found;
}

}  // namespace mroce::doctor
