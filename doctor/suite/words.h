// Command lines as people write them, and launchers that carry a command to a host.
//
// A launcher is a list of words in front of a command: "ssh {host}", "srun -N1 -n1 -w {host}", "ip netns exec
// {host}", "kubectl exec {host} --", or "local". Nothing here goes through a shell of ours: the words become
// arguments as they are. Some launchers hand what follows to a shell of their own (ssh, rsh, pdsh, and
// anything that ends in "-c"); for these the command becomes one word in which every part is quoted for a
// POSIX shell, so that the program at the other end gets exactly the arguments that it would get here.
// {command} (the words) and {quoted} (the one word) in the launcher say where the command goes, and overrule
// the guess.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace mroce::doctor {

using Words = std::vector<std::string>;

// Splits at blanks; '…', "…" and \ quote as in a shell, and nothing else means anything.
tl::expected<Words, std::string> split_words(std::string_view text);

// For a POSIX shell. What needs no quotes gets none.
std::string shell_quoted(std::string_view word);
std::string shell_quoted(const Words& words);

class Launcher {
 public:
  static tl::expected<Launcher, std::string> parse(std::string_view text);
  Words command(const std::string& host, const Words& command) const;

 private:
  enum class Form { kWords, kQuoted };
  Words words_;
  Form form_ = Form::kWords;
  bool placed_ = false;  // {command} or {quoted} is among the words
};

// May this stand on a command line as the name of a host, an address or a device? Nothing that an option or a
// shell could be made of.
bool is_plain_name(std::string_view name);

}  // namespace mroce::doctor
