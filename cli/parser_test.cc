#include "cli/parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/finite_range.h"
#include "cli/verbs.h"

namespace mroce::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

// All verbs, as the command line has them; none is run.
class Parser : public testing::Test {
 protected:
  Parser() : app_("", "mroce") {
    app_.require_subcommand(1);
    add_run(app_, rest_, exit_code_);
    add_info(app_, exit_code_);
    add_demo(app_, exit_code_);
    add_bench(app_, exit_code_);
    add_sim(app_, exit_code_);
    add_soak(app_, exit_code_);
    add_doctor(app_, rest_, exit_code_);
    add_comply(app_, exit_code_);
    complete_parser(app_);
  }
  Failure refusal(const Words& words) {
    if (const auto unknown = unknown_verb(app_, words)) return *unknown;
    Words reversed(words.rbegin(), words.rend());
    try {
      app_.parse(reversed);
    } catch (const CLI::ParseError& error) {
      return refused_line(app_, words, error);
    }
    return {kFine, "", ""};
  }

  Rest rest_;
  int exit_code_ = 0;
  CLI::App app_;
};

void for_each_option(const CLI::App& app,
                     const std::function<void(const CLI::App&, const CLI::Option&)>& visit) {
  for (const CLI::Option* option : app.get_options()) visit(app, *option);
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    for_each_option(*verb, visit);
}

TEST_F(Parser, a_verb_that_there_is_not_is_named) {
  EXPECT_EQ(refusal({"foo"}).cause, "there is no verb 'foo'");
  EXPECT_EQ(refusal({"foo"}).hint, "mroce --help lists them");
  EXPECT_EQ(refusal({"foo"}).code, kUsage);
  EXPECT_EQ(refusal({"bench", "endpiont"}).cause, "mroce bench has no verb 'endpiont'");
  EXPECT_EQ(refusal({"bench", "endpiont"}).hint,
            "did you mean mroce bench endpoint? mroce bench --help lists them");
  EXPECT_EQ(refusal({"dcotor"}).hint, "did you mean mroce doctor? mroce --help lists them");
}

TEST_F(Parser, a_line_without_a_verb_is_asked_for_one) {
  EXPECT_EQ(refusal({}).cause, "which verb?");
  EXPECT_EQ(refusal({"doctor"}).cause, "which verb?");
  EXPECT_EQ(refusal({"doctor"}).hint, "see mroce doctor --help");
}

TEST_F(Parser, hints_name_the_help_of_the_verb_in_question) {
  EXPECT_EQ(refusal({"bench", "endpoint", "--runs", "0"}).hint, "see mroce bench endpoint --help");
}

TEST_F(Parser, no_option_takes_an_empty_value) {
  size_t options = 0;
  for_each_option(app_, [&](const CLI::App& verb, const CLI::Option& option) {
    if (option.get_type_size() == 0 || option.get_expected_min() == 0 || option.get_positional()) return;
    Words words{option.get_name(), ""};
    for (const CLI::App* at = &verb; at->get_parent() != nullptr; at = at->get_parent())
      words.insert(words.begin(), at->get_name());
    EXPECT_THAT(refusal(words).cause, HasSubstr("its value is empty"))
        << fmt::format("{}", fmt::join(words, " "));
    ++options;
  });
  EXPECT_GT(options, 50U);
}

TEST_F(Parser, help_shows_no_check_of_the_parser_and_no_type_that_says_nothing) {
  for_each_option(app_, [&](const CLI::App& verb, const CLI::Option& option) {
    const CLI::App* shown = &verb;
    const std::string help = shown->help();
    for (const char* raw : {"UINT", "FLOAT", "INT:", "TEXT", " in [", ":{", "Excludes:", "Needs:"})
      EXPECT_THAT(help, Not(HasSubstr(raw))) << verb.get_name() << " " << option.get_name();
  });
}

TEST_F(Parser, help_shows_limits_and_defaults_behind_the_sentence) {
  const CLI::App* endpoint = app_.get_subcommand("bench")->get_subcommand("endpoint");
  EXPECT_THAT(endpoint->help(), testing::ContainsRegex("--runs N +rounds \\(1 to 100; default 5\\)"));
}

TEST_F(Parser, options_in_help_fit_eighty_columns) {
  for_each_option(app_, [&](const CLI::App& verb, const CLI::Option&) {
    std::istringstream lines(verb.help());
    bool options = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with("ptions:")) options = true;
      if (line.empty()) options = false;
      if (!options) continue;
      EXPECT_LE(line.size(), 80U) << verb.get_name() << ": " << line;
    }
  });
}

TEST_F(Parser, sentences_of_verbs_begin_in_upper_case) {
  for_each_option(app_, [](const CLI::App& verb, const CLI::Option&) {
    if (verb.get_parent() == nullptr) return;
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(verb.get_description().at(0)))) << verb.get_name();
  });
}

}  // namespace
}  // namespace mroce::cli
