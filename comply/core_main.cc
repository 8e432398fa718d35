// mroce_comply_core: the whole suite against the engine in virtual time, and nothing else, so that it links
// little (tools/coverage). Prints what did not pass; exit status 1 if an assertion failed.
#include <fmt/format.h>

#include "comply/core_target.h"
#include "comply/suite.h"

int main() {
  using namespace mroce::comply;
  const std::vector<Assertion> all = all_assertions();
  CoreTarget target;
  RunOptions options;
  options.on_result = [](const AssertionResult& result) {
    if (result.verdict == Verdict::kPass) return;
    fmt::print("{} {}: {}\n", name_of(result.verdict), result.assertion->id, result.reason);
  };
  const Summary summary = summary_of(run(select(all, {}, {}), target, options));
  fmt::print("{} passed, {} failed, {} skipped\n", summary.pass, summary.fail, summary.skip);
  return summary.fail == 0 ? 0 : 1;
}
