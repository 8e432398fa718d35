// mroce doctor merge: bundles of many hosts into one file.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "cli/doctor.h"
#include "cli/terminal.h"
#include "cli/write_file.h"
#include "doctor/collect/merge.h"
#include "doctor/decode.h"
#include "net/say.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter =
    R"(Files are what launchers left: bundles one after the other, with the labels of pdsh ("node: "), srun --label ("3: "),
mpirun ("[1,3]<stdout>:") or ansible, or as they are.

Exit code: 0 all read, 1 something was no bundle or broken.

Examples:
  pdsh -w node[01-16] mroce doctor snapshot | mroce doctor merge -o all.json
  srun --label mroce doctor snapshot > labelled.txt; mroce doctor merge labelled.txt -o all.json
  ansible all -m command -a 'mroce doctor snapshot' | mroce doctor merge -o all.json
  mroce doctor merge before/*.json after/*.json --redact -o public.json)";

constexpr size_t kMaxBytes = 4ull << 30;  // of one file

struct MergeFlags {
  std::vector<std::string> files;
  std::string output;
  RedactFlags redact;
};

// Redacting needs all names before the first bundle, so it keeps all bundles; else each is written when
// found.
class Merger {
 public:
  explicit Merger(const MergeFlags& flags) : flags_(flags), file_(flags.output) {}

  Outcome<int> run() {
    if (auto opened = file_.open(); !opened) return tl::unexpected(opened.error());
    file_.write(fmt::format("{{ \"schema\": \"{}\", \"bundles\": [\n", doctor::kBundlesSchema));
    for (const std::string& name : flags_.files) read(name);
    if (flags_.redact.on) {
      doctor::Redactor redactor = flags_.redact.redactor();
      for (const auto& bundle : kept_) redactor.learn(bundle);
      for (auto& bundle : kept_) {
        redactor.redact(bundle);
        write(bundle);
      }
    }
    file_.write("] }\n");
    if (auto finished = file_.finish(); !finished) return tl::unexpected(finished.error());
    say("{} bundles of {} hosts\n", written_, hosts_.size());
    return problems_ == 0 && written_ > 0 ? kFine : kFindings;
  }

 private:
  void problem(const doctor::MergeProblem& what) {
    ++problems_;
    const std::string line = what.line > 0 ? fmt::format(":{}", what.line) : "";
    say("mroce: {}{}: {}\n", what.file, line, what.reason);
  }

  void read(const std::string& name) {
    const auto text = read_whole(name, kMaxBytes);
    if (!text) return problem({name, 0, text.error()});
    doctor::find_bundles(
        *text, name,
        [this](doctor::Bundle&& bundle) {
          hosts_.insert(bundle.host);
          if (flags_.redact.on)
            kept_.push_back(std::move(bundle));
          else
            write(bundle);
        },
        [this](doctor::MergeProblem&& what) { problem(what); });
  }

  void write(const doctor::Bundle& bundle) {
    file_.write(written_ == 0 ? " " : ", ");
    file_.write(doctor::to_json(bundle));
    ++written_;
  }

  const MergeFlags& flags_;
  OutputFile file_;
  std::vector<doctor::Bundle> kept_;
  std::set<std::string> hosts_;
  size_t written_ = 0, problems_ = 0;
};

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

int run_merge(MergeFlags& flags) {
  if (flags.files.empty()) flags.files = {"-"};
  for (const std::string& file : flags.files)
    if (file != "-" && flags.output != "-" && same_file(file, flags.output))
      return report({kUsage, file + " is read and cannot be written at once", "name another file with -o"});
  const auto code = Merger(flags).run();
  return code ? *code : report(code.error());
}

}  // namespace

tl::expected<std::string, std::string> read_whole(const std::string& name, size_t bound) {
  std::FILE* file = name == "-" ? stdin : std::fopen(name.c_str(), "rbe");
  if (file == nullptr) return tl::unexpected<std::string>(std::strerror(errno));
  std::string text;
  constexpr size_t kPiece = 1u << 20;
  size_t got = 0;
  do {
    const size_t old = text.size();
    text.resize(old + kPiece);
    got = std::fread(text.data() + old, 1, kPiece, file);
    text.resize(old + got);
  } while (got > 0 && text.size() < bound);
  const bool bad = std::ferror(file) != 0;
  if (file != stdin) std::fclose(file);
  if (bad) return tl::unexpected<std::string>("cannot be read");
  if (text.size() >= bound) return tl::unexpected<std::string>("too long");
  doctor::decode_text(text);
  return text;
}

void add_doctor_merge(CLI::App& doctor, int& exit_code) {
  CLI::App* merge = doctor.add_subcommand("merge", "Put bundles of many hosts into one file");
  auto flags = std::make_shared<MergeFlags>();
  merge->add_option("files", flags->files, "files with bundles; standard input if there are none")
      ->type_name("FILE…");
  merge->add_option("-o,--output", flags->output, "the merged file; - is standard output")
      ->type_name("FILE")
      ->required();
  add_redact_flags(*merge, flags->redact);
  merge->footer(kFooter);
  merge->callback([flags, &exit_code] { exit_code = run_merge(*flags); });
}

}  // namespace mroce::cli
