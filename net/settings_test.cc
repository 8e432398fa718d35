#include "net/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace mroce::net {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

tl::expected<Settings, std::string> from(std::vector<std::string> variables) {
  std::vector<const char*> pointers;
  for (const std::string& variable : variables) pointers.push_back(variable.c_str());
  pointers.push_back(nullptr);
  return Settings::from_environment(pointers.data());
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    path_ = ::testing::TempDir() + "mroce-settings-" + std::to_string(getpid()) + ".conf";
    std::ofstream(path_) << content;
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Settings, every_default_is_accepted_by_its_own_rule) {
  EXPECT_TRUE(Settings().validate().has_value()) << Settings().validate().error();
  for (const Setting& setting : all_settings()) {
    Settings settings;
    EXPECT_TRUE(settings.set(setting.name, setting.default_text, "flag --x").has_value()) << setting.name;
  }
}

TEST(Settings, a_refusal_can_be_shown_on_a_terminal_whatever_it_quotes) {
  Settings settings;
  for (const std::string name : {"impair", "paths", "log", "no\x1bsuch"}) {
    const auto refused = settings.set(name, "dow\x9b\x1b[2J=1s," + std::string(5000, 'x'), "environment");
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_LT(refused.error().size(), 1100u);
    for (const char c : refused.error()) EXPECT_TRUE(c >= ' ' && c <= '~') << name << ": " << refused.error();
  }
}

TEST(Settings, defaults_are_read_as_numbers_and_flags) {
  const Settings settings;
  EXPECT_EQ(settings.number("paths"), 4u);
  EXPECT_EQ(settings.number("window"), 1u << 20);
  EXPECT_EQ(settings.number("receive_buffer"), 8u << 20);
  EXPECT_TRUE(settings.flag("ecn"));
  EXPECT_FALSE(settings.flag("relaxed"));
  EXPECT_EQ(settings.effective("paths").origin, "default");
}

TEST(Settings, environment_wins_over_file_and_flag_over_environment) {
  const TemporaryFile file("# a comment\n\n paths = 2   # behind a value\nwindow=2M\nlog = info\n");
  auto settings = from({"MROCE_WINDOW=4M", "HOME=/root", "MROCE_CONFIG=" + file.path()});
  ASSERT_TRUE(settings.has_value()) << settings.error();
  EXPECT_EQ(settings->number("paths"), 2u);
  EXPECT_EQ(settings->effective("paths").origin, "file " + file.path() + ":3");
  EXPECT_EQ(settings->number("window"), 4u << 20);
  EXPECT_EQ(settings->effective("window").origin, "environment MROCE_WINDOW");
  ASSERT_TRUE(settings->set("log", "debug", "flag --log").has_value());
  EXPECT_EQ(settings->effective("log").origin, "flag --log");
  EXPECT_EQ(settings->text("log"), "debug");
}

TEST(Settings, a_value_out_of_range_is_refused_with_cause_and_hint) {
  EXPECT_EQ(from({"MROCE_PATHS=99"}).error(), "MROCE_PATHS=99: paths must be 1 to 32; try 4");
  EXPECT_EQ(from({"MROCE_PATHS=0"}).error(), "MROCE_PATHS=0: paths must be 1 to 32; try 4");
  EXPECT_EQ(from({"MROCE_PATHS=four"}).error(), "MROCE_PATHS=four: paths must be a number, 1 to 32; try 4");
}

TEST(Settings, every_rule_refuses_something) {
  const std::vector<std::pair<std::string, std::string>> bad = {{"paths", "33"},
                                                                {"security", "on"},
                                                                {"key_file", std::string(5000, 'k')},
                                                                {"key_update", "15"},
                                                                {"key_update", "9M"},
                                                                {"planes", "9"},
                                                                {"addresses", "10.0.0"},
                                                                {"addresses", ",127.0.0.1"},
                                                                {"addresses", "127.0.0.1, 127.0.0.1"},
                                                                {"impair", ";"},
                                                                {"base_port", "65281"},
                                                                {"base_port", "80"},
                                                                {"max_payload", "4097"},
                                                                {"window", "65M"},
                                                                {"window", "99999999G"},
                                                                {"window", "1T"},
                                                                {"receive_buffer", "1K"},
                                                                {"impair", "loss=200%"},
                                                                {"seed", "abc"},
                                                                {"relaxed", "maybe"},
                                                                {"ecn", ""},
                                                                {"device_name", "a/b"},
                                                                {"device_name", ""},
                                                                {"log", "verbose"},
                                                                {"paths", "-1"},
                                                                {"paths", "1.5"},
                                                                {"paths", ""},
                                                                {"seed", "-1"},
                                                                {"addresses",
                                                                 "1.2.3.4 "
                                                                 "5.6.7.8"},
                                                                {"stats_file", std::string(5000, 'x')},
                                                                {"trace", std::string(5000, 'x')}};
  for (const auto& [name, value] : bad) {
    Settings settings;
    const auto result = settings.set(name, value, "flag --" + name);
    ASSERT_FALSE(result.has_value()) << name << "=" << value;
    EXPECT_THAT(result.error(), HasSubstr(name));
    EXPECT_EQ(settings.effective(name).origin, "default") << "a refused value must not stay";
  }
}

