#include "doctor/analyze.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "doctor/ingest.h"
#include "doctor/judge.h"

namespace mroce::doctor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 100'000;

struct Closer {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

void problem(Evidence& evidence, const std::string& file, std::string reason) {
  evidence.sources.push_back({file, ""});
  evidence.problems.push_back({{static_cast<uint32_t>(evidence.sources.size() - 1), 0}, std::move(reason)});
}

std::optional<InputText> read_file(const std::string& name, Evidence& evidence) {
  std::error_code error;
  if (name != "-" && !fs::is_regular_file(name, error) && !fs::is_fifo(name, error)) {
    problem(evidence, name, fs::exists(name, error) ? "not a file" : "no such file");
    return std::nullopt;
  }
  const std::unique_ptr<std::FILE, Closer> file(name == "-" ? stdin : std::fopen(name.c_str(), "rbe"));
  if (!file) {
    problem(evidence, name, "cannot be read");
    return std::nullopt;
  }
  InputText out;
  out.name = name;
  constexpr size_t kPiece = 1u << 20;
  while (out.text.size() <= kMaxFileBytes) {
    const size_t old = out.text.size();
    out.text.resize(old + kPiece);
    const size_t got = std::fread(out.text.data() + old, 1, kPiece, file.get());
    out.text.resize(old + got);
    if (got == 0) break;
  }
  if (out.text.size() > kMaxFileBytes) {
    out.text.resize(kMaxFileBytes);
    out.cut = true;
  }
  return out;
}

// A folder stands for the files in it, in the order of their names.
std::vector<std::string> all_files(const std::vector<std::string>& named) {
  std::vector<std::string> out;
  for (const std::string& name : named) {
    std::error_code error;
    if (name == "-" || !fs::is_directory(name, error)) {
      out.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (auto at =
             fs::recursive_directory_iterator(name, fs::directory_options::skip_permission_denied, error);
         !error && at != fs::recursive_directory_iterator() && inside.size() < kMaxFiles; at.increment(error))
      if (at->is_regular_file(error)) inside.push_back(at->path().string());
    std::sort(inside.begin(), inside.end());
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

// What all names have in common up to a slash says nothing about any of them.
size_t common_folder(const std::vector<std::string>& files) {
  if (files.empty()) return 0;
  std::string common = files.front().substr(0, files.front().rfind('/') + 1);
  for (const std::string& file : files) {
    if (file == "-") continue;
    size_t same = 0;
    while (same < common.size() && same < file.size() && common[same] == file[same]) ++same;
    common = common.substr(0, common.rfind('/', same == 0 ? 0 : same - 1) + 1);
    if (same == 0) common.clear();
  }
  return common.size();
}

}  // namespace

Evidence gather(const AnalyzeOptions& options, const Rulebook& book, bool keep_unknown) {
  Evidence evidence;
  const auto files = all_files(options.files);
  const size_t common = common_folder(files);
  for (const std::string& file : files) {
    auto input = read_file(file, evidence);
    if (!input) continue;
    input->hints = file == "-" ? "" : file.substr(std::min(common, file.size()));
    Context context(evidence, book);
    context.keep_unknown = keep_unknown;
    ingest(std::move(*input), context);
  }
  if (options.seconds) evidence.seconds = options.seconds;
  assemble(evidence, book, keep_unknown);
  return evidence;
}

Diagnosis analyze(const AnalyzeOptions& options, const Rulebook& book) {
  return judge(gather(options, book), book);
}

}  // namespace mroce::doctor
