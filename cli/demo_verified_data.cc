// mroce demo, third part: every byte checked while the network loses, reorders, doubles and damages packets.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "cli/child.h"
#include "cli/demo.h"
#include "cli/device.h"
#include "cli/stats.h"
#include "cli/terminal.h"

namespace mroce::cli {
namespace {

constexpr const char* kImpairments = "loss=2%,reorder=5%:200us,duplicate=1%,corrupt=0.5%";
constexpr std::chrono::seconds kLimit{60};
constexpr const char* kQuickCases[] = {"write", "atomic"};  // of the checker; all of them otherwise

// The checker is a verbs program of ours: it forks into two sides that draw the same messages from a seed.
Outcome<std::string> checker(const std::filesystem::path& libraries) {
  for (const char* place : {"verbs_check", "../verbs/verbs_check", "../verbs/check/verbs_check"}) {
    const auto path = (libraries / place).lexically_normal();
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return failure(kEnvironment, "verbs_check is not beside the libraries in " + libraries.string(),
                 "build everything");
}

}  // namespace

Outcome<DemoPart> demo_verified_data(const DemoOptions& options) {
  const auto libraries = library_folder();
  if (!libraries) return tl::unexpected(libraries.error());
  const auto program = checker(*libraries);
  if (!program) return tl::unexpected(program.error());
  return failure(kInternal, "unfinished", "");
}

}  // namespace mroce::cli
