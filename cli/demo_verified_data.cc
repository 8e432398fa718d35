// mroce demo, third part: every byte checked while the network loses, reorders, doubles and damages packets.
//
// verbs_check is a verbs program that forks into two sides; both draw the same messages from a seed, and each
// checks all that it receives, the bytes around it, the completions and their order.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <span>
#include <string_view>

#include "cli/child.h"
#include "cli/demo.h"
#include "cli/device.h"
#include "cli/stats.h"
#include "cli/terminal.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kImpairments = "loss=2%,reorder=5%:200us,duplicate=1%,corrupt=0.5%";
constexpr std::chrono::seconds kLimit{60};

struct Case {
  const char* name;
  const char* sentence;
};
constexpr Case kCases[] = {
    {"mixed", "SEND, WRITE, READ and atomics at random"},
    {"atomics_exactly_once", "atomics from both sides, each executed once"},
    {"last_byte_polling", "programs that poll the last byte of a WRITE"},
    {"data_then_flag", "programs that poll a flag written after the data"},
};

Outcome<std::string> find_checker(const std::filesystem::path& libraries) {
  for (const char* place : {"verbs_check", "../verbs/verbs_check"}) {
    const auto path = (libraries / place).lexically_normal();
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return failure(kEnvironment, "verbs_check is not beside the libraries in " + libraries.string(),
                 "build or install all of mroce");
}

struct Books {
  uint64_t dropped = 0;
  uint64_t reordered = 0;
  uint64_t duplicated = 0;
  uint64_t corrupted = 0;

  void add(const nlohmann::json& all) {
    for (const auto& process : all) {
      const auto& out = member_at(member_at(process, "impairment"), "out");
      dropped += number_at(out, "dropped");
      reordered += number_at(out, "reordered");
      duplicated += number_at(out, "duplicated");
      corrupted += number_at(out, "corrupted");
    }
  }
};

Outcome<void> check(const std::filesystem::path& libraries, const std::string& program, const Case& one,
                    uint64_t seed, Books& books) {
  const auto folder = StatsFolder::make();
  if (!folder) return tl::unexpected(folder.error());
  LaunchPlan plan;
  plan.arguments = {program, "--case", one.name, "--seed", std::to_string(seed)};
  plan.environment = {{"LD_LIBRARY_PATH", library_path_with(libraries)},
                      {environment_name("impair"), kImpairments},
                      {environment_name("stats_file"), folder->file_pattern()}};
  Child child(plan);
  if (auto started = child.start(); !started) return started;
  if (auto ended = wait_for_end(child, fmt::format("verbs_check --case {} --seed {}", one.name, seed),
                                SteadyClock::now() + kLimit);
      !ended) {
    return ended;
  }
  books.add(folder->collect());
  return {};
}

}  // namespace

Outcome<void> demo_verified_data_ready() {
  const auto libraries = library_folder();
  if (!libraries) return tl::unexpected(libraries.error());
  if (const auto program = find_checker(*libraries); !program) return tl::unexpected(program.error());
  return {};
}

Outcome<DemoPart> demo_verified_data(const DemoOptions& options) {
  const auto libraries = library_folder();
  if (!libraries) return tl::unexpected(libraries.error());
  const auto program = find_checker(*libraries);
  if (!program) return tl::unexpected(program.error());
  const uint64_t seed = std::random_device{}() % 1'000'000;
  const std::span<const Case> cases = options.quick ? std::span(kCases).first(1) : std::span(kCases);

  DemoPart part;
  part.json = {{"impair", kImpairments}, {"seed", seed}, {"cases", ordered_json::array()}};
  part.text = styled(STDOUT_FILENO, Style::kBold, "3. Every byte checked, over a bad network") + "\n";
  Progress progress;
  Books books;
  for (const Case& one : cases) {
    progress.show(fmt::format("checking: {}", one.sentence));
    const auto passed = check(*libraries, *program, one, seed, books);
    if (!passed && passed.error().code != kFindings) return tl::unexpected(passed.error());
    if (!passed) part.findings.push_back(passed.error().cause);
    part.json["cases"].push_back({{"name", one.name}, {"passed", passed.has_value()}});
    part.text += fmt::format("  {:<6}  {}\n", passed ? "passed" : "FAILED", one.sentence);
  }
  part.json["datagrams"] = {{"dropped", books.dropped},
                            {"reordered", books.reordered},
                            {"duplicated", books.duplicated},
                            {"corrupted", books.corrupted}};
  part.text +=
      fmt::format("  while {} datagrams were dropped, {} overtaken, {} doubled, {} damaged\n  (seed {})\n",
                  grouped(books.dropped), grouped(books.reordered), grouped(books.duplicated),
                  grouped(books.corrupted), seed);
  return part;
}

}  // namespace mroce::cli
