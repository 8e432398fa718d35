#include "doctor/lenient_json.h"

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxValues = 2'000'000;

class Reader {
 public:
  Reader(std::string_view text, uint32_t line) : text_(text), line_(line) {}

  JsonReading read() {
    JsonReading out;
    skip();
    value(out.value, 0);
    out.end = at_;
    out.end_line = line_;
    out.problem = std::move(problem_);
    out.problem_line = problem_line_;
    return out;
  }

 private:
  void complain(const char* what) {
    if (!problem_.empty()) return;
    problem_ = what;
    problem_line_ = line_;
  }

  bool end() const { return at_ >= text_.size(); }

  void skip() {
    while (!end()) {
      const char c = text_[at_];
      if (c == '\n')
        ++line_;
      else if (c != ' ' && c != '\t' && c != '\r')
        return;
      ++at_;
    }
  }

  void string(std::string& out) {
    ++at_;  // the quote
    while (true) {
      size_t stop = at_;
      while (stop < text_.size() && text_[stop] != '"' && text_[stop] != '\\') {
        if (text_[stop] == '\n') ++line_;
        ++stop;
      }
      out.append(text_, at_, stop - at_);
      at_ = stop;
      if (end()) return complain("the text ends inside of a string");
      if (text_[at_] == '"') {
        ++at_;
        return;
      }
      escape(out);
    }
  }

  void escape(std::string& out) {
    ++at_;  // the backslash
    if (end()) return complain("the text ends inside of a string");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        out += '\n';
        return;
      case 't':
        out += '\t';
        return;
      case 'r':
      case 'b':
      case 'f':
        return;
      case 'u':
        unicode(out);
        return;
      default:
        out += c;
    }
  }

  void unicode(std::string& out) {
    unsigned code = 0;
    size_t digits = 0;
    for (; digits < 4 && !end(); ++digits, ++at_) {
      const char c = text_[at_];
      const int value = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (value < 0) break;
      code = code * 16 + static_cast<unsigned>(value);
    }
    if (digits < 4) return complain("\\u without four hexadecimal digits");
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | (code >> 6));
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      out += static_cast<char>(0xe0 | (code >> 12));
      out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    }
  }

  void word(JsonValue& out) {
    const size_t begin = at_;
    while (!end() && std::string_view(",:{}[]\"\n").find(text_[at_]) == std::string_view::npos) ++at_;
    out.text = std::string(trim(text_.substr(begin, at_ - begin)));
    if (out.text == "null") {
      out.kind = JsonValue::Kind::kNull;
    } else if (out.text == "true" || out.text == "false") {
      out.kind = JsonValue::Kind::kBool;
    } else if (real_number(out.text)) {
      out.kind = JsonValue::Kind::kNumber;
    } else {
      out.kind = JsonValue::Kind::kWord;
      complain("a word without quotes");
    }
  }

  void value(JsonValue& out, int depth) {
    out.line = line_;
    if (end()) return complain("the text ends where a value should be");
    if (++values_ > kMaxValues || depth > kMaxDepth) {
      complain("nested too deeply or too long");
      at_ = text_.size();
      return;
    }
    switch (text_[at_]) {
      case '{':
        return object(out, depth);
      case '[':
        return array(out, depth);
      case '"':
        out.kind = JsonValue::Kind::kString;
        return string(out.text);
      default:
        return word(out);
    }
  }

  void array(JsonValue& out, int depth) {
    out.kind = JsonValue::Kind::kArray;
    ++at_;
    while (true) {
      separators(']');
      if (end()) return complain("the text ends inside of an array");
      if (text_[at_] == ']') {
        ++at_;
        return;
      }
      const size_t before = at_;
      value(out.items.emplace_back(), depth + 1);
      if (at_ == before) {
        complain("a character that belongs nowhere");
        ++at_;
      }
    }
  }

  void object(JsonValue& out, int depth) {
    out.kind = JsonValue::Kind::kObject;
    ++at_;
    while (true) {
      separators('}');
      if (end()) return complain("the text ends inside of an object");
      if (text_[at_] == '}') {
        ++at_;
        return;
      }
      const size_t before = at_;
      member(out, depth);
      if (at_ == before) {
        complain("a character that belongs nowhere");
        ++at_;
      }
    }
  }

  void member(JsonValue& out, int depth) {
    std::string name;
    if (text_[at_] == '"') {
      string(name);
    } else {
      const size_t begin = at_;
      while (!end() && std::string_view(",:{}[]\"\n").find(text_[at_]) == std::string_view::npos) ++at_;
      name = std::string(trim(text_.substr(begin, at_ - begin)));
      if (!name.empty()) complain("a name without quotes");
    }
    skip();
    if (end() || text_[at_] != ':') {
      if (!end()) complain("a name without a value");
      return;
    }
    ++at_;
    skip();
    JsonValue member;
    value(member, depth + 1);
    out.names.push_back(std::move(name));
    out.items.push_back(std::move(member));
  }

  // Commas, too many of them, or one before the end.
  void separators(char closing) {
    int commas = 0;
    skip();
    while (!end() && text_[at_] == ',') {
      ++commas;
      ++at_;
      skip();
    }
    if (commas > 1 || (commas == 1 && !end() && text_[at_] == closing)) complain("a comma too many");
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_;
  size_t values_ = 0;
  std::string problem_;
  uint32_t problem_line_ = 0;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return &items[i];
  return nullptr;
}

std::string JsonValue::string_at(std::string_view name) const {
  const JsonValue* member = find(name);
  return member == nullptr || member->kind == Kind::kObject || member->kind == Kind::kArray ? ""
                                                                                            : member->text;
}

std::optional<double> JsonValue::number() const {
  return kind == Kind::kNumber || kind == Kind::kString || kind == Kind::kWord ? real_number(text)
                                                                               : std::nullopt;
}

std::optional<double> JsonValue::number_at(std::string_view name) const {
  const JsonValue* member = find(name);
  return member == nullptr ? std::nullopt : member->number();
}

JsonReading read_json(std::string_view text, uint32_t line) {
  return Reader(text, line).read();
}

}  // namespace mroce::doctor
