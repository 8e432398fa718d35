#include "doctor/suite/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>

namespace mroce::doctor {
namespace {

using ::testing::ElementsAre;

Words split_of(std::string_view text) {
  const auto words = split_words(text);
  EXPECT_TRUE(words) << text;
  return words.value_or(Words{});
}

Words launched(std::string_view launcher, const Words& command) {
  const auto parsed = Launcher::parse(launcher);
  EXPECT_TRUE(parsed) << launcher;
  return parsed ? parsed->command("nodeA", command) : Words{};
}

// What a POSIX shell makes of this text: each word in a line of its own, with its length.
std::string as_a_shell_sees(const std::string& text) {
  const std::string script = "for w in " + text + "; do printf '%s|%s\\n' \"${#w}\" \"$w\"; done";
  std::string out;
  std::FILE* pipe = ::popen(("LC_ALL=C sh -c " + shell_quoted(script)).c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  EXPECT_EQ(::pclose(pipe), 0);
  return out;
}

TEST(SplitWords, quotes_as_a_shell_does) {
  EXPECT_THAT(split_of("  mroce run --loss 1\t-- "), ElementsAre("mroce", "run", "--loss", "1", "--"));
  EXPECT_THAT(split_of(R"(a 'b c'"d e" f\ g '' "\"\$x\n")"),
              ElementsAre("a", "b cd e", "f g", "", R"("$x\n)"));
}

TEST(SplitWords, gives_shell_characters_no_meaning) {
  EXPECT_THAT(split_of("a;b $HOME `id` *"), ElementsAre("a;b", "$HOME", "`id`", "*"));
}

TEST(SplitWords, refuses_what_is_not_closed) {
  EXPECT_FALSE(split_words("a 'b"));
  EXPECT_FALSE(split_words("a \"b"));
  EXPECT_FALSE(split_words("a \\"));
  EXPECT_FALSE(split_words(std::string_view("a\0b", 3)));
}

TEST(Quoted, a_shell_gets_the_very_words) {
  const Words hostile = {"plain", "",   "a b", "it's", "$HOME",     "`id`", "a;b",
                         "\"",    "\\", "*",   "~",    "new\nline", "-n"};
  std::string expected;
  for (const std::string& word : hostile) expected += std::to_string(word.size()) + "|" + word + "\n";
  EXPECT_EQ(as_a_shell_sees(shell_quoted(hostile)), expected);
}

TEST(Quoted, a_program_with_an_equals_sign_is_no_assignment) {
  EXPECT_EQ(shell_quoted(Words{"A=b", "C=d"}), "'A=b' C=d");
}

TEST(Launcher, words_stay_words_where_no_shell_is_at_the_other_end) {
  EXPECT_THAT(launched("srun -N1 -w {host}", {"echo", "a b"}),
              ElementsAre("srun", "-N1", "-w", "nodeA", "echo", "a b"));
  EXPECT_THAT(launched("ip netns exec {host}", {"id"}), ElementsAre("ip", "netns", "exec", "nodeA", "id"));
  EXPECT_THAT(launched("mpirun -np 1 --host {host}:1", {"id"}),
              ElementsAre("mpirun", "-np", "1", "--host", "nodeA:1", "id"));
}

TEST(Launcher, a_remote_shell_gets_one_quoted_word) {
  EXPECT_THAT(launched("ssh {host}", {"echo", "a b", "$x"}), ElementsAre("ssh", "nodeA", "echo 'a b' '$x'"));
  EXPECT_THAT(launched("sudo /usr/bin/ssh -p 22 root@{host}", {"a b"}),
              ElementsAre("sudo", "/usr/bin/ssh", "-p", "22", "root@nodeA", "'a b'"));
  EXPECT_THAT(launched("sh -c", {"echo", "a b"}), ElementsAre("sh", "-c", "echo 'a b'"));
}

TEST(Launcher, placeholders_overrule_the_guess) {
  EXPECT_THAT(launched("wrap {host} {command} end", {"a b", "c"}),
              ElementsAre("wrap", "nodeA", "a b", "c", "end"));
  EXPECT_THAT(launched("wrap {quoted} {host}", {"a b", "c"}), ElementsAre("wrap", "'a b' c", "nodeA"));
  EXPECT_FALSE(Launcher::parse("wrap {command} {quoted}"));
}

TEST(Launcher, local_is_none) {
  EXPECT_THAT(launched("local", {"id", "-u"}), ElementsAre("id", "-u"));
  EXPECT_THAT(launched("", {"id"}), ElementsAre("id"));
}

TEST(PlainName, is_nothing_that_an_option_or_a_shell_could_be_made_of) {
  for (const char* good : {"nodeA", "10.0.0.1", "fe80::1%eth0", "user@node-1", "mlx5_0"})
    EXPECT_TRUE(is_plain_name(good));
  for (const char* bad : {"", "-oProxyCommand=x", "a b", "a;b", "../x", "a$b", "a\nb"})
    EXPECT_FALSE(is_plain_name(bad)) << bad;
  EXPECT_FALSE(is_plain_name(std::string(256, 'a')));
}

}  // namespace
}  // namespace mroce::doctor
