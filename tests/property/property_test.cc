// The property: whatever applications do and whatever the network does, the oracle sees nothing wrong.
//
//   MROCE_PROPERTY_RUNS=5000   so many runs
//   MROCE_PROPERTY_FIRST=100   beginning with this seed
//   MROCE_PROPERTY_SEED=42     only this one, and say what it is
//   MROCE_PROPERTY_TALLY=1     goes on after failures, and prints a line for each: FAILED seed kind kind…
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "soak/run.h"
#include "tests/harness/pair.h"

namespace mroce::test {
namespace {

constexpr uint64_t kDefaultRuns = 300;
constexpr unsigned kLongestRun = 120;  // seconds: an endless loop is told, too
constexpr unsigned kLongestTally = 20;

std::optional<uint64_t> number_from(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || text[0] == 0) return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

// An assertion of the engine ends the process: say which run it was.
char current_run[4096];
extern "C" void on_fatal_signal(int signal) {
  const ssize_t written = write(STDERR_FILENO, current_run, std::strlen(current_run));
  (void)written;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

RunResult run_one(const RunOptions& options, unsigned longest = kLongestRun) {
  const std::string text = "\nwhile running " + describe(options) + "\n";
  std::snprintf(current_run, sizeof current_run, "%s", text.c_str());
  alarm(longest);
  RunResult result = Run(options).go();
  alarm(0);
  return result;
}

std::string report(const RunOptions& options, const RunResult& result) {
  std::string text = describe(options) + "\n";
  for (const Violation& violation : result.violations)
    text += fmt::format("  {}: {}\n", violation.kind, violation.text);
  return text + fmt::format("replay with MROCE_PROPERTY_SEED={}", options.seed);
}

void print_tally(uint64_t seed, const RunResult& result) {
  std::set<std::string_view> kinds;
  for (const Violation& violation : result.violations) kinds.insert(violation.kind);
  std::string line = fmt::format("FAILED {}", seed);
  for (const std::string_view kind : kinds) line += fmt::format(" {}", kind);
  std::puts(line.c_str());
  std::fflush(stdout);
}

TEST(Property, random_runs_have_no_violation) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGALRM}) std::signal(signal, on_fatal_signal);
  const auto only = number_from("MROCE_PROPERTY_SEED");
  const uint64_t first = only.value_or(number_from("MROCE_PROPERTY_FIRST").value_or(1));
  const uint64_t runs = only ? 1 : number_from("MROCE_PROPERTY_RUNS").value_or(kDefaultRuns);
  const bool tally = number_from("MROCE_PROPERTY_TALLY").has_value();
  const uint64_t most_failures = tally ? UINT64_MAX : 10;
  uint64_t operations = 0, completions = 0, datagrams = 0, failures = 0;
  for (uint64_t seed = first; seed < first + runs && failures < most_failures; ++seed) {
    const RunOptions options = draw_options(seed);
    const RunResult result = run_one(options, tally ? kLongestTally : kLongestRun);
    operations += result.operations;
    completions += result.completions;
    datagrams += result.datagrams;
    if (!result.violations.empty()) {
      ++failures;
      ADD_FAILURE() << report(options, result);
      if (tally) print_tally(seed, result);
    }
    if (only) std::printf("%s\n", report(options, result).c_str());
    if ((seed % 20 != 0 && !only) || tally) continue;
    if (run_one(options).hash != result.hash)
      ADD_FAILURE() << "not the same when repeated: " << describe(options);
  }
  std::printf("%llu runs: %llu work requests, %llu completions, %llu datagrams\n",
              static_cast<unsigned long long>(runs), static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(completions), static_cast<unsigned long long>(datagrams));
}

TEST(Property, near_wrap_seeds_work) {
  Rng rng(1);
  bool near_cpsn = false, near_pseq = false;
  for (int i = 0; i < 8; ++i) {
    PairOptions options;
    const uint64_t seed = seed_near_wrap(rng, 2000);
    options.tweak = [seed](EngineConfig& config) { config.seed = seed; };
    options.connect = false;
    Pair pair(options);
    pair.network().on_sent([&](const PacketView& packet) {
      wire::Init init;
      if (!packet.is(wire::Type::kInit)) return;
      ASSERT_TRUE(wire::decode_init(packet.bytes.first(packet.bytes.size() - wire::kTrailerBytes), init));
      near_cpsn = near_cpsn || init.first_cpsn > UINT32_MAX - 2000;
      near_pseq = near_pseq || init.first_pseq > UINT32_MAX - 2000;
    });
    connect(pair.qa, pair.qb);
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 10)}, pair.mb.addr, pair.mb.rkey));
    ASSERT_TRUE(pair.wait_for(pair.a, pair.qa.send_cq).has_value());
  }
  EXPECT_TRUE(near_cpsn) << "seed_near_wrap no longer follows the order in which an Engine draws";
  EXPECT_TRUE(near_pseq) << "seed_near_wrap no longer follows the order in which an Engine draws";
}

}  // namespace
}  // namespace mroce::test
