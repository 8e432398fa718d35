#include "doctor/suite/words.h"

#include <algorithm>
#include <array>

namespace mroce::doctor {
namespace {

constexpr size_t kMaxName = 255;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool has_own_shell(const Words& words) {
  static constexpr std::array<std::string_view, 6> kShells = {"ssh", "rsh", "pdsh", "clush", "dsh", "mosh"};
  if (!words.empty() && words.back() == "-c") return true;
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    const std::string_view name = std::string_view(word).substr(word.rfind('/') + 1);
    return std::find(kShells.begin(), kShells.end(), name) != kShells.end();
  });
}

std::string in_quotes(std::string_view word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string with_host(std::string word, const std::string& host) {
  constexpr std::string_view kHost = "{host}";
  for (size_t at = word.find(kHost); at != std::string::npos; at = word.find(kHost, at + host.size()))
    word.replace(at, kHost.size(), host);
  return word;
}

}  // namespace

tl::expected<Words, std::string> split_words(std::string_view text) {
  Words out;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') return tl::unexpected<std::string>("a zero byte");
    if (c == '\\' && quote != '\'') {
      if (i + 1 == text.size()) return tl::unexpected<std::string>("a backslash at the end");
      // Within "…" a backslash means something before these only.
      if (quote == '"' && std::string_view("\"\\$`").find(text[i + 1]) == std::string_view::npos)
        word += c;
      else
        word += text[++i];
      in_word = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) out.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return tl::unexpected(std::string("a ") + quote + " without its partner");
  if (in_word) out.push_back(std::move(word));
  return out;
}

std::string shell_quoted(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return is_letter_or_digit(c) || std::string_view("_-./:=,@%+").find(c) != std::string_view::npos;
  });
  return plain ? std::string(word) : in_quotes(word);
}

std::string shell_quoted(const Words& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    // A first word such as A=b would be an assignment.
    const bool assigns = i == 0 && words[i].find('=') != std::string::npos;
    out += (i > 0 ? " " : "") + (assigns ? in_quotes(words[i]) : shell_quoted(words[i]));
  }
  return out;
}

tl::expected<Launcher, std::string> Launcher::parse(std::string_view text) {
  auto words = split_words(text);
  if (!words) return tl::unexpected(words.error());
  Launcher out;
  if (words->empty() || (words->size() == 1 && words->front() == "local")) return out;
  out.words_ = std::move(*words);
  size_t places = 0;
  for (const std::string& word : out.words_) places += word == "{command}" || word == "{quoted}" ? 1 : 0;
  if (places > 1) return tl::unexpected<std::string>("the command can stand in one place only");
  out.placed_ = places == 1;
  if (!out.placed_ && has_own_shell(out.words_)) out.form_ = Form::kQuoted;
  return out;
}

Words Launcher::command(const std::string& host, const Words& command) const {
  Words out;
  for (const std::string& word : words_) {
    if (word == "{command}")
      out.insert(out.end(), command.begin(), command.end());
    else if (word == "{quoted}")
      out.push_back(shell_quoted(command));
    else
      out.push_back(with_host(word, host));
  }
  if (placed_) return out;
  if (form_ == Form::kQuoted)
    out.push_back(shell_quoted(command));
  else
    out.insert(out.end(), command.begin(), command.end());
  return out;
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxName || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter_or_digit(c) || std::string_view("_-.:@%").find(c) != std::string_view::npos;
  });
}

}  // namespace mroce::doctor
