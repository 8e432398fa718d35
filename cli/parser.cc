#include "cli/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "core/base/text.h"
#include "net/setting_rules.h"

namespace mroce::cli {
namespace {

constexpr size_t kColumn = 30;  // where the sentences begin
constexpr size_t kWidth = 80;

// "UINT:INT in [1 - 100]" apart: what to write, and the limits as a sentence has them.
struct TypeText {
  std::string write, limits;
};

std::string with_to(std::string range) {
  if (const size_t dash = range.find(" - "); dash != std::string::npos) range.replace(dash, 3, " to ");
  return range;
}

TypeText type_text(const std::string& full) {
  TypeText text{full, ""};
  if (const size_t in = full.find(" in ["); in != std::string::npos) {
    text.write = full.substr(0, full.rfind(':', in));
    text.limits = with_to(full.substr(in + 5, full.find(']', in) - in - 5));
  } else if (const size_t set = full.find(":{"); set != std::string::npos) {
    text.write = full.substr(0, set);
  }
  if (text.write == "UINT" || text.write == "INT") text.write = "N";
  if (text.write == "FLOAT") text.write = "X";
  return text;
}

std::string wrapped(std::string_view text, size_t width) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (column != 0) {
      const bool fits = column + 1 + word.size() <= width;
      out += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    out += word;
    column += word.size();
    at = end + 1;
  }
  return out;
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::string names;
  for (const CLI::Option* option : options) names += (names.empty() ? "" : ", ") + option->get_name();
  return names;
}

class HelpFormat final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 ? "" : " " + type_text(option->get_type_name()).write;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string remarks;
    const auto add = [&](const std::string& remark) { remarks += (remarks.empty() ? "" : "; ") + remark; };
    if (option->get_type_size() != 0) {
      const std::string limits = type_text(option->get_type_name()).limits;
      if (!limits.empty()) add(limits);
      if (!option->get_default_str().empty()) add("default " + option->get_default_str());
      if (option->get_required()) add("required");
    }
    if (!option->get_needs().empty()) add("with " + names_of(option->get_needs()));
    if (!option->get_excludes().empty()) add("not with " + names_of(option->get_excludes()));
    const std::string sentence = option->get_description();
    return wrapped(remarks.empty() ? sentence : fmt::format("{} ({})", sentence, remarks), kWidth - kColumn);
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return fmt::format("  {:<{}}{}\n", sub->get_display_name(true), kColumn - 2, sub->get_description());
  }
};

// An empty value is a variable of a script that is not set. Taken for "not given" it would be a silent change
// of what was asked for.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_size() == 0 || option->get_expected_min() == 0) continue;
    // A "transformation" because these come before all checks.
    option->transform(CLI::Validator(
        [](std::string& value) {
          return value.empty() ? std::string("its value is empty; give one, or leave the option out")
                               : std::string();
        },
        ""));
  }
}

const CLI::App* verb_named(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* each) { return each->check_name(name); });
  return found.empty() ? nullptr : found.front();
}

// As far as the words are verbs.
const CLI::App* verb_of(const CLI::App& app, const std::vector<std::string>& words, size_t& known) {
  const CLI::App* verb = &app;
  for (known = 0; known < words.size(); ++known) {
    const CLI::App* next = verb_named(*verb, words[known]);
    if (next == nullptr) break;
    verb = next;
  }
  return verb;
}

std::string full_name(const CLI::App* verb) {
  const CLI::App* parent = verb->get_parent();
  return parent == nullptr ? verb->get_name() : full_name(parent) + " " + verb->get_name();
}

std::vector<const CLI::App*> verbs_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace

void complete_parser(CLI::App& app) {
  auto format = std::make_shared<HelpFormat>();
  format->column_width(kColumn);
  app.formatter(format);
  refuse_empty_values(app);
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) complete_parser(*verb);
}

std::optional<Failure> unknown_verb(const CLI::App& app, const std::vector<std::string>& words) {
  size_t known = 0;
  const CLI::App* verb = verb_of(app, words, known);
  const auto below = verbs_below(*verb);
  if (below.empty() || known == words.size() || words[known].starts_with('-')) return std::nullopt;
  std::vector<std::string> names;
  for (const CLI::App* each : below) names.push_back(each->get_name());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string list = full_name(verb) + " --help lists them";
  const auto near = net::nearest(words[known], views);
  const std::string word = printable(words[known], 40);
  return Failure{kUsage,
                 known == 0 ? fmt::format("there is no verb '{}'", word)
                            : fmt::format("{} has no verb '{}'", full_name(verb), word),
                 near ? fmt::format("did you mean {} {}? {}", full_name(verb), *near, list) : list};
}

Failure refused_line(const CLI::App& app, const std::vector<std::string>& words,
                     const CLI::ParseError& error) {
  size_t known = 0;
  const CLI::App* verb = verb_of(app, words, known);
  const std::string help = fmt::format("see {} --help", full_name(verb));
  if (known == words.size() && !verbs_below(*verb).empty()) return {kUsage, "which verb?", help};
  std::string cause = error.what();
  std::replace(cause.begin(), cause.end(), '\n', ' ');
  return {kUsage, cause, help};
}

}  // namespace mroce::cli
