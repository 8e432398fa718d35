// mroce doctor snapshot: what can be read on this host, as one bundle.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "cli/doctor.h"
#include "cli/finite_range.h"
#include "cli/terminal.h"
#include "cli/write_file.h"
#include "net/say.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter =
    R"(Nothing is changed, root is not needed (but lets more be read), and no source can keep it longer than the
limit. What could not be read is in the bundle as missing, with the reason. Without -o the bundle goes to standard
output; if that is a terminal, a list of the sources does.

Examples:
  mroce doctor snapshot -o before.json
  pdsh -w node[01-16] mroce doctor snapshot --role sender | mroce doctor merge -o all.json
  mroce doctor snapshot --redact --redact-key 'any phrase' -o public.json)";

struct SnapshotFlags {
  doctor::CollectOptions collect;
  RedactFlags redact;
  std::string output;
};

// What was read, and what was not, for a person.
std::string summary(const doctor::Bundle& bundle) {
  size_t read = 0, bytes = 0;
  std::map<std::string, std::vector<std::string>> missing;  // reason → names
  for (const auto& snapshot : bundle.snapshots)
    for (const auto& source : snapshot.sources) {
      if (source.text) {
        ++read;
        bytes += source.text->size();
      } else {
        missing[source.missing].push_back(source.name);
      }
    }
  std::string out = fmt::format("{}: {} sources read, {}\n", bundle.host, read, bytes_text(bytes));
  for (const auto& [reason, names] : missing) {
    std::string list;
    for (size_t i = 0; i < names.size() && i < 6; ++i) list += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > 6) list += fmt::format(", and {} more", names.size() - 6);
    out += fmt::format("  missing: {} ({})\n", list, reason);
  }
  return out;
}

int run_snapshot(const SnapshotFlags& flags) {
  std::error_code error;
  if (!flags.collect.root.empty() && !std::filesystem::is_directory(flags.collect.root, error))
    return report({kUsage, flags.collect.root + " is no folder", "--root names a recorded tree"});
  doctor::Bundle bundle =
      doctor::bundle_around(flags.collect, doctor::take_snapshot(flags.collect, doctor::Phase::kStart));
  const std::string sources = summary(bundle);
  if (flags.redact.on) {
    doctor::Redactor redactor = flags.redact.redactor();
    redactor.learn(bundle);
    redactor.redact(bundle);
  }
  if (flags.output.empty() && ::isatty(STDOUT_FILENO) == 1) {
    fmt::print("{}Write the bundle with -o FILE.\n", sources);
    return kFine;
  }
  const auto written = write_file(flags.output.empty() ? "-" : flags.output, doctor::to_json(bundle));
  if (!written) return report(written.error());
  if (!flags.output.empty() && flags.output != "-" && ::isatty(STDERR_FILENO) == 1) say("{}", sources);
  return kFine;
}

}  // namespace

std::string own_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

doctor::Redactor RedactFlags::redactor() const {
  doctor::Redactor out(phrase.empty() ? doctor::Pseudonyms::random() : doctor::Pseudonyms::of_phrase(phrase));
  for (const std::string& word : also) out.also(word, "name");
  return out;
}

void add_redact_flags(CLI::App& app, RedactFlags& flags) {
  app.add_flag("--redact", flags.on, "replace names of hosts and users, addresses, GIDs and serial numbers");
  app.add_option("--redact-key", flags.phrase,
                 "the same phrase gives the same replacements, for bundles that belong together")
      ->type_name("PHRASE")
      ->needs("--redact");
  app.add_option("--redact-also", flags.also, "a further name to replace; may be repeated")
      ->type_name("WORD")
      ->allow_extra_args(false)
      ->needs("--redact");
}

void add_collect_flags(CLI::App& app, doctor::CollectOptions& options) {
  app.add_option_function<std::string>(
         "--role",
         [&options](const std::string& role) {
           options.role = role == "sender" ? doctor::Role::kSender : doctor::Role::kReceiver;
         },
         "what this host is in the test: sender, receiver")
      ->type_name("ROLE")
      ->check(CLI::IsMember({"sender", "receiver"}));
  app.add_option("--limit", options.limits.seconds, "seconds that one source may take")
      ->capture_default_str()
      ->check(finite_range(0.05, 60));
}

void add_doctor_snapshot(CLI::App& doctor, int& exit_code) {
  CLI::App* snapshot =
      doctor.add_subcommand("snapshot", "Read this host's RDMA, network and host state, as JSON");
  auto flags = std::make_shared<SnapshotFlags>();
  snapshot->add_option("-o,--output", flags->output, "the bundle; - is standard output")->type_name("FILE");
  add_redact_flags(*snapshot, flags->redact);
  add_collect_flags(*snapshot, flags->collect);
  snapshot
      ->add_option("--root", flags->collect.root,
                   "read a recorded tree (DIR/sys, DIR/proc, DIR/commands) in place of this machine")
      ->type_name("DIR");
  snapshot->footer(kFooter);
  snapshot->callback([flags, &exit_code] {
    flags->collect.own_program = own_program();
    exit_code = run_snapshot(*flags);
  });
}

}  // namespace mroce::cli