TEST(Settings, errors_in_the_file_name_the_line) {
  const TemporaryFile range("paths = 4\nplanes = 9\n");
  EXPECT_EQ(from({"MROCE_CONFIG=" + range.path()}).error(),
            range.path() + ":2: planes = 9: planes must be 1 to 8; try 8");
  const TemporaryFile unknown("path = 4\n");
  EXPECT_EQ(from({"MROCE_CONFIG=" + unknown.path()}).error(),
            unknown.path() + ":1: path = 4: there is no setting 'path'; did you mean paths?");
  const TemporaryFile shape("\nnonsense\n");
  EXPECT_THAT(from({"MROCE_CONFIG=" + shape.path()}).error(),
              AllOf(HasSubstr(shape.path() + ":2: "), HasSubstr("key = value")));
}

TEST(Settings, a_missing_file_and_a_folder_are_errors) {
  EXPECT_THAT(from({"MROCE_CONFIG=/no/such/file"}).error(),
              HasSubstr("MROCE_CONFIG=/no/such/file: No such file"));
  EXPECT_THAT(from({"MROCE_CONFIG=/"}).error(), HasSubstr("not a readable file"));
}

TEST(Settings, unknown_variables_are_hints_and_no_errors) {
  const auto settings = from({"MROCE_PATH=4", "MROCE_QWERTYUIOP=1", "MROCE_paths=3", "OTHER=1"});
  ASSERT_TRUE(settings.has_value());
  EXPECT_THAT(settings->unknown(), ElementsAre(HasSubstr("did you mean MROCE_PATHS?"),
                                               HasSubstr("MROCE_QWERTYUIOP is not a setting"),
                                               HasSubstr("did you mean MROCE_PATHS?")));
  EXPECT_EQ(settings->number("paths"), 4u) << "a variable in lower case is not the setting";
}

TEST(Settings, a_name_is_suggested_only_if_it_is_near) {
  Settings settings;
  const auto hint = [&](const char* name, const char* value) {
    const std::string error = settings.set(name, value, std::string("flag --set ") + name).error();
    return error.substr(error.rfind("; ") + 2);
  };
  EXPECT_EQ(hint("foo", "1"), "`mroce run --help` lists them");
  EXPECT_EQ(hint("lok", "1"), "did you mean log?");
  EXPECT_EQ(hint("recieve_bufer", "1"), "did you mean receive_buffer?");
  EXPECT_EQ(hint("loss", "1"), "write impair=loss=1%");
  EXPECT_EQ(hint("loss", "0.1%"), "write impair=loss=0.1%");
  EXPECT_EQ(hint("rate", "1G"), "write impair=rate=1G");
}

TEST(Settings, an_impairment_that_is_taken_for_a_variable_is_shown_as_one) {
  const auto settings = from({"MROCE_LOSS=1"});
  ASSERT_TRUE(settings.has_value());
  EXPECT_THAT(settings->unknown(),
              ElementsAre("MROCE_LOSS is not a setting and is ignored; write MROCE_IMPAIR=loss=1%"));
}

TEST(Settings, an_unset_or_empty_config_variable_is_no_file) {
  EXPECT_TRUE(from({"MROCE_CONFIG="}).has_value());
  EXPECT_TRUE(from({}).has_value());
}

TEST(Settings, numbers_take_binary_suffixes_and_hexadecimal) {
  Settings settings;
  ASSERT_TRUE(settings.set("window", "128k", "flag --window").has_value());
  EXPECT_EQ(settings.number("window"), 128u * 1024);
  ASSERT_TRUE(settings.set("seed", "0xffffffffffffffff", "flag --seed").has_value());
  EXPECT_EQ(settings.number("seed"), UINT64_MAX);
}

}  // namespace
}  // namespace mroce::net
