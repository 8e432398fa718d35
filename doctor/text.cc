#include "doctor/text.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace mroce::doctor {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

bool is_word_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "1,234,567" → "1234567"; commas anywhere else stay, and the number is none.
std::string without_separators(std::string_view text) {
  if (!contains(text, ",")) return std::string(text);
  const size_t first = text.find(',');
  if (first == 0 || first > 3) return std::string(text);
  std::string out(text.substr(0, first));
  size_t at = first;
  while (at < text.size() && text[at] == ',') {
    if (at + 4 > text.size() || !std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                             text.begin() + static_cast<std::ptrdiff_t>(at) + 4, is_digit))
      return std::string(text);
    out += text.substr(at + 1, 3);
    at += 4;
  }
  return at == text.size() ? out : std::string(text);
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && is_blank(line[at])) ++at;
    size_t end = at;
    while (end < line.size() && !is_blank(line[end])) ++end;
    if (end > at) out.push_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word_part(text[at - 1]);
    const size_t end = at + word.size();
    if (begins && (end == text.size() || !is_word_part(text[end]))) return true;
  }
  return false;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string_view after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

std::string_view before(std::string_view text, std::string_view mark) {
  return text.substr(0, text.find(mark));
}

std::optional<uint64_t> whole_number(std::string_view text) {
  text = trim(text);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::string plain = without_separators(text);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (plain.empty() || error != std::errc() || end != plain.data() + plain.size()) return std::nullopt;
  if (value == std::numeric_limits<uint64_t>::max()) return std::nullopt;
  return value;
}

std::optional<double> real_number(std::string_view text) {
  text = trim(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::string plain = without_separators(text);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (plain.empty() || error != std::errc() || end != plain.data() + plain.size()) return std::nullopt;
  if (!(value >= -1e300 && value <= 1e300)) return std::nullopt;  // "nan" and "inf" are words here
  return value;
}

std::optional<double> leading_number(std::string_view text) {
  text = trim(text);
  size_t end = 0;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
  return real_number(text.substr(0, end));
}

namespace {

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f;
}

// Colours and other escapes, carriage returns, and bytes that no tool prints.
void append_clean(std::string& out, std::string_view line) {
  if (std::none_of(line.begin(), line.end(), is_control)) {  // nearly always
    out += line;
    return;
  }
  for (size_t i = 0; i < line.size(); ++i) {
    const auto c = static_cast<unsigned char>(line[i]);
    if (c == 0x1b) {
      if (i + 1 < line.size() && line[i + 1] == '[') {
        i += 2;
        while (i < line.size() && static_cast<unsigned char>(line[i]) < 0x40) ++i;
      }
      continue;
    }
    if (is_control(line[i])) continue;
    out += static_cast<char>(c);
  }
}

// "[1,0]<stdout>:" and "[1,0]<stderr> " of mpirun.
size_t mpirun_prefix(std::string_view line) {
  if (!line.starts_with('[')) return 0;
  const size_t close = line.find("]<std");
  if (close == std::string_view::npos || close > 24) return 0;
  const size_t end = line.find_first_of('>', close);
  if (end == std::string_view::npos || end > close + 12) return 0;
  return end + (end + 1 < line.size() && line[end + 1] == ':' ? 2 : 1);
}

// "nodeA: " of pdsh and of `srun --label` ("0: ").
std::string_view launcher_host(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon > 64) return {};
  if (colon + 1 < line.size() && line[colon + 1] != ' ') return {};
  for (size_t i = 0; i < colon; ++i)
    if (!is_word_part(line[i]) && line[i] != '-' && line[i] != '.') return {};
  return line.substr(0, colon);
}

// A prefix of a launcher is on every line, and the same few words again and again.
bool all_have_hosts(const std::vector<std::string_view>& lines) {
  if (lines.size() < 4) return false;
  std::vector<std::string_view> seen;
  for (const auto line : lines) {
    if (line.empty()) continue;
    const std::string_view host = launcher_host(line);
    if (host.empty()) return false;
    if (std::find(seen.begin(), seen.end(), host) == seen.end()) seen.push_back(host);
    if (seen.size() > 4096 || seen.size() * 2 > lines.size()) return false;
  }
  return true;
}

}  // namespace

Lines lines_of(std::string_view text) {
  Lines out;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  auto storage_owner = std::make_unique<std::string>();
  std::string& storage = *storage_owner;
  storage.reserve(text.size() + 1);  // never more, so that views stay where they are
  uint32_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    ++number;
    line.remove_prefix(mpirun_prefix(line));
    const size_t begin = storage.size();
    append_clean(storage, line);
    out.lines.emplace_back(storage.data() + begin, storage.size() - begin);
    storage += '\n';  // so that a value of several lines can be read from it
    out.numbers.push_back(number);
    if (end == std::string_view::npos) {
      out.truncated_last = true;
      break;
    }
    text.remove_prefix(end + 1);
    out.cut = number == kMaxTextLines && !text.empty();
    if (out.cut) break;
  }
  out.storage = std::move(storage_owner);
  const bool prefixed = all_have_hosts(out.lines);
  out.longest = prefixed ? kMaxPrefixedLine : kMaxTextLine;
  for (auto& line : out.lines) line = line.substr(0, out.longest);
  if (!prefixed) return out;
  for (auto& line : out.lines) {
    const std::string_view host = launcher_host(line);
    out.hosts.emplace_back(host);
    line.remove_prefix(std::min(line.size(), host.size() + 2));
  }
  // pdsh mixes the hosts' lines: put each host's together, in the order of arrival.
  std::vector<size_t> order(out.lines.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return out.hosts[a] < out.hosts[b]; });
  Lines sorted;
  for (const size_t i : order) {
    sorted.lines.push_back(out.lines[i]);
    sorted.numbers.push_back(out.numbers[i]);
    sorted.hosts.push_back(out.hosts[i]);
  }
  sorted.storage = std::move(out.storage);
  sorted.truncated_last = out.truncated_last;
  sorted.cut = out.cut;
  sorted.longest = out.longest;
  return sorted;
}

}  // namespace mroce::doctor
