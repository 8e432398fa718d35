#include "sim/text_lines.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace mroce::sim {

tl::expected<std::string, std::string> read_text(const std::string& path, uint64_t limit) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (file == nullptr) {
    return tl::unexpected(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  }
  std::string text;
  char block[1 << 16];
  while (const size_t got = std::fread(block, 1, sizeof(block), file.get())) {
    if (text.size() + got > limit) {
      return tl::unexpected(fmt::format("{}: is larger than the {} bytes that are read", path, limit));
    }
    text.append(block, got);
  }
  if (std::ferror(file.get()) != 0) {
    return tl::unexpected(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }
  return text;
}

bool TextLines::next() {
  while (!text_.empty()) {
    const size_t end = text_.find('\n');
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    ++line_;
    split(line.substr(0, line.find('#')));
    if (!words_.empty()) return true;
  }
  words_.clear();
  return false;
}

void TextLines::split(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r\v\f";
  words_.clear();
  while (words_.size() <= max_words_) {
    const size_t begin = line.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return;
    line.remove_prefix(begin);
    const size_t length = std::min(line.find_first_of(kBlank), line.size());
    words_.push_back(line.substr(0, length));
    line.remove_prefix(length);
  }
}

std::string TextLines::at(uint32_t line) const {
  return fmt::format("{}:{}: ", name_, line);
}

}  // namespace mroce::sim
