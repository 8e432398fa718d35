// mroce: the command line. Wiring only.
#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "cli/outcome.h"
#include "cli/parser.h"
#include "cli/verbs.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  mroce run --loss 1 --stats -- ib_write_bw -d mroce0
  mroce demo
  mroce sim --fabric fat-tree:hosts=128 --load permutation:size=2M)";

// A descriptor that our caller has closed would be the next file that is opened, and what is meant for a
// person would go into it. So something stands there that takes nothing (writing to standard output must
// still fail) or, for messages, everything. Programs that we start find it closed, as our caller wanted.
void occupy_standard_descriptors() {
  for (const auto& [fd, mode] :
       {std::pair{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}}) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", mode | O_CLOEXEC);  // the lowest one that is free: fd
  }
}

int run_command_line(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  Rest rest;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != "--") continue;
    rest.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
    words.resize(i);
    break;
  }

  int exit_code = kFine;
  CLI::App app("RDMA over lossy Ethernet, in user space: run unmodified verbs programs over UDP.", "mroce");
  app.require_subcommand(1);
  app.set_version_flag("--version", MROCE_VERSION);
  app.footer(kFooter);
  add_run(app, rest, exit_code);
  add_info(app, exit_code);
  add_demo(app, exit_code);
  add_bench(app, exit_code);
  add_sim(app, exit_code);
  add_soak(app, exit_code);
  add_doctor(app, rest, exit_code);
  add_comply(app, exit_code);

  complete_parser(app);
  if (const auto unknown = unknown_verb(app, words)) return report(*unknown);

  std::vector<std::string> reversed(words.rbegin(), words.rend());  // what CLI11 asks for
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error) == 0 ? kFine : kInternal;  // --help, --version
    return report(refused_line(app, words, error));
  }
  return exit_code;
}

bool output_is_whole() {
  const bool flushed = std::fflush(stdout) == 0;
  return flushed && std::ferror(stdout) == 0;
}

}  // namespace
}  // namespace mroce::cli

int main(int argc, char** argv) {
  mroce::cli::occupy_standard_descriptors();
  int exit_code = mroce::cli::kInternal;
  std::string what;
  try {
    exit_code = mroce::cli::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    what = error.what();
  }
  // One place for all verbs: what they print may still be in a buffer, and printing throws when it fails.
  if (!mroce::cli::output_is_whole())
    return mroce::cli::report({mroce::cli::kEnvironment, "cannot write all of the output to standard output",
                               "is the disk full, or the output closed?"});
  if (!what.empty()) return mroce::cli::report({mroce::cli::kInternal, what, "this is a bug of mroce"});
  return exit_code;
}
